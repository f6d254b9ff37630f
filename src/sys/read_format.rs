//! The result of `read(2)` on an event: `struct read_format` in perf_event_open(2).

use std::io;

use perf_event_open_sys::bindings as b;

/// One reading of an event; fields that `read_format` omits are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// The count: number of events, or the quantity that the event measures.
    pub value: u64,
    /// Nanoseconds during which the event was enabled.
    pub enabled: u64,
    /// Nanoseconds during which it counted; less than `enabled` if it had to share its hardware.
    pub running: u64,
    /// Its id, as in its records.
    pub id: u64,
    /// Records dropped because the ring was full, if the kernel counts them (6.0 and later).
    pub lost: Option<u64>,
}

impl EventCounts {
    /// Returns the count without the dropped records; None if the kernel does not count these.
    pub fn delivered(&self) -> Option<u64> {
        Some(self.value.saturating_sub(self.lost?))
    }
}

/// Returns whether a read failed because a pinned event got no hardware counter.
pub fn is_unscheduled(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

/// Maximum size of one event's counts, in u64 values.
pub(super) const COUNT_WORDS: usize = 8;

/// Size of a group member, in u64 values: value, id and losses.
pub(super) const MEMBER_WORDS: usize = 3;

/// Parses the `struct read_format` of a group: the number of events, their common times, then each
/// event.
pub(super) fn parse_group(
    words: &[u64],
    format: u64,
    mut take: impl FnMut(EventCounts),
) -> Option<()> {
    let has = |bit: b::perf_event_read_format| format & u64::from(bit) != 0;
    let mut words = words.iter().copied();
    let events = words.next()?;
    let mut times = EventCounts::default();
    if has(b::PERF_FORMAT_TOTAL_TIME_ENABLED) {
        times.enabled = words.next()?;
    }
    if has(b::PERF_FORMAT_TOTAL_TIME_RUNNING) {
        times.running = words.next()?;
    }
    for _ in 0..events {
        let mut counts = EventCounts { value: words.next()?, ..times };
        if has(b::PERF_FORMAT_ID) {
            counts.id = words.next()?;
        }
        if has(b::PERF_FORMAT_LOST) {
            counts.lost = Some(words.next()?);
        }
        take(counts);
    }
    Some(())
}

/// Parses the `struct read_format` of an event; with GROUP, the leader's part.
pub(super) fn parse(words: &[u64], format: u64) -> Option<EventCounts> {
    let has = |bit: b::perf_event_read_format| format & u64::from(bit) != 0;
    let mut words = words.iter().copied();
    let mut counts = EventCounts::default();
    let group = has(b::PERF_FORMAT_GROUP);
    if group {
        words.next().filter(|events| *events > 0)?;
    } else {
        counts.value = words.next()?;
    }
    if has(b::PERF_FORMAT_TOTAL_TIME_ENABLED) {
        counts.enabled = words.next()?;
    }
    if has(b::PERF_FORMAT_TOTAL_TIME_RUNNING) {
        counts.running = words.next()?;
    }
    if group {
        counts.value = words.next()?;
    }
    if has(b::PERF_FORMAT_ID) {
        counts.id = words.next()?;
    }
    if has(b::PERF_FORMAT_LOST) {
        counts.lost = Some(words.next()?);
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_by_the_format_in_force() {
        let full = u64::from(
            b::PERF_FORMAT_TOTAL_TIME_ENABLED
                | b::PERF_FORMAT_TOTAL_TIME_RUNNING
                | b::PERF_FORMAT_ID
                | b::PERF_FORMAT_LOST,
        );
        let all = EventCounts { value: 1, enabled: 2, running: 3, id: 4, lost: Some(5) };
        assert_eq!(parse(&[1, 2, 3, 4, 5], full), Some(all));
        assert_eq!(parse(&[1, 2, 3, 1, 4, 5], full | 8), Some(EventCounts { value: 1, ..all }));
        assert_eq!(parse(&[7], 0), Some(EventCounts { value: 7, ..EventCounts::default() }));
        assert_eq!(parse(&[1, 2, 3, 4], full), None);
        assert_eq!(parse(&[], 0), None);
    }

    #[test]
    fn a_group_is_read_with_its_common_times() {
        let format = u64::from(
            b::PERF_FORMAT_GROUP
                | b::PERF_FORMAT_TOTAL_TIME_ENABLED
                | b::PERF_FORMAT_TOTAL_TIME_RUNNING
                | b::PERF_FORMAT_ID
                | b::PERF_FORMAT_LOST,
        );
        let mut read = Vec::new();
        let words = [2, 50, 25, 7, 101, 0, 9, 102, 3];
        assert_eq!(parse_group(&words, format, |counts| read.push(counts)), Some(()));
        let common = EventCounts { enabled: 50, running: 25, ..EventCounts::default() };
        assert_eq!(
            read,
            [
                EventCounts { value: 7, id: 101, lost: Some(0), ..common },
                EventCounts { value: 9, id: 102, lost: Some(3), ..common }
            ]
        );
        assert_eq!(parse_group(&words[..8], format, |_| ()), None);
        assert_eq!(parse_group(&[], format, |_| ()), None);
    }
}
