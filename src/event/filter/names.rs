//! Translates a comma-separated list of names and globs (`nginx,java*,!java-debug`) to a filter in
//! the kernel's language.

use super::quote;
use crate::{base::matching::glob, event::syntax::SyntaxError};

/// Returns a filter that passes if `field` matches an item of the list and no item with a `!`. A
/// list of `!` items only passes everything else.
///
/// A name without `*?[\` is compared whole, which costs the kernel less than a glob. `\,` is a
/// comma within a name. `room` is the size of the field in bytes, terminator included, if known.
///
/// # Errors
/// An empty name, a name that is too long for the field, or a name with both kinds of quotes or a
/// NUL, with its position in the list.
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
                true => format!("a name has at most {longest} bytes; shorten it: {cut}"),
                false => {
                    format!(
                        "a name has at most {longest} bytes; this glob matches at least {least}"
                    )
                }
            });
        }
        let quoted = quote(name).map_err(|why| SyntaxError::new(list, start, why.fault.message))?;
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

/// Returns whether an item of the list matches the name of a task. Ignores `!` items; a list of
/// `!` items only matches every name.
pub fn list_matches(list: &str, name: &[u8]) -> bool {
    let items = items(list).into_iter().map(|(_, item)| item.trim());
    let mut wanted = items.filter(|item| !item.starts_with('!'));
    let Some(first) = wanted.next() else { return true };
    std::iter::once(first).chain(wanted).any(|item| glob::matches(item.as_bytes(), name))
}

/// Returns whether the name contains neither glob characters nor backslashes.
fn is_plain(name: &str) -> bool {
    !glob::is_glob(name) && !name.contains('\\')
}

/// Returns the length in bytes of the shortest text that the glob matches.
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

/// Returns the length in bytes of the set that the text begins with, brackets included; None if its
/// bracket is not closed.
fn set_len(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('[')?;
    let inner = inner.strip_prefix('!').unwrap_or(inner);
    // Directly behind the opening bracket, a `]` stands for itself.
    let first = inner.chars().next()?.len_utf8();
    let end = first + inner.get(first..)?.find(']')?;
    Some(text.len() - inner.len() + end + 1)
}

/// Returns the items between commas, each with its offset. A comma within a set or behind a
/// backslash does not separate items.
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
    fn names_behind_an_exclamation_mark_are_excluded() {
        assert_eq!(filter("!nginx"), r#"comm != "nginx""#);
        assert_eq!(filter("java*,!java-debug"), r#"comm ~ "java*" && comm != "java-debug""#);
        assert_eq!(
            filter("a,b,!c*,!d"),
            r#"(comm == "a" || comm == "b") && !(comm ~ "c*") && comm != "d""#
        );
    }

    #[test]
    fn a_comma_in_a_set_or_behind_a_backslash_does_not_separate_names() {
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
    fn an_error_has_its_position_in_the_list() {
        let fault = |list| {
            let error = of_names("comm", list, Some(16)).unwrap_err();
            (error.fault.at, error.fault.message)
        };
        assert_eq!(fault("nginx,").0, 6);
        assert_eq!(fault("nginx,,java").0, 6);
        assert_eq!(fault("").1, "a name is missing here; names and globs are joined with `,`");
        assert_eq!(
            fault("a, systemd-resolved"),
            (3, "a name has at most 15 bytes; shorten it: systemd-resolve".into())
        );
        assert_eq!(
            fault("*0123456789[ab]cdef?"),
            (0, "a name has at most 15 bytes; this glob matches at least 16".into())
        );
        assert!(fault("a,it's \"so\"").1.starts_with("text with both kinds of quotes"));
    }

    #[test]
    fn a_field_of_unknown_size_accepts_any_name() {
        assert!(of_names("filename", "/usr/lib/systemd/systemd-resolved", None).is_ok());
    }

    proptest! {
        #[test]
        fn any_list_yields_a_filter_or_an_error(list in "[a-c*?!,\\[\\]\\\\ \"'é]{0,30}") {
            if let Ok(text) = of_names("comm", &list, Some(16)) {
                prop_assert!(Filter::parse(&text).is_ok(), "{}", text);
            }
        }
    }
}
