//! Counts of a recording: what each of its lines adds to the count of its event.

use anyhow::bail;

use crate::base::event::value::Value;
use crate::event::kind::{Event, EventFiles, has_fields, parse};
use crate::script::evsel::role::Role;
use crate::source::replay::{RecordedEntry, Replay};

/// Returns what a record adds to the count of its event: what the kernel added, 1 for most events.
/// The sample of a counter stands for as many events as its period.
pub(super) fn counted(event: &Event, raw: &[u8]) -> u64 {
    match event.kind().counted_field() {
        Some(field) => number(event, raw, field).unwrap_or(0),
        None => sampled(event, raw).0,
    }
}

/// Returns what a live slot of a counter's sample contains: the period, the instruction's address
/// and the data address.
pub(super) fn sampled(event: &Event, raw: &[u8]) -> (u64, u64, u64) {
    let field = |name| number(event, raw, name).filter(|_| !has_fields(&event.name));
    (field("period").unwrap_or(1), field("ip").unwrap_or(0), field("addr").unwrap_or(0))
}

fn number(event: &Event, raw: &[u8], field: &str) -> Option<u64> {
    match event.format()?.field(field)?.read(raw) {
        Ok(Value::Uint(value) | Value::Pointer(value)) => Some(value),
        Ok(Value::Int(value)) => u64::try_from(value).ok(),
        _ => None,
    }
}

/// Checks that the recording shows how often the counted events occurred.
///
/// # Errors
/// It has samples of one of them without the period for which each stands.
pub(super) fn check_counts(roles: &[Role], replay: &Replay) -> anyhow::Result<()> {
    for role in roles.iter().filter(|role| role.sampling.count) {
        let name = &role.event.name;
        let has_period = role.event.format().is_some_and(|of| of.field("period").is_some());
        let live = parse(name, &EventFiles::NONE).ok().flatten();
        if has_period || !live.is_some_and(|event| event.kind().has_rate()) {
            continue;
        }
        let is_sample = |what: &RecordedEntry| match what {
            RecordedEntry::Event { event, value: None, .. } => {
                replay.event(*event).is_some_and(|event| event.name == *name)
            }
            _ => false,
        };
        if replay.entries().iter().any(|line| is_sample(&line.what)) {
            bail!(
                "{name}: the recording has samples without their period, so it does not show how \
                 often the event occurred; record it with `trace -e {name} --events`"
            );
        }
    }
    Ok(())
}
