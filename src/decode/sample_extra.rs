//! The fields of a sample after its raw data: branches, registers, stack, memory access, AUX.
//!
//! Few events have any of them, so they are decoded separately from the fields that every sample
//! has ([`super::sample::RecordLayout::rest`]), and cost nothing if unused.
//!
//! Order and layout follow `perf_output_sample()` in `kernel/events/core.c`. The comment in
//! `include/uapi/linux/perf_event.h` shows AUX before the page sizes and no CGROUP; the code writes
//! CGROUP, DATA_PAGE_SIZE, CODE_PAGE_SIZE and then AUX.

use super::cursor::{Bad, Words};
use super::record_attrs::RecordAttrs;
use perf_event_open_sys::bindings as abi;

/// The fields after `PERF_SAMPLE_RAW`; fields that the event does not have are 0 or empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleExtra<'a> {
    /// `PERF_SAMPLE_BRANCH_STACK`.
    pub branch_stack: BranchStack<'a>,
    /// `PERF_SAMPLE_REGS_USER`: the registers of user space, before the system call or interrupt.
    pub regs_user: SampledRegisters<'a>,
    /// `PERF_SAMPLE_STACK_USER`.
    pub stack_user: StackUser<'a>,
    /// `PERF_SAMPLE_WEIGHT`, or `PERF_SAMPLE_WEIGHT_STRUCT`: the weight in the lower 32 bits, and
    /// two values whose meaning depends on the PMU.
    pub weight: u64,
    /// `PERF_SAMPLE_DATA_SRC`: `union perf_mem_data_src`.
    pub data_src: u64,
    /// `PERF_SAMPLE_TRANSACTION`: `PERF_TXN_*`.
    pub transaction: u64,
    /// `PERF_SAMPLE_REGS_INTR`: the registers at the sample, kernel or user.
    pub regs_intr: SampledRegisters<'a>,
    /// `PERF_SAMPLE_PHYS_ADDR`: the physical address of the access at `addr`.
    pub phys_addr: u64,
    /// `PERF_SAMPLE_CGROUP`: id of the task's cgroup in the perf_event hierarchy.
    pub cgroup: u64,
    /// `PERF_SAMPLE_DATA_PAGE_SIZE`: bytes of the page at `addr`.
    pub data_page_size: u64,
    /// `PERF_SAMPLE_CODE_PAGE_SIZE`: bytes of the page at `ip`.
    pub code_page_size: u64,
    /// `PERF_SAMPLE_AUX`: a snapshot of the AUX area.
    pub aux: &'a [u8],
    /// The counts of each event of a group since its sample before. Not in the record, which has
    /// the totals: the source adds it.
    pub counts: Words<'a>,
    /// The totals of `PERF_SAMPLE_READ`, also added by the source.
    pub totals: Words<'a>,
}

/// Branches taken before the sample, latest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchStack<'a> {
    /// `PERF_SAMPLE_BRANCH_HW_INDEX`: the hardware's index of the latest branch; all ones if
    /// unavailable.
    pub hw_index: Option<u64>,
    /// Three words per branch; see [`BranchStack::iter`].
    pub entries: Words<'a>,
    /// `PERF_SAMPLE_BRANCH_COUNTERS`: one word per branch, in the format of the PMU's
    /// `branch_counter_*` capabilities.
    pub counters: Words<'a>,
}

/// One taken branch: `struct perf_branch_entry`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// Address of the branch.
    pub from: u64,
    /// Address of its target.
    pub to: u64,
    /// The bit fields of `struct perf_branch_entry`: prediction, transaction, cycles, type.
    pub flags: u64,
}

/// Registers of `enum perf_event_*_regs` of the architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampledRegisters<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`: none (without values), 32 or 64 bits.
    pub abi: u64,
    /// One bit per register, from `sample_regs_user` or `sample_regs_intr`.
    pub mask: u64,
    /// A value for each bit of the mask, lowest bit first.
    pub values: Words<'a>,
}

/// A copy of the user stack, from the stack pointer upwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackUser<'a> {
    /// All bytes reserved in the record.
    pub bytes: &'a [u8],
    /// Number of bytes that the kernel copied.
    pub dyn_size: u64,
}

impl<'a> BranchStack<'a> {
    /// Returns each branch.
    pub fn iter(&self) -> impl Iterator<Item = Branch> + 'a {
        let (branches, _) = self.entries.bytes().as_chunks::<24>();
        branches.iter().map(|branch| {
            let word = |index| Words::new(branch).get(index).unwrap_or(0);
            Branch { from: word(0), to: word(1), flags: word(2) }
        })
    }
}

impl<'a> SampledRegisters<'a> {
    /// Returns the value of a register by its number; None if it was not sampled or not available.
    pub fn get(&self, register: u32) -> Option<u64> {
        let bit = 1u64.checked_shl(register)?;
        let before = (self.mask & (bit - 1)).count_ones();
        (self.mask & bit != 0).then(|| self.values.get(before as usize)).flatten()
    }
}

impl<'a> StackUser<'a> {
    /// Returns the bytes that were copied.
    pub fn used(&self) -> &'a [u8] {
        let size = usize::try_from(self.dyn_size).unwrap_or(usize::MAX);
        &self.bytes[..size.min(self.bytes.len())]
    }
}

/// The bits of `sample_type` whose fields follow the raw data.
const AFTER_RAW: u32 = abi::PERF_SAMPLE_BRANCH_STACK
    | abi::PERF_SAMPLE_REGS_USER
    | abi::PERF_SAMPLE_STACK_USER
    | abi::PERF_SAMPLE_WEIGHT
    | abi::PERF_SAMPLE_WEIGHT_STRUCT
    | abi::PERF_SAMPLE_DATA_SRC
    | abi::PERF_SAMPLE_TRANSACTION
    | abi::PERF_SAMPLE_REGS_INTR
    | abi::PERF_SAMPLE_PHYS_ADDR
    | abi::PERF_SAMPLE_CGROUP
    | abi::PERF_SAMPLE_DATA_PAGE_SIZE
    | abi::PERF_SAMPLE_CODE_PAGE_SIZE
    | abi::PERF_SAMPLE_AUX;

/// The bits of `sample_type` whose fields are between the raw data and the registers.
const BEFORE_REGISTERS: u32 = abi::PERF_SAMPLE_BRANCH_STACK
    | abi::PERF_SAMPLE_REGS_USER
    | abi::PERF_SAMPLE_STACK_USER
    | abi::PERF_SAMPLE_WEIGHT
    | abi::PERF_SAMPLE_WEIGHT_STRUCT
    | abi::PERF_SAMPLE_DATA_SRC
    | abi::PERF_SAMPLE_TRANSACTION;

impl<'a> SampleExtra<'a> {
    /// Returns the registers at the event; None if the words do not hold what the layout requires.
    #[inline]
    pub(super) fn registers(
        shape: &RecordAttrs,
        mut words: Words<'a>,
    ) -> Option<SampledRegisters<'a>> {
        if shape.sample_type & u64::from(BEFORE_REGISTERS) != 0 {
            return Some(SampleExtra::decode(shape, words).ok()?.regs_intr);
        }
        if !shape.samples(abi::PERF_SAMPLE_REGS_INTR) {
            return Some(SampledRegisters::default());
        }
        registers(&mut words, shape.sample_regs_intr)
    }

    /// Returns the registers of user space and the copy of its stack; None if the words do not hold
    /// what the layout requires.
    #[inline]
    pub(super) fn user_stack(
        shape: &RecordAttrs,
        mut words: Words<'a>,
    ) -> Option<(SampledRegisters<'a>, StackUser<'a>)> {
        if shape.samples(abi::PERF_SAMPLE_BRANCH_STACK) {
            let all = SampleExtra::decode(shape, words).ok()?;
            return Some((all.regs_user, all.stack_user));
        }
        let registers = match shape.samples(abi::PERF_SAMPLE_REGS_USER) {
            true => registers(&mut words, shape.sample_regs_user)?,
            false => SampledRegisters::default(),
        };
        let stack = match shape.samples(abi::PERF_SAMPLE_STACK_USER) {
            true => stack_user(&mut words)?,
            false => StackUser::default(),
        };
        Some((registers, stack))
    }

    /// Returns the fields of a sample that has only the id of a cgroup after its raw data; None if
    /// it has others. [`SampleExtra::decode`] returns the same, through a copy.
    #[inline(always)]
    pub(super) fn only_cgroup(shape: &RecordAttrs, words: Words<'a>) -> Option<SampleExtra<'a>> {
        if !SampleExtra::is_only_cgroup(shape) {
            return None;
        }
        Some(SampleExtra { cgroup: words.get(0)?, ..SampleExtra::default() })
    }

    /// Returns whether a sample has only the id of a cgroup after its raw data.
    #[inline(always)]
    pub(super) fn is_only_cgroup(shape: &RecordAttrs) -> bool {
        shape.sample_type & u64::from(AFTER_RAW) == u64::from(abi::PERF_SAMPLE_CGROUP)
    }

    /// Decodes the words after the raw data.
    pub(super) fn decode(shape: &RecordAttrs, words: Words<'a>) -> Result<SampleExtra<'a>, Bad> {
        let hw_index = shape.branches(abi::PERF_SAMPLE_BRANCH_HW_INDEX);
        let mut rest = SampleExtra::default();
        let walked = walk(shape, words, hw_index, &mut rest);
        // A sample without branches has only the number 0 and no index, unless the PMU delivered an
        // empty stack, which has both. The end of the record decides: the kernel leaves no unused
        // words.
        let branches = shape.samples(abi::PERF_SAMPLE_BRANCH_STACK).then(|| words.get(0)).flatten();
        if hw_index && branches == Some(0) && !walked.is_ok_and(|left| left.is_empty()) {
            let mut without = SampleExtra::default();
            if walk(shape, words, false, &mut without).is_ok_and(|left| left.is_empty()) {
                return Ok(without);
            }
        }
        walked.map(|_| rest)
    }
}

/// Decodes the fields in the kernel's order into `rest`. Returns the remaining words.
fn walk<'a>(
    shape: &RecordAttrs,
    mut words: Words<'a>,
    hw_index: bool,
    rest: &mut SampleExtra<'a>,
) -> Result<Words<'a>, Bad> {
    if shape.samples(abi::PERF_SAMPLE_BRANCH_STACK) {
        rest.branch_stack = branch_stack(&mut words, shape, hw_index).ok_or(Bad::BranchStack)?;
    }
    if shape.samples(abi::PERF_SAMPLE_REGS_USER) {
        rest.regs_user = registers(&mut words, shape.sample_regs_user).ok_or(Bad::RegsUser)?;
    }
    if shape.samples(abi::PERF_SAMPLE_STACK_USER) {
        rest.stack_user = stack_user(&mut words).ok_or(Bad::StackUser)?;
    }
    let one = |words: &mut Words<'a>, bits: u32| {
        if shape.samples(bits) { words.take_one().ok_or(Bad::Last) } else { Ok(0) }
    };
    rest.weight = one(&mut words, abi::PERF_SAMPLE_WEIGHT | abi::PERF_SAMPLE_WEIGHT_STRUCT)?;
    rest.data_src = one(&mut words, abi::PERF_SAMPLE_DATA_SRC)?;
    rest.transaction = one(&mut words, abi::PERF_SAMPLE_TRANSACTION)?;
    if shape.samples(abi::PERF_SAMPLE_REGS_INTR) {
        rest.regs_intr = registers(&mut words, shape.sample_regs_intr).ok_or(Bad::RegsIntr)?;
    }
    rest.phys_addr = one(&mut words, abi::PERF_SAMPLE_PHYS_ADDR)?;
    rest.cgroup = one(&mut words, abi::PERF_SAMPLE_CGROUP)?;
    rest.data_page_size = one(&mut words, abi::PERF_SAMPLE_DATA_PAGE_SIZE)?;
    rest.code_page_size = one(&mut words, abi::PERF_SAMPLE_CODE_PAGE_SIZE)?;
    if shape.samples(abi::PERF_SAMPLE_AUX) {
        let size = words.take_one().ok_or(Bad::Aux)?;
        rest.aux = words.take_bytes(size).ok_or(Bad::Aux)?;
    }
    Ok(words)
}

fn branch_stack<'a>(
    words: &mut Words<'a>,
    shape: &RecordAttrs,
    hw_index: bool,
) -> Option<BranchStack<'a>> {
    let number = words.take_one()?;
    Some(BranchStack {
        hw_index: if hw_index { Some(words.take_one()?) } else { None },
        entries: words.take(number.checked_mul(3)?)?,
        counters: if shape.branches(abi::PERF_SAMPLE_BRANCH_COUNTERS) {
            words.take(number)?
        } else {
            Words::default()
        },
    })
}

/// Decodes the ABI and the registers; a task without user registers (a kernel thread) has only the
/// ABI "none".
fn registers<'a>(words: &mut Words<'a>, mask: u64) -> Option<SampledRegisters<'a>> {
    let abi = words.take_one()?;
    let number =
        if abi == u64::from(abi::PERF_SAMPLE_REGS_ABI_NONE) { 0 } else { mask.count_ones() };
    Some(SampledRegisters { abi, mask, values: words.take(u64::from(number))? })
}

/// Decodes the size, the bytes, and the number of valid bytes; an empty stack has only its size.
fn stack_user<'a>(words: &mut Words<'a>) -> Option<StackUser<'a>> {
    let size = words.take_one()?;
    let bytes = words.take_bytes(size)?;
    let dyn_size = if size == 0 { 0 } else { words.take_one()? };
    Some(StackUser { bytes, dyn_size })
}
