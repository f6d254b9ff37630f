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

/// Returns text up to its NUL; all of it if there is none. Tests eight bytes at a time, because
/// each event has several names.
#[inline]
pub fn until_nul(text: &[u8]) -> &[u8] {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let (words, rest) = text.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The lowest bit that is set is that of the first byte that is 0.
        let zeros = word.wrapping_sub(LOW) & !word & (LOW << 7);
        if zeros != 0 {
            return &text[..8 * at + (zeros.trailing_zeros() / 8) as usize];
        }
    }
    let end = rest.iter().position(|byte| *byte == 0);
    end.map_or(text, |end| &text[..8 * words.len() + end])
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
        for (length, end) in (0..24).flat_map(|length| (0..=length).map(move |end| (length, end))) {
            let mut text: Vec<u8> = (0..length).map(|i| [1, 0x80, 0xff, b'x'][i % 4]).collect();
            if end < length {
                text[end] = 0;
                text[length - 1] &= 0x80;
            }
            let expected = text.iter().position(|byte| *byte == 0).unwrap_or(length);
            assert_eq!(until_nul(&text), &text[..expected], "{text:?}");
        }
    }
}
