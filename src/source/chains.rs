//! From what a sample tells of a stack to the chain that its slot shows, whoever walked it.
//!
//! Most chains stand in their record as they are to be seen, and stay there. The rest is made here: what unwind tables or
//! branch records tell is put behind the kernel's part, and a chain that was cut gets its marker.

use super::{Sink, UserStack};
use crate::base::chain::{self, Room};
use crate::decode::rest::{BranchStack, Rest};
use crate::decode::sample::{Layout, Sample};
use crate::decode::words::Words;
use crate::event::sampling::{Stack, Walk};
use crate::sys::registers::LINK;

/// Words that the chains of a batch may take: 512 KiB, of which a batch touches what it needs.
const WORDS: usize = 1 << 16;

/// Entries that the kernel writes at most: those of a record of 64 KiB.
const WRITTEN: usize = 1 << 13;

/// Words that one chain takes at most: what the kernel wrote, what was walked here, and two markers.
const LONGEST: usize = WRITTEN + UNWOUND + 2;

/// Frames that are unwound of a stack when nobody asks for fewer: a recursion deeper than this is cut.
const UNWOUND: usize = 1024;

/// Frames of a chain when the kernel does not say (`PERF_MAX_STACK_DEPTH` in include/uapi/linux/perf_event.h).
const USUAL_DEPTH: usize = 127;

/// What is to be done for the chains of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chained {
    stack: Stack,
    /// Frames that the kernel writes at most.
    depth: usize,
    /// Calls that the hardware remembers; 0 is not known.
    branches: usize,
    /// Each begins where a function begins, whose caller the sample tells beside it.
    entered: bool,
}

/// A slot's chain: where it begins, and its entries.
pub(super) type Chain = (*const u64, usize);

/// Memory of the chains of a batch. It does not move: slots point into it.
#[derive(Debug, Default)]
pub(super) struct Chains {
    words: Vec<u64>,
    /// Chains so far that were cut.
    pub(super) truncated: u64,
}

impl Chained {
    /// For an event whose stacks are taken so; `kernel_depth` is `kernel.perf_event_max_stack`, `branches` what the PMU
    /// says it remembers.
    pub(super) fn new(
        stack: Stack,
        kernel_depth: Option<usize>,
        branches: Option<usize>,
    ) -> Chained {
        let depth = stack.depth.map_or(kernel_depth.unwrap_or(USUAL_DEPTH), usize::from);
        Chained { stack, depth, branches: branches.unwrap_or(0), entered: false }
    }

    /// Of functions that have just been called, so that frame pointers do not know the caller.
    pub(super) fn entered(self, entered: bool) -> Chained {
        Chained { entered, ..self }
    }

    /// Frames of user space that a chain has room for behind `kernel` ones of the kernel.
    fn left(&self, kernel: usize) -> usize {
        self.stack.depth.map_or(UNWOUND, usize::from).saturating_sub(kernel).min(UNWOUND)
    }

    /// Whether the kernel wrote as many frames as it may, so that there may be more.
    #[inline]
    fn is_cut(&self, chain: Words<'_>) -> bool {
        chain.len() >= self.depth && frames(chain) >= self.depth
    }
}

impl Chains {
    /// The chain of a sample: in its record, or made here.
    pub(super) fn of(
        &mut self,
        chained: &Chained,
        layout: &Layout,
        sample: &Sample<'_>,
        sink: &mut dyn Sink,
    ) -> Chain {
        let whole = sample.callchain;
        let by_kernel = chained.stack.walk == Walk::FramePointers || !chained.stack.user();
        let missing = chained.entered.then(|| missing_caller(layout, sample)).flatten();
        if by_kernel && !chained.is_cut(whole) && missing.is_none() || self.is_low() {
            return as_written(whole);
        }
        if self.words.capacity() == 0 {
            self.words.reserve_exact(WORDS);
        }
        let start = self.words.len();
        let cut = match (by_kernel, layout.rest(sample)) {
            (false, Ok(rest)) if matches!(chained.stack.walk, Walk::Dwarf { .. }) => {
                self.unwound(chained, sample, &rest, sink)
            }
            (false, Ok(rest)) => self.called(chained, whole, &rest.branch_stack),
            (true, _) if let Some((at, caller)) = missing => {
                self.write(whole.iter().take(at).chain([caller]).chain(whole.iter().skip(at)));
                chained.is_cut(whole)
            }
            // Its callers in user space stand in bytes that make no sense.
            (_, _) => {
                self.write(whole.iter());
                true
            }
        };
        if cut {
            self.truncated += 1;
            self.words.push(chain::TRUNCATED);
        }
        let made = &self.words[start..];
        if made.is_empty() { (std::ptr::null(), 0) } else { (made.as_ptr(), made.len()) }
    }

    /// The kernel's part, and the user's from registers and stack. Whether the chain was cut.
    fn unwound(
        &mut self,
        chained: &Chained,
        sample: &Sample<'_>,
        rest: &Rest<'_>,
        sink: &mut dyn Sink,
    ) -> bool {
        self.write(sample.callchain.iter());
        let mut cut = chained.is_cut(sample.callchain);
        // A kernel thread has no registers of user space. Behind a kernel's part that ends early, a user's would look as
        // if it had called it.
        if !cut && !rest.regs_user.values.is_empty() {
            let stack = UserStack {
                pid: sample.pid,
                registers: rest.regs_user,
                bytes: rest.stack_user.used(),
            };
            self.words.push(chain::USER);
            let mut room = Room::new(&mut self.words, chained.left(frames(sample.callchain)));
            sink.unwind(&stack, &mut room);
            cut = room.is_cut();
        }
        cut
    }

    /// The kernel's part, where user space was, and the calls that led there. Whether the chain was cut.
    ///
    /// A branch record has the address of the call, and a chain the one behind it: one byte further is still inside of the
    /// call, and so at the place that is asked about when a caller is named.
    fn called(&mut self, chained: &Chained, whole: Words<'_>, calls: &BranchStack<'_>) -> bool {
        let user = whole.iter().position(|entry| entry == chain::USER);
        let kernel = whole.iter().take(user.unwrap_or(whole.len()));
        let left = chained.depth.saturating_sub(kernel.clone().filter(is_frame).count());
        if calls.entries.is_empty() || left == 0 {
            // Without a record of calls the kernel's walk is the better one.
            self.write(whole.iter());
            return chained.is_cut(whole);
        }
        self.write(kernel);
        self.words.push(chain::USER);
        let mut room = Room::new(&mut self.words, left.min(UNWOUND));
        let entered = calls.iter().next().map_or(0, |call| call.to);
        let innermost = user.and_then(|at| whole.get(at + 1)).filter(is_frame);
        room.push(innermost.unwrap_or(entered));
        let mut number = 0;
        for call in calls.iter().filter(|call| call.from != 0) {
            number += 1;
            if !room.push(call.from.wrapping_add(1)) {
                break;
            }
        }
        room.is_cut() || chained.branches > 0 && number >= chained.branches
    }

    /// Adds what the kernel wrote; with the rest of a chain it stays below [`LONGEST`].
    fn write(&mut self, written: impl Iterator<Item = u64>) {
        self.words.extend(written.take(WRITTEN));
    }

    /// Whether the next chain might not find room.
    pub(super) fn is_low(&self) -> bool {
        self.words.len() + LONGEST > WORDS
    }

    /// Forgets the chains; how many were cut stays.
    pub(super) fn clear(&mut self) {
        self.words.clear();
    }
}

/// The chain as it stands in its record. An empty slice points to no place in particular.
#[inline]
pub(super) fn as_written(words: Words<'_>) -> Chain {
    if words.is_empty() { (std::ptr::null(), 0) } else { (words.as_ptr(), words.len()) }
}

/// Where a function that has just been called returns to, and its place in the chain; None if it stands there.
fn missing_caller(layout: &Layout, sample: &Sample<'_>) -> Option<(usize, u64)> {
    let rest = layout.rest(sample).ok()?;
    let caller = match LINK {
        Some(link) => rest.regs_user.get(link)?,
        None => u64::from_ne_bytes(*rest.stack_user.used().first_chunk()?),
    };
    let place = sample.callchain.iter().position(|entry| entry == chain::USER)? + 2;
    (place <= sample.callchain.len() && sample.callchain.get(place) != Some(caller))
        .then_some((place, caller))
}

fn frames(chain: Words<'_>) -> usize {
    chain.iter().filter(is_frame).count()
}

fn is_frame(entry: &u64) -> bool {
    !chain::is_marker(*entry)
}

#[cfg(test)]
mod tests;
