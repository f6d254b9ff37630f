//! Events that are a number in `perf_event_attr`, and their modifiers: `cycles:u`, `page-faults`,
//! `r1a8`, `msr/tsc/`.

use anyhow::{Result, bail, ensure};
use perf_event_open_sys::bindings as abi;

use super::named::NamedEvent;
use super::properties::{EventAttr, EventProperties};
use crate::event::exclude::EventModes;

/// A software, hardware, cache, raw or PMU event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The fields that select it.
    pub attr: EventAttr,
}

/// Returns whether the character is a modifier.
pub(crate) fn is_modifier(c: char) -> bool {
    "ukhGHIp".contains(c)
}

impl Counter {
    /// Returns the name to show and the counter of a name without modifiers. `event` is the whole
    /// name as typed, for messages.
    ///
    /// # Errors
    /// An unknown modifier.
    pub(super) fn of_named(
        event: &str,
        named: &NamedEvent,
        modifiers: &str,
    ) -> Result<(String, Counter)> {
        let NamedEvent { name, type_, config } = named;
        let attr = EventAttr { type_: *type_, config: *config, ..EventAttr::default() };
        let mut counter = Counter { attr };
        counter.modify(event, modifiers)?;
        let colon = if modifiers.is_empty() { "" } else { ":" };
        Ok((format!("{name}{colon}{modifiers}"), counter))
    }

    /// Applies modifiers: `u k h` count only the named privilege levels, `G H` only the guest or
    /// the host, `I` excludes the idle task, each `p` requests more precision.
    pub(super) fn modify(&mut self, event: &str, modifiers: &str) -> Result<()> {
        if let Some(c) = modifiers.chars().find(|c| !is_modifier(*c)) {
            bail!(
                "{event}: unknown modifier '{c}'; there are u k h (levels), G H (guest, host), \
                 I (not idle), p (precise)"
            );
        }
        let EventAttr { exclude, precise_ip, .. } = &mut self.attr;
        let has = |c: char| modifiers.contains(c);
        if has('u') || has('k') || has('h') {
            (exclude.user, exclude.kernel, exclude.hv) = (!has('u'), !has('k'), !has('h'));
        }
        if has('G') != has('H') {
            (exclude.guest, exclude.host) = (!has('G'), !has('H'));
        }
        exclude.idle = has('I');
        let precise = modifiers.matches('p').count();
        ensure!(precise <= 3, "{event}: more than three `p` modifiers; use at most ppp");
        *precise_ip = precise as u8;
        Ok(())
    }

    /// Returns the counter and its name with the modifier `u`.
    pub(super) fn in_user_mode(&self, name: &str) -> (String, Counter) {
        let separator = if name.contains([':', '/']) { "" } else { ":" };
        let mut counter = self.clone();
        (counter.attr.exclude.kernel, counter.attr.exclude.hv) = (true, true);
        (format!("{name}{separator}u"), counter)
    }
}

impl EventProperties for Counter {
    fn attr(&self) -> EventAttr {
        self.attr
    }

    fn is_clock(&self) -> bool {
        let clocks = [abi::PERF_COUNT_SW_CPU_CLOCK, abi::PERF_COUNT_SW_TASK_CLOCK];
        let is_software = self.attr.type_ == abi::PERF_TYPE_SOFTWARE;
        is_software && clocks.map(u64::from).contains(&self.attr.config)
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

    /// Returns that the kernel reads a clock without regard to modes, but samples it in the mode
    /// that the timer interrupted; and that events of the scheduler have the registers of the
    /// kernel (`cpu_clock_event_read()`, `perf_swevent_hrtimer()` and `__perf_sw_event_sched()`,
    /// kernel/events/core.c).
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
    use crate::event::exclude::Exclude;
    use crate::event::kind::{EventFiles, parse};

    fn of(name: &str) -> EventAttr {
        parse(name, &EventFiles::NONE).unwrap().unwrap().kind().attr()
    }

    fn fault(name: &str) -> String {
        parse(name, &EventFiles::NONE).unwrap_err().to_string()
    }

    #[test]
    fn modifiers_exclude_the_modes_that_they_do_not_name() {
        let user = of("cycles:u").exclude;
        assert_eq!(user, Exclude { kernel: true, hv: true, ..Exclude::default() });
        let both = of("cycles:uk").exclude;
        assert_eq!(both, Exclude { hv: true, ..Exclude::default() });
        assert_eq!(of("cycles:G").exclude, Exclude { host: true, ..Exclude::default() });
        assert_eq!(of("cycles:H").exclude, Exclude { guest: true, ..Exclude::default() });
        assert_eq!(of("cycles:GH").exclude, Exclude::default());
        assert!(of("cpu-clock:I").exclude.idle);
        assert_eq!(of("cycles:ppp").precise_ip, 3);
        assert_eq!(
            fault("cycles:pppp"),
            "cycles:pppp: more than three `p` modifiers; use at most ppp"
        );
        assert!(fault("cycles:x").starts_with("cycles:x: unknown modifier 'x'; there are u k h"));
    }

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
        assert_eq!(Counter::default().in_user_mode("msr/tsc/").0, "msr/tsc/u");
    }
}
