//! Makes the chain that a slot shows from the stack data of a sample, regardless of how the stack
//! was walked.
//!
//! Most chains are complete in their record, and are used there. The others are made here: frames
//! from unwind tables or branch records are appended to the kernel part, and a truncated chain gets
//! its marker.

use crate::base::event::chain::{self, ChainBuilder, USER};
use crate::decode::cursor::Words;
use crate::decode::sample::{RecordLayout, Sample};
use crate::decode::sample_extra::{BranchStack, SampleExtra};
use crate::event::sampling::{CallGraph, StackSampling};
use crate::source::chain_memory::{ChainMemory, UNWOUND};
use crate::source::sink::{Sink, UserStack};
use crate::sys::registers::LINK;

/// Frames of a chain if the kernel's limit is not known (`PERF_MAX_STACK_DEPTH` in
/// include/uapi/linux/perf_event.h).
const USUAL_DEPTH: usize = 127;

/// How the chains of an event are made.
#[derive(Clone, Copy, Debug)]
pub(in crate::source) struct Chained {
    stack: StackSampling,
    /// Maximum number of frames that the kernel writes.
    depth: usize,
    /// Calls that the hardware records; 0 if unknown.
    branches: usize,
    /// Whether each chain begins at the entry of a function, whose caller is elsewhere in the
    /// sample.
    entered: bool,
    /// Whether the chain can be the one that another event requested.
    shared: bool,
}

/// A slot's chain: address of its first entry, and number of entries.
pub(in crate::source) type Chain = (*const u64, usize);

impl Chained {
    /// Returns the settings for an event with this stack option. `kernel_depth` is
    /// `kernel.perf_event_max_stack`; `branches` is the number of branches that the PMU records.
    pub(in crate::source) fn new(
        stack: StackSampling,
        kernel_depth: Option<usize>,
        branches: Option<usize>,
    ) -> Chained {
        let depth = stack.depth.map_or(kernel_depth.unwrap_or(USUAL_DEPTH), usize::from);
        Chained { stack, depth, branches: branches.unwrap_or(0), entered: false, shared: false }
    }

    /// Sets whether the functions have just been called, so that frame pointers miss the caller.
    pub(in crate::source) fn entered(self, entered: bool) -> Chained {
        Chained { entered, ..self }
    }

    /// Sets whether the chain can be the one that another event requested.
    pub(in crate::source) fn shared(self, shared: bool) -> Chained {
        Chained { shared, ..self }
    }

    /// Returns whether a chain is certainly that of another event: every task has a frame in the
    /// kernel or in user space.
    #[inline]
    pub(in crate::source) fn is_of_another(&self, chain: Words<'_>) -> bool {
        self.shared && self.is_by_kernel() && self.stack.kernel() && chain.is_empty()
    }

    /// Returns whether the chain that the kernel wrote is complete: [`ChainMemory::of`] returns it.
    #[inline]
    pub(in crate::source) fn is_complete(&self, chain: Words<'_>) -> bool {
        self.is_by_kernel() && !self.entered && !self.is_cut(chain) && !self.is_of_another(chain)
    }

    /// Returns whether the chain that the kernel wrote lacks only the caller of the function, if
    /// anything: [`ChainMemory::with_caller`] returns it.
    #[inline]
    pub(in crate::source) fn lacks_only_caller(&self, chain: Words<'_>) -> bool {
        self.entered && self.is_by_kernel() && !self.is_cut(chain)
    }

    fn is_by_kernel(&self) -> bool {
        self.stack.walk == CallGraph::FramePointers || !self.stack.user()
    }

    /// Returns how many user-space frames fit into a chain after `kernel` kernel frames.
    fn left(&self, kernel: usize) -> usize {
        self.stack.depth.map_or(UNWOUND, usize::from).saturating_sub(kernel).min(UNWOUND)
    }

    /// Returns whether the kernel wrote the maximum number of frames, so that there may be more.
    #[inline]
    fn is_cut(&self, chain: Words<'_>) -> bool {
        chain.len() >= self.depth && frames(chain) >= self.depth
    }
}

impl ChainMemory {
    /// Returns the chain of a sample: in its record, or made here.
    pub(in crate::source) fn of(
        &mut self,
        chained: &Chained,
        layout: &RecordLayout,
        sample: &Sample<'_>,
        sink: &mut dyn Sink,
    ) -> Chain {
        let whole = sample.callchain;
        let by_kernel = chained.is_by_kernel();
        let missing = match chained.entered {
            true => missing_caller(layout, layout.rest_words(sample), whole),
            false => None,
        };
        let is_whole = by_kernel && !chained.is_cut(whole) && !chained.is_of_another(whole);
        if is_whole && missing.is_none() || self.is_low() {
            return as_written(whole);
        }
        let start = self.start();
        let rest = if by_kernel { Ok(SampleExtra::default()) } else { layout.rest(sample) };
        let cut = match (by_kernel, rest) {
            (false, Ok(rest)) if matches!(chained.stack.walk, CallGraph::Dwarf { .. }) => {
                self.unwound(chained, sample, &rest, sink)
            }
            (false, Ok(rest)) => self.called(chained, whole, &rest.branch_stack),
            (true, _) if let Some((at, caller)) = missing => {
                self.insert(whole, at, caller);
                chained.is_cut(whole)
            }
            // Truncated by the kernel, or the data about user space cannot be parsed.
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

    /// Returns the chain of a function that has just been called, with its caller, from the words
    /// after the raw data; None if there is no room.
    #[inline]
    pub(in crate::source) fn with_caller(
        &mut self,
        layout: &RecordLayout,
        rest: Words<'_>,
        chain: Words<'_>,
    ) -> Option<Chain> {
        let Some((at, caller)) = missing_caller(layout, rest, chain) else {
            return Some(as_written(chain));
        };
        if self.is_low() {
            return None;
        }
        let start = self.start();
        self.insert(chain, at, caller);
        Some((self.words[start..].as_ptr(), self.words.len() - start))
    }

    /// Writes a chain with a frame before the entry `at`.
    fn insert(&mut self, chain: Words<'_>, at: usize, frame: u64) {
        self.write(chain.iter().take(at));
        self.words.push(frame);
        self.write(chain.iter().skip(at));
    }

    /// Writes the kernel part, and the user part from registers and stack copy. Returns whether the
    /// chain was truncated.
    fn unwound(
        &mut self,
        chained: &Chained,
        sample: &Sample<'_>,
        rest: &SampleExtra<'_>,
        sink: &mut dyn Sink,
    ) -> bool {
        self.write(sample.callchain.iter());
        let mut cut = chained.is_cut(sample.callchain);
        // A kernel thread has no user-space registers. After a truncated kernel part, a user frame
        // would look like its caller.
        if !cut && !rest.regs_user.values.is_empty() {
            let stack = UserStack {
                pid: sample.pid,
                registers: rest.regs_user,
                bytes: rest.stack_user.used(),
            };
            self.words.push(chain::USER);
            let mut room =
                ChainBuilder::new(&mut self.words, chained.left(frames(sample.callchain)));
            sink.unwind(&stack, &mut room);
            cut = room.is_cut();
        }
        cut
    }

    /// Writes the kernel part, the user-space address, and the calls that led there. Returns
    /// whether the chain was truncated.
    ///
    /// A branch record has the address of the call, a chain the return address. The entry written
    /// is the call address plus one: naming a caller looks up one byte lower, which is the call.
    fn called(&mut self, chained: &Chained, whole: Words<'_>, calls: &BranchStack<'_>) -> bool {
        let user = whole.iter().position(|entry| entry == chain::USER);
        let kernel = whole.iter().take(user.unwrap_or(whole.len()));
        let left = chained.depth.saturating_sub(kernel.clone().filter(is_frame).count());
        if calls.entries.is_empty() || left == 0 {
            // Without a branch record, the kernel's walk is the better one.
            self.write(whole.iter());
            return chained.is_cut(whole);
        }
        self.write(kernel);
        self.words.push(chain::USER);
        let mut room = ChainBuilder::new(&mut self.words, left.min(UNWOUND));
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
}

/// Returns the chain as it is in its record. An empty slice has no meaningful address, so its chain
/// is null.
#[inline]
pub(in crate::source) fn as_written(words: Words<'_>) -> Chain {
    if words.is_empty() { (std::ptr::null(), 0) } else { (words.as_ptr(), words.len()) }
}

/// Returns the index in the chain and the return address of a function that has just been called,
/// from the words after the raw data; None if the chain contains it.
fn missing_caller(
    layout: &RecordLayout,
    rest: Words<'_>,
    chain: Words<'_>,
) -> Option<(usize, u64)> {
    let (registers, stack) = layout.user_stack(rest)?;
    let caller = match LINK {
        Some(link) => registers.get(link)?,
        None => u64::from_ne_bytes(*stack.used().first_chunk()?),
    };
    let place = chain.iter().position(|entry| entry == USER)? + 2;
    (place <= chain.len() && chain.get(place) != Some(caller)).then_some((place, caller))
}

fn frames(chain: Words<'_>) -> usize {
    chain.iter().filter(is_frame).count()
}

fn is_frame(entry: &u64) -> bool {
    !chain::is_marker(*entry)
}

#[cfg(test)]
mod tests;
