//! A comma list of names and globs (`nginx,java*,!java-debug`) as a filter in the kernel's language.

use super::quote;
use crate::{base::glob, event::syntax::SyntaxError};

/// The filter that lets `field` be one of the list, and none of those behind a `!`; a list of these alone is everything else.
///
/// A name without `*?[\` is compared whole, which costs the kernel less than a glob. `\,` is a comma within a name.
/// `room` is how many bytes the field has, its terminator included, if that is known.
///
/// # Errors
/// At its place in the list: an empty name, one that the field is too short for, one with both kinds of quotes.
pub fn of_names(field: &str, list: &str, room: Option<usize>) -> Result<String, SyntaxError> {
    let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
    for (start, item) in items(list) {
        let start = start + item.len() - item.trim_start().len();
        let fault = |message: String| Err(SyntaxError::new(list, start, message));
        let (name, not) = match item.trim().strip_prefix('!') {
            Some(name) => (name, true),
            None => (item.trim(), false),
        };
        if name.is_empty() {
            return fault("a name is missing here; names and globs are joined with `,`".into());
        }
        let (least, longest) = (least(name), room.map_or(usize::MAX, |room| room.max(1) - 1));
        if least > longest {
            let cut: String = name.chars().take(longest).collect();
            return fault(match is_plain(name) {
                true => format!("no name here has more than {longest} bytes; cut it: {cut}"),
                false => {
                    format!("no name here has more than {longest} bytes; this asks for {least}")
                }
            });
        }
        let quoted = quote(name).map_err(|why| SyntaxError::new(list, start, why.message))?;
        match (is_plain(name), not) {
            (true, false) => wanted.push(format!("{field} == {quoted}")),
            (false, false) => wanted.push(format!("{field} ~ {quoted}")),
            (true, true) => unwanted.push(format!("{field} != {quoted}")),
            (false, true) => unwanted.push(format!("!({field} ~ {quoted})")),
        }
    }
    let wanted = match wanted.len() {
        0 => None,
        _ if unwanted.is_empty() => Some(wanted.join(" || ")),
        1 => wanted.pop(),
        _ => Some(format!("({})", wanted.join(" || "))),
    };
    Ok(wanted.into_iter().chain(unwanted).collect::<Vec<_>>().join(" && "))
}

/// Whether the list asks for a task of this name; one that only names what it does not want asks for all others.
pub fn asks_for(list: &str, name: &[u8]) -> bool {
    let items = items(list).into_iter().map(|(_, item)| item.trim());
    let mut wanted = items.filter(|item| !item.starts_with('!'));
    let Some(first) = wanted.next() else { return true };
    std::iter::once(first).chain(wanted).any(|item| glob::matches(item.as_bytes(), name))
}

/// Whether it stands for itself.
fn is_plain(name: &str) -> bool {
    !glob::is_glob(name) && !name.contains('\\')
}

/// Bytes of the shortest text that the glob matches.
fn least(name: &str) -> usize {
    let mut rest = name;
    let mut bytes = 0;
    while let Some(first) = rest.chars().next() {
        let one = match first {
            '[' => set_len(rest).unwrap_or(1),
            '\\' => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            _ => first.len_utf8(),
        };
        bytes += match first {
            '*' => 0,
            '[' | '\\' => 1,
            _ => one,
        };
        rest = rest.get(one..).unwrap_or_default();
    }
    bytes
}

/// Bytes of the set that the text begins with, brackets included; None when its bracket is not closed.
fn set_len(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('[')?;
    let inner = inner.strip_prefix('!').unwrap_or(inner);
    // Right behind the opening, a `]` stands for itself.
    let first = inner.chars().next()?.len_utf8();
    let end = first + inner.get(first..)?.find(']')?;
    Some(text.len() - inner.len() + end + 1)
}

/// The parts between commas, each with its place. A comma within a set, or behind a backslash, separates nothing.
fn items(list: &str) -> Vec<(usize, &str)> {
    let (mut items, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(c) = list.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = &list[at..];
        match c {
            ',' => {
                items.push((start, &list[start..at]));
                start = at + 1;
                at += 1;
            }
            '[' => at += set_len(rest).unwrap_or(1),
            '\\' => at += 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            _ => at += c.len_utf8(),
        }
    }
    items.push((start, &list[start..]));
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::filter::Filter;
    use proptest::prelude::*;

    fn filter(list: &str) -> String {
        let text = of_names("comm", list, Some(16)).unwrap();
        Filter::parse(&text).unwrap();
        text
    }

    #[test]
    fn names_are_compared_whole_and_globs_as_globs() {
        assert_eq!(filter("nginx"), r#"comm == "nginx""#);
        assert_eq!(filter("nginx,java*"), r#"comm == "nginx" || comm ~ "java*""#);
        assert_eq!(filter(" a , b? "), r#"comm == "a" || comm ~ "b?""#);
        assert_eq!(filter("kworker/0:1,[a-c]x"), r#"comm == "kworker/0:1" || comm ~ "[a-c]x""#);
    }

    #[test]
    fn what_stands_behind_an_exclamation_mark_is_left_out() {
        assert_eq!(filter("!nginx"), r#"comm != "nginx""#);
        assert_eq!(filter("java*,!java-debug"), r#"comm ~ "java*" && comm != "java-debug""#);
        assert_eq!(
            filter("a,b,!c*,!d"),
            r#"(comm == "a" || comm == "b") && !(comm ~ "c*") && comm != "d""#
        );
    }

    #[test]
    fn a_comma_in_a_set_or_behind_a_backslash_separates_nothing() {
        assert_eq!(filter(r"a\,b"), r#"comm ~ "a\,b""#);
        assert_eq!(filter("a[,;]b,c"), r#"comm ~ "a[,;]b" || comm == "c""#);
        assert_eq!(filter("a[!],]b"), r#"comm ~ "a[!],]b""#);
        assert_eq!(filter("a[b,c"), r#"comm ~ "a[b" || comm == "c""#);
    }

    #[test]
    fn a_name_with_quotes_is_quoted_with_the_other_kind() {
        assert_eq!(filter("it's"), r#"comm == "it's""#);
        assert_eq!(filter("a\"b*"), "comm ~ 'a\"b*'");
    }

    #[test]
    fn faults_stand_at_their_place_in_the_list() {
        let fault = |list| {
            let error = of_names("comm", list, Some(16)).unwrap_err();
            (error.place, error.message)
        };
        assert_eq!(fault("nginx,").0, 6);
        assert_eq!(fault("nginx,,java").0, 6);
        assert_eq!(fault("").1, "a name is missing here; names and globs are joined with `,`");
        assert_eq!(
            fault("a, systemd-resolved"),
            (3, "no name here has more than 15 bytes; cut it: systemd-resolve".into())
        );
        assert_eq!(
            fault("*0123456789[ab]cdef?"),
            (0, "no name here has more than 15 bytes; this asks for 16".into())
        );
        assert!(fault("a,it's \"so\"").1.starts_with("a text with both kinds of quotes"));
    }

    #[test]
    fn a_field_of_unknown_room_takes_any_name() {
        assert!(of_names("filename", "/usr/lib/systemd/systemd-resolved", None).is_ok());
    }

    proptest! {
        #[test]
        fn any_list_is_a_filter_or_a_fault(list in "[a-c*?!,\\[\\]\\\\ \"'é]{0,30}") {
            if let Ok(text) = of_names("comm", &list, Some(16)) {
                prop_assert!(Filter::parse(&text).is_ok(), "{}", text);
            }
        }
    }
}
