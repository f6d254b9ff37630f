//! Opens a system call's entry through a BPF program, which writes the record with the strings that
//! its arguments point to ([`crate::bpf::user_text`]).
//!
//! The records go through `bpf-output` events, one per CPU, which write to the ring of the CPU as
//! any other event does. The tracepoint's own event stays off: it only holds the program. A task's
//! events cannot be in the array of the program if its children inherit them, so the events are
//! opened for whole CPUs, and `-p` filters in user space, as for functions.

use std::os::fd::AsFd as _;
use std::sync::{Arc, OnceLock};

use crate::bpf::user_text::{
    AddedText, COUNTS_BYTES, CopiedField, SCRATCH_BYTES, UserTextCounts, UserTextMaps,
    UserTextRecord,
};
use crate::decode::format::Format;
use crate::event::filter::BoundFilter;
use crate::source::request::Opening;
use crate::sys::attr::{Attr, EVERY_TASK, PerfTarget};
use crate::sys::bpf::{BpfMap, BpfMapType, BpfProgram, BpfProgramType, OutputArray};
use crate::sys::perf::PerfEvent;
use crate::sys::refusal::{Refusal, RefusedCall};

/// A program that is attached to its tracepoint until this is dropped.
struct UserTextProgram {
    /// Index of the opening.
    opening: usize,
    program: BpfProgram,
    /// Holds the perf events that it writes to: the array is empty once its last descriptor is
    /// closed.
    _events: Arc<OutputArray>,
    /// The event that holds the program.
    tracepoint: PerfEvent,
}

/// The programs of a run and what they share.
#[derive(Default)]
pub(in crate::source) struct UserTextPrograms {
    shared: Option<SharedMaps>,
    open: Vec<UserTextProgram>,
    /// Missed runs of programs that are no longer attached.
    missed: u64,
}

/// Maps that all programs use.
struct SharedMaps {
    scratch: BpfMap,
    counts: BpfMap,
}

impl Opening {
    /// Returns whether a BPF program writes its records.
    pub(in crate::source) fn is_by_program(&self) -> bool {
        self.event.is_with_user_text(&self.sampling)
    }
}

/// Returns why this kernel or user cannot load such programs; None if it can. Tried once.
pub fn refusal() -> Option<&'static Refusal> {
    static REFUSAL: OnceLock<Option<Refusal>> = OnceLock::new();
    REFUSAL
        .get_or_init(|| {
            SharedMaps::create().and_then(|maps| maps.load(&sample_record(), &[], &[])).err()
        })
        .as_ref()
}

/// Returns a record with one string, as of `chdir`.
fn sample_record() -> UserTextRecord {
    UserTextRecord {
        id: 1,
        fields: vec![CopiedField { offset: 8, size: 4 }, CopiedField { offset: 16, size: 8 }],
        texts: vec![AddedText { pointer: 16, location: 24 }],
        texts_at: 28,
    }
}

impl SharedMaps {
    fn create() -> Result<SharedMaps, Refusal> {
        Ok(SharedMaps {
            scratch: BpfMap::create(BpfMapType::PerCpuArray, SCRATCH_BYTES, 1)?,
            counts: BpfMap::create(BpfMapType::PerCpuArray, COUNTS_BYTES, 1)?,
        })
    }

    /// Loads a program and creates its array of perf events.
    fn load(
        &self,
        record: &UserTextRecord,
        own: &[i32],
        filter: &[BoundFilter],
    ) -> Result<(BpfProgram, OutputArray), Refusal> {
        let events = OutputArray::create()?;
        let (scratch, counts) = (self.scratch.number(), self.counts.number());
        let maps = UserTextMaps { scratch, counts, events: events.map.number() };
        let code = record.program(maps, own, |code, fail| {
            filter.iter().for_each(|part| part.assemble(code, fail));
        });
        let too_large = || Refusal::new("BPF", RefusedCall::Bpf(""), libc::E2BIG);
        let program = BpfProgram::load(BpfProgramType::Tracepoint, &code.ok_or_else(too_large)?)?;
        Ok((program, events))
    }
}

impl UserTextPrograms {
    /// Loads the program of an opening and attaches it. `attr` is that of the tracepoint, `own` are
    /// the threads whose calls are omitted, `filter` the conditions that it checks. Returns the
    /// array for the perf events of the opening.
    ///
    /// # Errors
    /// The kernel refuses a map, the program or its attachment.
    pub(in crate::source) fn open(
        &mut self,
        (index, opening): (usize, &Opening),
        attr: &Attr,
        cpu: u32,
        own: &[i32],
        filter: &[BoundFilter],
    ) -> Result<Arc<OutputArray>, Refusal> {
        let shared = match self.shared.take() {
            Some(shared) => shared,
            None => SharedMaps::create()?,
        };
        let shared = self.shared.insert(shared);
        let format = opening.event.kind().raw_format();
        let record = format.map(record_of).unwrap_or_default();
        let (program, events) = shared.load(&record, own, filter)?;
        let target = PerfTarget { pid: EVERY_TASK, cpu: cpu as i32 };
        let tracepoint = PerfEvent::open(attr, target, &opening.event.name)?.event;
        program.attach(tracepoint.as_fd())?;
        let events = Arc::new(events);
        let array = events.clone();
        self.open.push(UserTextProgram { opening: index, program, _events: events, tracepoint });
        Ok(array)
    }

    /// Removes the programs of openings that are not used. Returns the events that hold them, whose
    /// close takes long.
    pub(in crate::source) fn close_unused(
        &mut self,
        is_used: impl Fn(usize) -> bool,
    ) -> Vec<PerfEvent> {
        let programs = std::mem::take(&mut self.open).into_iter();
        let (used, unused): (Vec<_>, Vec<_>) = programs.partition(|one| is_used(one.opening));
        self.open = used;
        self.missed += unused.iter().map(UserTextProgram::missed).sum::<u64>();
        unused.into_iter().map(|one| one.tracepoint).collect()
    }

    /// Returns what the programs counted so far, on all CPUs. A call during which a program could
    /// not run counts as failed.
    pub(in crate::source) fn counts(&self) -> UserTextCounts {
        let Some(shared) = &self.shared else { return UserTextCounts::default() };
        let values = shared.counts.of_cpus(0).unwrap_or_default();
        let all = UserTextCounts::of_cpus(&values);
        let missed = self.open.iter().map(UserTextProgram::missed).sum::<u64>() + self.missed;
        UserTextCounts { failed: all.failed + missed, ..all }
    }
}

impl UserTextProgram {
    fn missed(&self) -> u64 {
        self.program.misses().unwrap_or(0)
    }
}

/// Returns the record that the program of an event writes.
fn record_of(format: &Format) -> UserTextRecord {
    let is_added = |at: usize| format.user_text.iter().any(|text| text.location == at);
    let copied = format.fields.iter().filter(|field| !field.common && !is_added(field.offset));
    let texts = format.user_text.iter();
    UserTextRecord {
        id: format.id as u16,
        fields: copied
            .map(|field| CopiedField { offset: field.offset, size: field.size })
            .collect(),
        texts: texts
            .clone()
            .map(|text| AddedText { pointer: text.pointer, location: text.location })
            .collect(),
        texts_at: texts.map(|text| text.location + 4).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_copies_the_arguments_and_adds_the_texts() {
        let mut format = Format::parse(
            "name: sys_enter_chdir\nID: 7\nformat:\n\
             \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
             \tfield:const char * filename;\toffset:16;\tsize:8;\tsigned:0;\n\n\
             print fmt: \"filename: 0x%08lx\", ((unsigned long)(REC->filename))\n",
        )
        .unwrap();
        format.add_user_text();
        assert_eq!(record_of(&format), UserTextRecord { id: 7, ..sample_record() });
    }
}
