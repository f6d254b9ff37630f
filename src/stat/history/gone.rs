//! Counts of evicted events by time: exact for recent evictions, coarser for older ones.

/// Maximum number of groups of one size; two are merged beyond it. For a time that long ago, the
/// count is off by at most 1/64.
const GROUPS_PER_SIZE: usize = 128;

/// The time range of some events, both ends inclusive. An empty range ends before it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EvictedSpan {
    pub(super) first: f64,
    pub(super) last: f64,
}

impl Default for EvictedSpan {
    fn default() -> EvictedSpan {
        EvictedSpan { first: f64::INFINITY, last: f64::NEG_INFINITY }
    }
}

impl EvictedSpan {
    /// Returns the range of a single time.
    pub(super) fn of(time: f64) -> EvictedSpan {
        EvictedSpan { first: time, last: time }
    }

    /// Returns the range between two times.
    pub(super) fn between(first: f64, last: f64) -> EvictedSpan {
        EvictedSpan { first, last }
    }

    /// Extends the range to include a time.
    #[inline]
    pub(super) fn add(&mut self, time: f64) {
        self.first = self.first.min(time);
        self.last = self.last.max(time);
    }

    /// Returns whether the range includes a time.
    #[inline]
    pub(super) fn has(&self, time: f64) -> bool {
        self.first <= time && time <= self.last
    }

    /// Returns whether the ranges overlap.
    pub(super) fn overlaps(&self, other: &EvictedSpan) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Evicted events, oldest first: groups of blocks, each as large as the next newer one or twice as
/// large.
#[derive(Default)]
pub(super) struct Gone {
    groups: Vec<EvictedGroup>,
}

#[derive(Clone, Copy)]
struct EvictedGroup {
    span: EvictedSpan,
    events: u64,
    blocks: u64,
}

impl Gone {
    /// Counts the events of an evicted block.
    pub(super) fn add(&mut self, span: EvictedSpan, events: u64) {
        self.groups.push(EvictedGroup { span, events, blocks: 1 });
        let (mut end, mut blocks) = (self.groups.len(), 1);
        loop {
            let other = self.groups.iter().take(end).rposition(|group| group.blocks != blocks);
            let start = other.map_or(0, |at| at + 1);
            if end - start <= GROUPS_PER_SIZE {
                return;
            }
            let older = self.groups.remove(start);
            let Some(group) = self.groups.get_mut(start) else { return };
            group.span.add(older.span.first);
            group.span.add(older.span.last);
            group.events += older.events;
            group.blocks += older.blocks;
            (end, blocks) = (start + 1, blocks * 2);
        }
    }

    /// Returns a lower bound of the evicted events of a window. A group that lies only partly in
    /// the window counts as one, so that the window is never reported as complete.
    pub(super) fn within(&self, window: &EvictedSpan) -> u64 {
        let overlapping = self.groups.iter().filter(|group| group.span.overlaps(window));
        let of = |EvictedGroup { span, events, .. }: &EvictedGroup| {
            if window.has(span.first) && window.has(span.last) { *events } else { 1 }
        };
        overlapping.map(of).sum()
    }
}
