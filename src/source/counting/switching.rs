//! Switches the programs of counts off and on during a run, and lets them count one event in N.

use std::io;
use std::time::Duration;

use super::held_program::HeldProgram;
use super::{Counting, OpenTable, word};
use crate::bpf::thinning::COUNTED_AT;
use crate::source::counts::{CpuEvents, SwitchedEvents};
use crate::sys::clock::monotonic_ns;
use crate::sys::refusal::Refusal;

/// How long events are not counted after programs were attached, which stops all CPUs for some
/// hundred microseconds.
const SETTLING: Duration = Duration::from_millis(1);

impl Counting {
    /// Returns whether [`Counting::switch`] is possible.
    pub fn can_switch(&self) -> bool {
        let mut programs = self.tables.iter().flat_map(|table| &table.programs);
        programs.all(HeldProgram::can_switch)
    }

    /// Detaches all programs, so that events cost next to nothing, or attaches them again. Returns
    /// the moment of the change.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn switch(&mut self, on: bool) -> io::Result<SwitchedEvents> {
        // Counting begins when all programs are attached, at the same moment for all, and tasks
        // that were stopped meanwhile have caught up.
        if on {
            self.attach(true)?;
            std::thread::sleep(SETTLING);
        }
        let before = monotonic_ns();
        self.tables.iter_mut().try_for_each(|table| table.table.pause(!on))?;
        let at = before + (monotonic_ns() - before) / 2;
        let by_cpu = self.runs_by_cpu()?;
        if !on {
            self.attach(false)?;
        }
        Ok(SwitchedEvents { at, by_cpu })
    }

    /// Lets all tables begin an interval at the same moment, which [`Counting::collect`] would do
    /// itself; it then passes the interval before. Returns the moment.
    ///
    /// # Errors
    /// The kernel refuses a map or the call.
    pub fn begin_interval(&mut self) -> io::Result<SwitchedEvents> {
        self.flip()?;
        Ok(SwitchedEvents { at: monotonic_ns(), by_cpu: self.runs_by_cpu()? })
    }

    /// Lets programs count nothing, or again. Programs that run continue.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn pause(&mut self, is_paused: bool) -> io::Result<()> {
        self.tables.iter_mut().try_for_each(|table| table.table.pause(is_paused))
    }

    /// Lets all tables use their other maps: [`Counting::collect`] then passes the counts until
    /// now.
    ///
    /// # Errors
    /// The kernel refuses a map or the call.
    pub fn flip(&mut self) -> io::Result<()> {
        self.prepare_next()?;
        self.tables.iter_mut().try_for_each(|table| table.table.flip())
    }

    fn attach(&mut self, on: bool) -> io::Result<()> {
        let attached = self.tables.iter_mut().try_for_each(|table| table.attach(on));
        attached.map_err(|why| io::Error::from_raw_os_error(why.errno))
    }

    /// Returns how often programs have run on each CPU.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn runs_by_cpu(&self) -> io::Result<Vec<CpuEvents>> {
        let mut all = Vec::new();
        for runs in self.tables.iter().filter_map(|table| table.runs.as_ref()) {
            let of_table = runs.of_cpus(0)?;
            all.resize(all.len().max(of_table.len()), CpuEvents::default());
            for (sum, value) in all.iter_mut().zip(&of_table) {
                sum.all += word(value).unwrap_or(0);
                sum.sampled += value.get(COUNTED_AT as usize..).and_then(word).unwrap_or(0);
            }
        }
        Ok(all)
    }

    /// Lets programs count one event in N from now on, on each CPU from a place on that `start`
    /// returns, less than N. They must be switched off.
    ///
    /// # Errors
    /// The kernel refuses the call.
    pub fn count_one_in(&self, n: u64, mut start: impl FnMut() -> u64) -> io::Result<()> {
        for runs in self.tables.iter().filter_map(|table| table.runs.as_ref()) {
            let mut of_cpus = runs.of_cpus(0)?;
            for value in &mut of_cpus {
                let words = [word(value).unwrap_or(0), 1 + start(), n];
                let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
                value.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
            }
            runs.set_of_cpus(0, &of_cpus)?;
        }
        Ok(())
    }
}

impl OpenTable {
    fn attach(&mut self, on: bool) -> Result<(), Refusal> {
        let mut programs = self.programs.iter_mut();
        programs.try_for_each(|program| program.switch(on))
    }
}
