//! The names that functions have as events.
//!
//! A FILE with `:`, `,`, `|`, quotes or blanks in it stands in quotes, of either kind; a FUNCTION is what symbol tables call it.

use std::fmt;

/// Whose function, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The kernel's, when it is called.
    Kprobe,
    /// The kernel's, when it returns.
    Kretprobe,
    /// A program's or library's, when it is called.
    Uprobe,
    /// A program's or library's, when it returns.
    Uretprobe,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Which of the four.
    pub kind: Kind,
    /// The program or library; None is the kernel.
    pub file: Option<String>,
    /// The function, or a glob.
    pub function: String,
}

impl Kind {
    /// All.
    pub const ALL: [Kind; 4] = [Kind::Kprobe, Kind::Kretprobe, Kind::Uprobe, Kind::Uretprobe];

    /// The word in front of the first colon.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Kprobe => "kprobe",
            Kind::Kretprobe => "kretprobe",
            Kind::Uprobe => "uprobe",
            Kind::Uretprobe => "uretprobe",
        }
    }

    /// How it is written.
    pub fn usage(self) -> String {
        format!("{}:{}FUNCTION", self.word(), if self.of_file() { "FILE:" } else { "" })
    }

    /// The PMU that opens it.
    pub fn pmu(self) -> &'static str {
        if self.of_file() { "uprobe" } else { "kprobe" }
    }

    /// Whether a FILE belongs to it.
    pub fn of_file(self) -> bool {
        matches!(self, Kind::Uprobe | Kind::Uretprobe)
    }

    /// Whether it is watched as it returns.
    pub fn at_return(self) -> bool {
        matches!(self, Kind::Kretprobe | Kind::Uretprobe)
    }

    /// The kind that a name or selector begins with, and what stands behind its colon.
    pub fn in_front_of(text: &str) -> Option<(Kind, &str)> {
        let (word, rest) = text.split_once(':')?;
        Some((Kind::ALL.into_iter().find(|kind| kind.word() == word)?, rest))
    }
}

impl Named {
    /// What a name means; None if it is none of a function. FILE and FUNCTION are empty where they are missing.
    pub fn parse(name: &str) -> Option<Named> {
        let (kind, rest) = Kind::in_front_of(name)?;
        let (file, function) = match kind.of_file() {
            true => {
                let (file, behind) = file_in_front_of(rest);
                (Some(file.to_owned()), behind.strip_prefix(':').unwrap_or_default())
            }
            false => (None, rest),
        };
        Some(Named { kind, file, function: function.trim().to_owned() })
    }

    /// The same of another function there.
    pub fn with(&self, function: &str) -> Named {
        Named { function: function.to_owned(), ..self.clone() }
    }
}

/// The FILE that a text begins with, without its quotes, and what stands behind it: a colon, if a FUNCTION follows.
pub fn file_in_front_of(text: &str) -> (&str, &str) {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\''))
        && let Some((file, behind)) = text[1..].split_once(quote)
    {
        return (file, behind);
    }
    text.split_at(text.find([':', ',', '|']).unwrap_or(text.len()))
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.kind.word())?;
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
