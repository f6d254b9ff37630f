//! Splits a C expression into tokens with their byte ranges.

use super::types::Int;
use crate::base::text::fault::Fault;

/// A token and its byte range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) end: usize,
    pub(super) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Number(u64, Int),
    Text(Vec<u8>),
    Name(String),
    /// An operator or a bracket.
    Mark(&'static str),
}

/// Longest first.
const MARKS: [&str; 37] = [
    "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "->", "(", ")", "[", "]", "{", "}",
    "+", "-", "*", "/", "%", "<", ">", "!", "~", "&", "^", "|", "?", ":", ",", ".", ";", "=", "#",
    "@",
];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.as_bytes().get(at) {
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let rest = &text[at..];
        let (kind, len) = match byte {
            b'0'..=b'9' => number(rest).map_err(|why| Fault::new(at, why))?,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                (TokenKind::Name(rest[..len].to_owned()), len)
            }
            b'"' => {
                let (text, len) = quoted(rest, b'"').map_err(|why| Fault::new(at, why))?;
                (TokenKind::Text(text), len)
            }
            b'\'' => {
                let (text, len) = quoted(rest, b'\'').map_err(|why| Fault::new(at, why))?;
                let [byte] = text[..] else {
                    return Err(Fault::new(
                        at,
                        "a character constant has one character; write text as \"…\"",
                    ));
                };
                (TokenKind::Number(Int::CHAR.wrap(u64::from(byte)), Int::INT), len)
            }
            _ => {
                let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) else {
                    let odd = rest.chars().next().unwrap_or(' ');
                    return Err(Fault::new(at, format!("`{odd}` is not valid in an expression")));
                };
                (TokenKind::Mark(mark), mark.len())
            }
        };
        let end = at + len;
        match (tokens.last_mut(), kind) {
            // Join adjacent strings.
            (
                Some(Token { end: last, kind: TokenKind::Text(before), .. }),
                TokenKind::Text(more),
            ) => {
                before.extend(more);
                *last = end;
            }
            (_, kind) => tokens.push(Token { at, end, kind }),
        }
        at = end;
    }
    Ok(tokens)
}

/// Parses an integer constant; its type is the first that fits, as in C.
fn number(rest: &str) -> Result<(TokenKind, usize), String> {
    let len = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let (word, behind) = rest.split_at(len);
    let is_fraction =
        behind.starts_with('.') && behind[1..].starts_with(|c: char| c.is_ascii_digit());
    if is_fraction {
        return Err("expressions support only whole numbers".to_owned());
    }
    let lower = word.to_ascii_lowercase();
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (&lower[..], 10),
    };
    let body = digits.trim_end_matches(['u', 'l']);
    let suffix = &digits[body.len()..];
    let bad_suffix = !matches!(suffix, "" | "u" | "l" | "ul" | "lu" | "ll" | "ull" | "llu");
    // `0u` and `0l` have no digits after the octal prefix.
    let value =
        if body.is_empty() && radix == 8 { Ok(0) } else { u64::from_str_radix(body, radix) };
    let value = value.map_err(|why| match why.kind() {
        std::num::IntErrorKind::PosOverflow => format!("`{word}` does not fit in 64 bits"),
        _ => format!("`{word}` is not a number"),
    })?;
    if bad_suffix {
        return Err(format!("`{word}` is not a number"));
    }
    let (unsigned, long) = (suffix.contains('u'), suffix.contains('l'));
    let fits = |int: Int| {
        let bits = u32::from(int.bits) - u32::from(int.signed);
        (int.bits == 64 || !long)
            && (!int.signed || !unsigned)
            && (int.signed || unsigned || radix != 10)
            && value.checked_shr(bits).unwrap_or(0) == 0
    };
    let all = [Int::INT, Int::UINT, Int::LONG, Int::ULONG];
    let int = all.into_iter().find(|int| fits(*int)).unwrap_or(Int::ULONG);
    Ok((TokenKind::Number(value, int), len))
}

/// Parses a string or character constant at the start of `rest`. Returns it and its length in
/// bytes.
fn quoted(rest: &str, quote: u8) -> Result<(Vec<u8>, usize), &'static str> {
    let bytes = rest.as_bytes();
    let (mut text, mut at) = (Vec::new(), 1);
    loop {
        match bytes.get(at) {
            None => return Err("this quote is not closed"),
            Some(b) if *b == quote => return Ok((text, at + 1)),
            Some(b'\\') => {
                let (byte, len) = escape(bytes.get(at + 1..).unwrap_or_default())
                    .ok_or("unknown escape sequence; write `\\\\` for a backslash")?;
                text.push(byte);
                at += 1 + len;
            }
            Some(b) => {
                text.push(*b);
                at += 1;
            }
        }
    }
}

/// Parses the characters after a backslash. Returns the byte and their number.
fn escape(bytes: &[u8]) -> Option<(u8, usize)> {
    let digits = |radix: u32, most: usize, from: usize| {
        let all = bytes.get(from..).unwrap_or_default();
        let len = all.iter().take(most).take_while(|b| char::from(**b).is_digit(radix)).count();
        let value = all[..len]
            .iter()
            .fold(0u32, |value, b| value * radix + char::from(*b).to_digit(radix).unwrap_or(0));
        (len > 0).then_some((value as u8, from + len))
    };
    Some(match bytes.first()? {
        b'n' => (b'\n', 1),
        b't' => (b'\t', 1),
        b'r' => (b'\r', 1),
        b'a' => (7, 1),
        b'b' => (8, 1),
        b'f' => (12, 1),
        b'v' => (11, 1),
        b'e' => (27, 1),
        b'x' => return digits(16, 2, 1),
        b'0'..=b'7' => return digits(8, 3, 0),
        other if other.is_ascii_punctuation() => (*other, 1),
        _ => return None,
    })
}
