//! Membership of bytes in the classes and sets of a pattern.

/// Returns whether a set contains the byte; its `[` is at `p` and its `]` at `end`.
pub(super) fn in_set(byte: u8, pattern: &[u8], p: usize, end: usize) -> bool {
    let item = |at: usize| pattern.get(at).copied().unwrap_or(0);
    let inverted = item(p + 1) == b'^';
    let mut at = p + 1 + usize::from(inverted);
    while at < end {
        let low = item(at);
        let (found, next) = if low == b'%' {
            (in_class(byte, item(at + 1)), at + 2)
        } else if item(at + 1) == b'-' && at + 2 < end {
            ((low..=item(at + 2)).contains(&byte), at + 3)
        } else {
            (low == byte, at + 1)
        };
        if found {
            return !inverted;
        }
        at = next;
    }
    inverted
}

/// Returns whether the byte is in the class `%a`; an upper-case letter inverts the class, and any
/// other character matches itself.
pub(super) fn in_class(byte: u8, class: u8) -> bool {
    let matched = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte == b' ' || (9..=13).contains(&byte),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    matched != class.is_ascii_uppercase()
}
