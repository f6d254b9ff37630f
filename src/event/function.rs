//! Function events: `kprobe:FUNCTION` and `uprobe:FILE:FUNCTION` at the call of a function,
//! `kretprobe:` and `uretprobe:` at its return.
//!
//! They are opened through the PMUs `kprobe` and `uprobe` (kernel/events/core.c, since 4.17), never
//! through files of tracefs: the probe belongs to the event and is removed with it, also if this
//! process is killed. Instead of a raw record, a sample has the registers that hold the arguments
//! or the return value. A [`Format`] describes where each register lies, so code for tracepoint
//! records handles these samples as well.

mod named;
mod place;

pub use named::{FunctionName, ProbeKind, split_file};
pub use place::FunctionLocation;

use anyhow::{Result, anyhow, bail};

use super::catalog::{Event, EventKind};
use super::counter::{self, Counter, ReadPmu};
use crate::base::glob;
use crate::decode::format::{Field, FieldKind, Format};
use crate::sys::registers;

/// A function event.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionEvent {
    /// Which of the four kinds it is.
    pub kind: ProbeKind,
    /// Layout of its registers in the register block of a sample.
    pub format: Format,
    /// The PMU, set to calls or returns.
    pub counter: Counter,
    /// Where the function begins.
    pub place: FunctionLocation,
}

/// Finds functions by name.
pub trait Functions {
    /// Returns where a function begins.
    ///
    /// # Errors
    /// No function or more than one has this name, or it cannot be probed. The error names the
    /// reason and the fix.
    fn find(&self, named: &FunctionName) -> Result<FunctionLocation>;

    /// Returns at most `most` functions of a file, or of the kernel if `file` is None, that can be
    /// probed and are `wanted`, sorted.
    ///
    /// # Errors
    /// The file cannot be read, or has no functions.
    fn names(
        &self,
        file: Option<&str>,
        wanted: &dyn Fn(&str) -> bool,
        most: usize,
    ) -> Result<Vec<String>>;
}

impl FunctionEvent {
    /// Returns one bit for each register in its samples: `perf_event_attr.sample_regs_intr`.
    pub fn registers(&self) -> u64 {
        bits(registers_of(self.kind))
    }

    /// Returns whether the registers are valid for a 32-bit task, too. Kernel functions have the
    /// same calling convention for every task, and without a task (`perf_reg_abi()` looks at the
    /// task); a program's functions do not.
    pub fn of_any_task(&self) -> bool {
        !self.kind.of_file()
    }
}

/// Returns the event that a name stands for.
///
/// # Errors
/// FILE or FUNCTION is missing, or this kernel has no such PMU; or as [`Functions::find`].
pub fn describe(
    named: &FunctionName,
    functions: &dyn Functions,
    read: &ReadPmu<'_>,
) -> Result<Event> {
    let name = named.to_string();
    if named.function.is_empty() || named.file.as_deref() == Some("") {
        bail!("{name}: incomplete name; write {}", named.kind.usage());
    }
    let counter = pmu(named.kind, read).map_err(|why| anyhow!("{name}: {why}"))?;
    let place = functions.find(named).map_err(|why| anyhow!("{name}: {why:#}"))?;
    let function = FunctionEvent { kind: named.kind, format: format(named.kind), counter, place };
    Ok(Event { name, what: EventKind::Function(function) })
}

/// Returns at most `most` functions that match a glob. The parts that compilers split off functions
/// (`f.cold`, `f.part.0`) match only a glob that contains a dot.
///
/// # Errors
/// As [`Functions::names`].
pub fn matching(
    glob: &FunctionName,
    functions: &dyn Functions,
    most: usize,
) -> Result<Vec<FunctionName>> {
    let parts = glob.function.contains('.');
    let wanted = |name: &str| {
        (parts || !name.contains('.')) && glob::matches(glob.function.as_bytes(), name.as_bytes())
    };
    let found = functions
        .names(glob.file.as_deref(), &wanted, most)
        .map_err(|why| anyhow!("{glob}: {why:#}"))?;
    Ok(found.iter().map(|name| glob.with(name)).collect())
}

/// Returns the PMU of a kind, set to calls or returns.
///
/// # Errors
/// This kernel does not have the PMU.
pub fn pmu(kind: ProbeKind, read: &ReadPmu<'_>) -> Result<Counter> {
    let terms = if kind.at_return() { "retprobe" } else { "" };
    let pmu = kind.pmu();
    match counter::parse(&format!("{pmu}/{terms}/"), read) {
        Ok(Some((_, counter))) => Ok(counter),
        _ => bail!(
            "this kernel has no PMU '{pmu}' (CONFIG_{}_EVENTS, since 4.17); {}",
            pmu.to_ascii_uppercase(),
            match kind.of_file() {
                true => "use a kernel that has it",
                false => "use a tracepoint (perilune list shows all), or a kernel that has it",
            }
        ),
    }
}

/// Returns the names and registers of a kind's fields, in the order of the fields.
fn registers_of(kind: ProbeKind) -> &'static [(&'static str, u32)] {
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

fn bits(registers: &[(&str, u32)]) -> u64 {
    registers.iter().fold(0, |bits, (_, register)| bits | 1 << register)
}

/// Returns the layout of a block of registers: 8 bytes each, in ascending order of their numbers.
pub fn format(kind: ProbeKind) -> Format {
    const WORD: usize = 8;
    let registers = registers_of(kind);
    let all = bits(registers);
    let field = |&(name, register): &(&str, u32)| Field {
        name: name.to_owned(),
        type_text: "long".to_owned(),
        offset: WORD * (all & ((1 << register) - 1)).count_ones() as usize,
        size: WORD,
        signed: true,
        common: false,
        kind: FieldKind::Int,
    };
    // Prints hexadecimal, as tracefs does for its own probes: the types of values are not known.
    let texts: Vec<String> = registers.iter().map(|(name, _)| format!("{name}=0x%lx")).collect();
    let values: Vec<String> = registers.iter().map(|(name, _)| format!("REC->{name}")).collect();
    Format {
        name: kind.prefix().to_owned(),
        id: 0,
        fields: registers.iter().map(field).collect(),
        print_fmt: format!("\"{}\", {}", texts.join(" "), values.join(", ")),
        fixed_size: WORD * registers.len(),
    }
}

#[cfg(test)]
mod tests;
