//! Tracepoints: `sched:sched_switch`. A sample has the raw record, which the format in tracefs
//! describes.

use std::io;

use anyhow::{Context as _, Result, bail, ensure};
use perf_event_open_sys::bindings as abi;

use super::EventFiles;
use super::modifiers::is_modifier;
use super::properties::{EventAttr, EventProperties};
use crate::decode::format::Format;
use crate::event::exclude::EventModes;
use crate::event::sampling::Sampling;

/// A tracepoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracepoint {
    /// The layout of its records; `format.id` is its config.
    pub format: Format,
}

/// Reads `events/SYSTEM/NAME/format` below tracefs. Fails with [`io::ErrorKind::NotFound`] if that
/// file does not exist.
pub type ReadTraceFormat<'a> = dyn Fn(&str, &str) -> io::Result<String> + 'a;

/// Errors from reading the format of a name that is not a tracepoint's.
const NO_SUCH_FILE: [io::ErrorKind; 4] = [
    io::ErrorKind::NotFound,
    io::ErrorKind::InvalidInput,
    io::ErrorKind::NotADirectory,
    io::ErrorKind::InvalidFilename,
];

/// The system of ftrace's own records, which have formats but cannot be opened and are not listed.
const FTRACE_SYSTEM: &str = "ftrace";

/// Returns the tracepoint of this name; None if there is none.
///
/// # Errors
/// Its format cannot be read or parsed.
pub(super) fn parse(name: &str, files: &EventFiles<'_>) -> Result<Option<Tracepoint>> {
    let Some((system, event)) = name.split_once(':').filter(|(sys, _)| *sys != FTRACE_SYSTEM)
    else {
        return Ok(None);
    };
    let text = match (files.format)(system, event) {
        Ok(text) => text,
        // The name may be a counter with modifiers, or another file beside the tracepoints.
        Err(e) if NO_SUCH_FILE.contains(&e.kind()) => {
            refuse_modifiers(system, event, files)?;
            return Ok(None);
        }
        Err(e) => Err(e).with_context(|| format!("failed to read the format of `{name}`"))?,
    };
    let format = Format::parse(&text);
    let mut format = format.with_context(|| format!("failed to parse the format of `{name}`"))?;
    if format.without_text().next().is_some() && (files.adds_user_text)() {
        format.add_user_text();
    }
    Ok(Some(Tracepoint { format }))
}

/// Refuses `SYSTEM:NAME:MODIFIERS` of a tracepoint that exists.
fn refuse_modifiers(system: &str, event: &str, files: &EventFiles<'_>) -> Result<()> {
    let Some((name, modifiers)) = event.rsplit_once(':') else { return Ok(()) };
    let are_modifiers = !modifiers.is_empty() && modifiers.chars().all(is_modifier);
    if are_modifiers && (files.format)(system, name).is_ok() {
        bail!(
            "{system}:{event}: a tracepoint has no modifiers: the kernel raises it in all modes \
             alike; omit `:{modifiers}`"
        );
    }
    Ok(())
}

impl EventProperties for Tracepoint {
    fn attr(&self) -> EventAttr {
        let type_ = abi::PERF_TYPE_TRACEPOINT;
        EventAttr { type_, config: self.format.id, ..EventAttr::default() }
    }

    /// Returns `OnlyKernel`; `Together` if it counts a time, which includes all modes.
    fn modes(&self, _is_counted: bool) -> EventModes {
        if self.counts_time() { EventModes::Together } else { EventModes::OnlyKernel }
    }

    fn sample_type(&self) -> u64 {
        u64::from(match self.counts_time() {
            true => abi::PERF_SAMPLE_RAW | abi::PERF_SAMPLE_PERIOD,
            false => abi::PERF_SAMPLE_RAW,
        })
    }

    fn format(&self) -> Option<&Format> {
        Some(&self.format)
    }

    fn raw_format(&self) -> Option<&Format> {
        Some(&self.format)
    }

    /// Returns true for the end of a task before Linux 6.16, which has moved it in `do_exit()` and
    /// has added the field `group_dead`.
    fn is_hidden_from_tasks(&self) -> bool {
        self.format.name == "sched_process_exit" && self.format.field("group_dead").is_none()
    }

    fn counted_field(&self) -> Option<&'static str> {
        match self.format.name.strip_prefix("sched_stat_")? {
            "runtime" => Some("runtime"),
            _ => Some("delay"),
        }
    }

    fn samples_each(&self) -> bool {
        !self.counts_time()
    }

    fn check_options(&self, sampling: &Sampling, _of_tasks: bool) -> Result<()> {
        // The kernel writes all samples of an event at once and then throttles it; if its task
        // leaves the CPU, permanently (`perf_trace_add()`).
        ensure!(
            !self.counts_time()
                || sampling.count
                || sampling.freq.is_none() && sampling.period.is_none_or(|period| period == 1),
            "it counts nanoseconds, which are in the field `{}` of its records; omit freq= and \
             period=",
            self.counted_field().unwrap_or_default()
        );
        Ok(())
    }

    /// Returns whether it counts nanoseconds instead of occurrences: `__perf_count` in the kernel's
    /// trace/events/sched.h.
    ///
    /// With a period of 1, such an event writes a sample for each nanosecond, up to the throttling
    /// limit, unless its samples carry their period: then it writes one sample whose period is the
    /// number of nanoseconds (`perf_swevent_event()`, kernel/events/core.c).
    fn counts_time(&self) -> bool {
        self.counted_field().is_some()
    }

    fn joins_software_group(&self) -> bool {
        true
    }

    fn label(&self) -> &'static str {
        "tracepoint"
    }

    fn title(&self) -> String {
        format!("tracepoint {}", self.format.id)
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    fn count_filter_refusal(&self, condition: &str) -> String {
        format!(
            "the kernel cannot filter by `{condition}`, and a count has no records to filter in \
             user space; filter by the event's fields, or count in a handler"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_task_is_hidden_from_tasks_before_linux_6_16() {
        let field = |name: &str| format!("\tfield:int {name};\toffset:8;\tsize:4;\tsigned:1;\n");
        for (name, last, expected) in [
            ("sched_process_exit", "prio", true),
            ("sched_process_exit", "group_dead", false),
            ("sched_process_free", "prio", false),
        ] {
            let text = format!("name: {name}\nID: 1\nformat:\n{}", field(last));
            let format = Format::parse(&text).unwrap();
            assert_eq!(Tracepoint { format }.is_hidden_from_tasks(), expected, "{name} {last}");
        }
    }

    #[test]
    fn modifiers_of_a_tracepoint_are_refused_with_the_reason() {
        let format = |system: &str, name: &str| match (system, name) {
            ("sched", "sched_switch") => Ok("name: sched_switch\nID: 1\nformat:\n".to_owned()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        let files = EventFiles { format: &format, ..EventFiles::NONE };
        let why = parse("sched:sched_switch:uk", &files).unwrap_err().to_string();
        assert!(why.contains("omit `:uk`"), "{why}");
        for other in ["sched:sched_switch:x", "sched:other:u", "page-faults:u", "sched:other:"] {
            assert_eq!(parse(other, &files).unwrap(), None, "{other}");
        }
    }
}
