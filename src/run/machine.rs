//! The facts of the watched machine that a context needs to draw stacks and to print events.

use crate::script::context::shared::SharedContext;
use crate::script::context::texts::Texts;
use crate::stack::naming::Naming;
use crate::symbol::{RunningKernel, Symbols};
use crate::sys::clock::ticks_per_second;
use crate::sys::tasks::TaskName;
use crate::sys::tracefs::Tracefs;
use crate::task::ExistingTask;
use crate::task::programs;

/// Sets up stack symbolization by the programs that run here, with source lines if `lines`.
pub(super) fn name_stacks(context: &SharedContext, lines: bool) {
    let programs = programs::SharedPrograms::default();
    let symbols = Symbols::new(context.symbols(), programs.clone(), lines);
    context.follow_programs(programs);
    context.set_naming(Naming::new(Box::new(symbols)));
}

/// Sets up printing of events by the print formats of this kernel.
pub(super) fn print_by_formats(context: &SharedContext, tracefs: &Tracefs) {
    let kernel = RunningKernel::new(ticks_per_second(), tracefs.root(), context.symbols());
    context.set_texts(Texts::new(Box::new(kernel)));
}

/// Returns a note if this process has mounted tracefs.
pub(super) fn mounted(tracefs: &Tracefs) -> Option<String> {
    let at = tracefs.root().display();
    tracefs.mounted_here.then(|| format!("mounted tracefs at {at}; it stays mounted"))
}

/// Returns a task of this machine as the tasks of a run get it.
pub(super) fn existing_task(task: &TaskName) -> ExistingTask<'_> {
    let number = |n: i32| n.max(0) as u32;
    ExistingTask {
        tid: number(task.tid),
        pid: number(task.pid),
        parent_pid: number(task.ppid),
        comm: task.comm.as_bytes(),
    }
}
