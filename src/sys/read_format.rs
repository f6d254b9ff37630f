//! The result of `read(2)` of an event: `struct read_format` in perf_event_open(2).

use std::io;

use perf_event_open_sys::bindings as b;

/// One reading of an event; fields that `read_format` omits are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The count: events, or what the event measures.
    pub value: u64,
    /// Nanoseconds that it was enabled.
    pub enabled: u64,
    /// Nanoseconds that it was counting; less than `enabled` if it had to share its hardware.
    pub running: u64,
    /// Its id, as records carry it.
    pub id: u64,
    /// Records that found no room in the ring, if the kernel tells (6.0 and later).
    pub lost: Option<u64>,
}

impl Counts {
    /// The count without what was dropped for want of room; None where the kernel does not tell
    /// that.
    pub fn delivered(&self) -> Option<u64> {
        Some(self.value.saturating_sub(self.lost?))
    }
}

/// Whether a reading failed because a pinned event found no room on its hardware.
pub fn is_unscheduled(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

/// Room for one event in any format.
pub(super) const COUNT_WORDS: usize = 8;

/// Value, id and losses of a member of a group.
pub(super) const MEMBER_WORDS: usize = 3;

/// The layout of a group in `struct read_format`: how many events, their common times, then each
/// event.
pub(super) fn parse_group(words: &[u64], format: u64, mut take: impl FnMut(Counts)) -> Option<()> {
    let has = |bit: b::perf_event_read_format| format & u64::from(bit) != 0;
    let mut words = words.iter().copied();
    let events = words.next()?;
    let mut times = Counts::default();
    if has(b::PERF_FORMAT_TOTAL_TIME_ENABLED) {
        times.enabled = words.next()?;
    }
    if has(b::PERF_FORMAT_TOTAL_TIME_RUNNING) {
        times.running = words.next()?;
    }
    for _ in 0..events {
        let mut counts = Counts { value: words.next()?, ..times };
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

/// The layout of `struct read_format` in perf_event_open(2); with GROUP, the leader's part.
pub(super) fn parse(words: &[u64], format: u64) -> Option<Counts> {
    let has = |bit: b::perf_event_read_format| format & u64::from(bit) != 0;
    let mut words = words.iter().copied();
    let mut counts = Counts::default();
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
        let all = Counts { value: 1, enabled: 2, running: 3, id: 4, lost: Some(5) };
        assert_eq!(parse(&[1, 2, 3, 4, 5], full), Some(all));
        assert_eq!(parse(&[1, 2, 3, 1, 4, 5], full | 8), Some(Counts { value: 1, ..all }));
        assert_eq!(parse(&[7], 0), Some(Counts { value: 7, ..Counts::default() }));
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
        let common = Counts { enabled: 50, running: 25, ..Counts::default() };
        assert_eq!(
            read,
            [
                Counts { value: 7, id: 101, lost: Some(0), ..common },
                Counts { value: 9, id: 102, lost: Some(3), ..common }
            ]
        );
        assert_eq!(parse_group(&words[..8], format, |_| ()), None);
        assert_eq!(parse_group(&[], format, |_| ()), None);
    }
}
