//! Names of the fields that the record of a role has.

use super::role::Role;
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::text::lua::field_name;
use crate::event::sample_field::SAMPLE_FIELDS;

/// Fields of every record besides the event's own; see `sample_getters` of `prelude/view.lua`.
pub const OF_THE_SAMPLE: [&str; 13] = [
    "_time",
    "_cpu",
    "_pid",
    "_tid",
    "_comm",
    "_instance",
    "_event",
    "_stack",
    "_function",
    "_period",
    "_ip",
    "_addr",
    "_text",
];

/// Returns the names of all fields besides the event's own: those of every record, and those that
/// are recorded only if a script reads them.
pub fn all_of_the_sample<'a>() -> impl Iterator<Item = &'a str> {
    OF_THE_SAMPLE.into_iter().chain(SAMPLE_FIELDS.iter().map(|field| field.name))
}

/// Returns the end of a message about a field that the records of a role do not have: the reason if
/// it is known, else similar names, else all of them.
pub(in crate::script) fn suggestion(role: Option<&Role>, name: &str) -> String {
    let Some(format) = role.and_then(|role| role.event.format()) else {
        let near = nearest(name, all_of_the_sample());
        return match near.is_empty() {
            true => format!("; it has {}", OF_THE_SAMPLE.join(", ")),
            false => did_you_mean(&near),
        };
    };
    if let Some(why) = format.why_omitted(name) {
        return format!(": it {why}");
    }
    let shown = field_name(name);
    if shown != name && format.field(name).is_some() {
        return format!(": a keyword of Lua gets an underscore; write '{shown}'");
    }
    let own: Vec<&str> =
        format.fields.iter().filter(|f| !f.common).map(|f| f.name.as_str()).collect();
    let fields = format.fields.iter().map(|f| f.name.as_str());
    let near = nearest(name, fields.chain(all_of_the_sample()));
    match near.is_empty() {
        true => format!("; it has {}", own.join(", ")),
        false => did_you_mean(&near),
    }
}
