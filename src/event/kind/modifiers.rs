//! Modifiers of counters: the letters behind the name in `cycles:ukp`, as perf-list(1) defines
//! them.

use anyhow::{Error, Result, anyhow, bail, ensure};

use super::properties::EventAttr;

/// Modifiers: `u k h` count only the named privilege levels, `G H` only the guest or the host, `I`
/// excludes the idle task, each `p` requests more precision and `P` the highest, `D` pins the
/// event, `e` makes it exclusive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modifiers<'a>(&'a str);

/// Returns whether the character is a modifier.
pub(crate) fn is_modifier(c: char) -> bool {
    "ukhGHIpPDeSW".contains(c)
}

impl<'a> Modifiers<'a> {
    /// Reads modifiers. `event` is the whole name as typed, for messages.
    ///
    /// # Errors
    /// An unknown modifier, one that needs a group, or some that exclude each other.
    pub(super) fn parse(event: &str, text: &'a str) -> Result<Modifiers<'a>> {
        if let Some(c) = text.chars().find(|c| !is_modifier(*c)) {
            bail!(
                "{event}: unknown modifier '{c}'; there are u k h (levels), G H (guest, host), \
                 I (not idle), p P (precise), D (pinned), e (exclusive); S and W of a group"
            );
        }
        let has = |c: char| text.contains(c);
        ensure!(
            !has('S'),
            "{event}: the modifier S applies to a group, whose first event is sampled with the \
             counts of all; write {{EVENT,OTHER,…}}:S"
        );
        ensure!(
            !has('W'),
            "{event}: the modifier W applies to a group of events; write {{EVENT,OTHER,…}}:W, or \
             omit it"
        );
        let precise = text.matches('p').count();
        ensure!(precise <= 3, "{event}: more than three `p` modifiers; use at most ppp");
        ensure!(precise == 0 || !has('P'), "{event}: p and P exclude each other; use one of them");
        for c in "ukhGHIPDe".chars() {
            ensure!(
                text.matches(c).count() < 2,
                "{event}: the modifier {c} is given twice; omit one"
            );
        }
        Ok(Modifiers(text))
    }

    /// Checks that there are none.
    ///
    /// # Errors
    /// There is one, which has no effect for the reason `why`.
    pub(super) fn check_none(self, event: &str, why: &str) -> Result<()> {
        match self.0.chars().next() {
            Some(c) => Err(without_effect_error(event, c, why)),
            None => Ok(()),
        }
    }

    /// Checks the modifiers of an event that the kernel counts in software: it checks only the
    /// level of privilege (`perf_exclude_event()`), and of a clock whether the CPU is idle
    /// (`perf_swevent_hrtimer()`, kernel/events/core.c).
    ///
    /// # Errors
    /// One of them has no effect.
    pub(super) fn check_software(self, event: &str, is_clock: bool) -> Result<()> {
        let is_without_effect = |c: &char| match c {
            'u' | 'k' => false,
            'I' => !is_clock,
            _ => true,
        };
        let Some(c) = self.0.chars().find(is_without_effect) else { return Ok(()) };
        let why = match c {
            'h' => "software events do not occur in a hypervisor",
            'G' | 'H' => "only hardware counters distinguish guests from their host",
            'p' | 'P' => "software events are always precise",
            'D' | 'e' => "software events need no hardware counter",
            _ => "only clocks occur on an idle CPU",
        };
        Err(without_effect_error(event, c, why))
    }

    /// Sets the fields. `max_precise` is the highest `precise_ip` of the PMU.
    ///
    /// # Errors
    /// `P` is given, and the PMU does not declare its highest precision, or has no precise events.
    /// The message does not have the event's name.
    pub(super) fn apply(self, attr: &mut EventAttr, max_precise: Option<u8>) -> Result<()> {
        let has = |c: char| self.0.contains(c);
        let exclude = &mut attr.exclude;
        if has('u') || has('k') || has('h') {
            (exclude.user, exclude.kernel, exclude.hv) = (!has('u'), !has('k'), !has('h'));
        }
        if has('G') != has('H') {
            (exclude.guest, exclude.host) = (!has('G'), !has('H'));
        }
        exclude.idle = has('I');
        attr.pinned = has('D');
        attr.exclusive = has('e');
        attr.precise_ip = match (has('P'), max_precise) {
            (true, Some(0)) => bail!("its PMU has no precise events; omit the modifier P"),
            (true, Some(most)) => most.min(3),
            (true, None) => bail!(
                "its PMU does not declare the highest precision (caps/max_precise); use p, pp or \
                 ppp instead of P"
            ),
            (false, _) => self.0.matches('p').count() as u8,
        };
        Ok(())
    }
}

fn without_effect_error(event: &str, c: char, why: &str) -> Error {
    anyhow!("{event}: the modifier {c} has no effect: {why}; omit it")
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
        assert!(of("cycles:D").pinned && !of("cycles:D").exclusive);
        assert!(of("instructions:ue").exclusive);
    }

    #[test]
    fn invalid_combinations_are_refused() {
        assert_eq!(
            fault("cycles:pppp"),
            "cycles:pppp: more than three `p` modifiers; use at most ppp"
        );
        assert!(fault("cycles:x").starts_with("cycles:x: unknown modifier 'x'; there are u k h"));
        assert_eq!(fault("cycles:pP"), "cycles:pP: p and P exclude each other; use one of them");
        assert_eq!(fault("cycles:uu"), "cycles:uu: the modifier u is given twice; omit one");
        assert!(fault("cycles:S").contains("S applies to a group"));
        assert!(fault("cycles:W").contains("W applies to a group"));
    }

    #[test]
    fn a_modifier_without_effect_is_refused() {
        for (name, why) in [
            ("page-faults:p", "software events are always precise"),
            ("cpu-clock:P", "software events are always precise"),
            ("cpu-clock:D", "software events need no hardware counter"),
            ("context-switches:e", "software events need no hardware counter"),
            ("cpu-clock:G", "only hardware counters distinguish guests from their host"),
            ("page-faults:uh", "software events do not occur in a hypervisor"),
            ("page-faults:I", "only clocks occur on an idle CPU"),
        ] {
            let fault = fault(name);
            assert!(fault.contains("has no effect") && fault.contains(why), "{fault}");
        }
        assert!(of("page-faults:u").exclude.kernel);
    }

    #[test]
    fn the_highest_precision_is_that_of_the_pmu() {
        let read = |most: &'static str| {
            move |path: &str| match path {
                "cpu/caps/max_precise" => Ok(format!("{most}\n")),
                _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
            }
        };
        let (two, zero) = (read("2"), read("0"));
        let parsed = |pmu| parse("cycles:P", &EventFiles { pmu, ..EventFiles::NONE });
        assert_eq!(parsed(&two).unwrap().unwrap().kind().attr().precise_ip, 2);
        let why = parsed(&zero).unwrap_err().to_string();
        assert_eq!(why, "cycles:P: its PMU has no precise events; omit the modifier P");
        assert!(fault("cycles:P").contains("does not declare the highest precision"));
    }
}
