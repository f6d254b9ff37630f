//! The facts of the watched machine that a context needs to draw stacks and to print events.

use crate::script::context::RunContext;
use crate::script::texts::Texts;
use crate::stack::naming::Naming;
use crate::symbol::{RunningKernel, Symbols};
use crate::sys::clock::ticks_per_second;
use crate::sys::tracefs::Tracefs;
use crate::task::programs;

/// Sets up stack symbolization by the programs that run here, with source lines if `lines`.
pub(super) fn name_stacks(context: &mut RunContext, lines: bool) {
    let programs = programs::SharedPrograms::default();
    let symbols = Symbols::new(context.symbols.clone(), programs.clone(), lines);
    context.programs = Some(programs);
    *context.naming.borrow_mut() = Naming::new(Box::new(symbols));
}

/// Sets up printing of events by the print formats of this kernel.
pub(super) fn print_by_formats(context: &mut RunContext, tracefs: &Tracefs) {
    let kernel = RunningKernel::new(ticks_per_second(), tracefs.root(), context.symbols.clone());
    context.texts = Texts::new(Box::new(kernel));
}

/// Returns a note if this process has mounted tracefs.
pub(super) fn mounted(tracefs: &Tracefs) -> Option<String> {
    let at = tracefs.root().display();
    tracefs.mounted_here.then(|| format!("mounted tracefs at {at}; it stays mounted"))
}
