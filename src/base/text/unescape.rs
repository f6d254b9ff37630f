//! Reads text as another program wrote it: with escapes, or ended by a NUL.

/// Replaces each escape of the table, from left to right; other backslashes stay.
pub fn unescape(text: &[u8], escapes: &[(&[u8], u8)]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let escape = escapes.iter().find(|(escape, _)| rest.starts_with(escape));
        let (byte, next) = match escape {
            Some((escape, byte)) => (*byte, &rest[escape.len().max(1)..]),
            None => (*first, after),
        };
        plain.push(byte);
        rest = next;
    }
    plain
}

/// Returns text up to its NUL; all of it if there is none.
pub fn until_nul(text: &[u8]) -> &[u8] {
    text.iter().position(|byte| *byte == 0).map_or(text, |end| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_escapes_of_the_table_are_replaced_each_once() {
        let escapes: [(&[u8], u8); 2] = [(b"\\n", b'\n'), (b"\\134", b'\\')];
        for (text, plain) in
            [("a\\nb", "a\nb"), ("\\134n", "\\n"), ("\\t\\", "\\t\\"), ("\\\\n", "\\\n"), ("", "")]
        {
            assert_eq!(unescape(text.as_bytes(), &escapes), plain.as_bytes(), "{text}");
        }
    }

    #[test]
    fn text_ends_at_its_first_nul() {
        assert_eq!(until_nul(b"sh\0\0x"), b"sh");
        assert_eq!(until_nul(b"all"), b"all");
    }
}
