//! Names of breakpoints: `mem:[FILE:]SYMBOL[+OFFSET][/LEN][:ACCESS][:MODIFIERS]` and
//! `mem:ADDRESS[/LEN][:ACCESS][:MODIFIERS]`.
//!
//! The syntax of addresses is that of perf. A FILE begins with `/` or `.`, is quoted, or is a
//! program of `$PATH`: `mem:NAME:w` is a symbol of the kernel, because `w` is an ACCESS.

use crate::base::text::fault::Fault;
use crate::event::kind::prefix::NamePrefix;
use crate::event::quote::split_quoted;

pub(in crate::event::kind) const PREFIX: NamePrefix =
    NamePrefix { prefix: "mem", extent, has_fields: false, class: "perilune.Sample" };

/// The syntax, for messages.
pub(super) const USAGE: &str =
    "mem:[FILE:]SYMBOL[+OFFSET][/LEN][:rwx] or mem:0xADDRESS[/LEN][:rwx]";

/// The parts of a name, as typed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BreakpointName<'a> {
    /// The program or library; None for the kernel or an address.
    pub(super) file: Option<&'a str>,
    /// The symbol, or an address as a number.
    pub(super) place: &'a str,
    /// The number behind `+`.
    pub(super) offset: Option<&'a str>,
    /// The number behind `/`.
    pub(super) length: Option<&'a str>,
    /// Letters of `rwx`.
    pub(super) access: Option<&'a str>,
    /// Letters of `uk`.
    pub(super) modifiers: &'a str,
    /// The text behind the name.
    pub(super) rest: &'a str,
}

impl<'a> BreakpointName<'a> {
    /// Splits the text behind the prefix.
    pub(super) fn split(text: &'a str) -> BreakpointName<'a> {
        let (file, behind) = split_file(text);
        let end = behind.find(|c: char| "/,|:".contains(c) || c.is_whitespace());
        let (place, mut rest) = behind.split_at(end.unwrap_or(behind.len()));
        let (place, offset) = match place.rsplit_once('+') {
            Some((place, offset)) => (place, Some(offset)),
            None => (place, None),
        };
        let mut name = BreakpointName { file, place, offset, ..BreakpointName::default() };
        if let Some((length, behind)) = split_length(rest) {
            (name.length, rest) = (Some(length), behind);
        }
        if let Some((access, behind)) = split_letters(rest, "rwx") {
            (name.access, rest) = (Some(access), behind);
        }
        if let Some((modifiers, behind)) = split_letters(rest, "uk") {
            (name.modifiers, rest) = (modifiers, behind);
        }
        BreakpointName { rest, ..name }
    }

    /// Returns whether the place is a number and not a symbol.
    pub(super) fn is_address(&self) -> bool {
        self.file.is_none() && self.place.starts_with(|c: char| c.is_ascii_digit())
    }
}

fn extent(text: &str) -> Result<usize, Fault> {
    Ok(text.len() - BreakpointName::split(text).rest.len())
}

fn split_file(text: &str) -> (Option<&str>, &str) {
    if let Some((file, behind)) = split_quoted(text) {
        return (Some(file), behind.strip_prefix(':').unwrap_or(behind));
    }
    let Some((first, behind)) = text.split_once(':') else { return (None, text) };
    let is_path = first.starts_with(['/', '.']);
    let is_separate = first.contains([',', '|']) || first.contains(char::is_whitespace);
    let is_word = !first.contains('/') && !first.starts_with(|c: char| c.is_ascii_digit());
    let is_symbol = is_word
        && (split_letters(&text[first.len()..], "rwx").is_some()
            || split_letters(&text[first.len()..], "uk").is_some()
            || behind.trim_start() != behind
            || behind.is_empty());
    match !is_separate && (is_path || is_word && !is_symbol) {
        true => (Some(first), behind),
        false => (None, text),
    }
}

/// Splits `/LEN`. An attribute, which may follow a `/` as well, does not begin with a digit.
fn split_length(text: &str) -> Option<(&str, &str)> {
    let digits = text.strip_prefix('/')?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    (end > 0).then(|| digits.split_at(end))
}

/// Splits `:LETTERS`, if all of them are in `known`.
fn split_letters<'a>(text: &'a str, known: &str) -> Option<(&'a str, &'a str)> {
    let word = text.strip_prefix(':')?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_.+".contains(c);
    let end = word.find(|c: char| !is_part(c)).unwrap_or(word.len());
    let (letters, behind) = word.split_at(end);
    (!letters.is_empty() && letters.chars().all(|c| known.contains(c))).then_some((letters, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns file, place, offset, length, access, modifiers and rest.
    fn parts(text: &str) -> [String; 7] {
        let name = BreakpointName::split(text);
        let own = |part: Option<&str>| part.unwrap_or("-").to_owned();
        [
            own(name.file),
            name.place.to_owned(),
            own(name.offset),
            own(name.length),
            own(name.access),
            name.modifiers.to_owned(),
            name.rest.to_owned(),
        ]
    }

    #[test]
    fn a_name_is_split_into_its_parts() {
        for (text, expected) in [
            ("0x1000/8:w", ["-", "0x1000", "-", "8", "w", "", ""]),
            ("4096+0x10:rw:u", ["-", "4096", "0x10", "-", "rw", "u", ""]),
            ("jiffies", ["-", "jiffies", "-", "-", "-", "", ""]),
            ("jiffies:w", ["-", "jiffies", "-", "-", "w", "", ""]),
            ("jiffies/8:w/stack/", ["-", "jiffies", "-", "8", "w", "", "/stack/"]),
            ("jiffies/stack/", ["-", "jiffies", "-", "-", "-", "", "/stack/"]),
            ("vfs_read:x,cs", ["-", "vfs_read", "-", "-", "x", "", ",cs"]),
            ("/bin/a/b:count+4/2:w", ["/bin/a/b", "count", "4", "2", "w", "", ""]),
            ("./prog:w", ["./prog", "w", "-", "-", "-", "", ""]),
            ("bash:running", ["bash", "running", "-", "-", "-", "", ""]),
            ("\"/a:b, c\":v:w", ["/a:b, c", "v", "-", "-", "w", "", ""]),
            ("v/4,uprobe:/x:f", ["-", "v", "-", "4", "-", "", ",uprobe:/x:f"]),
            ("v//alias=a:b/", ["-", "v", "-", "-", "-", "", "//alias=a:b/"]),
            ("v/8:w: x=1", ["-", "v", "-", "8", "w", "", ": x=1"]),
            ("v: x=1", ["-", "v", "-", "-", "-", "", ": x=1"]),
            ("v:q", ["v", "q", "-", "-", "-", "", ""]),
        ] {
            assert_eq!(parts(text), expected, "{text}");
        }
    }
}
