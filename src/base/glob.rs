//! Globs as the kernel has them: `*`, `?`, `[set]`, `[!set]`, `\` before a character that stands for itself.
//!
//! Tracepoint filters (`comm ~ "nginx*"`), selectors (`sched:*`) and `list` all use this one, so that a
//! glob means the same wherever the kernel or we look at it. The rules are those of `glob_match()` in
//! lib/glob.c: a set may hold ranges, `]` right after the opening stands for itself, and a `[` without
//! its `]` is an ordinary character. The whole text has to match.

/// Whether the text has to be looked at as a glob at all.
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '['])
}

/// Whether `pattern` matches all of `text`. Never takes longer than the product of their lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // The last `*`: where the pattern goes on behind it, and the first byte that it does not swallow yet.
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

/// Where the pattern goes on when its element at `p` matches the byte.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    let next = match *pattern.get(p)? {
        b'?' => p + 1,
        b'[' => match set(pattern, p + 1) {
            Some(set) => return set.contains(byte).then_some(set.end),
            None => return (byte == b'[').then_some(p + 1),
        },
        // A backslash at the very end stands for the end of the text, as in C.
        b'\\' => return (*pattern.get(p + 1)? == byte).then_some(p + 2),
        literal => return (literal == byte).then_some(p + 1),
    };
    Some(next)
}

struct Set<'a> {
    members: &'a [u8],
    inverted: bool,
    /// Behind the `]`.
    end: usize,
}

/// The set whose `[` stands before `start`; None without a closing bracket.
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
    fn a_backslash_takes_the_meaning_away() {
        assert!(glob("a\\*", "a*") && !glob("a\\*", "ab"));
        assert!(!glob("a\\", "a\\"));
    }

    #[test]
    fn many_stars_stay_quick() {
        let pattern = "a*".repeat(40) + "b";
        assert!(!glob(&pattern, &"a".repeat(4000)));
    }

    proptest! {
        #[test]
        fn random_patterns_never_panic(pattern in "[a-c*?\\[\\]!\\\\-]{0,12}", text in "[a-c\\]-]{0,12}") {
            let _ = glob(&pattern, &text);
            let everything = format!("*{}*", text.replace(']', "\\]"));
            prop_assert!(glob(&everything, &text));
        }
    }
}
