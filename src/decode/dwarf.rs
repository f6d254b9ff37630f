//! Prototypes of a program's functions, and their types, from DWARF.
//!
//! The debug information is untrusted: it is read within its bounds, and every walk has a limit.

mod location;
mod sections;
#[cfg(test)]
mod tests;
mod unit;

use std::ops::Range;
use std::time::{Duration, Instant};

use super::elf::Elf;
use sections::Sections;
pub use unit::{DwarfUnit, EntryId};

/// The compilation units of a file.
#[derive(Debug, Default)]
pub struct DwarfIndex {
    /// Addresses, and the offset of the unit in `.debug_info`.
    ranges: Vec<(Range<u64>, usize)>,
    /// Offsets of all units in `.debug_info`, ascending.
    units: Vec<usize>,
    sections: Sections,
}

/// Why a function has no prototype.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPrototype {
    /// There is no DWARF, or it does not have the function.
    #[error("the file has no debug information for this function; build it with -g")]
    NoDebugInfo,
    /// The sections are compressed in an unknown way, or too large when unpacked.
    #[error("the debug information is too large to unpack; decompress it with objcopy")]
    Compressed,
    /// The language does not define how arguments are passed.
    #[error("the source is not C or C++, so the registers of the arguments are not known")]
    Language,
}

/// Maximum number of units, and of their ranges.
const UNITS_MAX: usize = 1 << 17;
/// Maximum time for the index: a crafted file has units whose tables overlap.
const INDEX_TIME_MAX: Duration = Duration::from_secs(1);

impl DwarfIndex {
    /// Reads which units a file has, and unpacks its sections: some tenths of a second for the
    /// largest ones. Units beyond a limit of time are omitted.
    ///
    /// # Errors
    /// There is no DWARF, or it cannot be unpacked.
    pub fn read(elf: Elf<'_>) -> Result<DwarfIndex, NoPrototype> {
        let began = Instant::now();
        let sections = Sections::unpack(elf)?;
        let dwarf = sections.load(elf)?;
        let (mut ranges, mut units, mut headers) = (Vec::new(), Vec::new(), dwarf.units());
        while units.len() < UNITS_MAX
            && began.elapsed() < INDEX_TIME_MAX
            && let Ok(Some(header)) = headers.next()
        {
            let Some(at) = header.offset().to_debug_info_offset(&header) else { continue };
            units.push(at.0);
            let Ok(unit) = dwarf.unit(header) else { continue };
            let Ok(mut of_unit) = dwarf.unit_ranges(&unit) else { continue };
            while ranges.len() < UNITS_MAX
                && let Ok(Some(range)) = of_unit.next()
            {
                ranges.push((range.begin..range.end, at.0));
            }
        }
        Ok(DwarfIndex { ranges, units, sections })
    }

    /// Returns the unit that has the function at an address before relocation, of the file that was
    /// indexed.
    ///
    /// # Errors
    /// There is no DWARF for this address.
    pub fn unit<'a>(&'a self, elf: Elf<'a>, address: u64) -> Result<DwarfUnit<'a>, NoPrototype> {
        let found = self.ranges.iter().find(|(range, _)| range.contains(&address));
        let (_, at) = found.ok_or(NoPrototype::NoDebugInfo)?;
        let dwarf = self.sections.load(elf)?;
        let locations = self.sections.location_lists(elf);
        DwarfUnit::open(dwarf, locations, &self.units, *at).ok_or(NoPrototype::NoDebugInfo)
    }
}
