//! Colours a line of Lua: keywords, strings, numbers, comments.

use crate::base::text::lua::KEYWORDS;
use std::borrow::Cow;

const WORD: &str = "\x1b[1;35m";
const TEXT: &str = "\x1b[32m";
const NUMBER: &str = "\x1b[36m";
const COMMENT: &str = "\x1b[2m";
const COMMAND: &str = "\x1b[1;34m";
const PLAIN: &str = "\x1b[0m";

/// Returns the line with escape sequences, which take no columns.
pub(super) fn line(line: &str) -> Cow<'_, str> {
    let mut out = String::with_capacity(line.len() * 2);
    let mut rest = line;
    if line.starts_with(':') {
        let end = line.find(' ').unwrap_or(line.len());
        painted(&mut out, COMMAND, &line[..end]);
        out.push_str(&line[end..]);
        return Cow::Owned(out);
    }
    while let Some(first) = rest.chars().next() {
        let (length, colour) = token(rest, first);
        let (head, tail) = rest.split_at(length);
        match colour {
            Some(colour) => painted(&mut out, colour, head),
            None => out.push_str(head),
        }
        rest = tail;
    }
    Cow::Owned(out)
}

fn painted(out: &mut String, colour: &str, text: &str) {
    out.push_str(colour);
    out.push_str(text);
    out.push_str(PLAIN);
}

/// Returns the length of the next token in bytes, and its colour.
fn token(text: &str, first: char) -> (usize, Option<&'static str>) {
    let run = |is: fn(char) -> bool| text.find(|c| !is(c)).unwrap_or(text.len());
    let of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match first {
        '"' | '\'' => (quoted(text, first), Some(TEXT)),
        '-' if text.starts_with("--") => (text.find('\n').unwrap_or(text.len()), Some(COMMENT)),
        '0'..='9' => (run(|c| c.is_ascii_alphanumeric() || c == '.'), Some(NUMBER)),
        c if of_word(c) => {
            let length = run(|c| c.is_ascii_alphanumeric() || c == '_');
            (length, KEYWORDS.contains(&&text[..length]).then_some(WORD))
        }
        c => (c.len_utf8(), None),
    }
}

/// Returns the length of a string up to its closing quote.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_are_added() {
        for text in ["f('a\\'b', 12) -- x", "local é = \"", ":doc kv", "if x then\n\"y\" end"] {
            let mut coloured = line(text).into_owned();
            for colour in [WORD, TEXT, NUMBER, COMMENT, COMMAND, PLAIN] {
                coloured = coloured.replace(colour, "");
            }
            assert_eq!(coloured, text);
        }
        assert_eq!(line("end"), format!("{WORD}end{PLAIN}"));
    }
}
