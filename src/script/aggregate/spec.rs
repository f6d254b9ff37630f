//! Reads the table of a constructor: its columns and options, checked once.
//!
//! Errors are messages for the author of the script; the prelude raises them at the calling line.

use std::rc::Rc;

use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::report::draw::Align;
use crate::base::text::number::IntegerType;
use crate::base::text::stack_style::StackStyle;
use crate::base::text::units::parse_duration_with_unit;
use mlua::{Function, Table, Value};

/// A column that is part of the key.
#[derive(Clone, Debug)]
pub(super) struct KeyColumn {
    pub(super) title: String,
    /// Turns a value into text when it is drawn.
    pub(super) draw: Option<Function>,
    pub(super) width: Option<usize>,
    pub(super) align: Option<Align>,
    pub(super) arrow: bool,
    /// Width of the longest of `names`, all of which the column may have to show.
    pub(super) names_width: usize,
    /// The style of the stacks, if the values of the column are stacks.
    pub(super) stack: Option<Rc<StackStyle>>,
    /// How 64-bit integers are shown. Without it numbers are signed, and hexadecimal text stays
    /// text.
    pub(super) reads_as: Option<ReadsAs>,
}

/// How the integers of a column are shown.
#[derive(Clone, Debug)]
pub(super) enum ReadsAs {
    Known(IntegerType),
    /// A function of the script that returns the type; called when the column is drawn.
    Asked(Function),
}

impl ReadsAs {
    /// Returns the type, or None for text.
    ///
    /// # Errors
    /// The function of the script failed.
    pub(super) fn integer_type(&self) -> mlua::Result<Option<IntegerType>> {
        match self {
            ReadsAs::Known(of) => Ok(Some(*of)),
            ReadsAs::Asked(ask) => {
                let name = ask.call::<Option<String>>(())?;
                Ok(name.as_deref().and_then(IntegerType::named))
            }
        }
    }
}

/// A column that is summed.
#[derive(Clone, Debug)]
pub(super) struct SumColumn {
    pub(super) title: String,
    /// Sorts before the others.
    pub(super) first: bool,
    /// Its values are unsigned.
    pub(super) unsigned: bool,
}

/// Values of the option `as`. The default is [`IntegerType::Signed`] for sums and `text` for keys.
const AS: [&str; 5] = ["signed", "unsigned", "pointer", "mixed", "text"];

/// The table of a constructor while it is read.
pub(super) struct AggregateSpec<'a> {
    /// The constructor or part of it that messages name.
    subject: &'a str,
    table: &'a Table,
}

/// The error is a message for the author of the script.
pub(super) type Checked<T> = Result<T, String>;

impl<'a> AggregateSpec<'a> {
    /// Takes the table that the constructor `subject` was called with.
    ///
    /// # Errors
    /// `value` is not a table, or has an option that is not among `known`.
    pub(super) fn new(
        subject: &'a str,
        value: &'a Value,
        known: &[&str],
    ) -> Checked<AggregateSpec<'a>> {
        let Value::Table(table) = value else {
            return Err(format!("{subject} takes a table: {subject} {{ … }}"));
        };
        check_names(subject, table, known)?;
        Ok(AggregateSpec { subject, table })
    }

    fn get(&self, name: &str) -> Value {
        // A raw read of a string key cannot fail.
        self.table.raw_get(name).unwrap_or(Value::Nil)
    }

    fn wrong(&self, name: &str, wanted: &str) -> String {
        format!("{} option '{name}' must be {wanted}", self.subject)
    }

    /// Returns the flag `name`: anything except false and nil is true.
    pub(super) fn flag(&self, name: &str, default: bool) -> bool {
        match self.get(name) {
            Value::Nil => default,
            Value::Boolean(value) => value,
            _ => true,
        }
    }

    /// Returns the text of option `name`, or None if it is absent or false.
    ///
    /// # Errors
    /// The value is not text.
    pub(super) fn text(&self, name: &str) -> Checked<Option<String>> {
        match self.get(name) {
            Value::Nil | Value::Boolean(false) => Ok(None),
            Value::String(text) => Ok(Some(text.to_string_lossy())),
            _ => Err(self.wrong(name, "text")),
        }
    }

    /// Returns the value of option `name`.
    ///
    /// # Errors
    /// The value is not one of `of`.
    pub(super) fn choice(&self, name: &str, of: &[&'static str]) -> Checked<Option<&'static str>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = of.iter().copied().find(|choice| *choice == text);
        found.map(Some).ok_or_else(|| {
            let quoted: Vec<String> = of.iter().map(|choice| format!("\"{choice}\"")).collect();
            self.wrong(name, &quoted.join(" or "))
        })
    }

    /// Returns the integer of option `name`.
    ///
    /// # Errors
    /// The value is not an integer.
    pub(super) fn integer(&self, name: &str) -> Checked<Option<i64>> {
        match self.get(name) {
            Value::Nil | Value::Boolean(false) => Ok(None),
            Value::Integer(value) => Ok(Some(value)),
            Value::Number(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                Ok(Some(value as i64))
            }
            _ => Err(self.wrong(name, "an integer")),
        }
    }

    /// Returns the largest number of rows to draw.
    ///
    /// # Errors
    /// The number is not at least 1.
    pub(super) fn top(&self) -> Checked<Option<usize>> {
        let Some(top) = self.integer("top")? else { return Ok(None) };
        let top = usize::try_from(top).ok().filter(|top| *top > 0);
        top.map(Some).ok_or_else(|| self.wrong("top", "at least 1"))
    }

    /// Returns a duration in nanoseconds: given as a number of nanoseconds, or as text with a unit.
    ///
    /// # Errors
    /// It is neither, or not positive.
    pub(super) fn duration(&self, name: &str) -> Checked<Option<f64>> {
        let duration = match self.get(name) {
            Value::Nil | Value::Boolean(false) => return Ok(None),
            Value::Integer(ns) => Some(ns as f64),
            Value::Number(ns) => Some(ns),
            Value::String(text) => {
                parse_duration_with_unit(&text.to_string_lossy()).ok().map(|ns| ns as f64)
            }
            _ => None,
        };
        let positive = duration.filter(|ns| *ns > 0.0 && ns.is_finite());
        positive.map(Some).ok_or_else(|| self.wrong(name, "a duration, as \"1s\" or \"100ms\""))
    }

    /// Returns the columns in order. None stands for a column that is false; `add` ignores the
    /// argument of such a column.
    ///
    /// # Errors
    /// A column is malformed.
    pub(super) fn columns(&self) -> Checked<Vec<Option<KeyColumn>>> {
        let mut columns = Vec::new();
        for (i, value) in self.table.clone().sequence_values::<Value>().flatten().enumerate() {
            let column = match value {
                Value::Boolean(false) => None,
                Value::String(title) => Some(KeyColumn::plain(title.to_string_lossy())),
                Value::Table(table) => Some(self.column(i, &table)?),
                other => {
                    let kind = other.type_name();
                    return Err(format!(
                        "{} column {} is a {kind}; a column is \"name\", {{ \"title\", draw }} \
                         or false",
                        self.subject,
                        i + 1
                    ));
                }
            };
            columns.push(column);
        }
        Ok(columns)
    }

    fn column(&self, i: usize, table: &Table) -> Checked<KeyColumn> {
        let what = format!("{} column {}", self.subject, i + 1);
        let (title, draw) = title_and_draw(&what, table)?;
        check_names(&what, table, &["width", "align", "arrow", "names", "as"])?;
        let options = AggregateSpec { subject: &what, table };
        let names: Option<Table> =
            table.raw_get("names").map_err(|_| options.wrong("names", "a list of names"))?;
        let names = names
            .into_iter()
            .flat_map(|names| names.sequence_values::<String>().flatten().collect::<Vec<_>>());
        Ok(KeyColumn {
            title,
            draw,
            width: options.integer("width")?.and_then(|width| usize::try_from(width).ok()),
            align: options
                .choice("align", &["left", "right"])?
                .map(|side| if side == "left" { Align::Left } else { Align::Right }),
            arrow: options.flag("arrow", false),
            names_width: names.map(|name| name.chars().count()).max().unwrap_or(0),
            stack: None,
            reads_as: options.reads_as()?,
        })
    }

    /// Returns the option `as` of a key or a sum.
    fn reads_as(&self) -> Checked<Option<ReadsAs>> {
        if let Value::Function(ask) = self.get("as") {
            return Ok(Some(ReadsAs::Asked(ask)));
        }
        let name = self.choice("as", &AS)?;
        Ok(name.and_then(IntegerType::named).map(ReadsAs::Known))
    }

    /// Returns the option `name = { "title", draw }`.
    ///
    /// # Errors
    /// It is neither text nor such a table.
    pub(super) fn named(&self, name: &str) -> Checked<Option<KeyColumn>> {
        match self.get(name) {
            Value::Nil | Value::Boolean(false) => Ok(None),
            Value::String(title) => Ok(Some(KeyColumn::plain(title.to_string_lossy()))),
            Value::Table(table) => {
                let what = format!("{} option '{name}'", self.subject);
                check_names(&what, &table, &[])?;
                let (title, draw) = title_and_draw(&what, &table)?;
                Ok(Some(KeyColumn { draw, ..KeyColumn::plain(title) }))
            }
            _ => Err(self.wrong(name, "{ \"title\", draw }")),
        }
    }

    /// Returns the columns that are summed.
    ///
    /// # Errors
    /// A column is malformed.
    pub(super) fn sums(&self) -> Checked<Vec<SumColumn>> {
        let list = match self.get("sums") {
            Value::Nil | Value::Boolean(false) => return Ok(Vec::new()),
            Value::Table(list) => list,
            _ => return Err(self.wrong("sums", "a list of columns")),
        };
        let mut sums = Vec::new();
        for value in list.sequence_values::<Value>().flatten() {
            sums.push(match value {
                Value::String(title) => SumColumn::plain(title.to_string_lossy(), false),
                Value::Table(table) => {
                    let what = format!("a sum of {}", self.subject);
                    check_names(&what, &table, &["first", "as"])?;
                    let (title, _) = title_and_draw(&what, &table)?;
                    let options = AggregateSpec { subject: &what, table: &table };
                    let of = options.choice("as", &AS)?.and_then(IntegerType::named);
                    SumColumn {
                        title,
                        first: options.flag("first", false),
                        unsigned: of.is_some_and(|of| of.value(u64::MAX) > 0),
                    }
                }
                _ => {
                    return Err(
                        self.wrong("sums", "a list of \"title\" or { \"title\", first = true }")
                    );
                }
            });
        }
        Ok(sums)
    }

    /// Returns the names of the values that `pending` stores.
    ///
    /// # Errors
    /// A name is not text, is in `reserved`, or appears twice.
    pub(super) fn fields(&self, reserved: &[&str]) -> Checked<Vec<String>> {
        let mut fields: Vec<String> = Vec::new();
        for value in self.table.clone().sequence_values::<Value>().flatten() {
            let Value::String(name) = value else {
                return Err(format!(
                    "{} takes names of values, not a {}",
                    self.subject,
                    value.type_name()
                ));
            };
            let name = name.to_string_lossy();
            if reserved.contains(&name.as_str()) {
                return Err(format!(
                    "{} has a '{name}' of its own; use another name",
                    self.subject
                ));
            }
            if fields.contains(&name) {
                return Err(format!("{} names '{name}' twice", self.subject));
            }
            fields.push(name);
        }
        Ok(fields)
    }
}

impl SumColumn {
    /// Returns a column of signed values.
    pub(super) fn plain(title: String, first: bool) -> SumColumn {
        SumColumn { title, first, unsigned: false }
    }
}

impl KeyColumn {
    /// Draws 64-bit values as integers unless the script chose a type.
    pub(super) fn integers_by_default(&mut self) {
        self.reads_as.get_or_insert(ReadsAs::Known(IntegerType::Signed));
    }

    pub(super) fn plain(title: String) -> KeyColumn {
        KeyColumn {
            title,
            draw: None,
            width: None,
            align: None,
            arrow: false,
            names_width: 0,
            stack: None,
            reads_as: None,
        }
    }
}

fn title_and_draw(what: &str, table: &Table) -> Checked<(String, Option<Function>)> {
    let title: String =
        table.raw_get(1).map_err(|_| format!("{what} has no title: {{ \"title\", draw }}"))?;
    match table.raw_get(2).unwrap_or(Value::Nil) {
        Value::Nil | Value::Boolean(false) => Ok((title, None)),
        Value::Function(draw) => Ok((title, Some(draw))),
        other => Err(format!(
            "{what} '{title}' has a {} as `draw`; it must be a function",
            other.type_name()
        )),
    }
}

/// Checks that the options of a table, which is called `what`, are among `known`.
pub(in crate::script) fn check_names(what: &str, table: &Table, known: &[&str]) -> Checked<()> {
    for (key, _) in table.pairs::<Value, Value>().flatten() {
        if let Value::String(name) = key {
            let name = name.to_string_lossy();
            if !known.contains(&name.as_str()) {
                return Err(format!("{what} has no option '{name}'{}", suggestion(&name, known)));
            }
        }
    }
    Ok(())
}

/// Returns `; did you mean 'x'?`, or the list of known names.
pub(super) fn suggestion(name: &str, known: &[impl AsRef<str>]) -> String {
    let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    let near = nearest(name, known.iter().copied());
    if !near.is_empty() || known.is_empty() {
        return did_you_mean(&near);
    }
    format!("; it has {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_suggests_the_nearest_or_lists_all() {
        assert_eq!(suggestion("titel", &["unit", "title"]), "; did you mean 'title'?");
        assert_eq!(suggestion("title_of", &["unit", "title"]), "; it has unit, title");
        assert_eq!(suggestion("xyz", &["unit", "title"]), "; it has unit, title");
    }
}
