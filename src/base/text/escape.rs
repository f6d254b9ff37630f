//! Escapes untrusted text (the name of a task, a path, a symbol) for display.
//!
//! The name of a task must not be able to control the terminal. Control characters of ASCII and
//! Latin-1, characters that reorder or break a line, and bytes that are not UTF-8 are therefore
//! written `\xNN`, byte by byte, or `\n`, `\t`, `\r`. In quotes, `"` and `\` are escaped as well,
//! so that quoted text reads back exactly ([`crate::source::replay`] does this).

use super::digits;

/// Returns whether a byte needs no quotes: visible ASCII except `"`, `=` and `\`.
fn plain(byte: u8) -> bool {
    (byte > 0x20) & (byte < 0x7f) & (byte != b'"') & (byte != b'=') & (byte != b'\\')
}

/// Returns whether `test` holds for all bytes; has no early exit so that it can be vectorized.
pub fn all(text: &[u8], test: impl Fn(u8) -> bool) -> bool {
    text.iter().fold(true, |all, byte| all & test(*byte))
}

/// Returns whether a character must be escaped: it is a control character, or breaks or reorders
/// the line.
pub fn harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Appends text without quotes, with harmful characters escaped. Returns its width in characters.
pub fn push_shown(out: &mut Vec<u8>, text: &[u8]) -> usize {
    if all(text, |byte| (0x20..0x7f).contains(&byte)) {
        out.extend_from_slice(text);
        return text.len();
    }
    push_escaped(out, text, false)
}

/// Escapes the text in the buffer from `start` on, as [`push_shown`] does.
pub fn show_from(out: &mut Vec<u8>, start: usize) {
    let written = out.get(start..).unwrap_or_default();
    if !all(written, |byte| (0x20..0x7f).contains(&byte)) {
        let written = out.split_off(start);
        push_escaped(out, &written, false);
    }
}

/// Appends text like [`push_shown`], but keeps tabs.
pub fn push_shown_but_tabs(out: &mut Vec<u8>, text: &[u8]) {
    for (i, part) in text.split(|byte| *byte == b'\t').enumerate() {
        if i > 0 {
            out.push(b'\t');
        }
        push_shown(out, part);
    }
}

/// Escapes text like [`show_from`], but keeps tabs.
pub fn show_but_tabs_from(out: &mut Vec<u8>, start: usize) {
    let written = out.get(start..).unwrap_or_default();
    if !all(written, |byte| (0x20..0x7f).contains(&byte)) {
        let written = out.split_off(start);
        push_shown_but_tabs(out, &written);
    }
}

/// Appends text like [`push_shown`], padded on the left to `width`.
pub fn push_shown_right(out: &mut Vec<u8>, text: &[u8], width: usize) {
    let start = out.len();
    let used = push_shown(out, text);
    if used < width {
        out.resize(out.len() + width - used, b' ');
        out[start..].rotate_right(width - used);
    }
}

/// Appends the value of `name=value`: unquoted if plain, otherwise quoted. Empty text is `""`.
pub fn push_word(out: &mut Vec<u8>, text: &[u8]) {
    if is_plain(text) {
        out.extend_from_slice(text);
    } else {
        push_quoted(out, text);
    }
}

/// Appends text in double quotes.
pub fn push_quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    push_escaped(out, text, true);
    out.push(b'"');
}

/// Returns whether text needs no quotes: it is not empty and has no white space, quotes, `=`, `\`
/// or characters to escape.
pub fn is_plain(text: &[u8]) -> bool {
    if all(text, plain) {
        return !text.is_empty();
    }
    let visible = |c: char| match u8::try_from(c) {
        Ok(byte) if byte < 0x80 => plain(byte),
        _ => !harmful(c) && !c.is_whitespace(),
    };
    std::str::from_utf8(text).is_ok_and(|text| text.chars().all(visible))
}

fn push_escaped(out: &mut Vec<u8>, text: &[u8], quoted: bool) -> usize {
    let mut width = 0;
    let mut utf8 = [0u8; 4];
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            let bytes = c.encode_utf8(&mut utf8).as_bytes();
            if harmful(c) {
                width += push_bytes_escaped(out, bytes);
            } else {
                if quoted && matches!(c, '"' | '\\') {
                    out.push(b'\\');
                    width += 1;
                }
                out.extend_from_slice(bytes);
                width += 1;
            }
        }
        width += push_bytes_escaped(out, chunk.invalid());
    }
    width
}

/// Appends each byte as an escape. Returns the number of characters.
pub fn push_bytes_escaped(out: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let start = out.len();
    for byte in bytes {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\x");
                digits::push_hex_bytes(out, &[*byte]);
            }
        }
    }
    out.len() - start
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn plain_text_is_unquoted_and_other_text_is_quoted() {
        for (word, shown) in [
            (&b"nginx"[..], "nginx"),
            (b"swapper/0", "swapper/0"),
            ("träge".as_bytes(), "träge"),
            (b"", r#""""#),
            (b"two words", r#""two words""#),
            (b"a=b", r#""a=b""#),
            (b"say \"hi\" \\", r#""say \"hi\" \\""#),
            (b"\x1b[31mred", r#""\x1b[31mred""#),
            (b"line\nbreak\t", r#""line\nbreak\t""#),
            (b"\xff\xfe", r#""\xff\xfe""#),
            ("csi \u{9b}2J".as_bytes(), r#""csi \xc2\x9b2J""#),
            ("txt\u{202e}exe".as_bytes(), r#""txt\xe2\x80\xaeexe""#),
        ] {
            assert_eq!(text(|out| push_word(out, word)), shown);
        }
    }

    #[test]
    fn widths_count_characters_as_shown() {
        assert_eq!(text(|out| push_shown_right(out, "träge".as_bytes(), 8)), "   träge");
        assert_eq!(text(|out| push_shown_right(out, b"\x1b", 8)), r"    \x1b");
        assert_eq!(text(|out| push_shown_right(out, b"longer than it", 8)), "longer than it");
    }

    proptest! {
        #[test]
        fn harmful_characters_are_never_shown(bytes: Vec<u8>, string: String) {
            for bytes in [bytes.as_slice(), string.as_bytes()] {
                let shown = text(|out| _ = push_shown(out, bytes));
                let word = text(|out| push_word(out, bytes));
                prop_assert!(!shown.contains(harmful) && !word.contains(harmful));
            }
        }
    }
}
