//! Function events: `kprobe:FUNCTION` and `uprobe:FILE:FUNCTION` at the call of a function,
//! `kretprobe:` and `uretprobe:` at its return, `FUNCTION+OFFSET` at an instruction inside of it;
//! USDT probes, `usdt:FILE:PROVIDER:NAME`; and, where the kernel has them, `fprobe:FUNCTION`,
//! `fretprobe:FUNCTION` and `tprobe:TRACEPOINT`.
//!
//! Each is made as an event in tracefs ([`crate::sys::dynamic_event`]) and opened like a
//! tracepoint. A sample of a function whose parameters are known ([`typed`]), and of any probe that
//! is not a kprobe or uprobe, has a raw record with the values that the kernel read ([`fetched`]).
//! Any other sample has registers instead: those of the arguments or of the return value, inside a
//! function all of them.
//! A [`Format`] describes where each register lies, so code for tracepoint records handles these
//! samples as well.

pub mod fetched;
mod location;
mod named;
mod spelling;
pub mod typed;

pub use location::{FunctionLocation, ProbeValues, ProbedCode};
pub(super) use named::PREFIXES;
pub use named::{CodeLocation, FunctionName, ProbeKind, split_file};

use anyhow::{Result, anyhow, bail, ensure};
use perf_event_open_sys::bindings as abi;
use typed::ListedPath;

use super::Event;
use super::breakpoint::SymbolFinder;
use super::pmu;
use super::pmu_event::ReadPmu;
use super::properties::{EventAttr, EventProperties, RegisterFields};
use crate::base::matching::glob;
use crate::base::text::units::counted;
use crate::decode::ctypes::RESULT;
use crate::decode::format::{Field, FieldKind, Format, OmittedField};
use crate::event::exclude::EventModes;
use crate::event::sampling::Sampling;
use crate::sys::dynamic_event::ProbePoint;
use crate::sys::registers;

/// A function event.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionEvent {
    /// Which kind it is.
    pub kind: ProbeKind,
    /// Layout of the registers in the register block of a sample, or of its raw record.
    pub format: Format,
    /// The instructions that raise it.
    pub place: FunctionLocation,
}

/// Finds functions by name.
pub trait Functions: SymbolFinder {
    /// Returns where the instructions of an event are.
    ///
    /// # Errors
    /// No function or more than one has this name, or it cannot be probed there. The error names
    /// the reason and the fix.
    fn find(&self, named: &FunctionName) -> Result<FunctionLocation>;

    /// Returns at most `most` functions of the kind and in the file of `of` that can be probed and
    /// are `wanted`, sorted.
    ///
    /// # Errors
    /// The file cannot be read, or has no functions.
    fn names(
        &self,
        of: &FunctionName,
        wanted: &dyn Fn(&str) -> bool,
        most: usize,
    ) -> Result<Vec<String>>;

    /// Returns the names that may follow `path` in the list of a function's parameters: behind an
    /// empty path those of the parameters, behind `["req"]` the members of the structure `req`.
    fn parameters(&self, of: &FunctionName, path: &[&str]) -> Vec<String>;
}

impl EventProperties for FunctionEvent {
    fn attr(&self) -> EventAttr {
        EventAttr { type_: abi::PERF_TYPE_TRACEPOINT, ..EventAttr::default() }
    }

    fn sample_type(&self) -> u64 {
        u64::from(match self.place.values {
            ProbeValues::Fetched(_) => abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_RAW,
            _ => abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_REGS_INTR,
        })
    }

    fn format(&self) -> Option<&Format> {
        Some(&self.format)
    }

    fn raw_format(&self) -> Option<&Format> {
        matches!(self.place.values, ProbeValues::Fetched(_)).then_some(&self.format)
    }

    /// Returns registers that are valid for any task if it is a kernel function: these have the
    /// same calling convention for every task, and without a task (`perf_reg_abi()` looks at the
    /// task); a program's functions do not.
    fn registers(&self) -> Option<RegisterFields> {
        let mask = bits(registers_of(self.kind, &self.place.values)?);
        Some(RegisterFields { mask, of_any_task: !self.kind.of_file() })
    }

    fn probe(&self) -> Option<ProbePoint<'_>> {
        Some(self.place.point(self.kind))
    }

    fn is_function(&self) -> bool {
        !matches!(self.kind, ProbeKind::Usdt | ProbeKind::Tprobe)
    }

    fn is_user_entry(&self) -> bool {
        self.kind == ProbeKind::Uprobe && self.place.values != ProbeValues::Registers
    }

    fn without_parameters(&self, name: &str) -> Option<Event> {
        let has_parameters = self.raw_format().is_some()
            && matches!(self.kind, ProbeKind::Kprobe | ProbeKind::Uprobe);
        has_parameters.then(|| {
            let mut place = FunctionLocation { values: ProbeValues::Call, ..self.place.clone() };
            place.sites.iter_mut().for_each(|site| site.arguments.clear());
            let format = format(self.kind, &place.values);
            Event::new(name, FunctionEvent { kind: self.kind, format, place })
        })
    }

    fn modes(&self, _is_counted: bool) -> EventModes {
        if self.kind.of_file() { EventModes::OnlyUser } else { EventModes::OnlyKernel }
    }

    fn samples_each(&self) -> bool {
        true
    }

    /// Returns true, because the file may be replaced.
    fn may_change(&self) -> bool {
        true
    }

    fn check_options(&self, sampling: &Sampling, of_tasks: bool) -> Result<()> {
        // A control group is refused for another reason if tasks are watched.
        if of_tasks && sampling.count && sampling.cgroup.is_none() {
            bail!(
                "the kernel counts calls for whole CPUs, not for single tasks; count them in a \
                 handler, as top does"
            );
        }
        Ok(())
    }

    fn prepare(&self) -> Result<()> {
        let ProbedCode::File(code) = &self.place.code else { return Ok(()) };
        if !code.is_intact() {
            // The offset may now be in the middle of another instruction.
            bail!("its file was modified after the probe was looked up; open the probe again");
        }
        self.place.sites.iter().for_each(|site| code.warm(site.offset));
        Ok(())
    }

    fn label(&self) -> &'static str {
        self.kind.label()
    }

    fn title(&self) -> String {
        let sites = self.place.sites.len() as u64;
        match self.place.values {
            _ if self.kind == ProbeKind::Usdt => {
                format!("a USDT probe with {}", counted(sites, "site"))
            }
            _ if self.kind == ProbeKind::Tprobe => "a tracepoint with its arguments".to_owned(),
            ProbeValues::Registers => "an instruction of a function".to_owned(),
            _ if self.kind.at_return() => "a function when it returns".to_owned(),
            _ => "a function when it is called".to_owned(),
        }
    }

    fn notes(&self) -> Vec<String> {
        let ip = match self.kind {
            ProbeKind::Kprobe => "the address after the probe",
            ProbeKind::Kretprobe => "an address in the return trampoline of the kernel",
            ProbeKind::Fprobe => "the address of the function",
            ProbeKind::Fretprobe => "an address in the function",
            ProbeKind::Tprobe => "the address behind the tracepoint",
            ProbeKind::Uprobe | ProbeKind::Usdt => "the address of the probe",
            ProbeKind::Uretprobe => "the return address",
        };
        let values = match self.place.values {
            ProbeValues::Call => {
                Some("raw register values: (int)arg1 for an int; no floats and no structs")
            }
            ProbeValues::Registers => Some("the general registers: (int)ax for an int"),
            ProbeValues::Fetched(_) | ProbeValues::Returned(_) => None,
        };
        let omitted = self.place.omitted.iter().map(|one| {
            let OmittedField { name, why } = one;
            format!("{name} is omitted: it {why}")
        });
        let values = values.map(str::to_owned).into_iter().chain(omitted);
        let values = values.chain(self.place.notes.clone());
        values.chain([format!("_ip is {ip}")]).collect()
    }

    fn count_filter_refusal(&self, _condition: &str) -> String {
        "the kernel cannot filter by these values, and a count has no records to filter in user \
         space; count in a handler"
            .to_owned()
    }
}

/// Returns the function event that a name stands for.
///
/// # Errors
/// FILE or FUNCTION is missing, or this kernel has no such PMU; or as [`Functions::find`].
pub fn describe(
    named: &FunctionName,
    functions: &dyn Functions,
    read: &ReadPmu<'_>,
) -> Result<FunctionEvent> {
    let name = named.to_string();
    if named.function.is_empty() || named.file.as_deref() == Some("") {
        bail!("{name}: incomplete name; write {}", named.kind.usage());
    }
    if named.paths().is_some_and(|paths| paths.iter().any(|path| path.is_empty())) {
        bail!("{name}: a parameter is missing between the parentheses; name one, or omit them");
    }
    if let Some(function) = named.before_fetch_argument() {
        bail!(
            "{name}: write the name of a parameter or member, such as {function}(NAME) or \
             {function}(arg1.text): perilune makes the fetch argument"
        );
    }
    let own = named
        .paths()
        .unwrap_or_default()
        .into_iter()
        .filter_map(|path| ListedPath::parse(path).own);
    if let Some(own) = own.into_iter().find(|own| own.starts_with('_')) {
        bail!(
            "{name}: '{own}': names that begin with `_` are fields of every sample; use another \
             one"
        );
    }
    check_kernel(named.kind, read).map_err(|why| anyhow!("{name}: {why}"))?;
    let place = functions.find(named).map_err(|why| match spelling::instead(named) {
        Some(instead) => anyhow!("{name}: {instead}"),
        None => anyhow!("{name}: {why:#}"),
    })?;
    if named.kind.at_return() && place.values == ProbeValues::Registers {
        bail!("{name}: a return has no offset in the function; omit it");
    }
    let mut format = format(named.kind, &place.values);
    format.omitted = place.omitted.clone();
    Ok(FunctionEvent { kind: named.kind, format, place })
}

/// Returns at most `most` functions that match a glob. The parts that compilers split off functions
/// (`f.cold`, `f.part.0`) match only a glob that contains a dot; a clone (`f.constprop.0`) is a
/// function.
///
/// # Errors
/// As [`Functions::names`]; or the glob has a list of parameters.
pub fn matching(
    glob: &FunctionName,
    functions: &dyn Functions,
    most: usize,
) -> Result<Vec<FunctionName>> {
    let parts = glob.function.contains('.') || glob.kind == ProbeKind::Usdt;
    let wanted = |name: &str| {
        let is_part = name.contains(".cold") || name.contains(".part.");
        (parts || !is_part) && glob::matches(glob.function.as_bytes(), name.as_bytes())
    };
    let found = functions.names(glob, &wanted, most).map_err(|why| anyhow!("{glob}: {why:#}"))?;
    // `f(char const*)` of C++ is a name.
    if found.is_empty() && glob.kind.of_file() && functions.find(glob).is_ok() {
        return Ok(vec![glob.clone()]);
    }
    if found.is_empty()
        && let Some(instead) = spelling::instead(glob)
    {
        bail!("{glob}: {instead}");
    }
    ensure!(
        !found.is_empty() || glob.paths().is_none() || !glob::is_glob(glob.without_paths()),
        "{glob}: a glob has no list of parameters: name one {}, or omit the parentheses",
        glob.kind.noun()
    );
    Ok(found.iter().map(|name| glob.with(name)).collect())
}

/// Checks whether this kernel has probes of a kind with a PMU. Where it has the PMU, it also has
/// the file in tracefs (`CONFIG_KPROBE_EVENTS`, `CONFIG_UPROBE_EVENTS`).
///
/// # Errors
/// It has none.
pub fn check_kernel(kind: ProbeKind, read: &ReadPmu<'_>) -> Result<()> {
    let Some(pmu) = kind.pmu() else { return Ok(()) };
    match pmu::type_of(pmu, read) {
        Ok(_) => Ok(()),
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

/// Returns the names and registers of the fields, in the order of the fields; None if a sample has
/// a raw record.
fn registers_of(kind: ProbeKind, values: &ProbeValues) -> Option<&'static [(&'static str, u32)]> {
    const AT: [u32; 6] = registers::ARGUMENTS;
    const ARGUMENTS: [(&str, u32); 6] = [
        ("arg1", AT[0]),
        ("arg2", AT[1]),
        ("arg3", AT[2]),
        ("arg4", AT[3]),
        ("arg5", AT[4]),
        ("arg6", AT[5]),
    ];
    const RETURNED: [(&str, u32); 1] = [(RESULT, registers::RETURNED)];
    match values {
        ProbeValues::Returned(_) => Some(&RETURNED),
        ProbeValues::Call if kind.at_return() => Some(&RETURNED),
        ProbeValues::Call => Some(&ARGUMENTS),
        ProbeValues::Registers => Some(registers::GENERAL),
        ProbeValues::Fetched(_) => None,
    }
}

fn bits(registers: &[(&str, u32)]) -> u64 {
    registers.iter().fold(0, |bits, (_, register)| bits | 1 << register)
}

/// Returns the layout of a raw record, or of a block of registers: 8 bytes each, in ascending order
/// of their numbers.
fn format(kind: ProbeKind, values: &ProbeValues) -> Format {
    const WORD: usize = 8;
    match values {
        ProbeValues::Fetched(arguments) => return fetched::record_format(kind, arguments),
        ProbeValues::Returned(value) => return fetched::result_format(kind, *value),
        ProbeValues::Call | ProbeValues::Registers => {}
    }
    let registers = registers_of(kind, values).unwrap_or_default();
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
        ..Format::default()
    }
}

#[cfg(test)]
mod tests;
