//! Completions of the text before the cursor.

use super::Session;
use super::console::Completions;
use super::requests::found;
use crate::base::text::escape;
use crate::base::text::lua::KEYWORDS;
use crate::event::kind;
use crate::event::kind::function::{FunctionName, ProbeKind, split_file};
use crate::event::selector::{BUILTIN, Selector};
use crate::run::catalog::MachineCatalog;
use crate::script::evsel::fields::all_of_the_sample;
use crate::script::load::doc;
use crate::script::load::library::Script;
use crate::script::load::source;
use std::path::PathBuf;

/// Commands after a colon at the beginning of a line.
const COLON: [&str; 9] =
    [":clear", ":cost", ":doc ", ":events ", ":fields ", ":jobs", ":lost", ":save ", ":stop "];

/// Characters in front of an event's name in a list.
const SEPARATORS: [char; 3] = [',', '|', '{'];

/// Limit of completions that a person can look through.
const MOST: usize = 500;

/// Returns the completions of the end of `before`.
pub(super) fn complete(session: &Session<'_>, before: &str) -> Completions {
    let (start, mut names) = candidates(session, before);
    let typed = before.get(start..).unwrap_or_default();
    // A name that must be escaped for display cannot be typed either.
    names.retain(|name| name.starts_with(typed) && !name.contains(escape::harmful));
    names.sort();
    names.dedup();
    names.truncate(MOST);
    (start, names)
}

fn candidates(session: &Session<'_>, before: &str) -> Completions {
    if before.starts_with(':') {
        return match before.split_once(' ') {
            None => (0, COLON.map(str::to_owned).to_vec()),
            Some((":doc", rest)) => (before.len() - rest.len(), doc::names()),
            Some((":events" | ":fields", rest)) if kind::prefix_of(rest).is_some() => {
                in_prefixed(session, before, rest)
            }
            Some((":events" | ":fields", rest)) => {
                (before.len() - rest.len(), events(session, rest))
            }
            Some((_, rest)) => (before.len() - rest.len(), Vec::new()),
        };
    }
    match open_string(before) {
        Some(at) => in_string(session, before, at),
        None => in_code(session, before),
    }
}

fn in_string(session: &Session<'_>, before: &str, at: usize) -> Completions {
    let (code, text) = (before[..at - 1].trim_end(), &before[at..]);
    if code.ends_with("run")
        || code.ends_with("run(")
        || code.ends_with("load")
        || code.ends_with("load(")
    {
        let all = session.monitors.library.all().into_iter().map(|script| script.name);
        return (at, all.collect());
    }
    if text.starts_with(['/', '.', '~']) {
        return (at, files(text));
    }
    if code.ends_with("evsel.from") || code.ends_with("evsel.from(") {
        return (at, sources(session).collect());
    }
    if code.ends_with("kaddr") || code.ends_with("kaddr(") {
        return (at, kernel_symbols(text, |_| true));
    }
    if let Some(typed) = modifiers_of_group(text) {
        return (before.len() - typed.len(), with_modifier(typed, "SWuk"));
    }
    if let Some(item) = last_prefixed(text) {
        return in_prefixed(session, before, item);
    }
    let item = last_item(text);
    if let Some((name, typed)) = modifiers_of_counter(item) {
        let mut all = with_modifier(typed, "ukhGHIpPDe");
        all.retain(|one| session.source.catalog().describe(&format!("{name}:{one}")).is_ok());
        return (before.len() - typed.len(), all);
    }
    match item.split_once('/') {
        // `field.function == NAME` of a filter takes a function of the kernel.
        Some((_, filter)) if asks_function(filter) => {
            (before.len() - word_at_end(filter).len(), kernel_functions(word_at_end(filter)))
        }
        Some((name, words)) if is_source(session, name) => {
            let typed = words.rsplit([' ', '/']).next().unwrap_or_default();
            (before.len() - typed.len(), options_of_source(session, name))
        }
        Some((pmu, _)) if MachineCatalog::has_pmu(pmu) => {
            (before.len() - item.len(), MachineCatalog::pmu_events())
        }
        // Otherwise, the fields of the event before the filter, or the attributes behind it.
        Some((event, filter)) => {
            let start = before.len() - word_at_end(filter).len();
            let is_counter = kind::lookup(event.split(':').next().unwrap_or_default()).is_some();
            match is_counter || filter.contains('/') {
                true => (start, attributes()),
                false => (start, fields(session, event)),
            }
        }
        None => (before.len() - item.len(), events(session, item)),
    }
}

/// Returns the text of the last event of a list, or of the last name joined by `|`: what separates
/// within a filter or attribute does not separate events.
fn last_item(text: &str) -> &str {
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
fn modifiers_of_group(text: &str) -> Option<&str> {
    let (_, typed) = text.rsplit_once("}:")?;
    typed.chars().all(kind::is_modifier).then_some(typed)
}

/// Splits `NAME:MODIFIERS` of a counter.
fn modifiers_of_counter(item: &str) -> Option<(&str, &str)> {
    let (name, typed) = item.trim_start().split_once(':')?;
    (kind::lookup(name).is_some() && typed.chars().all(kind::is_modifier)).then_some((name, typed))
}

/// Returns the typed modifiers with each further one of `all`.
fn with_modifier(typed: &str, all: &str) -> Vec<String> {
    all.chars().filter(|c| !typed.contains(*c)).map(|c| format!("{typed}{c}")).collect()
}

/// Returns the attributes of every selector, as typed.
fn attributes() -> Vec<String> {
    let value = |name: &str| if name == "stack" { String::new() } else { "=".to_owned() };
    BUILTIN.iter().map(|name| format!("{name}{}", value(name))).collect()
}

/// Returns the selector at the end of a string whose name begins with a prefix.
fn last_prefixed(text: &str) -> Option<&str> {
    // A `,` or `|` in its FILE is quoted, and is not followed by a prefix.
    let starts = text.match_indices(SEPARATORS).map(|(at, _)| at + 1).chain([0]);
    let items = starts.filter_map(|at| text.get(at..)).map(str::trim_start);
    items.filter(|item| kind::prefix_of(item).is_some()).min_by_key(|item| item.len())
}

/// Completes the name of a function, or that of another kind that is looked up.
fn in_prefixed(session: &Session<'_>, before: &str, item: &str) -> Completions {
    if ProbeKind::split_prefix(item).is_some() {
        return in_function(session, before, item);
    }
    let start = before.len() - item.len();
    let found = session.source.catalog().look_up(item, usize::MAX).ok().flatten();
    let mut names = found.map_or(Vec::new(), |found| found.names);
    if let Some((_, rest)) = kind::prefix_of(item).filter(|(_, rest)| !rest.contains(':')) {
        let file = |file| format!("{}{file}", &item[..item.len() - rest.len()]);
        names.extend(programs(rest).into_iter().map(file));
    }
    (start, names)
}

/// Completes a FILE, a function, or a field of a function's event.
fn in_function(session: &Session<'_>, before: &str, item: &str) -> Completions {
    let Some((kind, rest)) = ProbeKind::split_prefix(item) else {
        return (before.len(), Vec::new());
    };
    let mut function = rest;
    if kind.of_file() {
        let (file, behind) = split_file(rest);
        match behind.strip_prefix(':') {
            Some(behind) => function = behind,
            None => return (before.len() - rest.len(), programs(file)),
        }
    }
    if let Some((_, filter)) = function.split_once('/') {
        let event = &item[..item.len() - filter.len()];
        return (before.len() - word_at_end(filter).len(), fields(session, event));
    }
    let Some(named) = FunctionName::parse(item) else { return (before.len(), Vec::new()) };
    let glob = named.with(&format!("{function}*"));
    let found = session.source.catalog().functions(&glob, MOST).unwrap_or_default();
    let names = found.into_iter().map(|named| named.function).collect();
    (before.len() - function.len(), names)
}

/// Returns files by path, and programs in `$PATH`.
fn programs(typed: &str) -> Vec<String> {
    if typed.contains('/') || typed.starts_with('.') {
        return files(typed);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let in_folder = |folder: PathBuf| files(&format!("{}/{typed}", folder.display()));
    let found = std::env::split_paths(&folders).flat_map(in_folder);
    let name = |path: String| Some(path.rsplit_once('/')?.1.to_owned());
    let found = found.filter_map(name).filter(|name| name.starts_with(typed) && !name.is_empty());
    ["/".to_owned(), "./".to_owned()].into_iter().chain(found).collect()
}

fn in_code(session: &Session<'_>, before: &str) -> Completions {
    let word = word_at_end(before);
    let start = before.len() - word.len();
    let code = &before[..start];
    let Some(owner) = code.strip_suffix(['.', ':']) else {
        let words = session.prompt.names("").into_iter();
        return (start, words.chain(KEYWORDS.map(str::to_owned)).collect());
    };
    let owner = word_at_end(owner);
    let parameter = before.contains(&format!("function({owner})"));
    match last_event(code).filter(|_| parameter && code.ends_with('.')) {
        Some(event) => (start, fields(session, &event)),
        None => (start, session.prompt.names(owner)),
    }
}

/// Returns whether a function's name is expected at the end of a filter.
fn asks_function(filter: &str) -> bool {
    let test = filter[..filter.len() - word_at_end(filter).len()].trim_end();
    let test = test.strip_suffix("==").or(test.strip_suffix("!="));
    test.is_some_and(|field| field.trim_end().ends_with(".function"))
}

/// Returns the functions of the kernel with this prefix.
fn kernel_functions(typed: &str) -> Vec<String> {
    kernel_symbols(typed, |kind| kind.eq_ignore_ascii_case("t"))
}

/// Returns the kernel's symbols with this prefix and of the right kind; none if the kernel hides
/// them.
fn kernel_symbols(typed: &str, right: impl Fn(&str) -> bool) -> Vec<String> {
    let all = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let symbol = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let kind = words.next()?;
        let name = words.next()?;
        (right(kind) && name.starts_with(typed)).then(|| name.to_owned())
    };
    all.lines().filter_map(symbol).take(MOST).collect()
}

/// Returns the letters, digits and `_` at the end.
fn word_at_end(text: &str) -> &str {
    let kept = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
    &text[kept..]
}

/// Returns where an unterminated string begins.
fn open_string(text: &str) -> Option<usize> {
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
fn last_event(code: &str) -> Option<String> {
    let texts = code.split(['"', '\'']).skip(1).step_by(2);
    let event = |text: &str| {
        let name = Selector::parse_list(text).ok()?.pop()?.name;
        (name.contains([':', '/']) || kind::lookup(&name).is_some()).then_some(name)
    };
    texts.filter_map(event).last()
}

/// Returns the event systems and the events without one, or after a colon all events.
fn events(session: &Session<'_>, typed: &str) -> Vec<String> {
    let names = session.source.catalog().names().unwrap_or_default();
    match typed.contains(':') {
        true => names,
        false => {
            let systems = names.iter().filter_map(|name| Some(name.split_once(':')?.0));
            let prefixes = kind::PREFIXES.iter().map(|prefix| prefix.prefix);
            let systems = systems.chain(prefixes).map(|system| format!("{system}:"));
            let sources = sources(session).map(|name| format!("{name}/"));
            let counters = kind::short_names().map(str::to_owned);
            let others = counters.chain(MachineCatalog::pmu_events()).chain(sources);
            systems.chain(others).collect()
        }
    }
}

/// Returns the names of the monitors that can be sources of events, by their text: none is run.
fn sources(session: &Session<'_>) -> impl Iterator<Item = String> {
    let all = session.monitors.library.all().into_iter();
    all.filter(Script::may_emit).map(|script| script.name)
}

fn is_source(session: &Session<'_>, name: &str) -> bool {
    sources(session).any(|source| source == name)
}

/// Returns the options of a monitor as a source, as typed; none if it cannot be loaded.
fn options_of_source(session: &Session<'_>, name: &str) -> Vec<String> {
    let library = &session.monitors.library;
    let script = library.look_up(name).ok().flatten();
    let monitor = script.and_then(|script| session.prompt.load_job(&script, library, &[]).ok());
    let options = monitor.iter().flat_map(source::options);
    options.map(|option| format!("--{}", option.long)).collect()
}

fn fields(session: &Session<'_>, event: &str) -> Vec<String> {
    let mut names: Vec<String> = all_of_the_sample().map(str::to_owned).collect();
    for event in found(session, event).unwrap_or_default() {
        if let Some(format) = event.format() {
            names.extend(format.fields.iter().filter(|f| !f.common).map(|f| f.name.clone()));
        }
    }
    names
}

/// Returns files, and folders with a trailing slash.
fn files(typed: &str) -> Vec<String> {
    let folder = typed.rfind('/').map_or("", |at| &typed[..=at]);
    let Ok(entries) = std::fs::read_dir(if folder.is_empty() { "." } else { folder }) else {
        return Vec::new();
    };
    let name = |entry: std::fs::DirEntry| {
        let slash = if entry.path().is_dir() { "/" } else { "" };
        format!("{folder}{}{slash}", entry.file_name().to_string_lossy())
    };
    entries.flatten().map(name).collect()
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
        assert_eq!(last_prefixed("a:b,uprobe:/x,y"), Some("uprobe:/x,y"));
        assert_eq!(last_prefixed("kprobe:f,uprobe:/x:"), Some("uprobe:/x:"));
        assert_eq!(last_prefixed("{cs,kprobe:f"), Some("kprobe:f"));
        assert_eq!(last_prefixed("{mem:jif"), Some("mem:jif"));
        assert_eq!(last_prefixed("a:b/x"), None);
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
