//! Messages at the start of a live run: what is watched, and which options are applied differently
//! or have no effect.

use std::collections::BTreeSet;

use super::filters::{self, EventOrigin};
use super::request::RunRequest;
use crate::base::matching::glob::is_glob;
use crate::base::report::draw::Level;
use crate::base::text::cpulist;
use crate::base::text::stack_style::StackStyle;
use crate::base::text::units::counted;
use crate::event::kind::EventKind;
use crate::event::kind::breakpoint::Breakpoint;
use crate::event::sampling::ChainPart;
use crate::output::format::OutputFormat;
use crate::script::evsel::role::Role;
use crate::script::host::Host;
use crate::script::option::value::OptionValue;
use crate::source::live::Live;
use crate::source::request::SourceRequest;
use crate::sys::streams;

/// Maximum number of notes about events that are watched only in part.
const PARTLY_MAX: usize = 3;

/// Prints what is watched in one line: on an idle machine, it is the only output for a while.
pub(super) fn print_banner(
    host: &Host,
    live: &Live,
    request: &RunRequest,
    source: &SourceRequest,
    in_kernel: &BTreeSet<u32>,
) {
    let roles = host.roles();
    let order = if source.ordered { "in order" } else { "unordered" };
    let context = host.context();
    for remark in request.notes.iter().chain(live.remarks()) {
        context.note(Level::Warning, remark);
    }
    for remark in without_stacks(&roles, request) {
        context.note(Level::Warning, &remark);
    }
    let partly =
        roles.iter().filter_map(|role| partly_watched(role, source)).collect::<BTreeSet<_>>();
    for remark in partly.iter().take(PARTLY_MAX) {
        context.note(Level::Warning, remark);
    }
    if let Some(more @ 1..) = partly.len().checked_sub(PARTLY_MAX) {
        context.note(Level::Warning, &format!("{more} more events are watched only in part"));
    }
    if let Some(remark) = without_rate(&roles, request) {
        context.note(Level::Warning, &remark);
    }
    if let Some(remark) = printed_only(&roles, request) {
        context.note(Level::Warning, &remark);
    }
    let texts = [filters::user_text(&roles), filters::unread_texts(&roles)].into_iter().flatten();
    let texts: Vec<String> = texts.chain(filters::unread_arguments(&roles)).collect();
    for remark in request.understood.iter().chain(&host.take_remarks()).chain(&texts) {
        context.note(Level::Info, remark);
    }
    let watching = format!(
        "watching {} on {}; Ctrl-C ends and reports",
        named(&roles),
        target(&roles, request, source)
    );
    context.note(Level::Info, &watching);
    if request.options.format.has_notes() && !request.options.quiet {
        // Such a format keeps stderr free of notes, but a caller may wait there for the start.
        streams::print_message(&format!("note: {watching}"));
    }
    if request.options.verbose > 0 {
        let pages = counted(live.pages() as u64, "page");
        let text = format!("{order}, {pages} per ring, {}", counted(live.files() as u64, "file"));
        context.note(Level::Info, &text);
        let others = live.cpus_of_tasks_only();
        if !others.is_empty() {
            let cpus = cpulist::format(&others);
            let text = format!("task records also from CPU {cpus}, with smaller rings");
            context.note(Level::Info, &text);
        }
        for line in live.function_notes() {
            context.note(Level::Info, line);
        }
        for line in filters::explain(&roles, EventOrigin::Kernel(in_kernel)) {
            context.note(Level::Info, &line);
        }
    }
    for (name, fields) in if request.options.verbose > 1 { live.attributes() } else { Vec::new() } {
        let fields: Vec<String> =
            fields.iter().map(|(field, value)| format!("{field}={value:#x}")).collect();
        context.note(Level::Info, &format!("{name}: {}", fields.join(" ")));
    }
    // Print now, not with the first report.
    let _ = context.flush();
}

/// Returns the remark that a recording of a monitor that does not print all of its events does not
/// contain the others.
fn printed_only(roles: &[Role], request: &RunRequest) -> Option<String> {
    let name = &request.monitor.name;
    // A monitor that emits its events as they are prints all of them.
    let prints_all = request.monitor.emits.as_ref().is_some_and(Vec::is_empty);
    if request.options.format != OutputFormat::Events || prints_all {
        return None;
    }
    let events: BTreeSet<&str> = roles.iter().map(|role| &*role.event.name).collect();
    let events = events.into_iter().collect::<Vec<_>>().join(",");
    Some(format!(
        "the recording contains only events that {name} prints; record all of its events by: \
         perilune trace -e '{events}' --events -o FILE"
    ))
}

/// Returns a note if a rate option is given and no event has a rate.
fn without_rate(roles: &[Role], request: &RunRequest) -> Option<String> {
    let is_typed = |long: &str| {
        let option = request.monitor.option(long).filter(|option| option.default.is_none());
        option.filter(|option| request.values.get(&option.long).is_some_and(OptionValue::is_given))
    };
    let option = is_typed("freq").or_else(|| is_typed("period"))?;
    let rated = |role: &Role| role.event.kind().has_rate() || role.sampling.rate().is_some();
    let (typed, long) = (option.typed(), &option.long);
    let first = roles.first().filter(|_| !roles.iter().any(rated))?;
    let name = first.glob.as_deref().unwrap_or(&first.event.name);
    let Some(OptionValue::Number(value)) = request.values.get(long) else { return None };
    Some(format!(
        "{typed} has no effect: no clock and no hardware event is sampled; {name} is recorded each \
         time, unless it has a rate of its own: {name}//{long}={value}/"
    ))
}

/// Returns the names of the first events, and how many more there are.
fn named(roles: &[Role]) -> String {
    let mut names: Vec<String> = Vec::new();
    for role in roles {
        if !names.contains(&role.event.name) {
            names.push(role.event.name.clone());
        }
    }
    match names.len() {
        0..=4 => names.join(", "),
        n => format!("{} and {} more events", names[..3].join(", "), n - 3),
    }
}

/// Returns the tasks or the CPUs that are watched.
fn target(roles: &[Role], request: &RunRequest, source: &SourceRequest) -> String {
    match &source.tasks {
        Some(tids) if !request.options.selects_tasks() => {
            format!("the command (pid {})", tids[0])
        }
        Some(tids) if !request.options.pids.is_empty() => {
            let pids: Vec<String> = request.options.pids.iter().map(u32::to_string).collect();
            let noun = if pids.len() == 1 { "process" } else { "processes" };
            format!("{noun} {} ({})", pids.join(","), counted(tids.len() as u64, "thread"))
        }
        Some(tids) => {
            let tids: Vec<String> = tids.iter().map(i32::to_string).collect();
            format!("thread {}", tids.join(","))
        }
        None => {
            let cpus = format!("CPU {}", cpulist::format(&cpus_of(roles, &source.watched)));
            match (&request.options.cgroup, &source.cgroups) {
                (Some(typed), Some(found)) => format!("{cpus}, {}", cgroups(typed, found.number())),
                _ => cpus,
            }
        }
    }
}

/// Returns the watched control groups, as typed. A glob is looked up only once.
fn cgroups(typed: &str, number: usize) -> String {
    match is_glob(typed) {
        true => format!(
            "{} of `{typed}` (later ones are not watched)",
            counted(number as u64, "cgroup")
        ),
        false => format!("cgroup {typed}"),
    }
}

/// Returns a note about an event that is watched only in part: the first bytes of a variable, or
/// one of some events.
fn partly_watched(role: &Role, source: &SourceRequest) -> Option<String> {
    let (event, sampling) = (&role.event, &role.sampling);
    if let EventKind::Breakpoint(Breakpoint { partly: Some(size), length, .. }) = &event.what {
        return Some(format!(
            "{}: watches the first {length} of {size} bytes; write SYMBOL+OFFSET/LENGTH for others",
            event.name
        ));
    }
    let is_sampled = !sampling.count && sampling.group.is_none() && !event.kind().has_rate();
    if let Some(freq) = sampling.freq.filter(|_| is_sampled) {
        return Some(format!(
            "{}: about {freq} records a second on each CPU (freq={freq}); counts are of records",
            event.name
        ));
    }
    let period = sampling.period.filter(|period| is_sampled && *period > 1)?;
    // The kernel counts down for each thread on each CPU, and starts anew for each child.
    let short = match source.tasks.is_some() && !sampling.whole_cpus {
        true => format!("; a thread with fewer than {period} events on a CPU has no record"),
        false => String::new(),
    };
    Some(format!(
        "{}: one record for {period} events (period={period}); counts are of records{short}",
        event.name
    ))
}

/// Returns a note for each stack option that is given although no event takes stacks.
fn without_stacks(roles: &[Role], request: &RunRequest) -> Vec<String> {
    let options = &request.options;
    let given = [
        ("--user-callchain", options.callchain == ChainPart::User),
        ("--kernel-callchain", options.callchain == ChainPart::Kernel),
        ("--stack-style", options.stack_style != StackStyle::default()),
    ];
    let given = given.into_iter().filter(|(_, given)| *given);
    let taken = roles.iter().any(|role| role.sampling.stack.is_some());
    let remark = |(option, _)| {
        format!(
            "{option} has no effect without stacks; add -g, or give an event the attribute `stack`"
        )
    };
    if taken { Vec::new() } else { given.map(remark).collect() }
}

/// Returns the watched CPUs on which one of the events is opened: an uncore PMU serves only some.
fn cpus_of(roles: &[Role], watched: &[u32]) -> Vec<u32> {
    let is_on = |role: &Role, cpu: u32| {
        [role.sampling.cpus.as_deref(), role.event.kind().cpus()]
            .into_iter()
            .flatten()
            .all(|cpus| cpus.contains(&cpu))
    };
    watched.iter().copied().filter(|cpu| roles.iter().any(|role| is_on(role, *cpu))).collect()
}
