//! What a run says at its end of the room that it did not have for what processes execute: why stacks lack names.

use crate::base::draw::Level;
use crate::base::units::counted;
use crate::script::leaf::Shared;

/// Says it, if there is something to say.
pub(super) fn tell(shared: &Shared) {
    shared.with(|context| {
        let Some(programs) = &context.programs else { return };
        let (forgotten, refused, closed) = {
            let programs = programs.borrow();
            let spaces = &programs.spaces;
            (spaces.forgotten(), spaces.refused(), programs.objects.dropped())
        };
        if let Some(text) = words(forgotten, refused, closed) {
            context.note(Level::Warning, &text);
        }
    });
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
    fn only_what_was_dropped_is_told() {
        assert_eq!(words(0, 0, 0), None);
        let text = "for want of room 2 ended processes forgotten, 1 file closed again: stacks may lack names";
        assert_eq!(words(2, 0, 1).as_deref(), Some(text));
    }
}
