//! The argument of `-e`: `sys:name[/filter/ATTR/ATTR/.../]`, several joined by commas.
//!
//! ```text
//! sched:sched_switch//key=prev_pid/,sched:sched_wakeup/comm ~ "nginx*"/stack/alias=woken/
//! page-faults:u          a counter, with its modifiers
//! cpu-clock/freq=99/     has no fields to filter by, so the attributes may follow directly
//! cpu/event=0x3c/pp      PMU/TERMS/[MODIFIERS], if the name before `/` is not an event by itself
//! irq:*                  a glob
//! cycles|cpu-clock       alternatives: the first that exists
//! kprobe:vfs_read        a function, see `super::kind::function`
//! uprobe:/usr/bin/bash:readline/arg1 > 0/stack/
//! usdt:/usr/bin/python3:python:gc__start
//! profile/-F 200/untraced/  the events of a monitor: its options, then attributes
//! mem:jiffies/8:w/stack/ a breakpoint, see `super::kind::breakpoint`; has no fields either
//! {cycles,instructions}:u    a group, see `group`
//! {cpu-clock,page-faults}:S  its first event, whose samples have the counts of all
//! ```
//!
//! The FILE of a function ends at the first `:` unless it is quoted. `/` and `,` do not separate
//! within quotes, parentheses or braces, nor does a `,` before a digit in an attribute
//! (`cpus=0-3,8`), because no event begins with a digit. The last `/` may be omitted. A value may
//! be quoted as a whole. The parser looks nothing up: [`super::catalog`] and
//! [`Selector::check_attrs`] check later whether the event, its fields and the attributes exist.

mod group;
mod terms;
#[cfg(test)]
mod tests;

use anyhow::{Result, bail, ensure};

use crate::event::other_tools::{attribute_hint, event_hint};
use crate::event::quote::{Escape, skip_quoted, split_unquoted, unquote};
use crate::{
    base::matching::nearest::{did_you_mean, nearest},
    event::{kind, rate::SamplingRate, sampling::EventGroup, syntax::SyntaxError},
};

/// One event of a list, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The whole text of the selector.
    pub text: String,
    /// `sys:name`, `page-faults:u`, `msr/tsc/`; may be a glob or alternatives.
    pub name: String,
    /// Text of the filter; None if it is empty.
    pub filter: Option<String>,
    /// Options of the monitor that `name` is; None if there are none.
    pub options: Option<String>,
    /// Attributes in the order typed: name, and the value without its quotes.
    pub attrs: Vec<(String, Option<String>)>,
    /// The group whose braces contain it; None for the first event of a group with `S`.
    pub group: Option<EventGroup>,
    /// The other events of a group with `S`, whose counts its samples have.
    pub members: Vec<Selector>,
}

/// The attributes that every monitor accepts.
pub const BUILTIN: [&str; 6] = ["stack", "max-stack", "alias", "cpus", "freq", "period"];

impl Selector {
    /// Parses a comma-separated list of at least one selector.
    ///
    /// # Errors
    /// A syntax error, with its position.
    pub fn parse_list(text: &str) -> Result<Vec<Selector>, SyntaxError> {
        let mut parser = SelectorParser { text, at: 0, end: text.len() };
        let mut list = parser.selectors()?;
        while parser.take(',') {
            list.extend(parser.selectors()?);
        }
        Ok(list)
    }

    /// Returns the names to try in turn: two for `cycles|cpu-clock`.
    pub fn alternatives(&self) -> impl Iterator<Item = &str> {
        split_unquoted(&self.name, '|').map(str::trim)
    }

    /// Returns the value of the first attribute with this name; `Some(None)` if it has no value.
    pub fn attr(&self, name: &str) -> Option<Option<&str>> {
        self.attrs.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_deref())
    }

    /// Returns whether stacks are requested, by `stack` or `max-stack`.
    pub fn stack(&self) -> bool {
        self.attr("stack").is_some() || self.max_stack().is_some()
    }

    /// Returns the number of frames of `max-stack=N`.
    pub fn max_stack(&self) -> Option<u16> {
        self.attr("max-stack").flatten().and_then(|n| n.parse().ok())
    }

    /// Returns TEXT of `alias=TEXT`.
    pub fn alias(&self) -> Option<&str> {
        self.attr("alias").flatten()
    }

    /// Returns LIST of `cpus=LIST`, such as `0-3,8`.
    pub fn cpus(&self) -> Option<&str> {
        self.attr("cpus").flatten()
    }

    /// Returns the rate of `freq=N` or `period=N`.
    pub fn rate(&self) -> Option<SamplingRate> {
        let number = |name| self.attr(name).flatten().and_then(|n| n.parse().ok());
        number("freq").map(SamplingRate::Frequency).or(number("period").map(SamplingRate::Period))
    }

    /// Checks that each attribute is built in or one of the monitor's `declared` ones, and checks
    /// the values of the built-in ones.
    ///
    /// # Errors
    /// An unknown attribute, an attribute at the position of the filter, an invalid value, or both
    /// `freq` and `period`.
    pub fn check_attrs(&self, declared: &[&str]) -> Result<()> {
        for member in &self.members {
            let other = member.attrs.iter().find(|(name, _)| name != "alias");
            ensure!(
                other.is_none(),
                "{}: only counted in the group of {}; omit the attribute '{}'",
                member.name,
                self.name,
                other.map_or("", |(name, _)| name)
            );
            member.check_attrs(&[])?;
        }
        let known = || BUILTIN.iter().chain(declared).copied();
        if let Some(filter) = &self.filter {
            let first = filter.split(['=', ' ']).next().unwrap_or_default();
            let rest = filter[first.len()..].trim_start();
            let is_attr = rest.is_empty() || rest.starts_with('=') && !rest.starts_with("==");
            if is_attr && known().any(|name| name == first) {
                let name = &self.name;
                bail!("'{first}' is in the position of the filter; write {name}//{filter}/");
            }
        }
        for (name, value) in &self.attrs {
            if !known().any(|n| n == name) {
                let guess = did_you_mean(&nearest(name, known()));
                // A monitor may declare a built-in attribute to list it in its help.
                let own = declared.iter().filter(|name| !BUILTIN.contains(name));
                let all = BUILTIN.iter().chain(own).copied().collect::<Vec<_>>().join(", ");
                let other = attribute_hint(name);
                let guess = if other.is_empty() { guess } else { other };
                bail!("{} has no attribute '{name}'{guess} (there are {all})", self.name);
            }
            match (name.as_str(), value.as_deref()) {
                ("stack", Some(value)) => {
                    bail!("the attribute 'stack' takes no value; omit `={value}`")
                }
                ("alias" | "cpus" | "max-stack" | "freq" | "period", None | Some("")) => {
                    bail!("the attribute '{name}' needs a value: {name}=VALUE")
                }
                ("max-stack", Some(value)) if !value.parse::<u16>().is_ok_and(|n| n > 0) => {
                    bail!("max-stack={value}: expected a number of frames from 1 to 65535")
                }
                ("freq" | "period", Some(value)) if !value.parse::<u64>().is_ok_and(|n| n > 0) => {
                    let unit =
                        if name == "freq" { "samples per second" } else { "events per sample" };
                    bail!(
                        "{name}={value}: expected a whole number of {unit} greater than 0, such \
                         as 1000"
                    )
                }
                _ => {}
            }
        }
        let own = |name: &&str| !declared.contains(name) && self.attr(name).is_some();
        if ["freq", "period"].iter().all(own) {
            bail!("{}: freq= and period= exclude each other; omit one", self.name);
        }
        Ok(())
    }
}

struct SelectorParser<'a> {
    text: &'a str,
    at: usize,
    /// Where the list ends: the end of the text, or the `}` of a group.
    end: usize,
}

impl<'a> SelectorParser<'a> {
    fn fault(&self, at: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.text, at, message)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        self.at = self.end - self.rest().trim_start().len();
    }

    fn take(&mut self, c: char) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    /// Takes the text up to one of the characters or the end.
    fn until(&mut self, ends: &[char]) -> &'a str {
        let rest = self.rest();
        let part = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += part.len();
        part
    }

    /// Takes a group or a selector.
    fn selectors(&mut self) -> Result<Vec<Selector>, SyntaxError> {
        self.skip_space();
        if self.rest().starts_with('{') { self.group() } else { Ok(vec![self.selector()?]) }
    }

    fn selector(&mut self) -> Result<Selector, SyntaxError> {
        self.skip_space();
        let start = self.at;
        loop {
            self.alternative()?;
            if !self.rest().starts_with('|') {
                break;
            }
            self.at += 1;
        }
        let mut name = self.text[start..self.at].trim_end().to_owned();
        self.check_event(start, &name)?;
        if name.is_empty() {
            return Err(self.fault(start, "an event is missing here: sys:name"));
        }
        let (mut filter, mut options, mut attrs) = (None, None, Vec::new());
        let mut more = self.slash();
        // A path behind a prefix of another tool, as in u:/usr/bin/bash:readline.
        let hint = event_hint(&name);
        if more && !hint.is_empty() {
            let typed = if hint.contains("FILE:") { self.item(start) } else { &name };
            return Err(self.fault(start, format!("no event '{typed}'{hint}")));
        }
        if more && self.at_options(&name) {
            options = Some(self.options()?);
            more = !self.ends();
        } else if more && is_pmu(&name) {
            name = self.pmu(start)?;
            more = !self.ends() && (self.slash() || !self.at_separator());
        } else if more {
            let begin = self.at;
            let text = self.segment(&['/', ','], Escape::Nothing)?;
            if lacks_fields(&name) && is_attribute(text) {
                self.at = begin;
                attrs.push(self.attribute()?);
            } else {
                let text = unquote(text, Escape::Nothing);
                filter = Some(text).filter(|text| !text.is_empty());
            }
            more = self.slash();
        }
        while more && !self.ends() {
            let attribute = self.attribute();
            let quote = |why| self.unquoted_slash(start, options.is_some(), why);
            attrs.push(attribute.map_err(quote)?);
            more = self.slash();
        }
        self.skip_space();
        if !self.rest().is_empty() && !self.rest().starts_with(',') {
            return Err(self.fault(self.at, "events are joined with `,`"));
        }
        let text = self.text[start..self.at].trim_end().to_owned();
        Ok(Selector { text, name, filter, options, attrs, group: None, members: Vec::new() })
    }

    /// Takes one of the names joined by `|`. Behind a prefix, a name may contain `/`.
    fn alternative(&mut self) -> Result<(), SyntaxError> {
        const ENDS: [char; 3] = ['/', ',', '|'];
        self.skip_space();
        let start = self.at;
        let Some((prefix, rest)) = kind::prefix_of(self.rest()) else {
            let name = self.until(&ENDS).trim_end();
            if let Some(at) = name.find('}') {
                return Err(self.fault(start + at, "this `}` closes no group; omit it"));
            }
            return match name.find(char::is_whitespace) {
                Some(space) => Err(self.fault(start + space, "events are joined with `,`")),
                None => Ok(()),
            };
        };
        let begin = self.end - rest.len();
        match (prefix.extent)(rest) {
            Ok(extent) => self.at = begin + extent,
            Err(fault) => return Err(self.fault(begin + fault.at, fault.message)),
        }
        self.segment(&ENDS, Escape::Nothing).map(drop)
    }

    fn slash(&mut self) -> bool {
        self.take('/')
    }

    /// Returns whether the selector ends here.
    fn ends(&mut self) -> bool {
        self.skip_space();
        self.rest().is_empty() || self.rest().starts_with(',')
    }

    fn at_separator(&self) -> bool {
        self.rest().starts_with(['/', ','])
    }

    fn attribute(&mut self) -> Result<(String, Option<String>), SyntaxError> {
        let start = self.at;
        let text = self.segment(&['/', ','], Escape::Backslash)?.trim();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim_end(), Some(unquote(value, Escape::Backslash))),
            None => (text, None),
        };
        if name.is_empty() || !name.chars().all(is_attribute_char) {
            return Err(self.fault(start, "expected an attribute: NAME or NAME=VALUE"));
        }
        Ok((name.to_owned(), value))
    }

    /// Takes the text up to one of `ends` outside quotes, parentheses and braces.
    fn segment(&mut self, ends: &[char], escape: Escape) -> Result<&'a str, SyntaxError> {
        let start = self.at;
        let mut open: Vec<(usize, char)> = Vec::new();
        let mut chars = self.rest().char_indices();
        while let Some((offset, c)) = chars.next() {
            let at = start + offset;
            match c {
                '"' | '\'' => {
                    let unclosed = || format!("this quote is not closed by another {c}");
                    let closed = skip_quoted(&mut chars, c, escape);
                    closed.then_some(()).ok_or_else(|| self.fault(at, unclosed()))?;
                }
                '(' | '{' => open.push((at, c)),
                ')' | '}' if open.last().is_some_and(|(_, o)| pairs(*o, c)) => drop(open.pop()),
                ',' if escape == Escape::Backslash && next_is_digit(self.text, at) => {}
                _ if open.is_empty() && ends.contains(&c) => {
                    self.at = at;
                    return Ok(&self.text[start..at]);
                }
                _ => {}
            }
        }
        if let Some((at, c)) = open.first() {
            return Err(self.fault(*at, format!("this `{c}` is not closed")));
        }
        self.at = self.end;
        Ok(&self.text[start..self.end])
    }
}

fn pairs(open: char, close: char) -> bool {
    matches!((open, close), ('(', ')') | ('{', '}'))
}

fn next_is_digit(text: &str, comma: usize) -> bool {
    text.as_bytes().get(comma + 1).is_some_and(u8::is_ascii_digit)
}

/// Returns whether it is an event without fields to filter by: `cycles:u`, `cpu-clock`, `mem:v/8`.
fn lacks_fields(name: &str) -> bool {
    let first = name.split('|').next().unwrap_or_default().trim();
    if let Some((prefix, _)) = kind::prefix_of(first) {
        return !prefix.has_fields;
    }
    kind::lookup(first.split(':').next().unwrap_or_default()).is_some()
}

/// Returns whether a text is an attribute (`stack`, `freq=99`) and not a condition.
fn is_attribute(text: &str) -> bool {
    let name = text.split('=').next().unwrap_or_default().trim_end();
    let rest = text[name.len()..].trim_start();
    let name = name.trim_start();
    let is_name = !name.is_empty() && name.chars().all(is_attribute_char);
    is_name && (rest.is_empty() || rest.starts_with('=') && !rest.starts_with("=="))
}

/// Returns whether an attribute's name may contain the character.
fn is_attribute_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Returns whether the name before the first slash is a PMU: neither a tracepoint nor a counter
/// with a name of its own.
fn is_pmu(name: &str) -> bool {
    let first = name.split('|').next().unwrap_or_default().trim();
    !name.contains(':') && kind::lookup(first).is_none()
}
