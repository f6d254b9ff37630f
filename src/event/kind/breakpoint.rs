//! Hardware breakpoints: `mem:jiffies/8:w`, `mem:./prog:counter:w`, `mem:0x1000/4:rw`.
//!
//! The CPU raises one at each read, write or execution of 1, 2, 4 or 8 bytes; it needs no PMU. The
//! address of a symbol in a program differs between processes, so it is computed for each watched
//! task when the event is opened ([`EventProperties::attr_fields_for_task`]).
//!
//! Source: include/uapi/linux/hw_breakpoint.h, kernel/events/hw_breakpoint.c and
//! arch/*/kernel/hw_breakpoint.c.

mod access;
mod name;
#[cfg(test)]
mod tests;

use std::io::ErrorKind;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use perf_event_open_sys::bindings as abi;

pub use access::MemoryAccess;
use access::{access, length};
pub(super) use name::PREFIX;
use name::{BreakpointName, USAGE};

use super::Event;
use super::modifiers::Modifiers;
use super::properties::{EventAttr, EventProperties, FoundNames};
use crate::base::kernel::address::is_kernel_address;
use crate::base::matching::glob;
use crate::base::text::number::parse_u64;
use crate::event::exclude::Exclude;
use crate::event::sampling::Sampling;
use crate::sys::breakpoint_hits::lost_hits;
use crate::sys::load_address::LoadedFile;

/// A hardware breakpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breakpoint {
    /// The address; in a program, before relocation.
    pub address: u64,
    /// The program or library that contains the address; None if it is the same in every process.
    pub program: Option<BreakpointFile>,
    /// The accesses that raise it.
    pub access: MemoryAccess,
    /// Watched bytes: 1, 2, 4 or 8.
    pub length: u8,
    /// Bytes of the symbol if only the first ones are watched and no other length was requested.
    pub partly: Option<u64>,
    /// Modes in which it is not raised.
    pub exclude: Exclude,
}

/// The program or library of a breakpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakpointFile {
    /// The name as typed.
    pub name: String,
    /// How it is found in a process.
    pub loaded: LoadedFile,
}

/// A function or variable of the kernel or of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundSymbol {
    /// Its address; in a file, before relocation.
    pub address: u64,
    /// Its size in bytes; 0 if it is not known.
    pub size: u64,
    /// Whether it is a function.
    pub is_code: bool,
    /// How its file is found in a process; None for the kernel.
    pub loaded: Option<LoadedFile>,
}

/// Finds functions and variables by name.
pub trait SymbolFinder {
    /// Returns the symbol of a file, or of the kernel if `file` is None.
    ///
    /// # Errors
    /// No symbol or more than one has this name, or it cannot be watched. The error names the
    /// reason and the fix.
    fn symbol(&self, file: Option<&str>, name: &str) -> Result<FoundSymbol>;

    /// Checks that an instruction begins at an offset in a function of a file.
    ///
    /// # Errors
    /// No instruction begins there; the error names the nearest ones.
    fn check_instruction(&self, file: &str, function: &str, offset: u64) -> Result<()>;

    /// Returns at most `most` symbols of a file, or of the kernel if `file` is None, that are
    /// `wanted`, sorted.
    ///
    /// # Errors
    /// The file cannot be read, or has no symbols.
    fn symbols(
        &self,
        file: Option<&str>,
        wanted: &dyn Fn(&str) -> bool,
        most: usize,
    ) -> Result<Vec<String>>;
}

/// Default length in bytes, as in perf.
const DEFAULT_LENGTH: u8 = 4;

impl EventProperties for Breakpoint {
    fn attr(&self) -> EventAttr {
        EventAttr {
            type_: abi::PERF_TYPE_BREAKPOINT,
            // The same bits are `bp_addr` and `bp_len`.
            config1: self.address,
            config2: self.length.into(),
            exclude: self.exclude,
            ..EventAttr::default()
        }
    }

    fn in_user_mode(&self, name: &str) -> Option<Event> {
        // User mode cannot access an address of the kernel.
        let exclude = Exclude { kernel: true, hv: true, ..self.exclude };
        let own = || Event::new(format!("{name}:u"), Breakpoint { exclude, ..self.clone() });
        (!self.is_in_kernel() && self.exclude == Exclude::default()).then(own)
    }

    fn attr_fields(&self) -> Vec<(&'static str, u64)> {
        vec![("bp_type", self.access as u64)]
    }

    /// Returns the address in the memory of the task's process. The event is removed if the process
    /// executes another program, which has something else there.
    fn attr_fields_for_task(&self, tid: i32) -> Result<Vec<(&'static str, u64)>> {
        let Some(program) = &self.program else { return Ok(Vec::new()) };
        let file = &program.name;
        let Ok(tid) = u32::try_from(tid) else { bail!(NEEDS_TASK) };
        let bias = program.loaded.bias(tid).map_err(|why| match why.kind() {
            ErrorKind::NotFound => anyhow!("task {tid} has ended"),
            _ => anyhow!(
                "failed to read the mappings of task {tid}: {why}; run as its user, or as root \
                 with CAP_SYS_PTRACE"
            ),
        })?;
        let Some(bias) = bias else {
            bail!("task {tid} has not mapped {file}; /proc/{tid}/maps lists the files that it has");
        };
        // The file is untrusted: its symbols must not lead into the kernel.
        let address = self.address.checked_add_signed(bias);
        let last = address.and_then(|address| address.checked_add(u64::from(self.length) - 1));
        let Some(address) = address.filter(|_| last.is_some_and(|last| !is_kernel_address(last)))
        else {
            bail!("the symbol's address is outside of the memory of task {tid}; {file} is damaged");
        };
        Ok(vec![("bp_addr", address), ("remove_on_exec", 1)])
    }

    fn awaits_program(&self) -> bool {
        self.program.is_some()
    }

    fn doubt(&self) -> Option<String> {
        lost_hits().map(|hits| {
            format!(
                "this machine loses hits of breakpoints: of {} test writes it counted {}; there \
                 may be more than are shown, and SIGTRAP may end a watched program",
                hits.written, hits.counted
            )
        })
    }

    fn awaits_library(&self) -> bool {
        self.program.as_ref().is_some_and(|program| program.loaded.is_library)
    }

    fn samples_each(&self) -> bool {
        true
    }

    /// Returns true: the file may be replaced, and modules of the kernel come and go.
    fn may_change(&self) -> bool {
        true
    }

    fn check_options(&self, sampling: &Sampling, of_tasks: bool) -> Result<()> {
        if self.program.is_some() && (!of_tasks || sampling.whole_cpus) {
            bail!(NEEDS_TASK);
        }
        Ok(())
    }

    fn label(&self) -> &'static str {
        "breakpoint"
    }

    fn title(&self) -> String {
        let Breakpoint { address, length, .. } = self;
        let what = match self.access {
            MemoryAccess::Read => format!("reads of {length} bytes at"),
            MemoryAccess::Write => format!("writes to {length} bytes at"),
            MemoryAccess::ReadWrite => format!("reads of and writes to {length} bytes at"),
            MemoryAccess::Execute => "execution of the instruction at".to_owned(),
        };
        match &self.program {
            Some(program) => {
                format!("a breakpoint: {what} {address:#x} of {}, before relocation", program.name)
            }
            None => format!("a breakpoint: {what} {address:#x}"),
        }
    }

    fn notes(&self) -> Vec<String> {
        let ip = match self.access {
            MemoryAccess::Execute => "the address of the instruction, which runs next",
            _ if cfg!(target_arch = "x86_64") => "the address after the instruction",
            _ => "the address of the instruction",
        };
        let mut notes = vec![
            "no fields; its samples have _addr, _ip and _period".to_owned(),
            format!("_addr is the watched address; _ip is {ip}"),
        ];
        if self.access != MemoryAccess::Execute {
            notes.push(
                "the kernel reports neither the value nor which of the bytes was accessed; a \
                 register of e._regs may have the value"
                    .to_owned(),
            );
        }
        notes
    }
}

/// The accesses, for messages.
const ACCESSES: &str = "use the letters r (read), w (write) and x (execution)";
/// Maximum length of a symbol that may be meant as letters of an access.
const LETTERS_MAX: usize = 3;

const NEEDS_TASK: &str = "the address of a symbol of a program differs between processes; add -p \
    PID, or a COMMAND that executes the program";

impl Breakpoint {
    /// Returns whether it is at an address of the kernel.
    fn is_in_kernel(&self) -> bool {
        is_kernel_address(self.address)
    }
}

/// Returns the breakpoint that a name stands for; None if it is the name of another kind, or
/// symbols cannot be looked up.
///
/// # Errors
/// The syntax is invalid; the symbol does not exist; or the CPU cannot watch these bytes.
pub(super) fn parse(text: &str, symbols: Option<&dyn SymbolFinder>) -> Result<Option<Breakpoint>> {
    let Some(behind) = PREFIX.behind(text) else { return Ok(None) };
    let name = BreakpointName::split(behind);
    if !name.is_address() && symbols.is_none() {
        return Ok(None);
    }
    let modifiers = Modifiers::parse(text, name.modifiers)?;
    // The kernel checks the level of privilege as for software events (`perf_bp_event()`).
    modifiers.check_software(text, false)?;
    let mut found = breakpoint(&name, symbols).map_err(|why| anyhow!("{text}: {why:#}"))?;
    let mut attr = EventAttr::default();
    modifiers.apply(&mut attr, None)?;
    found.exclude = attr.exclude;
    Ok(Some(found))
}

fn breakpoint(name: &BreakpointName<'_>, symbols: Option<&dyn SymbolFinder>) -> Result<Breakpoint> {
    if let Some(letters) = name.rest.strip_prefix(':').filter(|_| name.access.is_none()) {
        bail!("`:{}` is not an access; {ACCESSES}: write {USAGE}", letters.trim());
    }
    ensure!(name.rest.is_empty(), "`{}` is not part of a name; write {USAGE}", name.rest.trim());
    ensure!(!name.place.is_empty(), "incomplete name; write {USAGE}");
    let offset = name.offset.map_or(Ok(0), number)?;
    let symbol = match symbols.filter(|_| !name.is_address()) {
        Some(symbols) => symbols
            .symbol(name.file, name.place)
            .map_err(|why| misread_access(name, symbols, why))?,
        None => FoundSymbol { address: number(name.place)?, size: 0, is_code: false, loaded: None },
    };
    if symbol.size > 0 && offset >= symbol.size {
        bail!("'{}' has only {} bytes; use a smaller offset", name.place, symbol.size);
    }
    let access = match name.access {
        Some(letters) => access(letters)?,
        None if symbol.is_code => MemoryAccess::Execute,
        None => MemoryAccess::ReadWrite,
    };
    if access == MemoryAccess::Execute
        && let Some(symbols) = symbols.filter(|_| !name.is_address())
    {
        let place = name.place;
        ensure!(symbol.is_code, "'{place}' is a variable, not code; use :rw, :w or a function");
        if let Some(file) = name.file.filter(|_| offset > 0) {
            symbols.check_instruction(file, place, offset)?;
        }
    }
    let address = symbol.address.wrapping_add(offset);
    let usual = match symbol.size {
        size @ (1 | 2 | 4 | 8) if offset == 0 => size as u8,
        _ => DEFAULT_LENGTH,
    };
    let is_partial =
        access != MemoryAccess::Execute && name.length.is_none() && name.offset.is_none();
    let length = length(name.length, access, usual)?;
    if access != MemoryAccess::Execute && !address.is_multiple_of(length.into()) {
        bail!(
            "the address {address:#x} is not a multiple of {length}, which the CPU requires to \
             watch {length} bytes; use /1, or an aligned address"
        );
    }
    let program = name.file.zip(symbol.loaded);
    Ok(Breakpoint {
        address,
        program: program.map(|(file, loaded)| BreakpointFile { name: file.to_owned(), loaded }),
        access,
        length,
        partly: Some(symbol.size).filter(|size| is_partial && *size > length.into()),
        exclude: Exclude::default(),
    })
}

/// Returns the error for `mem:SYMBOL:LETTERS` with a letter other than `rwx`: it is split as if
/// SYMBOL were a program. `why` is the error for that; it is kept unless the kernel has the symbol.
fn misread_access(
    name: &BreakpointName<'_>,
    symbols: &dyn SymbolFinder,
    why: anyhow::Error,
) -> anyhow::Error {
    let Some(symbol) = name.file.filter(|file| !file.contains('/')) else { return why };
    let letters = name.place;
    match symbols.symbol(None, symbol) {
        Ok(_) => anyhow!("':{letters}' is not an access; {ACCESSES}, as in mem:{symbol}:rw"),
        Err(_) if letters.len() <= LETTERS_MAX => {
            anyhow!("{why:#}; if '{letters}' is an access, {ACCESSES}, as in mem:{symbol}:rw")
        }
        Err(_) => why,
    }
}

fn number(text: &str) -> Result<u64> {
    parse_u64(text).with_context(|| format!("'{text}' is not a number; write it as 4096 or 0x1000"))
}

/// Returns the names that match a pattern: `mem:GLOB`, `mem:FILE:GLOB`, or a part of a symbol's
/// name instead of a glob. None if the pattern is not one of breakpoints.
///
/// # Errors
/// As [`SymbolFinder::symbols`].
pub(super) fn look_up(
    pattern: &str,
    symbols: Option<&dyn SymbolFinder>,
    most: usize,
) -> Result<Option<FoundNames>> {
    let (Some(behind), Some(symbols)) = (PREFIX.behind(pattern), symbols) else { return Ok(None) };
    let name = BreakpointName::split(behind);
    let found = |names| Ok(Some(FoundNames { category: "breakpoint", names }));
    let is_whole = name.offset.is_some() || name.length.is_some() || name.access.is_some();
    if is_whole || name.is_address() || !name.rest.is_empty() || !name.modifiers.is_empty() {
        let exact = parse(pattern, Some(symbols))?;
        return found(exact.map(|_| pattern.to_owned()).into_iter().collect());
    }
    let wanted = |symbol: &str| glob::matches_or_contains(name.place, symbol);
    let matching = symbols.symbols(name.file, &wanted, most);
    let matching = matching.map_err(|why| anyhow!("{pattern}: {why:#}"))?;
    let before = &pattern[..pattern.len() - name.place.len()];
    found(matching.iter().map(|symbol| format!("{before}{symbol}")).collect())
}
