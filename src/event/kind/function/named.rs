//! Names of function events.
//!
//! A FILE that contains `:`, `,`, `|`, quotes or blanks is quoted with either kind of quotes.
//! A FUNCTION is spelled as in the symbol table.

use std::fmt;

use crate::event::kind::prefix::{NameFault, NamePrefix, split_quoted};

/// Kind of a function event: kernel or user function, at its call or return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// Call of a kernel function.
    Kprobe,
    /// Return of a kernel function.
    Kretprobe,
    /// Call of a function in a program or library.
    Uprobe,
    /// Return of a function in a program or library.
    Uretprobe,
}

pub(in crate::event::kind) const PREFIXES: [NamePrefix; 4] = [
    prefix(ProbeKind::Kprobe, |_| Ok(0)),
    prefix(ProbeKind::Kretprobe, |_| Ok(0)),
    prefix(ProbeKind::Uprobe, |text| extent(ProbeKind::Uprobe, text)),
    prefix(ProbeKind::Uretprobe, |text| extent(ProbeKind::Uretprobe, text)),
];

const fn prefix(kind: ProbeKind, extent: fn(&str) -> Result<usize, NameFault>) -> NamePrefix {
    let class = if kind.at_return() { "perilune.Return" } else { "perilune.Call" };
    NamePrefix { prefix: kind.prefix(), extent, has_fields: true, class }
}

/// Returns the length of `FILE:`.
fn extent(kind: ProbeKind, text: &str) -> Result<usize, NameFault> {
    let (_, behind) = split_file(text);
    let at = text.len() - behind.trim_start().len();
    match behind.trim_start().starts_with(':') {
        true => Ok(at + 1),
        false => {
            let what = format!("the function is missing here: {}", kind.usage());
            Err(NameFault { at, what })
        }
    }
}

/// The parts of a function event's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionName {
    /// Which of the four kinds it is.
    pub kind: ProbeKind,
    /// The program or library; None for the kernel.
    pub file: Option<String>,
    /// The function, or a glob.
    pub function: String,
}

impl ProbeKind {
    /// All kinds.
    pub const ALL: [ProbeKind; 4] =
        [ProbeKind::Kprobe, ProbeKind::Kretprobe, ProbeKind::Uprobe, ProbeKind::Uretprobe];

    /// Returns the prefix of the name, before the first colon.
    pub const fn prefix(self) -> &'static str {
        match self {
            ProbeKind::Kprobe => "kprobe",
            ProbeKind::Kretprobe => "kretprobe",
            ProbeKind::Uprobe => "uprobe",
            ProbeKind::Uretprobe => "uretprobe",
        }
    }

    /// Returns the syntax of a name of this kind, for messages.
    pub fn usage(self) -> String {
        format!("{}:{}FUNCTION", self.prefix(), if self.of_file() { "FILE:" } else { "" })
    }

    /// Returns the name of the PMU that opens it.
    pub fn pmu(self) -> &'static str {
        if self.of_file() { "uprobe" } else { "kprobe" }
    }

    /// Returns whether its name contains a FILE.
    pub fn of_file(self) -> bool {
        matches!(self, ProbeKind::Uprobe | ProbeKind::Uretprobe)
    }

    /// Returns whether the probe is at the return of the function.
    pub const fn at_return(self) -> bool {
        matches!(self, ProbeKind::Kretprobe | ProbeKind::Uretprobe)
    }

    /// Returns the kind that a name or selector begins with, and the text behind its colon.
    pub fn split_prefix(text: &str) -> Option<(ProbeKind, &str)> {
        let (prefix, rest) = text.split_once(':')?;
        Some((ProbeKind::ALL.into_iter().find(|kind| kind.prefix() == prefix)?, rest))
    }
}

impl FunctionName {
    /// Parses a name; None if it is not that of a function event. A missing FILE or FUNCTION is
    /// empty.
    pub fn parse(name: &str) -> Option<FunctionName> {
        let (kind, rest) = ProbeKind::split_prefix(name)?;
        let (file, function) = match kind.of_file() {
            true => {
                let (file, behind) = split_file(rest);
                (Some(file.to_owned()), behind.strip_prefix(':').unwrap_or_default())
            }
            false => (None, rest),
        };
        Some(FunctionName { kind, file, function: function.trim().to_owned() })
    }

    /// Returns the name of another function, with the same kind and file.
    pub fn with(&self, function: &str) -> FunctionName {
        FunctionName { function: function.to_owned(), ..self.clone() }
    }
}

/// Returns the FILE that a text begins with, without its quotes, and the text behind it, which
/// begins with a colon if a FUNCTION follows.
pub fn split_file(text: &str) -> (&str, &str) {
    split_quoted(text)
        .unwrap_or_else(|| text.split_at(text.find([':', ',', '|']).unwrap_or(text.len())))
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.kind.prefix())?;
        if let Some(file) = &self.file {
            let apart = |c: char| ":,|\"'".contains(c) || c.is_whitespace();
            let quote = if file.contains('"') { '\'' } else { '"' };
            match file.contains(apart) {
                true => write!(f, "{quote}{file}{quote}:")?,
                false => write!(f, "{file}:")?,
            }
        }
        f.write_str(&self.function)
    }
}
