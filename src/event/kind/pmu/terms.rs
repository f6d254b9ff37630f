//! Terms of a PMU's event: `event=0x3c,umask=0x1,edge`, or the name of one of its events.
//!
//! A term sets a field of the PMU's format, a config field itself, the rate or the shown name. An
//! event stands for the terms in its file; terms beside it replace those, and fill its parameters
//! (`core=?`). Follows `perf_pmu__config_terms()` and `perf_pmu__check_alias()`,
//! tools/perf/util/pmu.c.

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::field::ConfigField;
use super::names::{aliases, formats, is_file_name, list};
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::text::number::parse_u64;
use crate::event::kind::pmu_event::ReadPmu;
use crate::event::kind::properties::{CountUnit, EventAttr};
use crate::event::quote::split_unquoted;
use crate::event::sampling::SamplingRate;

/// The meaning of all terms.
#[derive(Default)]
pub(super) struct TermValues {
    /// The config fields.
    pub(super) attr: EventAttr,
    /// `name=`.
    pub(super) name: Option<String>,
    /// `freq=` or `period=`.
    pub(super) rate: Option<SamplingRate>,
    /// The unit of the event.
    pub(super) unit: Option<CountUnit>,
}

/// Terms of perf that are not about the event, and what replaces them.
const OF_PERF: [(&str, &str); 15] = [
    ("call-graph", "write the attribute stack behind the event: PMU/TERMS//stack/"),
    ("stack-size", "use --call-graph=dwarf,SIZE"),
    ("max-stack", "write the attribute behind the event: PMU/TERMS//max-stack=N/"),
    ("time", "samples always have their time; omit it"),
    ("inherit", "children of watched tasks are always watched; omit it"),
    ("no-inherit", "children of watched tasks are always watched; omit it"),
    ("overwrite", "records are read while they are written; omit it"),
    ("no-overwrite", "records are read while they are written; omit it"),
    ("branch_type", "use --call-graph=lbr"),
    ("percore", "counts are shown per CPU; omit it"),
    ("driver-config", "set the PMU's own terms"),
    ("aux-output", "AUX areas are not supported; omit it"),
    ("aux-action", "AUX areas are not supported; omit it"),
    ("aux-sample-size", "AUX areas are not supported; omit it"),
    ("metric-id", "use --metric of stat; omit it"),
];

struct Term<'a> {
    name: &'a str,
    value: Option<&'a str>,
}

/// Returns the meaning of the terms of one event.
///
/// # Errors
/// A term that the PMU does not have, or a value that is missing, invalid or too large.
pub(super) fn values(pmu: &str, text: &str, read: &ReadPmu<'_>) -> Result<TermValues> {
    let terms = split(text);
    let mut of = TermReader { pmu, read, values: TermValues::default() };
    let mut done: Vec<&str> = Vec::new();
    for term in terms.iter().filter(|term| term.value.is_none()) {
        if let Some(alias) = of.alias(term.name) {
            done.push(term.name);
            done.extend(of.expand(term.name, &alias, &terms)?);
        }
    }
    for term in terms.iter().filter(|term| !done.contains(&term.name)) {
        of.term(term)?;
    }
    Ok(of.values)
}

/// Splits a list at its commas, except within quotes.
fn split(text: &str) -> Vec<Term<'_>> {
    let parts = split_unquoted(text, ',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(Term::of).collect()
}

impl<'a> Term<'a> {
    fn of(text: &'a str) -> Term<'a> {
        match text.split_once('=') {
            Some((name, value)) => Term { name: name.trim(), value: Some(value.trim()) },
            None => Term { name: text, value: None },
        }
    }
}

struct TermReader<'a> {
    pmu: &'a str,
    read: &'a ReadPmu<'a>,
    values: TermValues,
}

impl TermReader<'_> {
    fn file(&self, path: &str) -> Option<String> {
        let text = (self.read)(&format!("{}/{path}", self.pmu)).ok()?;
        Some(text.trim().to_owned())
    }

    /// Returns the terms of an event of the PMU.
    fn alias(&self, name: &str) -> Option<String> {
        is_file_name(name).then(|| self.file(&format!("events/{name}"))).flatten()
    }

    /// Applies the terms of an event of the PMU. Returns its parameters, which `given` contains.
    fn expand<'t>(&mut self, event: &str, alias: &str, given: &[Term<'t>]) -> Result<Vec<&'t str>> {
        let pmu = self.pmu;
        if let Some(unit) = self.unit(event)? {
            ensure!(
                self.values.unit.is_none(),
                "{pmu}: two events with a unit in one; write {pmu}/{event}/ separately"
            );
            self.values.unit = Some(unit);
        }
        let mut parameters = Vec::new();
        for mut term in split(alias) {
            if term.value == Some("?") {
                let name = term.name;
                let given = given.iter().find(|given| given.name == name && given.value.is_some());
                let parameter = given
                    .with_context(|| format!("{pmu}/{event}/ needs the parameter {name}=NUMBER"))?;
                term.value = parameter.value;
                parameters.push(parameter.name);
            }
            self.term(&term)?;
        }
        Ok(parameters)
    }

    /// Returns the unit and scale of an event of the PMU.
    fn unit(&self, event: &str) -> Result<Option<CountUnit>> {
        let file = |part: &str| self.file(&format!("events/{event}.{part}"));
        let (unit, scale, snapshot) = (file("unit"), file("scale"), file("snapshot"));
        if unit.is_none() && scale.is_none() && snapshot.is_none() {
            return Ok(None);
        }
        let scale = match scale {
            Some(text) => {
                text.parse().ok().filter(|scale: &f64| scale.is_finite()).with_context(|| {
                    format!("{}: the scale of '{event}' is not a number: {text}", self.pmu)
                })?
            }
            None => 1.0,
        };
        let is_snapshot = snapshot.is_some_and(|text| text == "1");
        Ok(Some(CountUnit { unit: unit.unwrap_or_default(), scale, is_snapshot }))
    }

    fn term(&mut self, term: &Term<'_>) -> Result<()> {
        let (pmu, name) = (self.pmu, term.name);
        let value =
            || term.value.with_context(|| format!("{pmu}: '{name}' needs a value: {name}=0x1"));
        if let Some(config) = self.values.attr.config_field(name) {
            *config = number(value()?)?;
            return Ok(());
        }
        match name {
            "name" => {
                let text = value()?.trim_matches(['"', '\'']);
                ensure!(!text.is_empty(), "{pmu}: 'name' is empty; write name=TEXT");
                self.values.name = Some(text.to_owned());
                return Ok(());
            }
            "freq" | "period" => return self.rate(name, number(value()?)?),
            _ => {}
        }
        let format = is_file_name(name).then(|| self.file(&format!("format/{name}"))).flatten();
        let Some(format) = format else { return self.raw(term) };
        let field = ConfigField::parse(pmu, name, &format)?;
        ensure!(
            term.value.is_some() || field.width() == 1,
            "{pmu}: '{name}' has {} bits and needs a value: {name}=0x1",
            field.width()
        );
        let value = term.value.map_or(Ok(1), number)?;
        field.store(name, value, &mut self.values.attr).map_err(|why| anyhow!("{pmu}: {why}"))
    }

    fn rate(&mut self, name: &str, value: u64) -> Result<()> {
        ensure!(value > 0, "{}: {name}=0: expected a number greater than 0", self.pmu);
        ensure!(
            self.values.rate.is_none(),
            "{}: freq= and period= exclude each other; write one of them, once",
            self.pmu
        );
        self.values.rate = Some(match name {
            "freq" => SamplingRate::Frequency(value),
            _ => SamplingRate::Period(value),
        });
        Ok(())
    }

    /// Applies `rHEX`, the whole config.
    ///
    /// # Errors
    /// It is another term, which the PMU does not have.
    fn raw(&mut self, term: &Term<'_>) -> Result<()> {
        let (pmu, name) = (self.pmu, term.name);
        // `from_str_radix` accepts a sign.
        let is_hex = |digits: &&str| digits.chars().all(|c| c.is_ascii_hexdigit());
        let hex = name.strip_prefix('r').filter(|_| term.value.is_none()).filter(is_hex);
        if let Some(config) = hex.and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
            self.values.attr.config = config;
            return Ok(());
        }
        if let Some((_, instead)) = OF_PERF.iter().find(|(of_perf, _)| *of_perf == name) {
            bail!("{pmu}: the term '{name}' of perf is not supported: {instead}");
        }
        let terms = formats(pmu, self.read);
        let events = aliases(pmu, self.read);
        let own = ["config", "config1", "config2", "config3", "config4", "freq", "period", "name"];
        let known = terms.iter().chain(&events).map(String::as_str).chain(own);
        let guess = did_you_mean(&nearest(name, known));
        let of_events = match events.is_empty() {
            true => String::new(),
            false => format!("; of events, {}", list(&events)),
        };
        bail!("{pmu} has no term '{name}'{guess} ({}{of_events})", list(&terms))
    }
}

fn number(text: &str) -> Result<u64> {
    parse_u64(text).with_context(|| format!("'{text}' is not a number; write it as 10 or 0xa"))
}
