//! Functions of a monitor that the host calls between events.

use std::rc::Rc;

use mlua::Function;

use crate::script::load::monitor::Monitor;
use crate::script::vm::callback::Callback;

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
}

impl Callbacks {
    /// Returns whether a callback needs the set of watched tasks, which is known from earlier
    /// forks.
    pub(in crate::script) fn of_watched_tasks(&self) -> bool {
        !self.all_tasks && self.of_tasks().iter().any(|callback| callback.is_some())
    }

    /// Returns whether a callback for task records is still on.
    pub(in crate::script) fn take_task_records(&self) -> bool {
        self.of_tasks().iter().any(|callback| callback.as_ref().is_some_and(|one| one.is_on()))
    }

    fn of_tasks(&self) -> [&Option<Rc<Callback>>; 5] {
        [&self.on_fork, &self.on_exec, &self.on_comm, &self.on_exit, &self.on_mmap]
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
        Ok(Callbacks {
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
