//! Globs with the kernel's syntax: `*`, `?`, `[set]`, `[!set]`, `\` before a literal character.
//!
//! Tracepoint filters (`comm ~ "nginx*"`), selectors (`sched:*`) and `list` all use this matcher,
//! so a glob means the same in the kernel and in user space. The rules are those of `glob_match()`
//! in lib/glob.c: a set may contain ranges, `]` directly after the opening bracket is literal, and
//! a `[` without its `]` is an ordinary character. A glob must match the whole text.

/// Returns whether the text contains glob characters.
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

/// Returns whether a name matches a glob, or contains a pattern that is not one.
pub fn matches_or_contains(pattern: &str, name: &str) -> bool {
    match is_glob(pattern) {
        true => matches(pattern.as_bytes(), name.as_bytes()),
        false => name.contains(pattern),
    }
}

/// Returns whether `pattern` matches all of `text`. The time is bounded by the product of their
/// lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The last `*`: the pattern position after it, and the first byte of the text that it does not
    // cover yet.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
            continue;
        }
        let next = text.get(t).and_then(|byte| one(pattern, p, *byte));
        match (next, star) {
            (Some(next), _) => {
                p = next;
                t += 1;
            }
            (None, _) if t == text.len() => return p == pattern.len(),
            (None, Some((behind, swallowed))) => {
                star = Some((behind, swallowed + 1));
                p = behind;
                t = swallowed + 1;
            }
            (None, None) => return false,
        }
    }
}

/// Returns the pattern position after the element at `p` if that element matches the byte.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    let next = match *pattern.get(p)? {
        b'?' => p + 1,
        b'[' => match set(pattern, p + 1) {
            Some(set) => return set.contains(byte).then_some(set.end),
            None => return (byte == b'[').then_some(p + 1),
        },
        // A backslash at the end of the pattern matches only the end of the text, as in C.
        b'\\' => return (*pattern.get(p + 1)? == byte).then_some(p + 2),
        literal => return (literal == byte).then_some(p + 1),
    };
    Some(next)
}

struct Set<'a> {
    members: &'a [u8],
    inverted: bool,
    /// Position after the `]`.
    end: usize,
}

/// Returns the set whose `[` is directly before `start`; None without a closing bracket.
fn set(pattern: &[u8], start: usize) -> Option<Set<'_>> {
    let inverted = pattern.get(start) == Some(&b'!');
    let first = start + usize::from(inverted);
    let length = pattern.get(first + 1..)?.iter().position(|b| *b == b']')? + 1;
    Some(Set { members: &pattern[first..first + length], inverted, end: first + length + 1 })
}

impl Set<'_> {
    fn contains(&self, byte: u8) -> bool {
        let mut rest = self.members;
        let mut found = false;
        while let Some((&low, tail)) = rest.split_first() {
            (found, rest) = match tail {
                [b'-', high, tail @ ..] => (found || (low..=*high).contains(&byte), tail),
                _ => (found || low == byte, tail),
            };
        }
        found != self.inverted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn glob(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes())
    }

    #[test]
    fn the_whole_text_has_to_match() {
        assert!(glob("sched", "sched"));
        assert!(!glob("sched", "sched_switch"));
        assert!(!glob("sched", "xsched"));
        assert!(glob("", "") && !glob("", "a") && glob("*", ""));
    }

    #[test]
    fn stars_and_question_marks_match_text_and_one_byte() {
        assert!(glob("sched:sched_wak*", "sched:sched_wakeup_new"));
        assert!(glob("*wake*new", "sched:sched_wakeup_new"));
        assert!(glob("a*b*c", "aXbXbXc") && !glob("a*b*c", "aXbXbX"));
        assert!(glob("a?c", "abc") && !glob("a?c", "ac"));
        assert!(glob("**", "x") && glob("*?", "x") && !glob("*?", ""));
    }

    #[test]
    fn sets_have_ranges_and_an_inverse() {
        assert!(glob("cpu[0-3]", "cpu2") && !glob("cpu[0-3]", "cpu4"));
        assert!(glob("[!a-c]x", "dx") && !glob("[!a-c]x", "bx"));
        assert!(glob("[]]", "]") && glob("[]-a]", "^"));
        assert!(glob("[a-]", "-") && glob("[a-]", "a"));
        assert!(glob("[ab", "[ab") && !glob("[ab", "a"));
    }

    #[test]
    fn a_backslash_escapes_the_next_character() {
        assert!(glob("a\\*", "a*") && !glob("a\\*", "ab"));
        assert!(!glob("a\\", "a\\"));
    }

    #[test]
    fn many_stars_match_in_bounded_time() {
        let pattern = "a*".repeat(40) + "b";
        assert!(!glob(&pattern, &"a".repeat(4000)));
    }

    proptest! {
        #[test]
        fn random_patterns_never_panic(
            pattern in "[a-c*?\\[\\]!\\\\-]{0,12}",
            text in "[a-c\\]-]{0,12}",
        ) {
            let _ = glob(&pattern, &text);
            let everything = format!("*{}*", text.replace(']', "\\]"));
            prop_assert!(glob(&everything, &text));
        }
    }
}
