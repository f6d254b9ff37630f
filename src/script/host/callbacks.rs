//! Functions of a monitor that the host calls between events.

use std::rc::Rc;

use mlua::Function;

use crate::script::load::monitor::Monitor;
use crate::script::vm::callback::Callback;
use crate::source::side_record::{SIDE_RECORDS, SideKind, SideKinds};

/// Callbacks of one monitor.
#[derive(Default)]
pub(in crate::script) struct Callbacks {
    /// Whether task callbacks are also called for tasks that are not watched.
    pub(in crate::script) all_tasks: bool,
    pub(in crate::script) interval: Option<Rc<Callback>>,
    pub(in crate::script) deinit: Option<Rc<Callback>>,
    pub(in crate::script) on_fork: Option<Rc<Callback>>,
    pub(in crate::script) on_exec: Option<Rc<Callback>>,
    pub(in crate::script) on_comm: Option<Rc<Callback>>,
    pub(in crate::script) on_exit: Option<Rc<Callback>>,
    pub(in crate::script) on_mmap: Option<Rc<Callback>>,
    pub(in crate::script) on_lost: Option<Rc<Callback>>,
    /// For further records, by the index of their kind.
    recorded: [Option<Rc<Callback>>; SIDE_RECORDS.len()],
}

impl Callbacks {
    /// Returns whether a callback needs the set of watched tasks, which is known from earlier
    /// forks.
    pub(in crate::script) fn of_watched_tasks(&self) -> bool {
        !self.all_tasks && self.of_tasks().any(Option::is_some)
    }

    /// Returns whether a callback for task records is still on.
    pub(in crate::script) fn has_task_callbacks(&self) -> bool {
        let others = SIDE_RECORDS.iter().filter(|one| !one.of_task);
        let others = others.map(|one| self.recorded(one.kind));
        let is_on = |one: &Option<Rc<Callback>>| one.as_ref().is_some_and(|one| one.is_on());
        self.of_tasks().chain(others).any(is_on)
    }

    fn of_tasks(&self) -> impl Iterator<Item = &Option<Rc<Callback>>> {
        let further = SIDE_RECORDS.iter().filter(|one| one.of_task);
        [&self.on_fork, &self.on_exec, &self.on_comm, &self.on_exit, &self.on_mmap]
            .into_iter()
            .chain(further.map(|one| self.recorded(one.kind)))
    }

    /// Returns the failures of callbacks that reports do not call.
    pub(in crate::script) fn failures_beside_reports(&self) -> u64 {
        let all = self.of_records().flatten();
        all.map(|callback| callback.failures.so_far()).sum()
    }

    /// Returns whether all callbacks are on.
    pub(in crate::script) fn are_on(&self) -> bool {
        let reports = [&self.interval, &self.deinit];
        self.of_records().chain(reports).flatten().all(|callback| callback.is_on())
    }

    /// Returns the callbacks for records.
    fn of_records(&self) -> impl Iterator<Item = &Option<Rc<Callback>>> {
        let tasks = [&self.on_fork, &self.on_exec, &self.on_comm, &self.on_exit, &self.on_mmap];
        tasks.into_iter().chain([&self.on_lost]).chain(&self.recorded)
    }

    /// Returns the callback for a kind of record.
    pub(in crate::script) fn recorded(&self, kind: SideKind) -> &Option<Rc<Callback>> {
        &self.recorded[kind as usize]
    }

    /// Returns the kinds of records for which there is a callback.
    pub(in crate::script) fn side_kinds(&self) -> SideKinds {
        let mut kinds = SideKinds::default();
        for one in &SIDE_RECORDS {
            if self.recorded(one.kind).is_some() {
                kinds.insert(one.kind);
            }
        }
        kinds
    }

    /// Reads the callbacks from a monitor's table.
    ///
    /// # Errors
    /// A callback in the table is not a function.
    pub(in crate::script) fn of(monitor: &Monitor) -> mlua::Result<Callbacks> {
        let one = |name: &'static str| -> mlua::Result<Option<Rc<Callback>>> {
            let function: Option<Function> = monitor.table.get(name)?;
            Ok(function.map(|function| Callback::new(name, function)))
        };
        let mut recorded = <[Option<Rc<Callback>>; SIDE_RECORDS.len()]>::default();
        for kind in &SIDE_RECORDS {
            recorded[kind.kind as usize] = one(kind.callback)?;
        }
        Ok(Callbacks {
            recorded,
            all_tasks: monitor.all_tasks,
            interval: one("interval")?,
            deinit: one("deinit")?,
            on_fork: one("on_fork")?,
            on_exec: one("on_exec")?,
            on_comm: one("on_comm")?,
            on_exit: one("on_exit")?,
            on_mmap: one("on_mmap")?,
            on_lost: one("on_lost")?,
        })
    }
}
