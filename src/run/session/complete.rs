//! Completions of the text before the cursor.

mod functions;
mod typed_text;

use self::functions::in_function;
use self::typed_text::{
    asks_function, last_event, last_item, last_prefixed, modifiers_of_counter, modifiers_of_group,
    open_string, with_modifier, word_at_end,
};
use super::Session;
use super::commands;
use super::console::Completions;
use super::requests::found;
use crate::base::text::escape;
use crate::base::text::lua::KEYWORDS;
use crate::event::kind;
use crate::event::kind::function::ProbeKind;
use crate::event::selector::BUILTIN;
use crate::run::catalog::MachineCatalog;
use crate::script::evsel::fields::all_of_the_sample;
use crate::script::load::doc;
use crate::script::load::library::Script;
use crate::script::load::source;
use std::path::PathBuf;

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
            None => (0, commands::names()),
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

/// Returns the attributes of every selector, as typed.
fn attributes() -> Vec<String> {
    let value = |name: &str| if name == "stack" { String::new() } else { "=".to_owned() };
    BUILTIN.iter().map(|name| format!("{name}{}", value(name))).collect()
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

/// Returns the event systems and the events without one, or after a colon all events.
fn events(session: &Session<'_>, typed: &str) -> Vec<String> {
    let names = session.source.catalog().names().unwrap_or_default();
    match typed.contains(':') {
        true => names,
        false => {
            let systems = names.iter().filter_map(|name| Some(name.split_once(':')?.0));
            let prefixes = kind::PREFIXES.iter().copied().flatten().map(|prefix| prefix.prefix);
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
