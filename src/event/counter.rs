//! Events without a record format: `cycles:u`, `page-faults`, `msr/tsc/`.
//!
//! `NAME[:MODIFIERS]` is looked up in [`super::name`]. `PMU/TERMS/[MODIFIERS]` is translated with
//! the PMU's files in /sys/bus/event_source/devices/PMU: `type`, `events/ALIAS` (terms), and
//! `format/TERM` (`config:0-7,32-35`: the bits that hold the term's value).

use std::io;

use anyhow::{Context, Result, anyhow, bail, ensure};
use perf_event_open_sys::bindings as abi;

use crate::event::name;

/// The `perf_event_attr` fields of a counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counter {
    /// `perf_event_attr.type`.
    pub type_: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// `perf_event_attr.config1`.
    pub config1: u64,
    /// `perf_event_attr.config2`.
    pub config2: u64,
    /// Modes in which it does not count.
    pub exclude: ExcludeBits,
    /// `perf_event_attr.precise_ip`, 0 to 3.
    pub precise_ip: u8,
}

/// The `exclude_*` bits of `perf_event_attr`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct ExcludeBits {
    pub user: bool,
    pub kernel: bool,
    pub hv: bool,
    pub host: bool,
    pub guest: bool,
    pub idle: bool,
}

/// Reads a file by its path below /sys/bus/event_source/devices.
pub type ReadPmu<'a> = dyn Fn(&str) -> io::Result<String> + 'a;

/// Returns the name to show, aliases resolved, and the counter; None if the text is not the name of
/// a counter.
///
/// # Errors
/// An unknown modifier, or one that the counter does not support; a PMU, term or alias that this
/// machine does not have; a value that is invalid or too large for its term.
pub fn parse(text: &str, read: &ReadPmu<'_>) -> Result<Option<(String, Counter)>> {
    if let Some((pmu, rest)) = text.split_once('/') {
        let (terms, modifiers) = rest.split_once('/').unwrap_or((rest, ""));
        let mut counter = pmu_counter(pmu, terms, read)?;
        counter.modify(text, modifiers)?;
        return Ok(Some((text.to_owned(), counter)));
    }
    let (name, modifiers) = text.split_once(':').unwrap_or((text, ""));
    let Some(named) = name::lookup(name) else { return Ok(None) };
    let mut counter = Counter { type_: named.type_, config: named.config, ..Counter::default() };
    counter.modify(text, modifiers)?;
    let colon = if modifiers.is_empty() { "" } else { ":" };
    Ok(Some((format!("{}{colon}{modifiers}", named.name), counter)))
}

/// Returns whether the character is a modifier.
pub(crate) fn is_modifier(c: char) -> bool {
    "ukhGHIp".contains(c)
}

impl Counter {
    /// Returns its index in [`crate::sys::proc_stat::Ticks`] if it is read from /proc/stat.
    pub fn cpu_time(&self) -> Option<usize> {
        (self.type_ == name::CPU_TIME).then_some(self.config as usize)
    }

    /// Returns whether it is one of the kernel's clocks, which count nanoseconds and keep running
    /// on an idle CPU.
    pub fn is_clock(&self) -> bool {
        let clocks = [abi::PERF_COUNT_SW_CPU_CLOCK, abi::PERF_COUNT_SW_TASK_CLOCK];
        self.type_ == abi::PERF_TYPE_SOFTWARE && clocks.map(u64::from).contains(&self.config)
    }

    /// Returns whether it counts so fast that it is sampled at a rate: clocks, and counters of the
    /// hardware and of PMUs.
    pub fn has_rate(&self) -> bool {
        match self.type_ {
            abi::PERF_TYPE_SOFTWARE => self.is_clock(),
            abi::PERF_TYPE_BREAKPOINT | abi::PERF_TYPE_TRACEPOINT | name::CPU_TIME => false,
            _ => true,
        }
    }

    /// Applies modifiers: `u k h` count only the named privilege levels, `G H` only the guest or
    /// the host, `I` excludes the idle task, each `p` requests more precision.
    fn modify(&mut self, event: &str, modifiers: &str) -> Result<()> {
        if self.cpu_time().is_some() {
            ensure!(
                modifiers.is_empty(),
                "{event}: a CPU time of /proc/stat has no modifiers; omit `:{modifiers}`"
            );
        }
        if let Some(c) = modifiers.chars().find(|c| !is_modifier(*c)) {
            bail!(
                "{event}: unknown modifier '{c}'; there are u k h (levels), G H (guest, host), \
                 I (not idle), p (precise)"
            );
        }
        let has = |c: char| modifiers.contains(c);
        if has('u') || has('k') || has('h') {
            (self.exclude.user, self.exclude.kernel, self.exclude.hv) =
                (!has('u'), !has('k'), !has('h'));
        }
        if has('G') != has('H') {
            (self.exclude.guest, self.exclude.host) = (!has('G'), !has('H'));
        }
        self.exclude.idle = has('I');
        let precise = modifiers.matches('p').count();
        ensure!(precise <= 3, "{event}: more than three `p` modifiers; use at most ppp");
        self.precise_ip = precise as u8;
        Ok(())
    }

    /// Returns the config field of this name.
    fn config_field(&mut self, name: &str) -> Option<&mut u64> {
        match name {
            "config" => Some(&mut self.config),
            "config1" => Some(&mut self.config1),
            "config2" => Some(&mut self.config2),
            _ => None,
        }
    }

    fn term(&mut self, pmu: &str, term: &str, value: u64, read: &ReadPmu<'_>) -> Result<()> {
        if let Some(config) = self.config_field(term) {
            *config = value;
            return Ok(());
        }
        ensure!(is_file_name(term), "{pmu} has no term '{term}'");
        let format = read(&format!("{pmu}/format/{term}")).map_err(|_| {
            anyhow!("{pmu} has no term '{term}'; see /sys/bus/event_source/devices/{pmu}/format")
        })?;
        let (name, bits) = format
            .trim()
            .split_once(':')
            .with_context(|| format!("{pmu}: the format of '{term}' has no `:`"))?;
        let config = self.config_field(name).with_context(|| {
            format!("{pmu}: the format of '{term}' sets an unknown field {name}")
        })?;
        let rest = spread(value, bits, config)
            .with_context(|| format!("{pmu}: the format of '{term}' has invalid bits {bits}"))?;
        ensure!(rest == 0, "{pmu}: {value:#x} is too large for '{term}'");
        Ok(())
    }
}

fn pmu_counter(pmu: &str, terms: &str, read: &ReadPmu<'_>) -> Result<Counter> {
    ensure!(is_file_name(pmu), "no PMU '{pmu}'; write PMU/TERMS/ as in msr/tsc/");
    let type_ = read(&format!("{pmu}/type")).map_err(|_| {
        anyhow!("no PMU '{pmu}' on this machine; see /sys/bus/event_source/devices")
    })?;
    let type_ =
        type_.trim().parse().with_context(|| format!("failed to read the type of `{pmu}`"))?;
    let mut counter = Counter { type_, ..Counter::default() };
    for term in terms.split(',').map(str::trim).filter(|term| !term.is_empty()) {
        if let Some((name, value)) = term.split_once('=') {
            counter.term(pmu, name.trim(), number(value.trim())?, read)?;
        } else if let Some(alias) =
            is_file_name(term).then(|| read(&format!("{pmu}/events/{term}")).ok()).flatten()
        {
            for term in alias.trim().split(',').filter(|term| !term.is_empty()) {
                let (name, value) = term.split_once('=').unwrap_or((term, "1"));
                counter.term(pmu, name.trim(), number(value.trim())?, read)?;
            }
        } else {
            counter.term(pmu, term, 1, read)?;
        }
    }
    Ok(counter)
}

/// Stores the low bits of a value in the bit ranges `0-7,32-35` of `config`. Returns the remaining
/// high bits of the value, or None for an invalid list.
fn spread(mut value: u64, bits: &str, config: &mut u64) -> Option<u64> {
    for range in bits.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        let width = high.checked_sub(low)?.checked_add(1).filter(|_| high < 64)?;
        let mask = u64::MAX >> (64 - width);
        *config = *config & !(mask << low) | (value & mask) << low;
        value = value.checked_shr(width).unwrap_or(0);
    }
    Some(value)
}

fn number(text: &str) -> Result<u64> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| anyhow!("'{text}' is not a number; write it as 10 or 0xa"))
}

fn is_file_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(path: &str) -> io::Result<String> {
        let text = match path {
            "msr/type" => "9\n",
            "msr/events/tsc" => "event=0x00\n",
            "msr/events/smi" => "event=0x04\n",
            "msr/format/event" => "config:0-63\n",
            "cpu/type" => "4\n",
            "cpu/format/event" => "config:0-7,32-35\n",
            "cpu/format/umask" => "config:8-15\n",
            "cpu/format/edge" => "config:18\n",
            "cpu/format/ldlat" => "config1:0-15\n",
            "odd/type" => "5\n",
            "odd/format/x" => "config:9-99\n",
            _ => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(text.to_owned())
    }

    fn of(text: &str) -> Counter {
        parse(text, &machine).unwrap().unwrap().1
    }

    fn fault(text: &str) -> String {
        parse(text, &machine).unwrap_err().to_string()
    }

    #[test]
    fn modifiers_exclude_the_modes_that_they_do_not_name() {
        let user = of("cycles:u").exclude;
        assert_eq!(user, ExcludeBits { kernel: true, hv: true, ..ExcludeBits::default() });
        let both = of("cycles:uk").exclude;
        assert_eq!(both, ExcludeBits { hv: true, ..ExcludeBits::default() });
        assert_eq!(of("cycles:G").exclude, ExcludeBits { host: true, ..ExcludeBits::default() });
        assert_eq!(of("cycles:H").exclude, ExcludeBits { guest: true, ..ExcludeBits::default() });
        assert_eq!(of("cycles:GH").exclude, ExcludeBits::default());
        assert!(of("cpu-clock:I").exclude.idle);
        assert_eq!(of("cycles:ppp").precise_ip, 3);
        assert_eq!(
            fault("cycles:pppp"),
            "cycles:pppp: more than three `p` modifiers; use at most ppp"
        );
        assert!(fault("cycles:x").starts_with("cycles:x: unknown modifier 'x'; there are u k h"));
    }

    #[test]
    fn aliases_are_resolved_in_the_shown_name() {
        assert_eq!(parse("faults:u", &machine).unwrap().unwrap().0, "page-faults:u");
        assert_eq!(parse("cs", &machine).unwrap().unwrap().0, "context-switches");
        assert_eq!(parse("sched:sched_switch", &machine).unwrap(), None);
    }

    #[test]
    fn terms_are_translated_with_the_files_of_the_pmu() {
        assert_eq!(of("msr/tsc/"), Counter { type_: 9, ..Counter::default() });
        assert_eq!(of("msr/smi/").config, 4);
        assert_eq!(of("msr/event=0x3/u").config, 3);
        assert!(of("msr/event=0x3/u").exclude.kernel);
        assert_eq!(of("cpu/event=0x1c2,umask=0x3,edge/").config, 0x1_0004_03c2);
        assert_eq!(of("cpu/config=0x11,config2=5/").config2, 5);
        assert_eq!(of("cpu/ldlat=30/").config1, 30);
    }

    #[test]
    fn a_cpu_time_of_proc_stat_is_a_counter() {
        assert_eq!(of("steal-time").cpu_time(), Some(7));
        assert_eq!(of("cycles").cpu_time(), None);
        assert!(!of("user-time").has_rate());
        assert_eq!(
            fault("user-time:u"),
            "user-time:u: a CPU time of /proc/stat has no modifiers; omit `:u`"
        );
    }

    #[test]
    fn an_unknown_pmu_or_term_is_named_in_the_error() {
        assert!(fault("nopmu/x/").starts_with("no PMU 'nopmu' on this machine"));
        assert!(fault("../x/").starts_with("no PMU '..'"));
        assert!(fault("msr/nope/").starts_with("msr has no term 'nope'"));
        assert_eq!(fault("cpu/umask=0x100/"), "cpu: 0x100 is too large for 'umask'");
        assert_eq!(fault("cpu/umask=many/"), "'many' is not a number; write it as 10 or 0xa");
        assert_eq!(fault("odd/x=1/"), "odd: the format of 'x' has invalid bits 9-99");
    }
}
