//! Programs that are attached to tracepoints.
//!
//! A program runs at the raw tracepoint if its record can be built from the arguments there, and
//! otherwise where the kernel makes a record for perf events. The programs of one event all run in
//! the same place, in the order in which they were attached.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, OwnedFd};

use super::super::open::attr;
use super::{ProgramPlace, refused};
use crate::bpf::argument_record::with_context;
use crate::event::kind::Event;
use crate::event::sampling::Sampling;
use crate::sys::attr::{Attr, EVERY_TASK, PerfTarget};
use crate::sys::bpf::{BpfProgram, BpfProgramType, MeasuredRuns};
use crate::sys::perf::PerfEvent;
use crate::sys::refusal::Refusal;

/// The role of a program that belongs to no event of a script.
pub(super) const NO_ROLE: u32 = u32::MAX;

/// A program for the record of an event.
pub(super) struct UnattachedProgram<'a> {
    /// Its instructions.
    pub(super) code: Vec<u64>,
    /// Instructions in front of it at a raw tracepoint.
    pub(super) first: Vec<u64>,
    /// The role of the event.
    pub(super) role: u32,
    /// The event.
    pub(super) event: &'a Event,
    /// Where it runs.
    pub(super) place: &'a ProgramPlace,
}

/// An attached program.
pub(super) struct HeldProgram {
    pub(super) role: u32,
    pub(super) program: BpfProgram,
    attachment: Attachment,
}

/// The file that keeps a program attached.
enum Attachment {
    /// A perf event, which is never enabled, so that no record is written for it.
    PerfEvent { _event: PerfEvent },
    /// The file of a raw tracepoint; None while the program is detached.
    RawTracepoint(Option<OwnedFd>),
}

impl HeldProgram {
    /// Attaches a program that belongs to no event of a script to the tracepoint of an event.
    pub(super) fn without_role(
        code: &[u64],
        event: &Event,
        place: &ProgramPlace,
        cpu: u32,
    ) -> Result<HeldProgram, Refusal> {
        let program =
            UnattachedProgram { code: code.to_vec(), first: vec![], role: NO_ROLE, event, place };
        HeldProgram::attach(&program, program.load_raw(), cpu)
    }

    /// Attaches programs to the tracepoints of their events, on all CPUs. `cpu` is any online CPU.
    pub(super) fn attach_all(
        programs: &[UnattachedProgram<'_>],
        cpu: u32,
    ) -> Result<Vec<HeldProgram>, Refusal> {
        let raw: Vec<_> = programs.iter().map(UnattachedProgram::load_raw).collect();
        let elsewhere = programs.iter().zip(&raw).filter(|(_, loaded)| loaded.is_none());
        let elsewhere: BTreeSet<&str> = elsewhere.map(|(one, _)| &*one.event.name).collect();
        let all = programs.iter().zip(raw);
        all.map(|(one, loaded)| {
            let loaded = loaded.filter(|_| !elsewhere.contains(&*one.event.name));
            HeldProgram::attach(one, loaded, cpu)
        })
        .collect()
    }

    /// Attaches a program: `loaded` at its raw tracepoint, or without it to a perf event.
    fn attach(
        one: &UnattachedProgram<'_>,
        loaded: Option<BpfProgram>,
        cpu: u32,
    ) -> Result<HeldProgram, Refusal> {
        let (program, attachment) = match loaded {
            Some(program) => {
                let file = program.attach_raw()?;
                (program, Attachment::RawTracepoint(Some(file)))
            }
            None if one.place.only_raw => return Err(refused(libc::EOPNOTSUPP)),
            None => {
                let code = with_context(&one.code).ok_or_else(|| refused(libc::E2BIG))?;
                let program = BpfProgram::load(BpfProgramType::Tracepoint, &code)?;
                let target = PerfTarget { pid: EVERY_TASK, cpu: cpu as i32 };
                let attr = attr_of(one.event).map_err(|_| refused(libc::EINVAL))?;
                let event = PerfEvent::open(&attr, target, &one.event.name)?.event;
                program.attach(event.as_fd())?;
                (program, Attachment::PerfEvent { _event: event })
            }
        };
        Ok(HeldProgram { role: one.role, program, attachment })
    }

    /// Returns whether [`HeldProgram::switch`] is possible: to remove a program from a perf event
    /// takes tens of milliseconds.
    pub(super) fn can_switch(&self) -> bool {
        matches!(self.attachment, Attachment::RawTracepoint(_))
    }

    /// Attaches it to its raw tracepoint or detaches it, unless it is so already. Takes 200 us on
    /// two CPUs: the kernel changes code that all CPUs may be running.
    pub(super) fn switch(&mut self, on: bool) -> Result<(), Refusal> {
        if let Attachment::RawTracepoint(file) = &mut self.attachment
            && on != file.is_some()
        {
            *file = if on { Some(self.program.attach_raw()?) } else { None };
        }
        Ok(())
    }

    /// Returns how many events programs have missed because another one ran on the CPU.
    pub(super) fn missed<'a>(programs: impl IntoIterator<Item = &'a HeldProgram>) -> u64 {
        programs.into_iter().map(|held| held.program.misses().unwrap_or(0)).sum()
    }

    /// Returns how many events programs have missed, by role: the most that one program of an event
    /// has missed. The programs of a perf event miss an event together; at a raw tracepoint each
    /// misses its own, so that this is the least number of events.
    pub(super) fn missed_by_role<'a>(
        programs: impl IntoIterator<Item = &'a HeldProgram>,
    ) -> BTreeMap<u32, u64> {
        let mut missed: BTreeMap<u32, u64> = BTreeMap::new();
        // A program at the end of a thread has no event of the script.
        for held in programs.into_iter().filter(|held| held.role != NO_ROLE) {
            let of_role = missed.entry(held.role).or_default();
            *of_role = held.program.misses().unwrap_or(0).max(*of_role);
        }
        missed
    }

    /// Returns the runs of programs that the kernel has measured.
    pub(super) fn measured<'a>(programs: impl Iterator<Item = &'a HeldProgram>) -> MeasuredRuns {
        let measured = programs.map(|held| held.program.measured().unwrap_or_default());
        measured.fold(MeasuredRuns::default(), MeasuredRuns::plus)
    }
}

impl UnattachedProgram<'_> {
    /// Loads it for the raw tracepoint of its event; None if it does not run there.
    fn load_raw(&self) -> Option<BpfProgram> {
        let raw = self.place.raw.as_ref()?;
        let code = [&self.first[..], &raw.record.before(&self.code)?].concat();
        BpfProgram::load(BpfProgramType::RawTracepoint { type_id: raw.type_id }, &code).ok()
    }
}

/// Returns the attr of the perf event that holds a program; it is never enabled.
fn attr_of(event: &Event) -> anyhow::Result<Attr> {
    let common = attr::Common { watermark: 1, inherit: false };
    attr::of_event(event.kind(), &Sampling { count: true, ..Sampling::default() }, common)
}
