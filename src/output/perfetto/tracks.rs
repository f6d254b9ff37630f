//! Tracks: one for each thread, one for each CPU's idle task, and lanes for spans.
//!
//! Slices of one track must not overlap unless one contains the other. Spans may: each goes to a
//! lane of its thread's track whose last span has ended. Lanes of one name are drawn as one group.

use std::collections::HashMap;

use super::wire::{put_int, put_message, put_text, put_uint};
use crate::base::report::timeline::{TimelineSpan, TimelineThread};

/// Limit of the threads, and of the lanes, that are known at a time.
const MOST: usize = 1 << 16;

/// Limit of the lanes of one name of one thread. A reader draws the spans beyond it in new lanes.
const LANES: usize = 256;

/// Numbers below this are tracks that belong to no thread.
const FIRST: u64 = 1 << 20;

/// The track of the run itself.
pub(super) const RUN: u64 = 1;

/// The known tracks.
pub(super) struct Tracks {
    threads: HashMap<u32, (u32, u64)>,
    lanes: HashMap<(u64, Box<[u8]>), Vec<Lane>>,
    lane_count: usize,
    last: u64,
    cpus: Vec<bool>,
    /// Packets that describe new tracks, as fields of `TracePacket`, to be written first.
    pub(super) fresh: Vec<Vec<u8>>,
}

struct Lane {
    uuid: u64,
    end: u64,
}

impl Tracks {
    /// Creates the track of the run.
    pub(super) fn new() -> Tracks {
        let mut tracks = Tracks {
            threads: HashMap::new(),
            lanes: HashMap::new(),
            lane_count: 0,
            last: FIRST,
            cpus: Vec::new(),
            fresh: Vec::new(),
        };
        tracks.describe(|out| {
            put_uint(out, 1, RUN);
            put_text(out, 2, b"perilune");
        });
        tracks
    }

    /// Returns the track of a thread; the idle task has one on each CPU.
    #[inline]
    pub(super) fn of_thread(&mut self, thread: TimelineThread<'_>, cpu: u32) -> u64 {
        if thread.tid == 0 || thread.tid == u32::MAX {
            return self.of_cpu(cpu);
        }
        match self.threads.get(&thread.tid) {
            Some((pid, uuid)) if *pid == thread.pid => *uuid,
            _ => self.add_thread(thread),
        }
    }

    #[cold]
    fn add_thread(&mut self, thread: TimelineThread<'_>) -> u64 {
        if self.threads.len() >= MOST {
            self.threads.clear();
        }
        let uuid = self.next();
        self.threads.insert(thread.tid, (thread.pid, uuid));
        self.describe(|out| {
            put_uint(out, 1, uuid);
            put_message(out, 4, |out| {
                put_int(out, 1, thread.pid.cast_signed().into());
                put_int(out, 2, thread.tid.cast_signed().into());
                put_text(out, 5, thread.comm);
            });
        });
        uuid
    }

    /// Returns the track of a CPU: of what happened while it was idle.
    pub(super) fn of_cpu(&mut self, cpu: u32) -> u64 {
        let uuid = RUN + 1 + u64::from(cpu);
        let at = cpu as usize;
        if self.cpus.len() <= at {
            self.cpus.resize(at + 1, false);
        }
        if !self.cpus.get(at).is_none_or(|known| *known) {
            self.cpus[at] = true;
            self.describe(|out| {
                put_uint(out, 1, uuid);
                put_text(out, 2, format!("idle CPU {cpu}").as_bytes());
            });
        }
        uuid
    }

    /// Returns the lane of a span.
    pub(super) fn lane(&mut self, span: &TimelineSpan<'_>) -> u64 {
        let parent = self.of_thread(span.thread, span.cpu);
        if self.lane_count >= MOST {
            self.lanes.clear();
            self.lane_count = 0;
        }
        let key = (parent, Box::from(span.track));
        let lanes = self.lanes.entry(key).or_default();
        if let Some(free) = lanes.iter_mut().find(|lane| lane.end <= span.begin_ns) {
            free.end = span.end_ns;
            return free.uuid;
        }
        self.last += 1;
        let uuid = self.last;
        if lanes.len() >= LANES {
            lanes.remove(0);
            self.lane_count -= 1;
        }
        lanes.push(Lane { uuid, end: span.end_ns });
        self.lane_count += 1;
        self.describe(|out| {
            put_uint(out, 1, uuid);
            put_uint(out, 5, parent);
            put_text(out, 2, span.track);
        });
        uuid
    }

    fn describe(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut packet = Vec::new();
        put_message(&mut packet, 60, fill);
        self.fresh.push(packet);
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}
