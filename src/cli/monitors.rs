//! `monitors`: lists all monitors by the question that they answer, with their summary and origin.

use std::io::{self, Write};

use super::runtime::Runtime;
use crate::script::load::group::{MONITOR_GROUPS, MonitorGroup};

/// Heading of the monitors without a group: those of the user.
const UNGROUPED: &str = "Yours";

/// A line of a list of monitors.
pub(super) struct ListedMonitor {
    pub(super) name: String,
    /// The summary; if the monitor does not load, the first line of its error.
    pub(super) summary: String,
    /// Its origin; empty if it does not load.
    pub(super) origin: String,
    group: Option<&'static MonitorGroup>,
}

/// Writes a line for each monitor, in groups. A monitor that does not load is listed with its
/// error.
///
/// # Errors
/// The output cannot be written.
pub fn write(runtime: &mut dyn Runtime, out: &mut dyn Write) -> io::Result<()> {
    let groups = grouped(runtime);
    let width = |text: fn(&ListedMonitor) -> &str| {
        let lines = groups.iter().flat_map(|(_, lines)| lines);
        lines.map(|line| text(line).chars().count()).max().unwrap_or(0)
    };
    let (names, summaries) = (width(|l| &l.name), width(|l| &l.summary));
    for (title, lines) in &groups {
        writeln!(out, "{title}")?;
        for ListedMonitor { name, summary, origin, .. } in lines {
            let line = format!("  {name:names$}  {summary:summaries$}  {origin}");
            writeln!(out, "{}", line.trim_end())?;
        }
    }
    Ok(())
}

/// Returns the headings that have monitors, and the monitors under each, by name.
pub(super) fn grouped(runtime: &mut dyn Runtime) -> Vec<(&'static str, Vec<ListedMonitor>)> {
    let names = runtime.monitors();
    let mut all: Vec<ListedMonitor> = names.into_iter().map(|name| listed(name, runtime)).collect();
    let headings = MONITOR_GROUPS.iter().map(|group| (group.title, Some(group)));
    headings
        .chain([(UNGROUPED, None)])
        .map(|(title, group)| (title, all.extract_if(.., |one| one.group == group).collect()))
        .filter(|(_, lines): &(_, Vec<_>)| !lines.is_empty())
        .collect()
}

fn listed(name: String, runtime: &mut dyn Runtime) -> ListedMonitor {
    let unloaded =
        |name, summary| ListedMonitor { name, summary, origin: String::new(), group: None };
    match runtime.load(&name) {
        Ok(Some(monitor)) => ListedMonitor {
            name,
            summary: monitor.summary,
            origin: monitor.origin,
            group: monitor.group,
        },
        Ok(None) => unloaded(name, "no longer exists".to_owned()),
        Err(error) => {
            let text = format!("{error:#}");
            unloaded(name, format!("does not load: {}", text.lines().next().unwrap_or_default()))
        }
    }
}
