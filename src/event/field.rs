//! Errors for fields that an event does not have.

use crate::{
    base::matching::nearest::{did_you_mean, nearest},
    decode::format::Format,
};

/// Maximum number of field names in a message.
const LISTED: usize = 24;

/// Returns a message such as
/// `sched:sched_switch has no field 'prev_com'; did you mean 'prev_comm'? It has prev_comm, …`.
pub(crate) fn unknown(event: &str, field: &str, format: &Format) -> String {
    unknown_beside(event, field, format, &[])
}

/// Like [`unknown`], but also suggests names from `others`.
pub(crate) fn unknown_beside(event: &str, field: &str, format: &Format, others: &[&str]) -> String {
    if let Some(why) = format.why_omitted(field) {
        return format!("{event} has no field '{field}': it {why}");
    }
    let all = format.fields.iter().map(|f| f.name.as_str()).chain(others.iter().copied());
    let own: Vec<&str> = format.fields.iter().filter(|f| !f.common).map(|f| &*f.name).collect();
    let guess = did_you_mean(&nearest(field, all));
    let rest = if own.len() > LISTED { ", ..." } else { "" };
    let list = own[..own.len().min(LISTED)].join(", ");
    let has = match (own.is_empty(), guess.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("; it has {list}{rest}"),
        (false, false) => format!(" It has {list}{rest}"),
    };
    format!("{event} has no field '{field}'{guess}{has}")
}
