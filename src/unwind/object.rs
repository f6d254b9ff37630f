//! The unwind tables of an object, `.eh_frame` with its index or `.debug_frame`, and the layout of
//! its segments.

use std::ops::Range;
use std::rc::Rc;

use framehop::ExplicitModuleSectionInfo;
use gimli::BaseAddresses;

use super::{bounded, signal};
use crate::decode::elf::{COMPRESSED, EXECUTABLE, Elf, LOAD, Section, Segment};
use crate::task::maps::Mapping;
use crate::task::objects::Object;

/// Maximum size of a table in bytes; the largest programs have tens of millions.
const TABLE_MAX: usize = 64 << 20;

/// The data of an object that unwinding needs.
#[derive(Debug, Default)]
pub(super) struct UnwindTables {
    /// Segments of the file that are mapped.
    segments: Vec<Segment>,
    sections: ExplicitModuleSectionInfo<Rc<[u8]>>,
    /// Code that signal handlers return to, in addresses of the file.
    trampolines: Vec<Range<u64>>,
}

impl UnwindTables {
    /// Returns the tables of an object; None if it is not a 64-bit one, has no code, or is being
    /// overwritten.
    pub(super) fn of(object: &Object) -> Option<UnwindTables> {
        object.is_intact().then(|| Elf::new(object.bytes())).flatten().and_then(UnwindTables::read)
    }

    fn read(elf: Elf<'_>) -> Option<UnwindTables> {
        let segments: Vec<Segment> = elf.segments().filter(|s| s.kind == LOAD).collect();
        let base = segments.iter().map(|segment| segment.address).min()?;
        let mut sections =
            ExplicitModuleSectionInfo { base_svma: base, ..ExplicitModuleSectionInfo::default() };
        let mut debug_frame = None;
        for (name, section) in elf.sections() {
            let range = Some(section.address..section.address.saturating_add(section.size));
            match name {
                b".text" => sections.text_svma = range,
                b".got" => sections.got_svma = range,
                b".eh_frame" => {
                    (sections.eh_frame_svma, sections.eh_frame) = (range, copied(&section));
                }
                b".eh_frame_hdr" => {
                    (sections.eh_frame_hdr_svma, sections.eh_frame_hdr) = (range, copied(&section));
                }
                b".debug_frame" => debug_frame = Some(section),
                _ => {}
            }
        }
        // A program without tables for its own code still has tables for its startup code.
        let own = debug_frame
            .filter(|own| sections.eh_frame.as_ref().is_none_or(|t| t.len() < own.size as usize));
        if let Some(own) = own.and_then(|section| copied(&section)) {
            (sections.debug_frame, sections.eh_frame, sections.eh_frame_hdr) =
                (Some(own), None, None);
        }
        keep_bounded(&mut sections);
        let trampolines = match (&sections.eh_frame, &sections.eh_frame_svma) {
            (Some(eh_frame), Some(range)) => signal::trampolines(eh_frame, range.start),
            _ => Vec::new(),
        };
        elf.is_wide().then_some(UnwindTables { segments, sections, trampolines })
    }

    /// Returns the address of the object's lowest byte in this mapping; None if the mapping is not
    /// one of its segments.
    pub(super) fn base(&self, mapping: &Mapping) -> Option<u64> {
        let first = mapping.offset;
        let overlaps = |segment: &&Segment| {
            let end = segment.offset.saturating_add(segment.file_size);
            segment.offset < first.saturating_add(mapping.length) && first < end
        };
        let mut overlapping = self.segments.iter().filter(overlaps);
        let executable = |segment: &&Segment| segment.flags & EXECUTABLE != 0;
        let segment = overlapping.clone().find(executable).or_else(|| overlapping.next())?;
        // The first byte of the segment has this address even if the mapping begins with another
        // page.
        let at = mapping.start.wrapping_sub(first).wrapping_add(segment.offset);
        Some(at.wrapping_sub(segment.address).wrapping_add(self.sections.base_svma))
    }

    /// Returns the tables, which share their bytes.
    pub(super) fn sections(&self) -> ExplicitModuleSectionInfo<Rc<[u8]>> {
        self.sections.clone()
    }

    /// Returns the code that signal handlers return to, for an object at `base`.
    pub(super) fn trampolines(&self, base: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let moved = base.wrapping_sub(self.sections.base_svma);
        let moved = move |address: u64| address.wrapping_add(moved);
        self.trampolines.iter().map(move |range| moved(range.start)..moved(range.end))
    }

    /// Returns the size of the tables in bytes.
    pub(super) fn bytes(&self) -> usize {
        let all =
            [&self.sections.eh_frame, &self.sections.eh_frame_hdr, &self.sections.debug_frame];
        all.into_iter().flatten().map(|table| table.len()).sum()
    }
}

/// Removes tables that cannot be evaluated in bounded time, and an index that does not fit;
/// framehop then creates its own index.
fn keep_bounded(sections: &mut ExplicitModuleSectionInfo<Rc<[u8]>>) {
    let start = |range: &Option<Range<u64>>| range.as_ref().map_or(0, |range| range.start);
    let (address, index_at) = (start(&sections.eh_frame_svma), start(&sections.eh_frame_hdr_svma));
    let bases = BaseAddresses::default()
        .set_eh_frame(address)
        .set_eh_frame_hdr(index_at)
        .set_text(start(&sections.text_svma))
        .set_got(start(&sections.got_svma));
    let entries = sections.eh_frame.take().and_then(|table| {
        let entries = bounded::entries_of_eh_frame(&table, &bases)?;
        sections.eh_frame = Some(table);
        Some(entries)
    });
    let leads = |index: &Rc<[u8]>| {
        entries.as_ref().is_some_and(|all| bounded::is_index_of(all, (index, index_at), address))
    };
    sections.eh_frame_hdr = sections.eh_frame_hdr.take().filter(leads);
    let is_bounded = |table: &Rc<[u8]>| bounded::entries_of_debug_frame(table).is_some();
    sections.debug_frame = sections.debug_frame.take().filter(is_bounded);
}

/// Returns a copy of a table; None if it is compressed.
fn copied(section: &Section<'_>) -> Option<Rc<[u8]>> {
    let bytes = section.bytes.filter(|_| section.flags & COMPRESSED == 0)?;
    (1..=TABLE_MAX).contains(&bytes.len()).then(|| Rc::from(bytes))
}
