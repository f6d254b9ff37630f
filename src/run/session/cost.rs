//! `:cost`: the cost of each event of a session.

use super::Session;
use super::counts::{CountCost, SessionCounts};
use crate::base::text::units::counted;

/// Returns the cost of each event: perilune's own part as measured, and the kernel's part by the
/// current cost of a record.
pub(super) fn cost(session: &Session<'_>) -> String {
    let overhead = session.source.record_overhead();
    let mut lines =
        vec![format!("{:<36} {:>12} {:>8} {:>10}", "event", "events", "own(ns)", "kernel(ns)")];
    for (index, role) in session.prompt.host.roles().iter().enumerate() {
        let spent = session.prompt.spent(index);
        if spent.events == 0 {
            continue;
        }
        let tracepoint = role.event.kind().raw_format().is_some();
        let plain = tracepoint && role.sampling.stack.is_none();
        let kernel = overhead.filter(|_| plain).map(|overhead| format!("{:.0}", overhead.record));
        let kernel = kernel.as_deref().unwrap_or("?");
        let (name, events) = (&role.event.name, spent.events);
        lines.push(format!("{name:<36} {events:>12} {:>8.1} {kernel:>10}", spent.each()));
    }
    if let Some(overhead) = overhead {
        let text = "kernel(ns) is the cost of a system call's event, measured now";
        lines.push(format!(
            "{text}; an event that a kernel filter rejects costs {:.0} ns",
            overhead.rejected
        ));
    }
    let costs = session.source.counted().map(SessionCounts::measure).unwrap_or_default();
    lines.extend(costs.iter().map(|cost| cost_in_kernel(session, cost)));
    lines.extend(session.prompt.host.uncompiled());
    lines.join("\n")
}

/// Returns the cost of a table that the kernel counts.
fn cost_in_kernel(session: &Session<'_>, cost: &CountCost) -> String {
    let all = session.prompt.host.roles();
    let names: Vec<&str> =
        cost.roles.iter().map(|role| all[*role as usize].event.name.as_str()).collect();
    let ns = cost.program_ns.map(|ns| format!("; the program takes {ns:.0} ns for an event"));
    format!(
        "{}: {} counted in the kernel, without records{}",
        names.join(", "),
        counted(cost.events, "event"),
        ns.unwrap_or_default()
    )
}
