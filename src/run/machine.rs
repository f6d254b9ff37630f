//! What a context has to know of the machine that it watches, to draw its stacks and to print its events.

use crate::script::context::Context;
use crate::script::texts::Texts;
use crate::stack::naming::Naming;
use crate::symbol::{RunningKernel, Symbols};
use crate::sys::clock::ticks_per_second;
use crate::sys::tracefs::Tracefs;
use crate::task::programs;

/// Lets stacks be named by the programs that run here, with their lines if wanted.
pub(super) fn name_stacks(context: &mut Context, lines: bool) {
    let programs = programs::Shared::default();
    let symbols = Symbols::new(context.symbols.clone(), programs.clone(), lines);
    context.programs = Some(programs);
    *context.naming.borrow_mut() = Naming::new(Box::new(symbols));
}

/// Lets events be printed by the formats of this kernel.
pub(super) fn print_by_formats(context: &mut Context, tracefs: &Tracefs) {
    let kernel = RunningKernel::new(ticks_per_second(), tracefs.root(), context.symbols.clone());
    context.texts = Texts::new(Box::new(kernel));
}

/// What to say of a tracefs that was not there before.
pub(super) fn mounted(tracefs: &Tracefs) -> Option<String> {
    let at = tracefs.root().display();
    tracefs.mounted_here.then(|| format!("mounted tracefs at {at}; it stays mounted"))
}
