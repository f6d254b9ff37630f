//! Texts of a record that a program in the kernel can read.

use super::{COMMON_BYTES, OnlyInUserSpace, only};
use crate::bpf::record_text::{RecordText, TEXT_MAX, TextLocation};
use crate::decode::format::{Element, Field, FieldKind};

/// Returns where the location of a text is whose place differs between records; None for another
/// field.
pub fn location(field: &Field) -> Option<TextLocation> {
    let from = match field.kind {
        FieldKind::DataLoc(Element::Char) => 0,
        FieldKind::RelLoc(Element::Char) => field.offset + field.size,
        _ => return None,
    };
    let is_placed =
        field.size == 4 && field.offset >= COMMON_BYTES && field.offset.is_multiple_of(4);
    let at = i16::try_from(field.offset).ok().filter(|_| is_placed)?;
    Some(TextLocation { at, from: i16::try_from(from).ok()? })
}

/// Returns a `char[N]`.
pub(super) fn of_array(field: &Field) -> Result<RecordText, OnlyInUserSpace> {
    let offset = i16::try_from(field.offset).ok().filter(|_| field.offset >= COMMON_BYTES);
    match offset.filter(|_| field.size <= TEXT_MAX && cfg!(target_endian = "little")) {
        Some(offset) => Ok(RecordText::Field { offset, size: field.size }),
        None => only(format!("`{}`, a text of {} bytes", field.name, field.size)),
    }
}

/// Returns a text whose place differs between records. Names of tasks, which have at most 15 bytes,
/// take less room.
pub(super) fn elsewhere(field: &Field) -> Result<RecordText, OnlyInUserSpace> {
    match location(field) {
        Some(location) if field.is_task_name() => Ok(RecordText::Short(location)),
        Some(location) => Ok(RecordText::Long(location)),
        None => only(format!("`{}`, whose place differs between records", field.name)),
    }
}
