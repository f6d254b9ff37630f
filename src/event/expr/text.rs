//! Text as Lua source: what a record holds, what a function gives, what was written in quotes.

use std::fmt::Write as _;

/// A text expression. As in C, text ends at its first NUL.
#[derive(Clone, Debug)]
pub(super) struct Text {
    /// Lua source of a string.
    pub(super) code: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Literal(Vec<u8>),
    /// `char[size]` at this place of the record.
    Field {
        at: usize,
        size: usize,
    },
    Computed,
}

impl Text {
    pub(super) fn literal(bytes: &[u8]) -> Text {
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        Text { code: quoted(&bytes[..end]), kind: Kind::Literal(bytes[..end].to_vec()) }
    }

    /// A `char[size]` of the record.
    pub(super) fn field(at: usize, size: usize) -> Text {
        let code = format!("fstr(s.raw + {at}, text_len(s.raw + {at}, {size}))");
        Text { code, kind: Kind::Field { at, size } }
    }

    pub(super) fn computed(code: String) -> Text {
        Text { code, kind: Kind::Computed }
    }

    /// The bytes of what was written in quotes.
    pub(super) fn known(&self) -> Option<&[u8]> {
        match &self.kind {
            Kind::Literal(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A Lua condition: whether both are the same text.
    pub(super) fn equals(&self, other: &Text) -> String {
        match (&self.kind, &other.kind) {
            (Kind::Literal(a), Kind::Literal(b)) => (a == b).to_string(),
            (Kind::Field { at, size }, Kind::Literal(text))
            | (Kind::Literal(text), Kind::Field { at, size }) => same_bytes(*at, *size, text),
            _ => format!("({} == {})", self.code, other.code),
        }
    }

    /// A Lua condition: whether all of it matches a glob of the kernel's kind.
    pub(super) fn matches(&self, glob: &[u8]) -> String {
        let (pattern, length) = (quoted(glob), glob.len());
        match &self.kind {
            Kind::Field { at, size } => format!(
                "(glob({pattern}, {length}, s.raw + {at}, text_len(s.raw + {at}, {size})) ~= 0)"
            ),
            _ => format!("glob_text({pattern}, {length}, {})", self.code),
        }
    }
}

/// Compares bytes in the record with constants, a word at a time: no string is made.
fn same_bytes(at: usize, size: usize, text: &[u8]) -> String {
    if text.len() > size {
        return "false".to_owned();
    }
    let mut bytes = text.to_vec();
    bytes.resize(size.min(text.len() + 1), 0);
    let (mut rest, mut at, mut tests) = (&bytes[..], at, Vec::new());
    loop {
        let (test, taken) = match *rest {
            [a, b, c, d, e, f, g, h, ..] => {
                let word = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
                (format!("cast(I64, s.raw + {at})[0] == 0x{word:x}LL"), 8)
            }
            [a, b, c, d, ..] => {
                let word = i32::from_ne_bytes([a, b, c, d]);
                (format!("cast(I32, s.raw + {at})[0] == {word}"), 4)
            }
            [a, b, ..] => {
                let word = u16::from_ne_bytes([a, b]);
                (format!("cast(U16, s.raw + {at})[0] == {word}"), 2)
            }
            [a] => (format!("cast(U8, s.raw + {at})[0] == {a}"), 1),
            [] => break,
        };
        tests.push(test);
        (rest, at) = (&rest[taken..], at + taken);
    }
    if tests.is_empty() { "true".to_owned() } else { format!("({})", tests.join(" and ")) }
}

/// A Lua string constant.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => {
                let _ = write!(out, "\\{}", char::from(*byte));
            }
            b' '..=b'~' => out.push(char::from(*byte)),
            _ => {
                let _ = write!(out, "\\{byte:03}");
            }
        }
    }
    out.push('"');
    out
}
