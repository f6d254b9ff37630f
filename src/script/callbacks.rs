//! The functions of a monitor that the host calls between events.

use mlua::Function;

use super::monitor::Monitor;

/// Those of one monitor.
#[derive(Default)]
pub(super) struct Callbacks {
    /// Those of tasks are called for tasks that are not watched, too.
    pub(super) all_tasks: bool,
    pub(super) interval: Option<Function>,
    pub(super) deinit: Option<Function>,
    pub(super) on_fork: Option<Function>,
    pub(super) on_exec: Option<Function>,
    pub(super) on_comm: Option<Function>,
    pub(super) on_exit: Option<Function>,
    pub(super) on_mmap: Option<Function>,
    pub(super) on_lost: Option<Function>,
}

impl Callbacks {
    /// Whether one of them is about tasks that have to be watched: which those are is learnt from
    /// the forks before.
    pub(super) fn of_watched_tasks(&self) -> bool {
        let of_tasks = [&self.on_fork, &self.on_exec, &self.on_comm, &self.on_exit, &self.on_mmap];
        !self.all_tasks && of_tasks.iter().any(|callback| callback.is_some())
    }

    /// Those that stand on a monitor's table.
    pub(super) fn of(monitor: &Monitor) -> mlua::Result<Callbacks> {
        let table = &monitor.table;
        Ok(Callbacks {
            all_tasks: monitor.all_tasks,
            interval: table.get("interval")?,
            deinit: table.get("deinit")?,
            on_fork: table.get("on_fork")?,
            on_exec: table.get("on_exec")?,
            on_comm: table.get("on_comm")?,
            on_exit: table.get("on_exit")?,
            on_mmap: table.get("on_mmap")?,
            on_lost: table.get("on_lost")?,
        })
    }
}
