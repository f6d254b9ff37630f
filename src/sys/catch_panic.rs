//! Suppresses the messages of expected panics, such as those of a library that gets untrusted
//! input.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `run`; None if it panics, without a message. The caller ensures that data
/// which `run` was changing is not used again, or is consistent anyway.
pub fn quietly<T>(run: impl FnOnce() -> T) -> Option<T> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !is_expected() {
                before(panic);
            }
        }));
    });
    let outer = EXPECTED.replace(true);
    let returned = catch_unwind(AssertUnwindSafe(run)).ok();
    EXPECTED.set(outer);
    returned
}

/// Returns whether a panic of this thread is expected. Every panic hook that does something checks
/// it first.
pub(super) fn is_expected() -> bool {
    EXPECTED.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_returns_none_and_is_expected_only_inside() {
        assert_eq!(quietly(|| 1), Some(1));
        assert_eq!(quietly(|| assert!(!is_expected())), None);
        assert!(!is_expected());
    }
}
