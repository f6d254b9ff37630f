//! Parses `kprobe:FUNCTION`, `uprobe:FILE:FUNCTION`, `usdt:FILE:PROVIDER:NAME` and
//! `tprobe:TRACEPOINT` into their parts.
//!
//! A FILE that contains `:`, `,`, `|`, quotes or blanks is quoted with either kind of quotes.
//! A FUNCTION is spelled as in the symbol table. `FUNCTION+OFFSET` is an instruction inside of it;
//! `0xADDRESS` is an instruction of a file by its address in the file's symbol table.
//! `FUNCTION(len, user=req.user.name)` has these parameters and members of structures as its
//! fields. A USDT probe has `PROVIDER:NAME` in place of the FUNCTION, a tprobe the TRACEPOINT.

use std::fmt;

use crate::base::text::fault::Fault;
use crate::base::text::number::parse_u64;
use crate::event::kind::prefix::NamePrefix;
use crate::event::quote::split_quoted;
use crate::sys::probe_type::ProbeType;

/// Kind of a function event: kernel or user function, at its call or return, or another probe whose
/// values the kernel reads.
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
    /// A probe that the source of a program or library declares.
    Usdt,
    /// Call of a kernel function, by ftrace.
    Fprobe,
    /// Return of a kernel function, by ftrace.
    Fretprobe,
    /// A tracepoint of the kernel.
    Tprobe,
}

pub(in crate::event::kind) const PREFIXES: [NamePrefix; 8] = [
    prefix(ProbeKind::Kprobe, |_| Ok(0)),
    prefix(ProbeKind::Kretprobe, |_| Ok(0)),
    prefix(ProbeKind::Uprobe, |text| extent(ProbeKind::Uprobe, text)),
    prefix(ProbeKind::Uretprobe, |text| extent(ProbeKind::Uretprobe, text)),
    prefix(ProbeKind::Usdt, |text| extent(ProbeKind::Usdt, text)),
    prefix(ProbeKind::Fprobe, |_| Ok(0)),
    prefix(ProbeKind::Fretprobe, |_| Ok(0)),
    prefix(ProbeKind::Tprobe, |_| Ok(0)),
];

const fn prefix(kind: ProbeKind, extent: fn(&str) -> Result<usize, Fault>) -> NamePrefix {
    let class = match kind {
        ProbeKind::Usdt | ProbeKind::Fprobe | ProbeKind::Fretprobe | ProbeKind::Tprobe => {
            "perilune.Record"
        }
        _ if kind.at_return() => "perilune.Return",
        _ => "perilune.Call",
    };
    NamePrefix { prefix: kind.prefix(), extent, has_fields: true, class }
}

/// Returns the length of `FILE:`.
fn extent(kind: ProbeKind, text: &str) -> Result<usize, Fault> {
    let (file, behind) = split_file(text);
    let at = text.len() - behind.trim_start().len();
    match behind.trim_start().starts_with(':') {
        true => Ok(at + 1),
        false if file.contains('@') => {
            // FUNCTION@"FILE" of perf-prof, FUNCTION@FILE.
            let (function, file) = file.split_once('@').unwrap_or((file, ""));
            let file = split_quoted(file).map_or(file, |(inside, _)| inside);
            let what = format!(
                "the FILE precedes the {}: {}:{file}:{function}",
                kind.noun(),
                kind.prefix()
            );
            Err(Fault::new(function.len(), what))
        }
        false => {
            let what = format!("the {} is missing here: {}", kind.noun(), kind.usage());
            Err(Fault::new(at, what))
        }
    }
}

/// The parts of a function event's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionName {
    /// Which kind it is.
    pub kind: ProbeKind,
    /// The program or library; None for the kernel.
    pub file: Option<String>,
    /// The function, or a glob; an instruction; `PROVIDER:NAME` of a USDT probe.
    pub function: String,
}

/// An instruction of a FILE or of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeLocation<'a> {
    /// The byte at this offset in the function of this name.
    Function(&'a str, u64),
    /// The byte at this address in the symbol table.
    Address(u64),
}

impl ProbeKind {
    /// All kinds.
    pub const ALL: [ProbeKind; 8] = [
        ProbeKind::Kprobe,
        ProbeKind::Kretprobe,
        ProbeKind::Uprobe,
        ProbeKind::Uretprobe,
        ProbeKind::Usdt,
        ProbeKind::Fprobe,
        ProbeKind::Fretprobe,
        ProbeKind::Tprobe,
    ];

    /// Returns the prefix of the name, before the first colon.
    pub const fn prefix(self) -> &'static str {
        match self {
            ProbeKind::Kprobe => "kprobe",
            ProbeKind::Kretprobe => "kretprobe",
            ProbeKind::Uprobe => "uprobe",
            ProbeKind::Uretprobe => "uretprobe",
            ProbeKind::Usdt => "usdt",
            ProbeKind::Fprobe => "fprobe",
            ProbeKind::Fretprobe => "fretprobe",
            ProbeKind::Tprobe => "tprobe",
        }
    }

    /// Returns the syntax of a name of this kind, for messages.
    pub fn usage(self) -> String {
        let prefix = self.prefix();
        match self {
            ProbeKind::Usdt => format!("{prefix}:FILE:PROVIDER:NAME"),
            ProbeKind::Tprobe => format!("{prefix}:TRACEPOINT"),
            _ if self.of_file() => format!("{prefix}:FILE:FUNCTION"),
            _ => format!("{prefix}:FUNCTION"),
        }
    }

    /// Returns the word for its sort in lists.
    pub fn label(self) -> &'static str {
        match self {
            ProbeKind::Usdt => "usdt",
            ProbeKind::Tprobe => "tprobe",
            _ => "function",
        }
    }

    /// Returns what its name stands for, for messages.
    pub fn noun(self) -> &'static str {
        match self {
            ProbeKind::Usdt => "USDT probe",
            ProbeKind::Tprobe => "tracepoint",
            _ => "function",
        }
    }

    /// Returns the type of its event in tracefs.
    pub fn probe_type(self) -> ProbeType {
        match self {
            ProbeKind::Kprobe | ProbeKind::Kretprobe => ProbeType::Kprobe,
            ProbeKind::Uprobe | ProbeKind::Uretprobe | ProbeKind::Usdt => ProbeType::Uprobe,
            ProbeKind::Fprobe | ProbeKind::Fretprobe => ProbeType::Fprobe,
            ProbeKind::Tprobe => ProbeType::Tprobe,
        }
    }

    /// Returns the PMU whose presence shows that this kernel has such probes; None if the README of
    /// tracefs shows it.
    pub fn pmu(self) -> Option<&'static str> {
        match self.probe_type() {
            ProbeType::Uprobe => Some("uprobe"),
            ProbeType::Kprobe => Some("kprobe"),
            ProbeType::Fprobe | ProbeType::Tprobe => None,
        }
    }

    /// Returns whether its name contains a FILE.
    pub fn of_file(self) -> bool {
        matches!(self, ProbeKind::Uprobe | ProbeKind::Uretprobe | ProbeKind::Usdt)
    }

    /// Returns whether the probe is at the return of the function.
    pub const fn at_return(self) -> bool {
        matches!(self, ProbeKind::Kretprobe | ProbeKind::Uretprobe | ProbeKind::Fretprobe)
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

    /// Returns the instruction that its FUNCTION stands for.
    pub fn location(&self) -> CodeLocation<'_> {
        let text = self.without_paths();
        let is_address = text.starts_with("0x") && self.kind.of_file();
        if let Some(address) = parse_u64(text).filter(|_| is_address) {
            return CodeLocation::Address(address);
        }
        let offset =
            text.rsplit_once('+').and_then(|(name, offset)| Some((name, parse_u64(offset)?)));
        let (name, offset) = offset.unwrap_or((text, 0));
        CodeLocation::Function(name, offset)
    }

    /// Returns the paths of the parameters that are to be read, `len` and `req.user.name`; None if
    /// the name does not list any.
    pub fn paths(&self) -> Option<Vec<&str>> {
        let (_, list) = self.split_paths()?;
        Some(list.split(',').map(str::trim).collect())
    }

    /// Returns FUNCTION without the list of its parameters.
    pub fn without_paths(&self) -> &str {
        self.split_paths().map_or(&*self.function, |(function, _)| function)
    }

    /// Returns FUNCTION if a fetch argument of tracefs follows, as in `f(+0(%di):ustring)`: it
    /// begins with a register, an offset, an immediate value or a special value.
    pub(super) fn before_fetch_argument(&self) -> Option<&str> {
        let (function, list) = self.function.split_once('(')?;
        let value = list.split_once('=').map_or(list, |(_, value)| value).trim_start();
        let begins = value.starts_with(['+', '-', '%', '$', '\\', '@']);
        (begins && self.kind != ProbeKind::Usdt && !function.is_empty()).then_some(function)
    }

    /// Splits `FUNCTION(PATH, …)`. The names of Go's functions have parentheses inside.
    fn split_paths(&self) -> Option<(&str, &str)> {
        let (function, list) = self.function.strip_suffix(')')?.rsplit_once('(')?;
        (!function.is_empty()).then_some((function.trim_end(), list))
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
