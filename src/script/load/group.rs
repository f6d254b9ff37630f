//! The groups of monitors, by the question that they answer: `group` of `monitor {}`.

use anyhow::{Result, bail};
use mlua::Value;

use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::script::option::declare::described;

/// A group of monitors.
#[derive(Debug, PartialEq, Eq)]
pub struct MonitorGroup {
    /// Its name in a script: `cpu`.
    pub name: &'static str,
    /// Its heading in a list of monitors: `CPU`.
    pub title: &'static str,
}

/// All groups, in the order in which they are listed.
pub const MONITOR_GROUPS: [MonitorGroup; 9] = [
    MonitorGroup { name: "events", title: "Any event" },
    MonitorGroup { name: "cpu", title: "CPU" },
    MonitorGroup { name: "memory", title: "Memory" },
    MonitorGroup { name: "disk", title: "Disks and files" },
    MonitorGroup { name: "network", title: "Network" },
    MonitorGroup { name: "locks", title: "Locks" },
    MonitorGroup { name: "processes", title: "Processes" },
    MonitorGroup { name: "kernel", title: "Kernel" },
    MonitorGroup { name: "vm", title: "Virtual machines" },
];

impl MonitorGroup {
    /// Returns the group that a script names.
    ///
    /// # Errors
    /// There is no such group; the text names the nearest ones, or all of them.
    pub(super) fn parse(value: &Value) -> Result<&'static MonitorGroup> {
        let Value::String(name) = value else {
            bail!("monitor's group is the name of a group, not {}", described(value));
        };
        let name = &*name.to_str()?;
        if let Some(group) = MONITOR_GROUPS.iter().find(|group| group.name == name) {
            return Ok(group);
        }
        let names = || MONITOR_GROUPS.iter().map(|group| group.name);
        let near = nearest(name, names());
        let hint = match near.is_empty() {
            true => format!("; there are {}", names().collect::<Vec<_>>().join(", ")),
            false => did_you_mean(&near),
        };
        bail!("monitor's group: no group '{name}'{hint}")
    }
}
