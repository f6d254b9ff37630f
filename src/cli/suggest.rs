//! A command to start from: selectors for the given events, with a key, a name and a value if their
//! fields have them.
//!
//! Guessed from the names of fields, and meant to be edited; but each command runs as it is.

use std::rc::Rc;

use crate::decode::format::{Element, Field, FieldKind, Format};
use crate::event::kind::Event;
use crate::script::option::Attrs;

/// Names, or endings of names, of fields that are useful to sum up.
const SUMS: [&str; 8] =
    ["runtime", "delay", "latency", "bytes_alloc", "bytes", "len", "length", "size"];

/// Returns the selectors of these events, joined: `A//key=pid/,B//key=pid/` for an option with such
/// attributes, else `A,B`.
pub(super) fn selectors(events: &[Rc<Event>], attrs: &Attrs) -> String {
    let formats: Option<Vec<&Format>> = events.iter().map(|e| e.format()).collect();
    let keys: Option<Vec<&Field>> =
        formats.and_then(|all| all.into_iter().map(|format| key(format)).collect());
    let list: Vec<String> = match keys.filter(|_| attrs.contains_key("key")) {
        // A list in which only some have a key would be refused.
        None => events.iter().map(|event| event.name.clone()).collect(),
        Some(keys) => events.iter().zip(keys).map(|(e, key)| keyed(e, key, attrs)).collect(),
    };
    list.join(",")
}

/// Returns a filter that the kernel accepts: `prev_pid == 1`, `comm ~ "nginx*"`,
/// `bytes_alloc > 4096`.
pub(super) fn filter(format: &Format) -> Option<String> {
    let name = |field: &Field| field.name.clone();
    let of = |test: &str, field: Option<&Field>| field.map(|field| name(field) + test);
    of(" == 1", key(format))
        .or_else(|| {
            of(" ~ \"nginx*\"", own(format).find(|f| is_name(f) && f.name.ends_with("comm")))
        })
        .or_else(|| of(" > 4096", sum(format, "")))
        // An unsigned field of eight bytes is usually an address.
        .or_else(|| of(" == 1", own(format).find(|f| is_number(f) && (f.size < 8 || f.signed))))
}

/// Quotes an argument for a shell, if needed.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-+=:,./%@".contains(c);
    if word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Formats one selector: `sched:sched_switch//key=prev_pid/comm=prev_comm/`.
fn keyed(event: &Event, key: &Field, attrs: &Attrs) -> String {
    let format = event.format();
    let with = |name: &str, field: Option<&Field>| match field {
        Some(field) if attrs.contains_key(name) => format!("{name}={}/", field.name),
        _ => String::new(),
    };
    let comm = format.and_then(|format| comm_of(format, key));
    let sum = format.and_then(|format| sum(format, &key.name));
    let (key, comm, sum) = (with("key", Some(key)), with("comm", comm), with("top-by", sum));
    format!("{}//{key}{comm}{sum}", event.name)
}

/// Returns the best field to count an event by: a task's number, else a number, else a name; never
/// an address.
pub(super) fn first_key(format: &Format) -> Option<&Field> {
    let number = |f: &&Field| is_number(f) && (f.size < 8 || f.signed);
    key(format).or_else(|| own(format).find(number)).or_else(|| own(format).find(|f| is_name(f)))
}

fn own(format: &Format) -> impl Iterator<Item = &Field> {
    format.fields.iter().filter(|field| !field.common)
}

/// Returns whether the kernel's filters and a key accept the field as a number.
fn is_number(field: &Field) -> bool {
    field.kind == FieldKind::Int && matches!(field.size, 1 | 2 | 4 | 8)
}

/// Returns the first field that is a task's number.
fn key(format: &Format) -> Option<&Field> {
    own(format)
        .filter(|f| is_number(f))
        .find(|f| f.name.ends_with("pid") || f.name.ends_with("tid"))
}

/// Returns the name that belongs to a task's number: `prev_comm` for `prev_pid`.
fn comm_of<'a>(format: &'a Format, key: &Field) -> Option<&'a Field> {
    let stem = key.name.trim_end_matches("pid").trim_end_matches("tid");
    let name = format!("{stem}comm");
    own(format).find(|f| f.name == name && is_name(f))
}

fn is_name(field: &Field) -> bool {
    matches!(
        field.kind,
        FieldKind::Chars
            | FieldKind::DataLoc(Element::Char | Element::Fetched)
            | FieldKind::RelLoc(Element::Char)
    )
}

/// Returns the best field to sum up, other than the key.
fn sum<'a>(format: &'a Format, key: &str) -> Option<&'a Field> {
    let is = |field: &Field, sum: &str| {
        field.name.strip_suffix(sum).is_some_and(|stem| stem.is_empty() || stem.ends_with('_'))
    };
    let may = |f: &&Field| is_number(f) && f.size >= 4 && f.name != key;
    SUMS.iter().find_map(|sum| own(format).filter(may).find(|f| is(f, sum)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::kind::Tracepoint;
    use crate::script::option::AttrKind;

    fn event(name: &str, fields: &str) -> Rc<Event> {
        let format = Format::parse(&format!("name: x\nID: 1\nformat:\n{fields}")).unwrap();
        Rc::new(Event::new(name, Tracepoint { format }))
    }

    fn switch() -> Rc<Event> {
        event(
            "sched:sched_switch",
            "\tfield:char prev_comm[16]; offset:8; size:16; signed:0;\n\
             \tfield:pid_t prev_pid; offset:24; size:4; signed:1;\n",
        )
    }

    fn runtime() -> Rc<Event> {
        event(
            "sched:sched_stat_runtime",
            "\tfield:char comm[16]; offset:8; size:16; signed:0;\n\
             \tfield:pid_t pid; offset:24; size:4; signed:1;\n\
             \tfield:u64 runtime; offset:32; size:8; signed:0;\n",
        )
    }

    fn attrs(names: &[&str]) -> Attrs {
        names.iter().map(|name| ((*name).to_owned(), AttrKind::Expr)).collect()
    }

    #[test]
    fn events_of_tasks_are_keyed_named_and_summed() {
        let top = attrs(&["key", "comm", "top-by"]);
        assert_eq!(
            selectors(&[switch(), runtime()], &top),
            "sched:sched_switch//key=prev_pid/comm=prev_comm/,\
             sched:sched_stat_runtime//key=pid/comm=comm/top-by=runtime/"
        );
        assert_eq!(selectors(&[switch()], &attrs(&["key"])), "sched:sched_switch//key=prev_pid/");
        assert_eq!(
            selectors(&[switch(), runtime()], &attrs(&[])),
            "sched:sched_switch,sched:sched_stat_runtime"
        );
    }

    #[test]
    fn a_key_is_suggested_for_all_events_or_none() {
        let irq = event("irq:irq_handler_exit", "\tfield:int irq; offset:8; size:4; signed:1;\n");
        assert_eq!(
            selectors(&[switch(), irq], &attrs(&["key"])),
            "sched:sched_switch,irq:irq_handler_exit"
        );
    }

    #[test]
    fn a_filter_uses_an_existing_field() {
        assert_eq!(filter(switch().format().unwrap()).as_deref(), Some("prev_pid == 1"));
        let named = event("a:b", "\tfield:char comm[16]; offset:8; size:16; signed:0;\n");
        assert_eq!(filter(named.format().unwrap()).as_deref(), Some("comm ~ \"nginx*\""));
        let kmalloc = event(
            "a:b",
            "\tfield:unsigned long call_site; offset:8; size:8; signed:0;\n\
             \tfield:size_t bytes_alloc; offset:16; size:8; signed:0;\n",
        );
        assert_eq!(filter(kmalloc.format().unwrap()).as_deref(), Some("bytes_alloc > 4096"));
        let call = event("a:b", "\tfield:long id; offset:8; size:8; signed:1;\n");
        assert_eq!(filter(call.format().unwrap()).as_deref(), Some("id == 1"));
        let nothing = event("a:b", "");
        assert_eq!(filter(nothing.format().unwrap()), None);
    }

    #[test]
    fn text_with_shell_metacharacters_is_quoted() {
        assert_eq!(quoted("a:b//key=pid/"), "a:b//key=pid/");
        assert_eq!(quoted("a:b/x == 1/"), "'a:b/x == 1/'");
        assert_eq!(quoted("sched:*"), "'sched:*'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
