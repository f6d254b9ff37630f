//! How many events were forgotten, and of which time: exact for what was forgotten lately, coarser the longer ago.

/// Groups of one size that are told apart: of a time so long ago, the count is off by a sixty-fourth of it at most.
const OF_A_SIZE: usize = 128;

/// The time between the first and the last of some events, both included. None of them: it ends before it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) first: f64,
    pub(super) last: f64,
}

impl Default for Span {
    fn default() -> Span {
        Span { first: f64::INFINITY, last: f64::NEG_INFINITY }
    }
}

impl Span {
    /// A moment.
    pub(super) fn of(time: f64) -> Span {
        Span { first: time, last: time }
    }

    /// From one time to another.
    pub(super) fn between(first: f64, last: f64) -> Span {
        Span { first, last }
    }

    /// Includes a moment.
    #[inline]
    pub(super) fn add(&mut self, time: f64) {
        self.first = self.first.min(time);
        self.last = self.last.max(time);
    }

    /// Whether it includes a moment.
    #[inline]
    pub(super) fn has(&self, time: f64) -> bool {
        self.first <= time && time <= self.last
    }

    /// Whether they have a moment in common.
    pub(super) fn meets(&self, other: &Span) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// What was forgotten, oldest first: groups of blocks, each as large as the next newer one or twice as large.
#[derive(Default)]
pub(super) struct Gone {
    groups: Vec<Group>,
}

#[derive(Clone, Copy)]
struct Group {
    span: Span,
    events: u64,
    blocks: u64,
}

impl Gone {
    /// Counts the events of a block.
    pub(super) fn add(&mut self, span: Span, events: u64) {
        self.groups.push(Group { span, events, blocks: 1 });
        let (mut end, mut blocks) = (self.groups.len(), 1);
        loop {
            let other = self.groups.iter().take(end).rposition(|group| group.blocks != blocks);
            let start = other.map_or(0, |at| at + 1);
            if end - start <= OF_A_SIZE {
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

    /// How many of a window were forgotten, at least. Of a group that only a part of lies in the window it is one: nobody
    /// is to think that all are there.
    pub(super) fn within(&self, window: &Span) -> u64 {
        let meeting = self.groups.iter().filter(|group| group.span.meets(window));
        let of = |Group { span, events, .. }: &Group| {
            if window.has(span.first) && window.has(span.last) { *events } else { 1 }
        };
        meeting.map(of).sum()
    }
}
