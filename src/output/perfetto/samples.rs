//! Samples: which event the samples of a packet sequence are of.

use super::wire::{put_message, put_text, put_uint};

/// Appends `TracePacketDefaults`: which event the samples of the sequence are of.
pub(super) fn put_sample_defaults(out: &mut Vec<u8>, name: &str, is_counter: bool) {
    put_message(out, 59, |out| {
        put_message(out, 12, |out| {
            put_message(out, 1, |out| {
                if !is_counter {
                    put_message(out, 3, |out| put_text(out, 1, name.as_bytes()));
                } else if let Some(counter) = perf_counter(name) {
                    put_uint(out, 4, counter);
                }
                put_text(out, 10, name.as_bytes());
            });
        });
    });
}

/// Returns the number of an event in `PerfEvents.Counter`.
fn perf_counter(name: &str) -> Option<u64> {
    Some(match name.split(':').next().unwrap_or_default() {
        "cpu-clock" => 1,
        "page-faults" => 2,
        "task-clock" => 3,
        "context-switches" => 4,
        "cpu-migrations" => 5,
        "minor-faults" => 6,
        "major-faults" => 7,
        "alignment-faults" => 8,
        "emulation-faults" => 9,
        "cycles" | "cpu-cycles" => 10,
        "instructions" => 11,
        "cache-references" => 12,
        "cache-misses" => 13,
        "branches" | "branch-instructions" => 14,
        "branch-misses" => 15,
        "bus-cycles" => 16,
        "ref-cycles" => 19,
        _ => return None,
    })
}
