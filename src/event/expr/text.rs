//! Text as Lua source: fields of a record, results of functions, and literals.

use std::fmt::Write as _;

use crate::base::text::unescape::until_nul;

/// A text expression. As in C, text ends at its first NUL.
#[derive(Clone, Debug)]
pub(super) struct TextExpr {
    /// Lua source of a string.
    pub(super) code: String,
    kind: TextKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TextKind {
    Literal(Vec<u8>),
    /// `char[size]` at this offset of the record.
    Field {
        at: usize,
        size: usize,
    },
    Computed,
}

impl TextExpr {
    pub(super) fn literal(bytes: &[u8]) -> TextExpr {
        let text = until_nul(bytes);
        TextExpr { code: quoted(text), kind: TextKind::Literal(text.to_vec()) }
    }

    /// Returns the `char[size]` at offset `at` of the record.
    pub(super) fn field(at: usize, size: usize) -> TextExpr {
        let code = match size {
            16 => format!("text16(s.raw + {at})"),
            _ => format!("fstr(s.raw + {at}, text_len(s.raw + {at}, {size}))"),
        };
        TextExpr { code, kind: TextKind::Field { at, size } }
    }

    pub(super) fn computed(code: String) -> TextExpr {
        TextExpr { code, kind: TextKind::Computed }
    }

    /// Returns the bytes of a literal.
    pub(super) fn known(&self) -> Option<&[u8]> {
        match &self.kind {
            TextKind::Literal(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns a Lua condition: whether both texts are equal.
    pub(super) fn equals(&self, other: &TextExpr) -> String {
        match (&self.kind, &other.kind) {
            (TextKind::Literal(a), TextKind::Literal(b)) => (a == b).to_string(),
            (TextKind::Field { at, size }, TextKind::Literal(text))
            | (TextKind::Literal(text), TextKind::Field { at, size }) => {
                same_bytes(*at, *size, text)
            }
            _ => format!("({} == {})", self.code, other.code),
        }
    }

    /// Returns a Lua condition: whether the whole text matches a glob in the kernel's syntax.
    pub(super) fn matches(&self, glob: &[u8]) -> String {
        let (pattern, length) = (quoted(glob), glob.len());
        match &self.kind {
            TextKind::Field { at, size } => format!(
                "(glob({pattern}, {length}, s.raw + {at}, text_len(s.raw + {at}, {size})) ~= 0)"
            ),
            _ => format!("glob_text({pattern}, {length}, {})", self.code),
        }
    }
}

/// Compares bytes of the record with constants, up to 8 bytes at a time, without creating a string.
fn same_bytes(at: usize, size: usize, text: &[u8]) -> String {
    if text.len() > size {
        return "false".to_owned();
    }
    let mut bytes = text.to_vec();
    bytes.resize(size.min(text.len() + 1), 0);
    let (mut rest, mut at, mut tests) = (&bytes[..], at, Vec::new());
    loop {
        let (test, length) = match *rest {
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
        (rest, at) = (&rest[length..], at + length);
    }
    if tests.is_empty() { "true".to_owned() } else { format!("({})", tests.join(" and ")) }
}

/// Returns a Lua string literal.
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
