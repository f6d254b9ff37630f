//! Parts of the text before the cursor: the string, the event and the word that are being typed.

use crate::event::kind;
use crate::event::selector::Selector;

/// Characters in front of an event's name in a list.
const SEPARATORS: [char; 3] = [',', '|', '{'];

/// Returns the text of the last event of a list, or of the last name joined by `|`: what separates
/// within a filter or attribute does not separate events.
pub(super) fn last_item(text: &str) -> &str {
    let (mut start, mut slashes) = (0, 0);
    for (at, c) in text.char_indices() {
        let next_is_digit = text[at + c.len_utf8()..].starts_with(|c: char| c.is_ascii_digit());
        match c {
            '/' => slashes += 1,
            ',' if slashes >= 2 && !next_is_digit => (start, slashes) = (at + 1, 0),
            _ if slashes == 0 && SEPARATORS.contains(&c) => start = at + 1,
            _ => {}
        }
    }
    &text[start..]
}

/// Returns the modifiers behind the braces of a group at the end of a string.
pub(super) fn modifiers_of_group(text: &str) -> Option<&str> {
    let (_, typed) = text.rsplit_once("}:")?;
    typed.chars().all(kind::is_modifier).then_some(typed)
}

/// Splits `NAME:MODIFIERS` of a counter.
pub(super) fn modifiers_of_counter(item: &str) -> Option<(&str, &str)> {
    let (name, typed) = item.trim_start().split_once(':')?;
    (kind::lookup(name).is_some() && typed.chars().all(kind::is_modifier)).then_some((name, typed))
}

/// Returns the typed modifiers with each further one of `all`.
pub(super) fn with_modifier(typed: &str, all: &str) -> Vec<String> {
    all.chars().filter(|c| !typed.contains(*c)).map(|c| format!("{typed}{c}")).collect()
}

/// Returns the selector at the end of a string whose name begins with a prefix.
pub(super) fn last_prefixed(text: &str) -> Option<&str> {
    // A `,` or `|` in its FILE is quoted, and is not followed by a prefix.
    let starts = text.match_indices(SEPARATORS).map(|(at, _)| at + 1).chain([0]);
    let items = starts.filter_map(|at| text.get(at..)).map(str::trim_start);
    items.filter(|item| kind::prefix_of(item).is_some()).min_by_key(|item| item.len())
}

/// Returns whether a function's name is expected at the end of a filter.
pub(super) fn asks_function(filter: &str) -> bool {
    let test = filter[..filter.len() - word_at_end(filter).len()].trim_end();
    let test = test.strip_suffix("==").or(test.strip_suffix("!="));
    test.is_some_and(|field| field.trim_end().ends_with(".function"))
}

/// Returns the letters, digits and `_` at the end.
pub(super) fn word_at_end(text: &str) -> &str {
    let kept = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
    &text[kept..]
}

/// Returns where an unterminated string begins.
pub(super) fn open_string(text: &str) -> Option<usize> {
    let (mut open, mut escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match (open, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some((quote, _)), c) if c == quote => open = None,
            (None, '"' | '\'') => open = Some((c, at + 1)),
            _ => {}
        }
    }
    open.map(|(_, at)| at)
}

/// Returns the last quoted text that could be an event's name.
pub(super) fn last_event(code: &str) -> Option<String> {
    let texts = code.split(['"', '\'']).skip(1).step_by(2);
    let event = |text: &str| {
        let name = Selector::parse_list(text).ok()?.pop()?.name;
        (name.contains([':', '/']) || kind::lookup(&name).is_some()).then_some(name)
    };
    texts.filter_map(event).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_open_until_its_own_quote() {
        assert_eq!(open_string("probe(\"sched:"), Some(7));
        assert_eq!(open_string("probe(\"a'b\", x"), None);
        assert_eq!(open_string("x = 'a\\'b"), Some(5));
    }

    #[test]
    fn the_event_of_a_handler_is_the_one_named_last() {
        let code = "f(\"a:b\") probe('c:d/x > 1/', function(e) return e";
        assert_eq!(last_event(code).as_deref(), Some("c:d"));
        let code = "probe('uprobe:/usr/bin/bash:readline/arg1 > 0/', function(e) return e";
        assert_eq!(last_event(code).as_deref(), Some("uprobe:/usr/bin/bash:readline"));
        assert_eq!(
            last_event("probe('page-faults', function(e) e").as_deref(),
            Some("page-faults")
        );
        let group = "evsel('{cpu-clock,cs}:S', function(e) return e";
        assert_eq!(last_event(group).as_deref(), Some("cpu-clock"));
        assert_eq!(last_event("print('some text') e"), None);
        for (text, found) in [
            ("a:b,uprobe:/x,y", Some("uprobe:/x,y")),
            ("kprobe:f,uprobe:/x:", Some("uprobe:/x:")),
            ("{cs,kprobe:f", Some("kprobe:f")),
            ("kprobe:f(a,b.c", Some("kprobe:f(a,b.c")),
            ("{mem:jif", Some("mem:jif")),
            ("a:b/x", None),
        ] {
            assert_eq!(last_prefixed(text), found);
        }
        assert_eq!(last_item("{a:b,c:d|e:"), "e:");
        assert_eq!(last_item("{a:b/x > 1 || y/,c:d"), "c:d");
        assert_eq!(last_item("a:b/x > 1 || y,"), "a:b/x > 1 || y,");
        assert_eq!(last_item("a:b//cpus=0,2/,profile/-F 9"), "profile/-F 9");
        assert_eq!(modifiers_of_group("{cs,cycles}:u"), Some("u"));
        assert_eq!(modifiers_of_group("{cs,cycles}:uS,sched"), None);
        assert_eq!(modifiers_of_counter("cycles:p"), Some(("cycles", "p")));
        assert_eq!(modifiers_of_counter("sched:p"), None);
        assert_eq!(with_modifier("u", "Su"), ["uS"]);
        assert_eq!(word_at_end("x + e_1"), "e_1");
        assert!(asks_function("a > 1 && function.function == hrtimer_w"));
        assert!(!asks_function("a == hrtimer_w"));
    }
}
