//! Live tests: real events of the running kernel, with exact counts.

mod machine;
mod refusals;
mod rings;
mod workloads;

use super::attr::Attr;
use super::attr::PerfTarget;
use super::perf::PerfEvent;
use super::ring::{Piece, Ring, Scratch};
use perf_event_open_sys::bindings as b;

/// The calling thread.
const SELF: PerfTarget = PerfTarget { pid: 0, cpu: -1 };
/// Sample fields that the tests read.
const PLACED: u32 = b::PERF_SAMPLE_IDENTIFIER | b::PERF_SAMPLE_TID | b::PERF_SAMPLE_TIME;

fn open(attr: &Attr, target: PerfTarget) -> PerfEvent {
    let opened = PerfEvent::open(attr, target, "test").unwrap();
    assert!(opened.dropped.is_empty() || attr.get("read_format") == Some(16), "{opened:?}");
    opened.event
}

/// Reads and releases all records of the ring; passes each sample's identifier, tid and time to
/// `sample`. Returns the number of samples, and of records that wrap around the end of the ring.
fn drain(ring: &mut Ring, mut sample: impl FnMut(u64, u32, u64)) -> (u64, u64) {
    let (head, mut at, mut samples, mut split) = (ring.head(), ring.tail(), 0, 0);
    while let Some(piece) = ring.piece(at, head).unwrap() {
        at += piece.len() as u64;
        if piece.kind() == b::PERF_RECORD_SAMPLE {
            samples += 1;
            let word = |i| piece.u64_at(i).unwrap();
            sample(word(8), (word(16) >> 32) as u32, word(24));
            let mut scratch = Scratch::new();
            let bytes = piece.bytes(&mut scratch);
            assert_eq!(bytes[24..32], word(24).to_ne_bytes());
        }
        split += u64::from(matches!(piece, Piece::Split(..)));
    }
    assert_eq!(at, head);
    ring.release(at);
    (samples, split)
}

fn tid() -> u32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() as u32 }
}
