//! Walks the user stacks of which samples brought a copy, by the unwind tables of the files that their code is mapped from.
//!
//! ```text
//! registers, bytes of the stack → instruction pointer → its mapping → the file's tables → the caller's registers → …
//! ```
//!
//! An object is read when an address of it is met first, and only its tables, which are copied: of a file that is mapped here,
//! and overwritten, every later look would be a risk. A process and an object are known until something newer needs the
//! room. Code without tables (made at run time, a file that is gone) is taken to keep frame pointers.
//!
//! A walk that cannot go on before it has reached the outermost function says so: the stack's copy was too short, a
//! frame pointer led nowhere, or a return address lies in no code.

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

use crate::base::chain::Room;
use crate::base::frame::Space;
use crate::source::UserStack;
use crate::task::objects::Object;
use crate::task::programs::Programs;
use object::Tables;
use registers::Registers;

/// Processes whose modules are known at a time; each takes some 20 KB.
const PROCESSES: usize = 256;

/// Bytes of the tables of all files together; a large browser has 20 MB of them.
const BYTES: usize = 256 << 20;

/// Places where handlers of one process return to: that of its C library and that of the vdso, mostly. Each frame is
/// compared with all.
const TRAMPOLINES: usize = 2 * signal::RANGES_MAX;

/// What is known of processes and files.
#[derive(Default)]
pub struct Unwinder {
    processes: HashMap<Space, Process>,
    /// Tables by the number of their object; None has none.
    tables: HashMap<u32, Option<Rc<Tables>>>,
    /// Bytes of all tables.
    held: usize,
    /// Grows with each walk.
    walks: u64,
}

/// A process, as far as its code was met.
struct Process {
    modules: UnwinderNative<Rc<[u8]>, framehop::MayAllocateDuringUnwind>,
    /// What it found for an address. Of its own: the crate tells the states of processes apart by 16 bits, which would run
    /// over within a day of a busy machine.
    rules: CacheNative<framehop::MayAllocateDuringUnwind>,
    /// The mappings that were met, with tables or without; sorted.
    met: Vec<Range<u64>>,
    /// Where signal handlers return to.
    trampolines: Vec<Range<u64>>,
    /// The walk that used it last.
    used: u64,
}

impl Unwinder {
    /// Walks the stack of a task: pushes where it was, then the address that each caller returns to. `programs` is as the
    /// records before the sample say.
    pub fn walk(&mut self, programs: &mut Programs, stack: &UserStack<'_>, frames: &mut Room<'_>) {
        let registers = match Registers::of(&stack.registers) {
            Some(Ok(registers)) => registers,
            // A program of 32 bits: where it was is known, and no more.
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
        let mut known = Known { programs, tables: &mut self.tables, space, held: 0 };
        if !process.walk(&mut known, registers, stack.bytes, frames) {
            frames.cut();
        }
        self.held += known.held;
        if self.held > BYTES {
            self.forget();
        }
    }

    /// A mapping of the space changed, or it ended: what was known of it is asked for anew.
    pub fn forget_space(&mut self, space: Space) {
        self.processes.remove(&space);
    }

    /// Forgets everything, as when records of mappings were lost.
    pub fn forget(&mut self) {
        self.processes.clear();
        self.tables.clear();
        self.held = 0;
    }

    /// Makes room for one process more.
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
            met: Vec::new(),
            trampolines: Vec::new(),
            used: 0,
        }
    }

    /// Whether the walk came to an end that is one: the outermost function.
    fn walk(
        &mut self,
        known: &mut Known<'_>,
        registers: Registers,
        stack: &[u8],
        frames: &mut Room<'_>,
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
        // Where the task is, is true whatever lies there; where it was called from is code.
        let mut innermost = true;
        loop {
            let asked = frame.address_for_lookup();
            if !self.meet(known, asked) && !innermost || !frames.push(frame.address()) {
                return false;
            }
            innermost = false;
            if self.trampolines.iter().any(|range| range.contains(&asked)) {
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
                // Where nothing is known and there is no frame pointer either, the stack begins: so the kernel starts a task.
                Err(Error::FramepointerUnwindingMovedBackwards) => {
                    return registers::frame_pointer(&values) == 0;
                }
                Err(_) => return false,
            }
        }
    }

    /// Makes the module that an address lies in known. Whether there is code at all.
    fn meet(&mut self, known: &mut Known<'_>, address: u64) -> bool {
        let place = self.met.partition_point(|range| range.end <= address);
        if self.met.get(place).is_some_and(|range| range.contains(&address)) {
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
        self.met.insert(place, range);
        true
    }
}

/// A word that lies across two.
#[cold]
fn unaligned(stack: &[u8], offset: u64) -> Option<u64> {
    let word = stack.get(usize::try_from(offset).ok()?..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*word))
}

/// What a walk may ask.
struct Known<'a> {
    programs: &'a mut Programs,
    tables: &'a mut HashMap<u32, Option<Rc<Tables>>>,
    space: Space,
    /// Bytes of tables that were read since.
    held: usize,
}

impl Known<'_> {
    /// The tables of an object, copied the first time.
    fn tables(&mut self, object: &Object) -> Option<Rc<Tables>> {
        if let Some(tables) = self.tables.get(&object.number()) {
            return tables.clone();
        }
        let tables = Tables::of(object).map(Rc::new);
        // What has none takes room, too.
        self.held += tables.as_ref().map_or(0, |tables| tables.bytes()) + 256;
        self.tables.insert(object.number(), tables.clone());
        tables
    }
}
