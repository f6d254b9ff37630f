//! Notes at the end of a run about why stacks lack names: files that were not found or could not be
//! copied, and data dropped for lack of memory.

use crate::base::report::draw::Level;
use crate::base::text::units::{counted, human_bytes};
use crate::script::context::shared::SharedContext;
use crate::symbol::OmittedSymbols;
use crate::task::objects::NamelessReason;

/// Prints the notes, if there are any.
pub(super) fn print_notes(context: &SharedContext) {
    let Some(programs) = context.programs() else { return };
    let notes = {
        let programs = programs.borrow();
        let spaces = &programs.spaces;
        let closed = programs.objects.dropped();
        let omitted = context.omitted_symbols();
        let room = memory_note(spaces.forgotten(), spaces.refused(), closed, omitted);
        let nameless = |reason| {
            let (files, one) = programs.objects.nameless(reason);
            one.and_then(|one| nameless_files_note(reason, files, &one.path))
        };
        [room, nameless(NamelessReason::NotFound), nameless(NamelessReason::TooLarge)]
    };
    for text in notes.into_iter().flatten() {
        context.note(Level::Warning, &text);
    }
}

/// Returns a note about `files` files that could not be read; `one` is one of them.
fn nameless_files_note(reason: NamelessReason, files: usize, one: &[u8]) -> Option<String> {
    let such = if files > 1 { ", such as" } else { ":" };
    let one = String::from_utf8_lossy(one);
    let counted = counted(files as u64, "executed file");
    let their = if files > 1 { "their" } else { "its" };
    let why = match reason {
        NamelessReason::NotFound => "not found or not ELF",
        NamelessReason::TooLarge => {
            "too large to be copied (256 MiB each, 512 MiB together) and writable by others than \
             root"
        }
    };
    let text = format!("{counted} {why}{such} {one}; {their} functions lack names");
    (files > 0).then_some(text)
}

/// Returns a note about `forgotten` address spaces with stacks in them, `refused` spaces and
/// mappings, files `closed` early, and symbols that were not read or kept.
fn memory_note(
    forgotten: u64,
    refused: u64,
    closed: u64,
    omitted: OmittedSymbols,
) -> Option<String> {
    let parts = [
        (forgotten, "ended process", "dropped"),
        (refused, "mapping", "ignored"),
        (closed, "file", "closed early"),
        (omitted.ksymbols, "kernel symbol", "dropped"),
    ];
    let dropped = parts.into_iter().filter(|(count, ..)| *count > 0);
    let mut dropped: Vec<String> =
        dropped.map(|(count, one, what)| format!("{} {what}", counted(count, one))).collect();
    if omitted.perf_map_bytes > 0 {
        dropped.push(format!("{} of perf maps not read", human_bytes(omitted.perf_map_bytes)));
    }
    let text = format!("symbol memory limit: {}; stacks may lack names", dropped.join(", "));
    (!dropped.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_files_are_reported_with_one_example() {
        let note = |files, one| nameless_files_note(NamelessReason::NotFound, files, one);
        assert_eq!(note(0, b""), None);
        let one = "1 executed file not found or not ELF: /a b; its functions lack names";
        assert_eq!(note(1, b"/a b").as_deref(), Some(one));
        let two = "2 executed files not found or not ELF, such as /a; their functions lack names";
        assert_eq!(note(2, b"/a").as_deref(), Some(two));
        let large = "1 executed file too large to be copied (256 MiB each, 512 MiB together) and \
                     writable by others than root: /a; its functions lack names";
        let note = nameless_files_note(NamelessReason::TooLarge, 1, b"/a");
        assert_eq!(note.as_deref(), Some(large));
    }

    #[test]
    fn only_nonzero_counts_are_reported() {
        let none = OmittedSymbols::default();
        assert_eq!(memory_note(0, 0, 0, none), None);
        let text = "symbol memory limit: 2 ended processes dropped, 1 file closed early; stacks \
                    may lack names";
        assert_eq!(memory_note(2, 0, 1, none).as_deref(), Some(text));
        let omitted = OmittedSymbols { perf_map_bytes: 3 << 20, ksymbols: 2 };
        let text = "symbol memory limit: 2 kernel symbols dropped, 3MiB of perf maps not read; \
                    stacks may lack names";
        assert_eq!(memory_note(0, 0, 0, omitted).as_deref(), Some(text));
    }
}
