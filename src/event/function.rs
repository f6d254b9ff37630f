//! Functions as events: `kprobe:FUNCTION` and `uprobe:FILE:FUNCTION` when they are called, `kretprobe:` and `uretprobe:` when
//! they return.
//!
//! They are opened through the PMUs of these names (kernel/events/core.c, since 4.17), never through files of tracefs: the
//! probe is the event's own and goes with it, also when this process is killed. Their samples have no raw record but the
//! registers of that moment, of which those are asked for that hold the arguments, or what is returned. A [`Format`] tells where
//! each lies, so that whatever handles the records of a tracepoint handles these.

mod named;
mod place;

pub use named::{Kind, Named, file_in_front_of};
pub use place::Place;

use anyhow::{Result, anyhow, bail};

use super::catalog::{Event, What};
use super::counter::{self, Counter, ReadPmu};
use crate::base::glob;
use crate::decode::format::{Field, Format, Kind as Holds};
use crate::sys::registers;

/// A function, as an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Which of the four.
    pub kind: Kind,
    /// Where its registers lie in the block of a sample.
    pub format: Format,
    /// The PMU, and whether it is watched at the call or at the return.
    pub counter: Counter,
    /// Where it begins.
    pub place: Place,
}

/// What finds functions by their names.
pub trait Functions {
    /// Where a function begins.
    ///
    /// # Errors
    /// There is none, or more than one, or it cannot be watched: why, and what to do.
    fn find(&self, named: &Named) -> Result<Place>;

    /// The functions of a file or of the kernel that can be watched and that are `wanted`, sorted, at most so many.
    ///
    /// # Errors
    /// The file cannot be read, or has none.
    fn names(
        &self,
        file: Option<&str>,
        wanted: &dyn Fn(&str) -> bool,
        most: usize,
    ) -> Result<Vec<String>>;
}

impl Function {
    /// One bit for each register that its samples carry: `perf_event_attr.sample_regs_intr`.
    pub fn registers(&self) -> u64 {
        bits(held_by(self.kind))
    }

    /// Whether a block of registers can be believed when the task is one of 32 bits. The kernel's own functions are called the
    /// same way on behalf of every task, and of none (`perf_reg_abi()` looks at the task); a program's are not.
    pub fn of_any_task(&self) -> bool {
        !self.kind.of_file()
    }
}

/// The event that a name means.
///
/// # Errors
/// This kernel has no such PMU; or as [`Functions::find`].
pub fn describe(named: &Named, functions: &dyn Functions, read: &ReadPmu<'_>) -> Result<Event> {
    let name = named.to_string();
    if named.function.is_empty() || named.file.as_deref() == Some("") {
        bail!("{name}: what is to be watched is missing; write {}", named.kind.usage());
    }
    let counter = pmu(named.kind, read).map_err(|why| anyhow!("{name}: {why}"))?;
    let place = functions.find(named).map_err(|why| anyhow!("{name}: {why:#}"))?;
    let function = Function { kind: named.kind, format: format(named.kind), counter, place };
    Ok(Event { name, what: What::Function(function) })
}

/// The functions that a glob means, at most so many. The parts that compilers cut off functions (`f.cold`, `f.part.0`) are meant by globs with a dot
/// only.
///
/// # Errors
/// As [`Functions::names`].
pub fn matching(glob: &Named, functions: &dyn Functions, most: usize) -> Result<Vec<Named>> {
    let parts = glob.function.contains('.');
    let wanted = |name: &str| {
        (parts || !name.contains('.')) && glob::matches(glob.function.as_bytes(), name.as_bytes())
    };
    let found = functions
        .names(glob.file.as_deref(), &wanted, most)
        .map_err(|why| anyhow!("{glob}: {why:#}"))?;
    Ok(found.iter().map(|name| glob.with(name)).collect())
}

/// The PMU of a kind, set to calls or returns.
///
/// # Errors
/// This kernel has none.
pub fn pmu(kind: Kind, read: &ReadPmu<'_>) -> Result<Counter> {
    let terms = if kind.at_return() { "retprobe" } else { "" };
    let pmu = kind.pmu();
    match counter::parse(&format!("{pmu}/{terms}/"), read) {
        Ok(Some((_, counter))) => Ok(counter),
        _ => bail!(
            "this kernel has no PMU '{pmu}' (CONFIG_{}_EVENTS, since 4.17); {}",
            pmu.to_ascii_uppercase(),
            match kind.of_file() {
                true => "take a kernel that has it",
                false => "take a tracepoint (perilune list shows all), or a kernel that has it",
            }
        ),
    }
}

/// The registers of a kind in the order of its fields, and what these are called.
fn held_by(kind: Kind) -> &'static [(&'static str, u32)] {
    const AT: [u32; 6] = registers::ARGUMENTS;
    const ARGUMENTS: [(&str, u32); 6] = [
        ("arg1", AT[0]),
        ("arg2", AT[1]),
        ("arg3", AT[2]),
        ("arg4", AT[3]),
        ("arg5", AT[4]),
        ("arg6", AT[5]),
    ];
    const RETURNED: [(&str, u32); 1] = [("retval", registers::RETURNED)];
    if kind.at_return() { &RETURNED } else { &ARGUMENTS }
}

fn bits(held: &[(&str, u32)]) -> u64 {
    held.iter().fold(0, |bits, (_, register)| bits | 1 << register)
}

/// The layout of a block of registers: a word each, the lowest number first.
pub fn format(kind: Kind) -> Format {
    const WORD: usize = 8;
    let held = held_by(kind);
    let all = bits(held);
    let field = |&(name, register): &(&str, u32)| Field {
        name: name.to_owned(),
        type_text: "long".to_owned(),
        offset: WORD * (all & ((1 << register) - 1)).count_ones() as usize,
        size: WORD,
        signed: true,
        common: false,
        kind: Holds::Int,
    };
    // As tracefs prints its own probes: who knows the function knows what is a number in it.
    let texts: Vec<String> = held.iter().map(|(name, _)| format!("{name}=0x%lx")).collect();
    let values: Vec<String> = held.iter().map(|(name, _)| format!("REC->{name}")).collect();
    Format {
        name: kind.word().to_owned(),
        id: 0,
        fields: held.iter().map(field).collect(),
        print_fmt: format!("\"{}\", {}", texts.join(" "), values.join(", ")),
        fixed_size: WORD * held.len(),
    }
}

#[cfg(test)]
mod tests;
