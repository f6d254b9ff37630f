//! What was typed behind `-e`: `sys:name[/filter/ATTR/ATTR/.../]`, several joined by commas.
//!
//! ```text
//! sched:sched_switch//key=prev_pid/,sched:sched_wakeup/comm ~ "nginx*"/stack/alias=woken/
//! page-faults:u          a counter, with its modifiers
//! cpu-clock/freq=99/     it has no fields to filter by, so that its attributes may follow at once
//! msr/tsc/               PMU/TERMS/[MODIFIERS], where the word before `/` is no event by itself
//! irq:*   cycles|cpu-clock   a glob; the first that exists
//! kprobe:vfs_read   uprobe:/usr/bin/bash:readline/arg1 > 0/stack/   functions ([`super::function`])
//! ```
//!
//! The FILE of a function goes up to the first `:`, if it is not quoted. `/` and `,` within quotes, parentheses or braces separate nothing, nor does a `,` in an attribute
//! before a digit (`cpus=0-3,8`): no event begins so. The last `/` may be left out. A value may be
//! quoted as a whole. Nothing is looked up here: whether the event, its fields and the
//! attributes exist is asked later ([`super::catalog`], [`Selector::check_attrs`]).

#[cfg(test)]
mod tests;

use anyhow::{Result, bail};

use crate::{
    base::nearest::{did_you_mean, nearest},
    event::{
        counter,
        function::{self, Kind},
        name,
        rate::Rate,
        syntax::SyntaxError,
    },
};

/// One event of a list, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// All of its text.
    pub text: String,
    /// `sys:name`, `page-faults:u`, `msr/tsc/`; may be a glob or alternatives.
    pub name: String,
    /// The filter's text; None when it is empty.
    pub filter: Option<String>,
    /// Attributes in the order typed: name, and what stands behind `=` without its quotes.
    pub attrs: Vec<(String, Option<String>)>,
}

/// The attributes that every monitor understands.
pub const BUILTIN: [&str; 6] = ["stack", "max-stack", "alias", "cpus", "freq", "period"];

impl Selector {
    /// Parses a comma list; it holds at least one selector.
    pub fn parse_list(text: &str) -> Result<Vec<Selector>, SyntaxError> {
        let mut parser = Parser { text, at: 0 };
        let mut list = vec![parser.selector()?];
        while parser.take(',') {
            list.push(parser.selector()?);
        }
        Ok(list)
    }

    /// The names to try in turn: `cycles|cpu-clock` is two.
    pub fn alternatives(&self) -> impl Iterator<Item = &str> {
        let mut quote = None;
        let parts = self.name.split(move |c: char| {
            match quote {
                None if matches!(c, '"' | '\'') => quote = Some(c),
                Some(open) if open == c => quote = None,
                _ => {}
            }
            quote.is_none() && c == '|'
        });
        parts.map(str::trim)
    }

    /// The first attribute of that name: `Some(None)` when it has no value.
    pub fn attr(&self, name: &str) -> Option<Option<&str>> {
        self.attrs.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_deref())
    }

    /// Whether stacks are asked for: `stack`, or a `max-stack`.
    pub fn stack(&self) -> bool {
        self.attr("stack").is_some() || self.max_stack().is_some()
    }

    /// `max-stack=N`, frames.
    pub fn max_stack(&self) -> Option<u16> {
        self.attr("max-stack").flatten().and_then(|n| n.parse().ok())
    }

    /// `alias=TEXT`.
    pub fn alias(&self) -> Option<&str> {
        self.attr("alias").flatten()
    }

    /// `cpus=LIST`, such as `0-3,8`.
    pub fn cpus(&self) -> Option<&str> {
        self.attr("cpus").flatten()
    }

    /// `freq=N` or `period=N`.
    pub fn rate(&self) -> Option<Rate> {
        let number = |name| self.attr(name).flatten().and_then(|n| n.parse().ok());
        number("freq").map(Rate::Frequency).or(number("period").map(Rate::Period))
    }

    /// Checks that each attribute is built in or among the monitor's `declared` ones, and the values of the built-in ones.
    pub fn check_attrs(&self, declared: &[&str]) -> Result<()> {
        let known = || BUILTIN.iter().chain(declared).copied();
        if let Some(filter) = &self.filter {
            let word = filter.split(['=', ' ']).next().unwrap_or_default();
            let rest = filter[word.len()..].trim_start();
            let is_attr = rest.is_empty() || rest.starts_with('=') && !rest.starts_with("==");
            if is_attr && known().any(|name| name == word) {
                let name = &self.name;
                bail!("'{word}' stands where the filter does; write {name}//{filter}/");
            }
        }
        for (name, value) in &self.attrs {
            if !known().any(|n| n == name) {
                let guess = did_you_mean(&nearest(name, known()));
                // A monitor may declare a built-in one, to have it in its help.
                let own = declared.iter().filter(|name| !BUILTIN.contains(name));
                let all = BUILTIN.iter().chain(own).copied().collect::<Vec<_>>().join(", ");
                bail!("{} has no attribute '{name}'{guess} (there are {all})", self.name);
            }
            match (name.as_str(), value.as_deref()) {
                ("stack", Some(value)) => {
                    bail!("the attribute 'stack' takes no value, but has '{value}'")
                }
                ("alias" | "cpus" | "max-stack" | "freq" | "period", None | Some("")) => {
                    bail!("the attribute '{name}' needs a value: {name}=VALUE")
                }
                ("max-stack", Some(value)) if !value.parse::<u16>().is_ok_and(|n| n > 0) => {
                    bail!("the attribute 'max-stack' is a number of frames, not '{value}'")
                }
                ("freq" | "period", Some(value)) if !value.parse::<u64>().is_ok_and(|n| n > 0) => {
                    let unit =
                        if name == "freq" { "samples a second" } else { "events per sample" };
                    bail!("the attribute '{name}' is a number of {unit}, not '{value}'")
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

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

/// Whether a backslash in a quoted text takes the meaning of the next character: not in the kernel's filters.
#[derive(Clone, Copy, PartialEq)]
enum Escape {
    Backslash,
    Nothing,
}

impl<'a> Parser<'a> {
    fn fault(&self, at: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.text, at, message)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn take(&mut self, c: char) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    /// Up to one of the characters or the end.
    fn until(&mut self, ends: &[char]) -> &'a str {
        let rest = self.rest();
        let part = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += part.len();
        part
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
        if name.is_empty() {
            return Err(self.fault(start, "an event is missing here: sys:name"));
        }
        let (mut filter, mut attrs) = (None, Vec::new());
        let mut more = self.slash();
        if more && is_pmu(&name) {
            name = self.pmu(start)?;
            more = !self.ends() && (self.slash() || !self.at_separator());
        } else if more {
            let begin = self.at;
            let text = self.segment(&['/', ','], Escape::Nothing)?;
            if is_counter(&name) && is_attribute(text) {
                self.at = begin;
                attrs.push(self.attribute()?);
            } else {
                let text = unquote(text, Escape::Nothing);
                filter = Some(text).filter(|text| !text.is_empty());
            }
            more = self.slash();
        }
        while more && !self.ends() {
            attrs.push(self.attribute()?);
            more = self.slash();
        }
        self.skip_space();
        if !self.rest().is_empty() && !self.rest().starts_with(',') {
            return Err(self.fault(self.at, "events are joined with `,`"));
        }
        let text = self.text[start..self.at].trim_end().to_owned();
        Ok(Selector { text, name, filter, attrs })
    }

    /// One name of those that `|` joins: up to what ends it, of a function beginning with its FILE.
    fn alternative(&mut self) -> Result<(), SyntaxError> {
        const ENDS: [char; 3] = ['/', ',', '|'];
        self.skip_space();
        let start = self.at;
        let Some((kind, rest)) = Kind::in_front_of(self.rest()) else {
            let name = self.until(&ENDS).trim_end();
            return match name.find(char::is_whitespace) {
                Some(space) => Err(self.fault(start + space, "events are joined with `,`")),
                None => Ok(()),
            };
        };
        self.at = self.text.len() - rest.len();
        if kind.of_file() {
            let (_, behind) = function::file_in_front_of(rest);
            self.at = self.text.len() - behind.len();
            if !self.take(':') {
                let what = format!("the function is missing here: {}", kind.usage());
                return Err(self.fault(self.at, what));
            }
        }
        self.segment(&ENDS, Escape::Nothing).map(drop)
    }

    fn slash(&mut self) -> bool {
        self.take('/')
    }

    /// Whether nothing more of this selector comes.
    fn ends(&mut self) -> bool {
        self.skip_space();
        self.rest().is_empty() || self.rest().starts_with(',')
    }

    fn at_separator(&self) -> bool {
        self.rest().starts_with(['/', ','])
    }

    /// `TERMS/[MODIFIERS]`, behind the first slash; the whole name with its slashes.
    fn pmu(&mut self, start: usize) -> Result<String, SyntaxError> {
        let slash = self.at - 1;
        self.segment(&['/'], Escape::Nothing)?;
        if !self.slash() {
            return Err(self.fault(slash, "the terms of a PMU end with a `/`: msr/tsc/"));
        }
        let behind = self.at;
        let word = self.rest().split(['/', ',']).next().unwrap_or_default().trim();
        if !word.is_empty() && word.chars().all(counter::is_modifier) {
            self.until(&['/', ',']);
            return Ok(self.text[start..self.at].trim_end().to_owned());
        }
        Ok(self.text[start..behind].to_owned())
    }

    fn attribute(&mut self) -> Result<(String, Option<String>), SyntaxError> {
        let start = self.at;
        let text = self.segment(&['/', ','], Escape::Backslash)?.trim();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim_end(), Some(unquote(value, Escape::Backslash))),
            None => (text, None),
        };
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(is_word) {
            return Err(self.fault(start, "an attribute has to stand here: NAME or NAME=VALUE"));
        }
        Ok((name.to_owned(), value))
    }

    /// The text up to one of `ends` that stands outside quotes, parentheses and braces.
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
        self.at = self.text.len();
        Ok(&self.text[start..])
    }
}

fn pairs(open: char, close: char) -> bool {
    matches!((open, close), ('(', ')') | ('{', '}'))
}

fn next_is_digit(text: &str, comma: usize) -> bool {
    text.as_bytes().get(comma + 1).is_some_and(u8::is_ascii_digit)
}

fn skip_quoted(chars: &mut std::str::CharIndices<'_>, quote: char, escape: Escape) -> bool {
    while let Some((_, c)) = chars.next() {
        match c {
            '\\' if escape == Escape::Backslash => drop(chars.next()),
            _ if c == quote => return true,
            _ => {}
        }
    }
    false
}

/// Without the quotes when they enclose all of it; `\"` within becomes `"`.
fn unquote(text: &str, escape: Escape) -> String {
    let text = text.trim();
    let mut chars = text.char_indices();
    let quote = match chars.next() {
        Some((_, quote @ ('"' | '\''))) => quote,
        _ => return text.to_owned(),
    };
    if !skip_quoted(&mut chars, quote, escape) || chars.next().is_some() {
        return text.to_owned();
    }
    let inner = &text[1..text.len() - 1];
    match escape {
        Escape::Backslash => inner.replace(&format!("\\{quote}"), &quote.to_string()),
        Escape::Nothing => inner.to_owned(),
    }
}

/// Whether it is an event with a name of its own, which has no fields to filter by: `cycles:u`,
/// `cpu-clock`.
fn is_counter(name: &str) -> bool {
    let first = name.split('|').next().unwrap_or_default().trim();
    name::lookup(first.split(':').next().unwrap_or_default()).is_some()
}

/// Whether a text is an attribute and not a condition: `stack`, `freq=99`.
fn is_attribute(text: &str) -> bool {
    let name = text.split('=').next().unwrap_or_default().trim_end();
    let rest = text[name.len()..].trim_start();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_name = !name.trim_start().is_empty() && name.trim_start().chars().all(is_word);
    is_name && (rest.is_empty() || rest.starts_with('=') && !rest.starts_with("=="))
}

/// Whether what stands before the first slash is a PMU: no tracepoint, no event with a name of its own.
fn is_pmu(name: &str) -> bool {
    let first = name.split('|').next().unwrap_or_default().trim();
    !name.contains(':') && name::lookup(first).is_none()
}
