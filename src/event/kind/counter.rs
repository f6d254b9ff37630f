//! Events that are a number in `perf_event_attr`, and their modifiers: `cycles:u`, `page-faults`,
//! `r1a8`, `msr/tsc/`.

use anyhow::{Result, anyhow, bail, ensure};
use perf_event_open_sys::bindings as abi;

use super::Event;
use super::modifiers::Modifiers;
use super::named::NamedEvent;
use super::pmu_event::{PmuEvent, ReadPmu, max_precise};
use super::properties::{CountUnit, EventAttr, EventProperties};
use crate::event::exclude::EventModes;
use crate::event::sampling::{Sampling, SamplingRate};

/// A software, hardware, cache, raw or PMU event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counter {
    /// The fields that select it.
    pub attr: EventAttr,
    /// Properties that the files of its PMU declare; None if it has a name of its own.
    pub pmu: Option<Box<PmuEvent>>,
}

impl Counter {
    /// Returns the name to show and the counter of a name without modifiers. `event` is the whole
    /// name as typed, for messages.
    ///
    /// # Errors
    /// An unknown modifier, or one that has no effect.
    pub(super) fn of_named(
        event: &str,
        named: &NamedEvent,
        modifiers: &str,
        read: &ReadPmu<'_>,
    ) -> Result<(String, Counter)> {
        let NamedEvent { name, type_, config } = named;
        let attr = EventAttr { type_: *type_, config: *config, ..EventAttr::default() };
        let mut counter = Counter { attr, pmu: None };
        let parsed = Modifiers::parse(event, modifiers)?;
        if *type_ == abi::PERF_TYPE_SOFTWARE {
            parsed.check_software(event, counter.is_clock())?;
        }
        let most = max_precise("cpu", read);
        parsed.apply(&mut counter.attr, most).map_err(|why| anyhow!("{event}: {why}"))?;
        let colon = if modifiers.is_empty() { "" } else { ":" };
        Ok((format!("{name}{colon}{modifiers}"), counter))
    }
}

impl EventProperties for Counter {
    fn attr(&self) -> EventAttr {
        self.attr
    }

    fn in_user_mode(&self, name: &str) -> Option<Event> {
        let separator = if name.contains([':', '/']) { "" } else { ":" };
        let mut counter = self.clone();
        (counter.attr.exclude.kernel, counter.attr.exclude.hv) = (true, true);
        Some(Event::new(format!("{name}{separator}u"), counter))
    }

    fn is_clock(&self) -> bool {
        let clocks = [abi::PERF_COUNT_SW_CPU_CLOCK, abi::PERF_COUNT_SW_TASK_CLOCK];
        let is_software = self.attr.type_ == abi::PERF_TYPE_SOFTWARE;
        is_software && clocks.map(u64::from).contains(&self.attr.config)
    }

    fn cpus(&self) -> Option<&[u32]> {
        self.pmu.as_ref()?.cpus.as_deref()
    }

    fn uncore_pmu(&self) -> Option<&str> {
        self.pmu.as_ref().filter(|pmu| pmu.is_uncore).map(|pmu| pmu.pmu.as_str())
    }

    fn only_counts(&self) -> bool {
        self.pmu.as_ref().is_some_and(|pmu| pmu.only_counts)
    }

    fn unit(&self) -> Option<&CountUnit> {
        self.pmu.as_ref()?.unit.as_ref()
    }

    fn rate(&self) -> Option<SamplingRate> {
        self.pmu.as_ref()?.rate
    }

    fn check_options(&self, sampling: &Sampling, of_tasks: bool) -> Result<()> {
        if sampling.count {
            ensure!(
                self.attr.precise_ip == 0,
                "precision has no effect on a count; omit the modifiers p and P"
            );
            ensure!(self.rate().is_none(), "it is counted, not sampled; omit freq= and period=");
        }
        let Some(pmu) = &self.pmu else { return Ok(()) };
        if pmu.is_uncore && (of_tasks || sampling.cgroup.is_some()) {
            bail!(
                "the PMU '{}' counts for whole CPUs, not for tasks; omit -p, -t and --cgroup, and \
                 add -a before a command",
                pmu.pmu
            );
        }
        ensure!(
            sampling.count || !pmu.only_counts,
            "the PMU '{}' only counts; use it with stat, or with count = true",
            pmu.pmu
        );
        Ok(())
    }

    /// Returns true for clocks, and for counters of the hardware and of PMUs.
    fn has_rate(&self) -> bool {
        self.is_clock() || self.uses_hardware_counter()
    }

    fn uses_hardware_counter(&self) -> bool {
        let others =
            [abi::PERF_TYPE_SOFTWARE, abi::PERF_TYPE_BREAKPOINT, abi::PERF_TYPE_TRACEPOINT];
        !others.contains(&self.attr.type_)
    }

    /// Returns `Together` for a counted clock, which the kernel reads without regard to modes, and
    /// `OnlyKernel` for events of the scheduler, whose registers are the kernel's. A sampled clock
    /// is `Separate`: the timer samples it in the interrupted mode (`cpu_clock_event_read()`,
    /// `perf_swevent_hrtimer()`, `__perf_sw_event_sched()`, kernel/events/core.c).
    fn modes(&self, is_counted: bool) -> EventModes {
        let of_scheduler = [
            abi::PERF_COUNT_SW_CONTEXT_SWITCHES,
            abi::PERF_COUNT_SW_CPU_MIGRATIONS,
            abi::PERF_COUNT_SW_CGROUP_SWITCHES,
        ];
        let is_software = self.attr.type_ == abi::PERF_TYPE_SOFTWARE;
        match self.attr.config {
            _ if is_counted && self.is_clock() => EventModes::Together,
            config if is_software && of_scheduler.map(u64::from).contains(&config) => {
                EventModes::OnlyKernel
            }
            _ => EventModes::Separate,
        }
    }

    fn joins_software_group(&self) -> bool {
        self.attr.type_ == abi::PERF_TYPE_SOFTWARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::kind::{EventFiles, parse};

    #[test]
    fn events_have_the_modes_that_the_kernel_separates() {
        let modes = |name: &str, is_counted| {
            parse(name, &EventFiles::NONE).unwrap().unwrap().kind().modes(is_counted)
        };
        for name in ["page-faults", "minor-faults", "cycles", "r1a8", "LLC-load-misses"] {
            assert_eq!(modes(name, true), EventModes::Separate, "{name}");
        }
        for name in ["context-switches", "cpu-migrations", "cgroup-switches"] {
            assert_eq!(modes(name, true), EventModes::OnlyKernel, "{name}");
        }
        assert_eq!(modes("cpu-clock", true), EventModes::Together);
        assert_eq!(modes("cpu-clock", false), EventModes::Separate);
        assert_eq!(modes("user-time", true), EventModes::Together);
    }

    #[test]
    fn the_name_of_an_event_in_user_mode_has_the_modifier_u() {
        for (name, user) in [("cpu-clock", "cpu-clock:u"), ("cycles:ppp", "cycles:pppu")] {
            let event = |name| parse(name, &EventFiles::NONE).unwrap().unwrap();
            assert_eq!(event(name).in_user_mode().unwrap(), event(user));
        }
        assert_eq!(Counter::default().in_user_mode("msr/tsc/").unwrap().name, "msr/tsc/u");
    }
}
