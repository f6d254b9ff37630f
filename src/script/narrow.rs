//! Narrowing an event: what a script or a user asks of it, told apart for the kernel and for user space.

use mlua::Value;

use super::evsel::Role;
use super::host::Host;
use crate::decode::format::Kind;
use crate::event::catalog::What;
use crate::event::filter::{
    names::{asks_for, of_names},
    quote,
    split::{Rest, Split},
};

/// What a script may get wrong: text for its own line.
type Refused = String;

/// What narrows a role.
pub(super) trait Narrowing {
    /// ANDs a filter.
    fn narrow(&mut self, text: &str) -> Result<(), Refused>;
    /// Moves a condition that the kernel refused to user space; without one, all of the filter.
    fn take_over(&mut self, refused: Option<Rest>) -> anyhow::Result<()>;
}

impl Narrowing for Role {
    fn narrow(&mut self, text: &str) -> Result<(), Refused> {
        let name = &self.event.name;
        let named = |why| named(name, why);
        let more = Split::parse(text, &self.event).map_err(|why| named(why.to_string()))?;
        if self.sampling.count
            && let Some(rest) = more.rest.first()
        {
            return Err(named(match self.event.what {
                What::Tracepoint { .. } => format!(
                    "the kernel cannot filter by `{}`, and a count has no records to look at here; \
                     filter by the event's fields, or count in a handler",
                    rest.text
                ),
                What::Function(_) => {
                    "the kernel cannot filter by what a function is given, and a count has no records to look at here; \
                     count in a handler"
                        .into()
                }
                What::Counter(_) => {
                    "only tracepoints are filtered where they are counted; leave the filter out"
                        .into()
                }
            }));
        }
        let before = Split { kernel: self.filter.take(), rest: std::mem::take(&mut self.rest) };
        let both = before.and(more, &self.event);
        (self.filter, self.rest) = (both.kernel, both.rest);
        Ok(())
    }

    fn take_over(&mut self, refused: Option<Rest>) -> anyhow::Result<()> {
        match (refused, self.filter.take(), self.event.format()) {
            (Some(rest), filter, _) => {
                self.filter = filter.and_then(|filter| filter.without(&rest.text));
                self.rest.push(rest);
            }
            (None, Some(filter), Some(format)) => {
                let bound = filter.bind(&self.event.name, format)?;
                self.rest.push(Rest::of_kernel(&filter, bound));
            }
            (None, ..) => {}
        }
        Ok(())
    }
}

/// The filter of a comma list of names and globs, for a field of the role's event.
pub(super) fn names(field: &str, list: &str, role: &Role) -> Result<String, Refused> {
    let of_event = role.event.format().and_then(|format| format.field(field));
    let room = match of_event {
        Some(own) if own.kind == Kind::Chars => Some(own.size),
        Some(_) => None,
        // What is no field is the name of the task, or is refused as a filter.
        None => Some(COMM_ROOM),
    };
    of_names(field, list, room).map_err(|why| named(&role.event.name, why.to_string()))
}

impl Host {
    /// Of the lists of names that tasks are to have, those that none of `names` is on.
    pub fn lists_without(&self, names: &[&[u8]]) -> Vec<String> {
        let state = self.state.borrow();
        let lists = state.evsels.borrow().names.clone();
        let unmet = |list: &String| !names.iter().any(|name| asks_for(list, name));
        lists.into_iter().filter(unmet).collect()
    }
}

/// Says whose filter it is, unless that is said.
fn named(event: &str, why: String) -> Refused {
    if why.starts_with(event) { why } else { format!("{event}: {why}") }
}

/// Bytes of a task's name, terminator included.
const COMM_ROOM: usize = 16;

/// Fills `%s` with a quoted constant and `%d` with a whole number; `%%` is a percent sign.
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
                let text = text.to_str().map_err(|_| "a filter is UTF-8 text".to_owned())?;
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
    fn a_filter_is_filled_with_quoted_text_and_whole_numbers() {
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
