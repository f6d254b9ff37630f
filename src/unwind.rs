//! Unwinds user stacks from the stack copies in samples, with the unwind tables of the files that
//! the code is mapped from.
//!
//! ```text
//! registers, bytes of the stack → instruction pointer → its mapping → the file's tables
//!     → the caller's registers → …
//! ```
//!
//! An object is read when a walk first reaches one of its addresses. Only its tables are kept, as a
//! copy: a memory-mapped file could be overwritten, which would make every later access a risk.
//! Processes and objects stay cached until newer ones need the room. Code without tables (generated
//! at run time, or of a deleted file) is assumed to keep frame pointers.
//!
//! A walk that ends before the outermost function is marked as cut: the stack copy was too short, a
//! frame pointer was invalid, or a return address is not in code.

mod bounded;
mod object;
mod registers;
mod signal;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::rc::Rc;

use framehop::{CacheNative, Error, FrameAddress, Module, Unwinder as _, UnwinderNative};
use hashbrown::HashMap;

use crate::base::event::chain::ChainBuilder;
use crate::base::report::frame::Space;
use crate::source::UserStack;
use crate::task::objects::Object;
use crate::task::programs::Programs;
use object::UnwindTables;
use registers::UserRegisters;

/// Processes whose modules are cached at a time; each takes about 20 KB.
const PROCESSES: usize = 256;

/// Limit for the tables of all files together, in bytes; a large browser has 20 MB of them.
const BYTES: usize = 256 << 20;

/// Limit of signal return trampolines per process, usually those of its C library and of the vdso.
/// Each frame is compared with all of them.
const TRAMPOLINES: usize = 2 * signal::RANGES_MAX;

/// Unwinds stacks, and caches what it has read of processes and files.
#[derive(Default)]
pub struct Unwinder {
    processes: HashMap<Space, Process>,
    /// Tables by object number; `None` for an object without tables.
    tables: HashMap<u32, Option<Rc<UnwindTables>>>,
    /// Bytes of all tables.
    held: usize,
    /// Incremented with each walk.
    walks: u64,
}

/// The part of a process that walks have reached.
struct Process {
    modules: UnwinderNative<Rc<[u8]>, framehop::MayAllocateDuringUnwind>,
    /// Unwind rules found for addresses. Not shared between processes: the crate distinguishes the
    /// states of processes by 16 bits, which would overflow within a day on a busy machine.
    rules: CacheNative<framehop::MayAllocateDuringUnwind>,
    /// Mappings that walks have reached, with or without tables; sorted.
    mapped: Vec<Range<u64>>,
    /// Where signal handlers return to.
    trampolines: Vec<Range<u64>>,
    /// The last walk that used it.
    used: u64,
}

impl Unwinder {
    /// Walks the stack of a task: pushes its instruction pointer, then the return address of each
    /// caller, or the instruction pointer of code that a signal interrupted. `programs` must be in
    /// the state of the records before the sample.
    pub fn walk(
        &mut self,
        programs: &mut Programs,
        stack: &UserStack<'_>,
        frames: &mut ChainBuilder<'_>,
    ) {
        let registers = match UserRegisters::of(&stack.registers) {
            Some(Ok(registers)) => registers,
            // A 32-bit program: only its instruction pointer is known.
            Some(Err(address)) => {
                frames.push(address);
                return frames.cut();
            }
            None => return frames.cut(),
        };
        let space = programs.space_of(stack.pid);
        self.walks += 1;
        let process = match self.processes.get_mut(&space) {
            Some(process) => process,
            None => {
                self.make_room();
                self.processes.entry(space).or_insert_with(Process::new)
            }
        };
        process.used = self.walks;
        let mut known = WalkState { programs, tables: &mut self.tables, space, held: 0 };
        if !process.walk(&mut known, registers, stack.bytes, frames) {
            frames.cut();
        }
        self.held += known.held;
        if self.held > BYTES {
            self.forget();
        }
    }

    /// Drops what is cached of an address space that ended, or in which a mapping changed.
    pub fn forget_space(&mut self, space: Space) {
        self.processes.remove(&space);
    }

    /// Drops everything cached, for example after mapping records were lost.
    pub fn forget(&mut self) {
        self.processes.clear();
        self.tables.clear();
        self.held = 0;
    }

    /// Makes room for one more process.
    fn make_room(&mut self) {
        if self.processes.len() < PROCESSES {
            return;
        }
        let oldest = self.processes.iter().min_by_key(|(_, process)| process.used);
        if let Some(space) = oldest.map(|(space, _)| *space) {
            self.processes.remove(&space);
        }
    }
}

impl Process {
    fn new() -> Process {
        Process {
            modules: UnwinderNative::new(),
            rules: CacheNative::new(),
            mapped: Vec::new(),
            trampolines: Vec::new(),
            used: 0,
        }
    }

    /// Returns whether the walk reached the outermost function.
    fn walk(
        &mut self,
        known: &mut WalkState<'_>,
        registers: UserRegisters,
        stack: &[u8],
        frames: &mut ChainBuilder<'_>,
    ) -> bool {
        let (words, _) = stack.as_chunks::<8>();
        let bottom = registers.stack_pointer;
        let mut read = |address: u64| {
            let offset = address.wrapping_sub(bottom);
            let word = words.get((offset / 8) as usize).filter(|_| offset.is_multiple_of(8));
            match word {
                Some(word) => Ok(u64::from_ne_bytes(*word)),
                None => unaligned(stack, offset).ok_or(()),
            }
        };
        let mut values = registers.values;
        let mut frame = FrameAddress::from_instruction_pointer(registers.instruction_pointer);
        // The task's own address is correct wherever it lies; the address of a caller is in code.
        let (mut innermost, mut interrupted) = (true, false);
        loop {
            let address = frame.address_for_lookup();
            if !self.add_module_at(known, address) && !innermost {
                return false;
            }
            let returns_from_signal = self.trampolines.iter().any(|code| code.contains(&address));
            // No call precedes the first instruction of the code that a handler returns to.
            let pushed = match !innermost && (interrupted || returns_from_signal) {
                true => frames.push_interrupted(frame.address()),
                false => frames.push(frame.address()),
            };
            if !pushed {
                return false;
            }
            (innermost, interrupted) = (false, returns_from_signal);
            if returns_from_signal {
                let Some((address, before)) = signal::interrupted(&values, &mut read) else {
                    return false;
                };
                (frame, values) = (FrameAddress::from_instruction_pointer(address), before);
                continue;
            }
            let found = self.modules.unwind_frame(frame, &mut values, &mut self.rules, &mut read);
            match found.map(|address| address.and_then(FrameAddress::from_return_address)) {
                Ok(Some(caller)) => frame = caller,
                Ok(None) => return true,
                // Without tables and without a frame pointer the stack begins here: the kernel
                // starts a task with a frame pointer of 0.
                Err(Error::FramepointerUnwindingMovedBackwards) => {
                    return registers::frame_pointer(&values) == 0;
                }
                Err(_) => return false,
            }
        }
    }

    /// Adds the module that contains an address. Returns whether the address is mapped from code.
    fn add_module_at(&mut self, known: &mut WalkState<'_>, address: u64) -> bool {
        let at = self.mapped.partition_point(|range| range.end <= address);
        if self.mapped.get(at).is_some_and(|range| range.contains(&address)) {
            return true;
        }
        let Some((mapping, object)) = known.programs.at(known.space, address) else { return false };
        let range = mapping.start..mapping.end();
        let tables = object.and_then(|object| known.tables(&object));
        let base = tables.as_ref().and_then(|tables| tables.base(&mapping));
        if let (Some(tables), Some(base)) = (tables, base) {
            let module = Module::new(String::new(), range.clone(), base, tables.sections());
            self.modules.add_module(module);
            let room = TRAMPOLINES.saturating_sub(self.trampolines.len());
            self.trampolines.extend(tables.trampolines(base).take(room));
        }
        self.mapped.insert(at, range);
        true
    }
}

/// Reads a word at an offset that is not a multiple of 8.
#[cold]
fn unaligned(stack: &[u8], offset: u64) -> Option<u64> {
    let word = stack.get(usize::try_from(offset).ok()?..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*word))
}

/// The state that a walk reads, and the tables that it adds.
struct WalkState<'a> {
    programs: &'a mut Programs,
    tables: &'a mut HashMap<u32, Option<Rc<UnwindTables>>>,
    space: Space,
    /// Bytes of the tables that were read in this walk.
    held: usize,
}

impl WalkState<'_> {
    /// Returns the tables of an object; copies them on first use.
    fn tables(&mut self, object: &Object) -> Option<Rc<UnwindTables>> {
        if let Some(tables) = self.tables.get(&object.number()) {
            return tables.clone();
        }
        let tables = UnwindTables::of(object).map(Rc::new);
        // An object without tables takes room, too.
        self.held += tables.as_ref().map_or(0, |tables| tables.bytes()) + 256;
        self.tables.insert(object.number(), tables.clone());
        tables
    }
}
