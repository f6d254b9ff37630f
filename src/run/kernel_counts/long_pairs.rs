//! Pairs whose long delays a handler takes: their programs write the fields of both events.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context as _;

use super::count_plan::CountPlan;
use super::pair_plan::{PairPlan, PlannedSide};
use super::{KernelCounts, Reason};
use crate::bpf::pair::PairPart;
use crate::bpf::pair::long::{COMMON_BYTES, CopiedFields, LongRecord};
use crate::decode::format::{FieldKind, Format};
use crate::event::expr::in_kernel;
use crate::event::sampling::Sampling;
use crate::script::evsel::declared_pairs::DeclaredPairs;
use crate::script::host::Host;
use crate::source::counting::pairs::PairTable;
use crate::source::request::{Opening, SampleParts, ServedRole};
use crate::source::written_pairs::{WrittenPairs, WrittenRecords, WrittenSide};
use crate::sys::bpf::OutputArray;

/// Bits of the number of a side within its declaration, as in `prelude/pair_handlers.lua`.
const SIDE_BITS: u32 = 16;

impl KernelCounts {
    /// Makes the handlers of the script take the long delays that programs write.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub(in crate::run) fn take_written(&self, host: &mut Host) -> anyhow::Result<()> {
        let mut written = self.pairs.written();
        written
            .try_for_each(|pairs| host.take_written(pairs))
            .context("failed to prepare the handlers of long delays")
    }

    /// Stops counting in the kernel, before the events that programs write to are disabled.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub(in crate::run) fn hold(&mut self) -> anyhow::Result<()> {
        self.pause(true).context("failed to stop the counts in the kernel")
    }

    /// Returns the time up to which records are handled after a run that ends at `end`. The tables
    /// have all pairs until the programs stop, at the latest `now`, so written pairs are handled
    /// until then.
    pub(in crate::run) fn end_of_records(&self, end: f64, now: f64) -> f64 {
        match self.pairs.written().next() {
            Some(_) => end.max(now),
            None => end,
        }
    }

    /// Returns how many events were missed, or could not be written, by role.
    pub(in crate::run) fn undelivered(&self) -> BTreeMap<u32, u64> {
        let mut undelivered = self.missed();
        for (role, events) in self.pairs.unwritten() {
            *undelivered.entry(role).or_default() += events;
        }
        undelivered
    }
}

impl CountPlan<'_> {
    /// Checks that programs can write the long delays of pairs, if a handler takes them.
    pub(super) fn check_long(&self, host: &Host, declared: &DeclaredPairs) -> Result<(), Reason> {
        match declared.than_ns {
            None => Ok(()),
            Some(_) if host.looks_back() => Err("the run has a history of its events".to_owned()),
            Some(_) if !self.source.ordered => {
                Err("the run does not order events (--no-order)".to_owned())
            }
            Some(_) if self.settings.budget.is_some() => {
                Err("--budget prints only some of the long delays".to_owned())
            }
            Some(_) => Ok(()),
        }
    }

    /// Checks that a handler needs nothing of an event besides its fields.
    pub(super) fn check_copied(&self, role: usize) -> Result<(), Reason> {
        let sampling = &self.roles[role].sampling;
        match sampling.stack.is_some() || !sampling.extra.is_empty() {
            true => Err("its stack or other fields of its samples are read".to_owned()),
            false => Ok(()),
        }
    }
}

impl PairPlan<'_> {
    /// Plans the fields of a start or an end that its program copies; None if no handler takes long
    /// delays.
    pub(super) fn copied(
        &mut self,
        of: PlannedSide<'_>,
        format: &Format,
    ) -> Result<Option<CopiedFields>, Reason> {
        if self.declared.than_ns.is_none() {
            return Ok(None);
        }
        if !format.unset.is_empty() {
            return Err("the kernel may leave some of its fields unset".to_owned());
        }
        let side = i32::try_from(self.sides.len()).map_err(|_| "it has too many events")?;
        let mut copied = CopiedFields { side, fields: Vec::new(), texts: Vec::new() };
        for field in format.fields.iter().filter(|field| !field.common) {
            let is_elsewhere = matches!(field.kind, FieldKind::DataLoc(_) | FieldKind::RelLoc(_));
            let why = || format!("`{}` has no fixed size, and --than prints it", field.name);
            // perilune adds the text of a pointer: a program does not find it in its context.
            let is_own = field.offset + field.size > format.fixed_size;
            match in_kernel::location(field).filter(|_| !is_own) {
                Some(_) if self.is_auto && !field.is_task_name() => {
                    return Err(format!("{}; use --where kernel", why()));
                }
                Some(location) => copied.texts.push(location),
                None if is_elsewhere => return Err(why()),
                None => copied.fields.push((field.offset, field.size)),
            }
        }
        self.sides.push(WrittenSide {
            role: of.role as u16,
            number: (self.declared.number << SIDE_BITS | of.number) as u64,
            id: format.id as u16,
            bytes: COMMON_BYTES + copied.bytes(),
        });
        let long = self.layout.long.get_or_insert_default();
        let is_start = of.number < self.declared.starts.len();
        let most = if is_start { &mut long.start } else { &mut long.finish };
        *most = copied.bytes().max(*most);
        Ok(Some(copied))
    }
}

/// Returns the opening for the records of long delays: events of all CPUs, to which the programs
/// write. Lost records are counted for the role of the first end.
pub(super) fn opening(table: &PairTable, array: &Arc<OutputArray>) -> Option<Opening> {
    let places = LongRecord::of(&table.layout)?;
    let is_end = |part: &PairPart| matches!(part, PairPart::Finish(_));
    let end = &table.roles.iter().find(|role| is_end(&role.part))?.role;
    let records = WrittenRecords { places, sides: table.sides.clone() };
    let pairs = WrittenPairs { array: array.clone(), records };
    Some(Opening {
        event: end.event.clone(),
        glob: None,
        filter: None,
        sampling: Sampling { all_tasks: true, ..Sampling::default() },
        parts: SampleParts::ALL,
        roles: vec![ServedRole::unfiltered(end.role)],
        follows_cgroups: false,
        pairs: Some(Rc::new(pairs)),
    })
}
