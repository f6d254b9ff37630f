//! Completions inside the name of a function event.

use super::typed_text::word_at_end;
use super::{MOST, fields, programs};
use crate::event::kind::function::{FunctionName, ProbeKind, split_file};
use crate::run::session::Session;
use crate::run::session::console::Completions;

/// Completes a FILE, a function, or a field of a function's event.
pub(super) fn in_function(session: &Session<'_>, before: &str, item: &str) -> Completions {
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
    if let Some(found) = parameters(session, before, item) {
        return found;
    }
    let Some(named) = FunctionName::parse(item) else { return (before.len(), Vec::new()) };
    let glob = named.with(&format!("{function}*"));
    let found = session.source.catalog().functions(&glob, MOST).into_iter().flatten();
    let names = found.map(|named| named.function).collect();
    (before.len() - function.len(), names)
}

/// Completes a parameter, or a member behind it, in the list behind a function's name. The names of
/// Go's functions have parentheses as well.
fn parameters(session: &Session<'_>, before: &str, item: &str) -> Option<Completions> {
    let (function, list) = item.rsplit_once('(')?;
    // `NAME=PATH`
    let last = list.rsplit([',', '=']).next()?;
    let mut path: Vec<&str> = last.split('.').map(str::trim_start).collect();
    let typed = path.pop()?;
    let named = FunctionName::parse(function)?;
    let names = session.source.catalog().parameters(&named, &path);
    (!names.is_empty()).then(|| (before.len() - typed.len(), names))
}
