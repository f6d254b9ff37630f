//! Chains from encoded samples: every kind of walk, complete and truncated.

use super::*;
use crate::base::event::chain::{KERNEL, TRUNCATED, USER};
use crate::base::event::slot::Slot;
use crate::decode::record_attrs::RecordAttrs;
use crate::decode::tests::encode::{self, Values};
use crate::event::kind::Counter;
use crate::event::sampling::{ChainPart, Sampling};
use crate::source::open::attr::{Common, of_event, shape};
use crate::source::{Batch, SideBand};

/// Unwinds to these addresses, and counts the calls.
#[derive(Default)]
struct Unwound {
    frames: Vec<u64>,
    cut: bool,
    calls: Vec<(u32, usize, Option<u64>)>,
}

impl Sink for Unwound {
    unsafe fn dispatch(&mut self, _: &mut Batch) {}
    fn side(&mut self, _: SideBand<'_>) {}
    fn stopped(&self) -> bool {
        false
    }
    fn unwind(&mut self, stack: &UserStack<'_>, room: &mut ChainBuilder<'_>) {
        let pointer = stack.registers.get(crate::sys::registers::STACK_POINTER);
        self.calls.push((stack.pid, stack.bytes.len(), pointer));
        let _ = self.frames.iter().all(|frame| room.push(*frame));
        if self.cut {
            room.cut();
        }
    }
}

const DWARF: CallGraph = CallGraph::Dwarf { bytes: 64 };

fn stack(walk: CallGraph, depth: Option<u16>) -> StackSampling {
    StackSampling { walk, part: ChainPart::Both, depth }
}

/// The layout that an event with these stacks is opened with.
fn layout(stack: StackSampling) -> RecordLayout {
    let sampling = Sampling { stack: Some(stack), ..Sampling::default() };
    let common = Common { watermark: 1, inherit: false };
    let attr = of_event(&Counter::default(), &sampling, common).unwrap();
    RecordLayout::new(shape(&attr))
}

fn values(callchain: &[u64]) -> Values {
    Values { pid: 7, callchain: callchain.to_vec(), raw: vec![0; 4], ..Values::default() }
}

/// Returns what the slot of a sample shows, and whether it points into the record itself.
fn chain(
    chains: &mut ChainMemory,
    stack: StackSampling,
    values: &Values,
    sink: &mut Unwound,
) -> (Vec<u64>, bool) {
    let layout = layout(stack);
    let bytes = encode::sample(layout.shape(), values);
    // Aligned, like records in a ring.
    let words: Vec<u64> = Words::new(&bytes).iter().collect();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let sample = layout.sample(&bytes).unwrap();
    let chained = Chained::new(stack, Some(4), Some(3));
    let (at, length) = chains.of(&chained, &layout, &sample, sink);
    let written = length > 0 && at == sample.callchain.as_ptr();
    let found = match written {
        true => sample.callchain.iter().take(length).collect(),
        false => chains.words.split_off(chains.words.len() - length),
    };
    (found, written)
}

#[test]
fn a_chain_that_the_kernel_walked_completely_stays_in_its_record() {
    let (mut chains, mut sink) = (ChainMemory::default(), Unwound::default());
    let whole = [KERNEL, 10, 11, USER, 20];
    let fp = stack(CallGraph::FramePointers, None);
    assert_eq!(chain(&mut chains, fp, &values(&whole), &mut sink), (whole.to_vec(), true));
    assert_eq!(chain(&mut chains, fp, &values(&[]), &mut sink), (vec![], false));
    assert_eq!((chains.truncated, sink.calls.len()), (0, 0));
}

#[test]
fn a_chain_of_the_maximum_depth_is_marked_and_counted_as_truncated() {
    let (mut chains, mut sink) = (ChainMemory::default(), Unwound::default());
    let full = [KERNEL, 10, 11, USER, 20, 21];
    let marked = [&full[..], &[TRUNCATED]].concat();
    let fp = stack(CallGraph::FramePointers, None);
    assert_eq!(chain(&mut chains, fp, &values(&full), &mut sink), (marked, false));
    // A chain with a lower maximum depth is full earlier.
    let fp = stack(CallGraph::FramePointers, Some(2));
    let (found, _) = chain(&mut chains, fp, &values(&[USER, 20, 21]), &mut sink);
    assert_eq!(found, [USER, 20, 21, TRUNCATED]);
    assert_eq!(chains.truncated, 2);
}

fn copied(callchain: &[u64]) -> Values {
    let number = crate::sys::registers::UNWOUND.count_ones();
    Values {
        regs_user: Some((0..u64::from(number)).map(|n| 0x100 + n).collect()),
        stack_user: vec![7; 64],
        stack_user_used: 40,
        ..values(callchain)
    }
}

#[test]
fn a_copied_stack_is_unwound_after_the_kernels_part() {
    let mut chains = ChainMemory::default();
    let mut sink = Unwound { frames: vec![20, 21, 22, 23, 24], ..Unwound::default() };
    let dwarf = stack(DWARF, None);
    let (found, _) = chain(&mut chains, dwarf, &copied(&[KERNEL, 10]), &mut sink);
    assert_eq!(found, [KERNEL, 10, USER, 20, 21, 22, 23, 24]);
    let (found, _) = chain(&mut chains, dwarf, &copied(&[]), &mut sink);
    assert_eq!(found, [USER, 20, 21, 22, 23, 24]);
    assert_eq!(chains.truncated, 0);
    let (pid, bytes, pointer) = sink.calls[0];
    assert_eq!((pid, bytes), (7, 40));
    assert!(pointer.is_some_and(|pointer| pointer >= 0x100));
}

#[test]
fn an_unwound_chain_is_marked_where_it_was_cut() {
    let mut chains = ChainMemory::default();
    let mut sink = Unwound { frames: vec![20, 21, 22], ..Unwound::default() };
    let three = stack(DWARF, Some(3));
    let (found, _) = chain(&mut chains, three, &copied(&[KERNEL, 10]), &mut sink);
    assert_eq!(found, [KERNEL, 10, USER, 20, 21, TRUNCATED]);
    sink.cut = true;
    let (found, _) = chain(&mut chains, stack(DWARF, None), &copied(&[KERNEL, 10]), &mut sink);
    assert_eq!(found, [KERNEL, 10, USER, 20, 21, 22, TRUNCATED]);
    // The kernel part alone exceeds the maximum depth: its callers are not known.
    let (found, _) =
        chain(&mut chains, stack(DWARF, None), &copied(&[KERNEL, 1, 2, 3, 4]), &mut sink);
    assert_eq!(found, [KERNEL, 1, 2, 3, 4, TRUNCATED]);
    assert_eq!((chains.truncated, sink.calls.len()), (3, 2));
}

#[test]
fn a_kernel_thread_has_the_kernels_part_only() {
    let (mut chains, mut sink) = (ChainMemory::default(), Unwound::default());
    let thread = Values { stack_user: vec![], ..values(&[KERNEL, 10, 11]) };
    let (found, _) = chain(&mut chains, stack(DWARF, None), &thread, &mut sink);
    assert_eq!((found, sink.calls.len(), chains.truncated), (vec![KERNEL, 10, 11], 0, 0));
}

/// User-space calls, the latest first, as (from, to).
fn called(callchain: &[u64], calls: &[(u64, u64)]) -> Values {
    let branches = calls.iter().map(|(from, to)| [*from, *to, 0, 0]).collect();
    Values { branches, ..values(callchain) }
}

#[test]
fn branch_records_become_the_callers_of_user_space() {
    let (mut chains, mut sink) = (ChainMemory::default(), Unwound::default());
    let lbr = stack(CallGraph::Branches, Some(16));
    let calls = [(0x2000, 0x1000), (0x3000, 0x1f00)];
    let (found, _) =
        chain(&mut chains, lbr, &called(&[KERNEL, 10, USER, 0x1010, 0x66], &calls), &mut sink);
    assert_eq!(found, [KERNEL, 10, USER, 0x1010, 0x2001, 0x3001]);
    // Without a user-space address in the kernel's walk, the entry address of the innermost
    // function is used.
    let (found, _) = chain(&mut chains, lbr, &called(&[KERNEL, 10], &calls), &mut sink);
    assert_eq!(found, [KERNEL, 10, USER, 0x1000, 0x2001, 0x3001]);
    assert_eq!(chains.truncated, 0);
}

#[test]
fn branch_records_that_are_full_or_exceed_the_depth_are_marked() {
    let (mut chains, mut sink) = (ChainMemory::default(), Unwound::default());
    // The hardware of this test records three branches.
    let calls = [(0x2000, 0x1000), (0x3000, 0x1f00), (0x4000, 0x2f00)];
    let sample = called(&[USER, 0x1010], &calls);
    let (found, _) = chain(&mut chains, stack(CallGraph::Branches, Some(16)), &sample, &mut sink);
    assert_eq!(found, [USER, 0x1010, 0x2001, 0x3001, 0x4001, TRUNCATED]);
    let (found, _) = chain(&mut chains, stack(CallGraph::Branches, Some(2)), &sample, &mut sink);
    assert_eq!(found, [USER, 0x1010, 0x2001, TRUNCATED]);
    assert_eq!(chains.truncated, 2);
}

#[test]
fn without_branch_records_the_kernels_walk_is_used() {
    let (mut chains, mut sink) = (ChainMemory::default(), Unwound::default());
    let whole = [KERNEL, 10, USER, 20];
    let lbr = stack(CallGraph::Branches, Some(16));
    let (found, _) = chain(&mut chains, lbr, &called(&whole, &[]), &mut sink);
    assert_eq!((found, chains.truncated), (whole.to_vec(), 0));
}

#[test]
fn a_sample_that_cannot_be_unwound_keeps_the_kernels_part_and_is_counted() {
    let (mut chains, mut sink) = (ChainMemory::default(), Unwound::default());
    let dwarf = stack(DWARF, None);
    let kernel_only = RecordAttrs {
        sample_type: u64::from(perf_event_open_sys::bindings::PERF_SAMPLE_CALLCHAIN),
        ..RecordAttrs::default()
    };
    let bytes = encode::sample(&kernel_only, &values(&[KERNEL, 10]));
    let sample = RecordLayout::new(kernel_only).sample(&bytes).unwrap();
    let chained = Chained::new(dwarf, None, None);
    let (_, length) = chains.of(&chained, &layout(dwarf), &sample, &mut sink);
    assert_eq!((&chains.words[..], length), (&[KERNEL, 10, TRUNCATED][..], 3));
}

#[test]
fn a_batch_is_full_before_its_chains_have_no_room() {
    let mut batch = Batch::new(1);
    let mut sink = Unwound { frames: vec![1; UNWOUND], ..Unwound::default() };
    let dwarf = stack(DWARF, None);
    let (layout, chained) = (layout(dwarf), Chained::new(dwarf, None, None));
    let bytes = encode::sample(layout.shape(), &copied(&[KERNEL, 10]));
    let mut first = None;
    while !batch.is_full(1) {
        let sample = layout.sample(&bytes).unwrap();
        let (chain, length) = batch.chains().of(&chained, &layout, &sample, &mut sink);
        assert_eq!(length, 3 + UNWOUND);
        first.get_or_insert(chain);
        assert!(batch.push(Slot { chain, ..Slot::EMPTY }));
        batch.mark_full_if_chains_low();
    }
    assert!(batch.len() > 40 && batch.len() < 70, "{}", batch.len());
    // No chain has moved.
    assert_eq!(first, Some(batch.chains().words.as_ptr()));
    batch.clear();
    assert!(!batch.is_full(1) && batch.chains().words.is_empty());
}
