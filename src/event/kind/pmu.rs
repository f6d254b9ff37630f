//! Events of a PMU: `msr/tsc/`.
//!
//! `PMU/TERMS/[MODIFIERS]` is translated with the PMU's files in /sys/bus/event_source/devices/PMU:
//! `type`, `events/ALIAS` (terms), and `format/TERM` (`config:0-7,32-35`: the bits that hold the
//! term's value).

use std::io;

use anyhow::{Context, Result, anyhow, ensure};

use super::counter::Counter;
use super::properties::EventAttr;

/// Reads a file by its path below /sys/bus/event_source/devices.
pub type ReadPmu<'a> = dyn Fn(&str) -> io::Result<String> + 'a;

/// Returns the counter that a text stands for; None if it names no PMU.
///
/// # Errors
/// An unknown modifier; a PMU, term or alias that this machine does not have; a value that is
/// invalid or too large for its term.
pub(super) fn parse(text: &str, read: &ReadPmu<'_>) -> Result<Option<Counter>> {
    let Some((pmu, rest)) = text.split_once('/') else { return Ok(None) };
    let (terms, modifiers) = rest.split_once('/').unwrap_or((rest, ""));
    let mut counter = Counter { attr: attr_of(pmu, terms, read)? };
    counter.modify(text, modifiers)?;
    Ok(Some(counter))
}

impl EventAttr {
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

fn attr_of(pmu: &str, terms: &str, read: &ReadPmu<'_>) -> Result<EventAttr> {
    ensure!(is_file_name(pmu), "no PMU '{pmu}'; write PMU/TERMS/ as in msr/tsc/");
    let type_ = read(&format!("{pmu}/type")).map_err(|_| {
        anyhow!("no PMU '{pmu}' on this machine; see /sys/bus/event_source/devices")
    })?;
    let type_ =
        type_.trim().parse().with_context(|| format!("failed to read the type of `{pmu}`"))?;
    let mut attr = EventAttr { type_, ..EventAttr::default() };
    for term in terms.split(',').map(str::trim).filter(|term| !term.is_empty()) {
        if let Some((name, value)) = term.split_once('=') {
            attr.term(pmu, name.trim(), number(value.trim())?, read)?;
        } else if let Some(alias) =
            is_file_name(term).then(|| read(&format!("{pmu}/events/{term}")).ok()).flatten()
        {
            for term in alias.trim().split(',').filter(|term| !term.is_empty()) {
                let (name, value) = term.split_once('=').unwrap_or((term, "1"));
                attr.term(pmu, name.trim(), number(value.trim())?, read)?;
            }
        } else {
            attr.term(pmu, term, 1, read)?;
        }
    }
    Ok(attr)
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

    fn of(text: &str) -> EventAttr {
        parse(text, &machine).unwrap().unwrap().attr
    }

    fn fault(text: &str) -> String {
        parse(text, &machine).unwrap_err().to_string()
    }

    #[test]
    fn terms_are_translated_with_the_files_of_the_pmu() {
        assert_eq!(of("msr/tsc/"), EventAttr { type_: 9, ..EventAttr::default() });
        assert_eq!(of("msr/smi/").config, 4);
        assert_eq!(of("msr/event=0x3/u").config, 3);
        assert!(of("msr/event=0x3/u").exclude.kernel);
        assert_eq!(of("cpu/event=0x1c2,umask=0x3,edge/").config, 0x1_0004_03c2);
        assert_eq!(of("cpu/config=0x11,config2=5/").config2, 5);
        assert_eq!(of("cpu/ldlat=30/").config1, 30);
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
