//! Parses the bytes that a terminal sends into keys. Any bytes are accepted.
//!
//! An escape at the end of the input is the Escape key; otherwise it begins a sequence (ECMA-48,
//! and those of xterm and the Linux console). Unknown sequences are ignored.

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Left,
    Right,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Tab,
    Enter,
    Escape,
    Backspace,
    /// Ctrl-L.
    Redraw,
    /// Ctrl-Z.
    Suspend,
}

/// Maximum number of parameter bytes of an incomplete sequence. No key has more, and a terminal
/// could send them without end.
const PARAMETERS: usize = 32;

/// Removes the keys from `typed` and returns them. An incomplete sequence or character stays for
/// the next call.
pub(super) fn take(typed: &mut Vec<u8>) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = &typed[..];
    while let Some((key, used)) = first(rest) {
        keys.extend(key);
        rest = rest.get(used..).unwrap_or_default();
    }
    let left = rest.len();
    typed.drain(..typed.len() - left);
    keys
}

/// Returns the first key, if the bytes are one, and their number; None if more bytes are needed.
fn first(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let key = |key| Some((Some(key), 1));
    match *bytes.first()? {
        0x1b => escape(bytes),
        b'\t' => key(Key::Tab),
        b'\r' | b'\n' => key(Key::Enter),
        0x08 | 0x7f => key(Key::Backspace),
        0x0c => key(Key::Redraw),
        0x1a => key(Key::Suspend),
        0..0x20 => Some((None, 1)),
        _ => character(bytes),
    }
}

fn escape(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let Some((&kind, body)) = bytes.get(1..).and_then(<[u8]>::split_first) else {
        return Some((Some(Key::Escape), 1));
    };
    if !matches!(kind, b'[' | b'O') {
        return Some((Some(Key::Escape), 1));
    }
    // Parameter and intermediate bytes, then a final byte.
    let parameters = body.iter().take_while(|byte| (0x20..0x40).contains(*byte)).count();
    let last = match body.get(parameters) {
        Some(last) => *last,
        None if parameters > PARAMETERS => return Some((None, 2 + parameters)),
        None => return None,
    };
    let key = match (last, body.get(..parameters).unwrap_or_default()) {
        (b'A', _) => Some(Key::Up),
        (b'B', _) => Some(Key::Down),
        (b'C', _) => Some(Key::Right),
        (b'D', _) => Some(Key::Left),
        (b'H', _) | (b'~', b"1" | b"7") => Some(Key::Home),
        (b'F', _) | (b'~', b"4" | b"8") => Some(Key::End),
        (b'~', b"5") => Some(Key::PageUp),
        (b'~', b"6") => Some(Key::PageDown),
        _ => None,
    };
    Some((key, 2 + parameters + 1))
}

fn character(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let chunk = bytes.utf8_chunks().next()?;
    match chunk.valid().chars().next() {
        Some(c) => Some((Some(Key::Char(c)).filter(|_| !c.is_control()), c.len_utf8())),
        // Waits for the rest of a character that was split by the read; drops bytes that cannot
        // become one.
        None if chunk.invalid().len() == bytes.len() && bytes.len() < 4 => None,
        None => Some((None, chunk.invalid().len().max(1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(typed: &[u8]) -> (Vec<Key>, Vec<u8>) {
        let mut typed = typed.to_vec();
        (take(&mut typed), typed)
    }

    #[test]
    fn arrows_of_both_modes_and_pages_are_keys() {
        use Key::*;
        let (keys, rest) = keys(b"\x1b[A\x1bOB\x1b[1;5C\x1b[D\x1b[5~\x1b[6~\x1b[H\x1b[4~\x1b[15~q");
        assert_eq!(keys, [Up, Down, Right, Left, PageUp, PageDown, Home, End, Char('q')]);
        assert_eq!(rest, b"");
    }

    #[test]
    fn an_escape_at_the_end_is_the_key_and_a_sequence_waits_for_its_end() {
        assert_eq!(keys(b"a\x1b"), (vec![Key::Char('a'), Key::Escape], vec![]));
        assert_eq!(keys(b"\x1bq"), (vec![Key::Escape, Key::Char('q')], vec![]));
        assert_eq!(keys(b"\x1b[1;"), (vec![], b"\x1b[1;".to_vec()));
    }

    #[test]
    fn an_endless_sequence_is_discarded() {
        let mut typed = b"\x1b[".to_vec();
        for _ in 0..1000 {
            typed.push(b';');
            take(&mut typed);
            assert!(typed.len() <= 2 + PARAMETERS, "{} bytes wait", typed.len());
        }
        let long = [b"\x1b[".as_slice(), &[b';'; 1000], b"mq"].concat();
        assert_eq!(keys(&long), (vec![Key::Char('q')], vec![]));
    }

    #[test]
    fn a_character_of_several_bytes_is_one_key() {
        assert_eq!(keys("é语".as_bytes()), (vec![Key::Char('é'), Key::Char('语')], vec![]));
        assert_eq!(keys(&"语".as_bytes()[..2]), (vec![], "语".as_bytes()[..2].to_vec()));
        assert_eq!(keys(b"\xff\xfex"), (vec![Key::Char('x')], vec![]));
    }

    #[test]
    fn any_bytes_leave_at_most_three_unread() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let (_, rest) = keys(&[first, second, 0x1b, b'[', 0x80, b'~', 0xe8]);
                assert!(rest.len() <= 3, "{first} {second} left {rest:?}");
            }
        }
    }
}
