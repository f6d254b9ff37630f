//! Escapes messages and lines of text for a terminal.
//!
//! A message is one line. Further lines (a traceback, the place of an error in a filter) are
//! indented by four spaces. Any other line break is escaped, so that foreign text cannot imitate a
//! message.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use super::escape;

/// The indentation of the second and further lines of a message.
const INDENT: &str = "    ";

/// Appends a message, without the final newline.
pub fn push_message(out: &mut Vec<u8>, text: &str) {
    for (i, line) in text.trim_end_matches('\n').split('\n').enumerate() {
        if i > 0 {
            out.extend_from_slice(if line.starts_with(INDENT) { b"\n" } else { b"\\n" });
        }
        push_line(out, line);
    }
}

/// Returns a message as it is written to stderr: `perilune: TEXT` and a newline.
pub fn message(text: &str) -> Vec<u8> {
    let mut out = b"perilune: ".to_vec();
    push_message(&mut out, text);
    out.push(b'\n');
    out
}

/// Appends one line of text, escaped except for tabs.
pub fn push_line(out: &mut Vec<u8>, line: &str) {
    escape::push_shown_but_tabs(out, line.as_bytes());
}

/// Returns the text with its second and further lines indented like those of a message.
pub fn indented(text: &str) -> Cow<'_, str> {
    let text = text.trim_end_matches('\n');
    if !text.contains('\n') {
        return text.into();
    }
    let lines = text.split('\n').enumerate().map(|(i, line)| match i {
        0 => line.to_owned(),
        _ if line.is_empty() || line.starts_with(INDENT) => format!("\n{line}"),
        _ => format!("\n{INDENT}{line}"),
    });
    lines.collect::<String>().into()
}

/// Returns a path for use in a line; newlines are escaped, too.
pub fn path(path: &Path) -> String {
    let mut text = Vec::new();
    escape::push_shown(&mut text, path.as_os_str().as_encoded_bytes());
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the text with each byte that is not UTF-8 written as `\xNN`. All output formats use it.
pub fn utf8(text: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(text) {
        return text.into();
    }
    let mut out = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        out.extend_from_slice(chunk.valid().as_bytes());
        escape::push_bytes_escaped(&mut out, chunk.invalid());
    }
    String::from_utf8_lossy(&out).into_owned().into()
}

/// Returns the bytes of [`utf8`].
pub fn utf8_bytes(text: &[u8]) -> Cow<'_, [u8]> {
    match utf8(text) {
        Cow::Borrowed(text) => text.as_bytes().into(),
        Cow::Owned(text) => text.into_bytes().into(),
    }
}

/// Returns JSON text with [`escape::harmful`] characters written as `\uNNNN`. They occur in its
/// strings only, where JSON allows that.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match escape::harmful(c) {
            // All of them are in the basic plane, so four digits suffice.
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

/// A writer that escapes everything but printable text, newlines and tabs.
pub struct EscapingWriter<W> {
    to: W,
    /// The bytes of an incomplete character.
    begun: Vec<u8>,
}

impl<W: Write> EscapingWriter<W> {
    /// Writes to `to`.
    pub fn new(to: W) -> EscapingWriter<W> {
        EscapingWriter { to, begun: Vec::new() }
    }
}

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&all) {
            // The next write may complete it.
            Err(why) if why.error_len().is_none() => why.valid_up_to(),
            _ => all.len(),
        };
        // After an invalid byte, an incomplete character at the end is not detected, and is
        // escaped.
        self.begun = all.split_off(whole);
        self.to.write_all(&shown(&all))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.begun);
        self.to.write_all(&shown(&rest))?;
        self.to.flush()
    }
}

/// Returns lines of text, escaped.
fn shown(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for (i, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if i > 0 {
            out.push(b'\n');
        }
        escape::push_shown_but_tabs(&mut out, line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_indented_lines_follow_in_a_message() {
        for (text, shown) in [
            (
                "a.lua:1: no\n    a.lua:1: in main chunk\n",
                "a.lua:1: no\n    a.lua:1: in main chunk",
            ),
            ("comm x\nperilune: forged", "comm x\\nperilune: forged"),
            ("\x1b]0;title\x07\tträge", "\\x1b]0;title\\x07\tträge"),
            ("a\r\nb", "a\\r\\nb"),
        ] {
            let mut out = Vec::new();
            push_message(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), shown);
        }
    }

    #[test]
    fn further_lines_are_indented_once() {
        assert_eq!(indented("one"), "one");
        assert_eq!(indented("one\ntwo\n\n    three\n"), "one\n    two\n\n    three");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_escaped_one_by_one() {
        for (text, shown) in [
            (&b"plain"[..], "plain"),
            ("träge\n".as_bytes(), "träge\n"),
            (b"a\xffb", r"a\xffb"),
            (b"\xe2\x82|\xfe", r"\xe2\x82|\xfe"),
        ] {
            assert_eq!(utf8(text), shown);
            assert_eq!(&*utf8_bytes(text), shown.as_bytes());
        }
    }

    #[test]
    fn json_round_trips() {
        let value = serde_json::json!({ "a\u{9b}": "\u{202e}\u{7f}\n\"\\ träge" });
        let text = json(&value.to_string());
        assert!(!text.contains(escape::harmful), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_the_text_is_split(text: String, cut in 0usize..200) {
            let (first, rest) = text.as_bytes().split_at(cut.min(text.len()));
            let mut lines = EscapingWriter::new(Vec::new());
            for part in [first, rest] {
                lines.write_all(part).unwrap();
            }
            lines.flush().unwrap();
            let written = String::from_utf8(lines.to).unwrap();
            prop_assert_eq!(&written, &String::from_utf8(shown(text.as_bytes())).unwrap());
            let harmful = |c: char| !matches!(c, '\n' | '\t') && escape::harmful(c);
            prop_assert!(!written.contains(harmful));
        }
    }
}
