//! Narrows events: splits the filters of a script or a user into an in-kernel and a user-space
//! part.

use mlua::Value;

use super::role::{Refused, Role};
use crate::decode::format::FieldKind;
use crate::event::filter::{
    COMM_ROOM,
    names::of_names,
    quote,
    split::{Split, UserCondition},
};

impl Role {
    /// ANDs a filter.
    pub(in crate::script) fn narrow(&mut self, text: &str) -> Result<(), Refused> {
        let name = &self.event.name;
        let named = |why| named(name, why);
        let more = Split::parse(text, &self.event).map_err(|why| named(why.to_string()))?;
        if self.sampling.count
            && let Some(rest) = more.rest.first()
        {
            return Err(named(self.event.kind().count_filter_refusal(&rest.text)));
        }
        for rest in &more.rest {
            self.sampling.extra = self.sampling.extra.or(rest.condition.extra());
        }
        let before = Split { kernel: self.filter.take(), rest: std::mem::take(&mut self.rest) };
        let both = before.and(more, &self.event);
        (self.filter, self.rest) = (both.kernel, both.rest);
        Ok(())
    }

    /// Moves a condition that the kernel refused to user space; without one, the whole filter.
    pub(in crate::script) fn take_over(
        &mut self,
        refused: Option<UserCondition>,
    ) -> anyhow::Result<()> {
        match (refused, self.filter.take(), self.event.format()) {
            (Some(rest), filter, _) => {
                self.filter = filter.and_then(|filter| filter.without(&rest.text));
                self.rest.push(rest);
            }
            (None, Some(filter), Some(format)) => {
                let bound = filter.bind(&self.event.name, format)?;
                self.rest.push(UserCondition::of_kernel(&filter, bound));
            }
            (None, ..) => {}
        }
        Ok(())
    }
}

/// Returns the filter for a comma-separated list of names and globs, for a field of the role's
/// event.
///
/// # Errors
/// The field or the list is invalid.
pub(super) fn names(field: &str, list: &str, role: &Role) -> Result<String, Refused> {
    let of_event = role.event.format().and_then(|format| format.field(field));
    let room = match of_event {
        Some(own) if own.kind == FieldKind::Chars => Some(own.size),
        Some(_) => None,
        // A name that is not a field is the task's name, or the filter is refused.
        None => Some(COMM_ROOM),
    };
    of_names(field, list, room).map_err(|why| named(&role.event.name, why.to_string()))
}

/// Puts the event's name in front of the message, unless it is there.
fn named(event: &str, why: String) -> Refused {
    if why.starts_with(event) { why } else { format!("{event}: {why}") }
}

/// Fills `%s` with a quoted constant and `%d` with a whole number; `%%` is a percent sign.
///
/// # Errors
/// An argument is missing, superfluous or of the wrong type.
pub(super) fn fill(format: &str, args: &[Value]) -> Result<String, Refused> {
    let mut out = String::new();
    let mut args = args.iter();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let kind = rest.next();
        if kind == Some('%') {
            out.push('%');
            continue;
        }
        let arg =
            args.next().ok_or_else(|| format!("the filter '{format}' needs more arguments"))?;
        match (kind, arg) {
            (Some('s'), Value::String(text)) => {
                let text = text.to_str().map_err(|_| "a filter must be UTF-8 text".to_owned())?;
                out.push_str(&quote(&text).map_err(|why| why.to_string())?);
            }
            (Some('d'), Value::Integer(n)) => out.push_str(&n.to_string()),
            (Some('d'), Value::Number(n)) if n.fract() == 0.0 && n.abs() < 9.2e18 => {
                out.push_str(&(*n as i64).to_string());
            }
            (Some('s' | 'd'), other) => {
                return Err(format!("the filter '{format}' cannot take a {}", other.type_name()));
            }
            _ => return Err(format!("the filter '{format}': after % comes s, d or %")),
        }
    }
    if args.next().is_some() {
        return Err(format!("the filter '{format}' has fewer places than arguments"));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use mlua::Lua;

    use super::*;

    #[test]
    fn arguments_of_a_filter_are_quoted_text_or_whole_numbers() {
        let lua = Lua::new();
        let text = Value::String(lua.create_string("nginx*").unwrap());
        let filled = fill("comm ~ %s && sig == %d", &[text, Value::Number(9.0)]);
        assert_eq!(filled.as_deref(), Ok("comm ~ \"nginx*\" && sig == 9"));
    }

    #[test]
    fn a_filter_refuses_the_wrong_number_or_kind_of_arguments() {
        for (format, args) in [
            ("a == %d", vec![]),
            ("a == 1", vec![Value::Integer(1)]),
            ("a == %d", vec![Value::Number(1.5)]),
        ] {
            assert!(fill(format, &args).is_err(), "{format}");
        }
    }
}
