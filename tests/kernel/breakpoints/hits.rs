//! Whether this machine counts each hit of a breakpoint, by a program that perilune does not watch.

use std::sync::OnceLock;

use perilune::sys::breakpoint_hits::{BreakpointHits, breakpoint_hits};

use crate::live::{EXCUSE, skip_anywhere};

/// Skips a test that counts hits on a machine that loses some, now or after the test has failed:
/// such a machine counts all for minutes at a time.
pub(crate) fn needs_each_hit() {
    static LOST: OnceLock<Option<String>> = OnceLock::new();
    if let Some(why) = LOST.get_or_init(lost_hits) {
        skip_anywhere(why);
    }
    EXCUSE.set(|| (0..20).find_map(|_| lost_hits()));
}

fn lost_hits() -> Option<String> {
    let BreakpointHits { written, counted } = breakpoint_hits(100_000).ok()?;
    let text =
        || format!("this machine loses hits of breakpoints: it counted {counted} of {written}");
    (counted < written).then(text)
}
