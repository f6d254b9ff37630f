//! What a run says at its end of files that it did not find, and of the room that it did not have for what processes execute: why
//! stacks lack names.

use crate::base::draw::Level;
use crate::base::units::counted;
use crate::script::leaf::Shared;

/// Says it, if there is something to say.
pub(super) fn tell(shared: &Shared) {
    shared.with(|context| {
        let Some(programs) = &context.programs else { return };
        let said = {
            let programs = programs.borrow();
            let spaces = &programs.spaces;
            let room = words(spaces.forgotten(), spaces.refused(), programs.objects.dropped());
            let (files, one) = programs.objects.nameless();
            [room, one.and_then(|one| nameless(files, &one.path))]
        };
        for text in said.into_iter().flatten() {
            context.note(Level::Warning, &text);
        }
    });
}

/// So many files could not be read, of which one is this.
fn nameless(files: usize, one: &[u8]) -> Option<String> {
    let such = if files > 1 { ", such as" } else { ":" };
    let one = String::from_utf8_lossy(one);
    let counted = counted(files as u64, "executed file");
    let text =
        format!("{counted} not found, or no ELF files{such} {one}; functions there lack names");
    (files > 0).then_some(text)
}

/// `forgotten` address spaces with stacks in them, `refused` spaces and mappings, and files `closed` before their time.
fn words(forgotten: u64, refused: u64, closed: u64) -> Option<String> {
    let parts = [
        (forgotten, "ended process", "forgotten"),
        (refused, "mapping", "not taken"),
        (closed, "file", "closed again"),
    ];
    let said = parts.into_iter().filter(|(count, ..)| *count > 0);
    let said: Vec<String> =
        said.map(|(count, one, what)| format!("{} {what}", counted(count, one))).collect();
    let text = format!("for want of room {}: stacks may lack names", said.join(", "));
    (!said.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_were_not_found_are_told_by_one_of_them() {
        assert_eq!(nameless(0, b""), None);
        let one = "1 executed file not found, or no ELF files: /a b; functions there lack names";
        assert_eq!(nameless(1, b"/a b").as_deref(), Some(one));
        let two =
            "2 executed files not found, or no ELF files, such as /a; functions there lack names";
        assert_eq!(nameless(2, b"/a").as_deref(), Some(two));
    }

    #[test]
    fn only_what_was_dropped_is_told() {
        assert_eq!(words(0, 0, 0), None);
        let text = "for want of room 2 ended processes forgotten, 1 file closed again: stacks may lack names";
        assert_eq!(words(2, 0, 1).as_deref(), Some(text));
    }
}
