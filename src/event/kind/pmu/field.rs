//! Fields of a PMU's config: the bits that hold the value of a term.

use anyhow::{Context as _, Result, ensure};

use crate::event::kind::properties::EventAttr;

/// The bits that hold the value of a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigField {
    /// The name of the `perf_event_attr` field.
    config: String,
    /// First bit and number of bits, of the value's lowest bits first.
    ranges: Vec<(u32, u32)>,
}

impl ConfigField {
    /// Parses a format: `config:0-7,32-35`, `config1:5`.
    ///
    /// # Errors
    /// It names an unknown field or invalid bits.
    pub(super) fn parse(pmu: &str, term: &str, format: &str) -> Result<ConfigField> {
        let (config, bits) = format
            .trim()
            .split_once(':')
            .with_context(|| format!("{pmu}: the format of '{term}' has no `:`"))?;
        ensure!(
            EventAttr::default().config_field(config).is_some(),
            "{pmu}: the format of '{term}' sets an unknown field {config}"
        );
        let ranges = bits.split(',').map(range).collect::<Option<Vec<_>>>();
        let field = ranges.map(|ranges| ConfigField { config: config.to_owned(), ranges });
        field
            .filter(|field| field.width() <= u64::BITS)
            .with_context(|| format!("{pmu}: the format of '{term}' has invalid bits {bits}"))
    }

    /// Returns the number of bits.
    pub(super) fn width(&self) -> u32 {
        self.ranges.iter().map(|(_, width)| width).sum()
    }

    /// Stores a value.
    ///
    /// # Errors
    /// It has more bits than the field.
    pub(super) fn store(&self, term: &str, mut value: u64, attr: &mut EventAttr) -> Result<()> {
        let (width, needed) = (self.width(), u64::BITS - value.leading_zeros());
        ensure!(
            needed <= width,
            "{term}={value:#x} needs {needed} bits, the field has {width}: use at most {:#x}",
            u64::MAX >> (u64::BITS - width)
        );
        let Some(config) = attr.config_field(&self.config) else { return Ok(()) };
        for &(low, width) in &self.ranges {
            let mask = u64::MAX >> (u64::BITS - width);
            *config = *config & !(mask << low) | (value & mask) << low;
            value = value.checked_shr(width).unwrap_or(0);
        }
        Ok(())
    }
}

/// Parses `0-7` or `5`: returns the first bit and the number of bits.
fn range(text: &str) -> Option<(u32, u32)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    let width = high.checked_sub(low)?.checked_add(1).filter(|_| high < u64::BITS)?;
    Some((low, width))
}
