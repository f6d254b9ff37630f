//! Panics that are expected, and so not printed: of a library that is given what anybody may have made up.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// What `run` returns; None if it panics, without a word. What it was changing is not used again, or is whole anyway:
/// the caller sees to that.
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

/// Whether a panic of this thread is expected: every hook that does something asks first.
pub(super) fn is_expected() -> bool {
    EXPECTED.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_none_and_expected_only_inside() {
        assert_eq!(quietly(|| 1), Some(1));
        assert_eq!(quietly(|| assert!(!is_expected())), None);
        assert!(!is_expected());
    }
}
