//! The slices of time in which events are on, if even counting all events exceeds the budget: a
//! schedule without I/O. Times are nanoseconds of the event clock.
//!
//! Each slice stands for the time from the middle of the gap before it to the middle of the gap
//! after it; the first and the last one of a report for all of its time. So the slices stand for
//! all of the time, whatever their number and length: events are switched late when this process
//! waits for a CPU. The records of a slice are therefore read only when the next one is due, or at
//! the report or the end of the run. A slice begins at a random position in the first half of its
//! cycle, so that it does not stay in step with a load that repeats. A cycle lasts so many times as
//! long as its slice did, so that late switches do not make the run more expensive.

use super::random;

/// Shortest cycle of records, and that of counts in the kernel: switching these takes longer.
const CYCLE_NS: u64 = 100_000_000;
const COUNTED_CYCLE_NS: u64 = 200_000_000;
/// Length of a slice of records and of counts, if cycles are short enough for several in a report.
const SLICE_NS: u64 = 10_000_000;
const COUNTED_SLICE_NS: u64 = 20_000_000;
/// One part in so many of a slice, its first, is not measured. Events make tasks slower: those that
/// wait for a clock have fewer events at the start of a slice, until they have settled.
const SETTLING_PART: u64 = 5;
/// Shortest slice of records, and of counts: these take longer to begin.
const SHORTEST_NS: u64 = 1_000_000;
const COUNTED_SHORTEST_NS: u64 = 5_000_000;
/// How long before the next slice the records of one are read.
const READ_NS: u64 = 5_000_000;
/// Cycles of a report, at least, unless they would be shorter than the shortest: of records, and of
/// counts, whose slices are longer.
const REPORTED_CYCLES: u64 = 2;
const COUNTED_REPORTED_CYCLES: u64 = 4;
/// Cycles between two decisions.
const CYCLES: u32 = 4;

/// The schedule of the slices.
#[derive(Debug)]
pub(super) struct Slices {
    one_in: u64,
    /// Shortest cycle, and usual length of a slice.
    shortest: u64,
    usual: u64,
    /// Whether the first part of a slice is not measured.
    settles: bool,
    /// Longest cycle: several are in each report.
    longest: u64,
    /// Begin of the current cycle.
    cycle: u64,
    /// Until when the slices so far stand for the time.
    covered: u64,
    state: SliceState,
    /// When the last slice ended, and how long it was measured, until its records are read.
    unread: Option<(u64, u64)>,
    /// Whether events stay on after the next slice.
    is_last: bool,
    /// Cycles since the last decision.
    cycles: u32,
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum SliceState {
    /// Off until then.
    Off(u64),
    /// On from one time until another.
    On(u64, u64),
    /// Off until the records of the last slice have been read, then on for good.
    Leaving,
}

/// A change that is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SliceEdge {
    /// Switch events on.
    Begin,
    /// Switch events off.
    End,
    /// Switch events on for good.
    Leave,
}

/// A slice whose records can be read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ReadSlice {
    /// The time that it stands for, in nanoseconds.
    pub(super) stands_for: f64,
    /// How many times as long as its measured part that is.
    pub(super) expansion: f64,
}

impl Slices {
    /// Begins the first cycle, after events were switched off, or with a slice if they
    /// `are_counted` in the kernel; with the time of the next report, and the time between two.
    pub(super) fn begin(
        now: u64,
        one_in: u64,
        seed: u64,
        report: (u64, u64),
        are_counted: bool,
    ) -> Slices {
        let (next_report, interval) = report;
        let state = SliceState::Off(now);
        let (shortest, usual, reported) = match are_counted {
            true => {
                let shortest = interval.clamp(CYCLE_NS, COUNTED_CYCLE_NS);
                (shortest, COUNTED_SLICE_NS, COUNTED_REPORTED_CYCLES)
            }
            false => (CYCLE_NS, SLICE_NS, REPORTED_CYCLES),
        };
        let longest = (interval / reported).max(shortest);
        let mut slices = Slices {
            one_in,
            shortest,
            usual,
            settles: !are_counted,
            longest,
            cycle: now,
            covered: now,
            state,
            unread: None,
            is_last: false,
            cycles: 0,
            seed,
        };
        if are_counted {
            slices.state = SliceState::On(now, now + slices.length());
        } else {
            slices.plan(now, next_report);
        }
        slices
    }

    /// Returns whether events stay on after this slice.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }

    /// Returns when the next edge is due.
    pub(super) fn due(&self) -> u64 {
        match self.state {
            SliceState::Off(until) if self.unread.is_some() => until.saturating_sub(READ_NS),
            SliceState::Off(until) | SliceState::On(_, until) => until,
            SliceState::Leaving => self.covered,
        }
    }

    /// Returns whether events are on.
    pub(super) fn is_on(&self) -> bool {
        matches!(self.state, SliceState::On(..))
    }

    /// Returns the change that is due at `now`.
    pub(super) fn edge(&self, now: u64) -> Option<SliceEdge> {
        (now >= self.due() && self.unread.is_none()).then_some(match self.state {
            SliceState::Off(_) => SliceEdge::Begin,
            SliceState::On(..) => SliceEdge::End,
            SliceState::Leaving => SliceEdge::Leave,
        })
    }

    /// Notes that events were switched on. Returns from when on they are measured.
    pub(super) fn began(&mut self, at: u64) -> u64 {
        // After a late begin, slices must not follow each other without a gap.
        self.cycle = self.cycle.max(at.saturating_sub(self.one_in * self.length() / 2));
        self.state = SliceState::On(at, at + self.length());
        at + self.settling()
    }

    /// Notes that events were switched off, and plans the next slice. Returns from when on the
    /// slice is measured: from its start if it ended before tasks had settled.
    pub(super) fn ended(&mut self, at: u64, next_report: u64) -> u64 {
        let SliceState::On(since, _) = self.state else { return 0 };
        self.cycle += self.one_in * at.saturating_sub(since);
        self.cycles += 1;
        self.plan(at, next_report);
        let settled = since + self.settling();
        let from = if settled < at { settled } else { since };
        self.unread = Some((at, at.saturating_sub(from).max(1)));
        if self.is_last {
            self.state = SliceState::Leaving;
        }
        from
    }

    /// Returns whether the records of a slice wait until it is known what the slice stands for.
    pub(super) fn has_unread(&self) -> bool {
        self.unread.is_some()
    }

    /// Returns the slice whose records can be read now: if the next one begins soon or a report is
    /// due, or at once if the run `is_over`.
    pub(super) fn read(&mut self, now: u64, next_report: u64, is_over: bool) -> Option<ReadSlice> {
        let (ended, measured) = self.unread?;
        let until = match self.state {
            _ if is_over => now,
            _ if now >= next_report => next_report,
            SliceState::Off(next) if now >= self.due() => {
                if next > next_report {
                    next_report
                } else {
                    ended + (next - ended) / 2
                }
            }
            SliceState::Leaving => ended,
            _ => return None,
        };
        self.unread = None;
        let stands_for = until.max(ended).saturating_sub(self.covered).max(measured) as f64;
        self.covered = until.max(ended);
        Some(ReadSlice { stands_for, expansion: stands_for / measured as f64 })
    }

    /// Lets the next slice begin at once if the current report would otherwise have none: a cycle
    /// is long after a slice that lasted too long.
    pub(super) fn keep_up(&mut self, now: u64, next_report: u64) {
        let is_late = matches!(self.state, SliceState::Off(until) if until >= next_report);
        if is_late
            && self.unread.is_none()
            && self.covered <= now
            && now + 2 * self.length() < next_report
        {
            self.state = SliceState::Off(now);
        }
    }

    /// Returns whether the records of a slice have just been read, and those of enough since the
    /// last decision.
    pub(super) fn can_decide(&self) -> bool {
        let is_off = matches!(self.state, SliceState::Off(_));
        self.cycles >= CYCLES && is_off && !self.is_last && !self.has_unread()
    }

    /// Continues with slices of another share of the time; with 1, the next one is the last.
    pub(super) fn decided(&mut self, one_in: u64) {
        self.cycles = 0;
        self.is_last = one_in == 1;
        if !self.is_last {
            self.one_in = one_in;
        }
    }

    fn length(&self) -> u64 {
        let cycle = (self.usual * self.one_in).clamp(self.shortest, self.longest);
        (cycle / self.one_in).max(if self.settles { SHORTEST_NS } else { COUNTED_SHORTEST_NS })
    }

    fn settling(&self) -> u64 {
        if self.settles { self.length() / SETTLING_PART } else { 0 }
    }

    /// Chooses the next slice, which does not contain a report.
    fn plan(&mut self, now: u64, next_report: u64) {
        let place = random(&mut self.seed) % (self.one_in * self.length() / 2);
        let mut begin = (self.cycle + place).max(now);
        if (begin..begin + 2 * self.length()).contains(&next_report) {
            begin = next_report + 1;
        }
        self.state = SliceState::Off(begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Runs a schedule, with a report each second; each edge is up to `late` nanoseconds late.
    /// Returns the slices: begin, end, and what it stands for.
    fn run(slices: &mut Slices, from: u64, to: u64, late: u64) -> Vec<(u64, u64, ReadSlice)> {
        let (mut now, mut span, mut seen, mut seed) = (from, (0, 0), Vec::new(), 1u64);
        while now < to || slices.is_on() {
            let next_report = (now / SECOND + 1) * SECOND;
            // The process wakes for the report.
            let next = slices.due().clamp(now, next_report);
            if next > to && !slices.is_on() {
                now = to;
                break;
            }
            now = next + random(&mut seed) % (late + 1);
            let of_slice = (span.0 / SECOND + 1) * SECOND;
            if let Some(read) = slices.read(now, of_slice, false) {
                seen.push((span.0, span.1, read));
            }
            slices.keep_up(now, (now / SECOND + 1) * SECOND);
            match slices.edge(now) {
                Some(SliceEdge::Begin) => {
                    span.0 = now;
                    slices.began(now);
                }
                Some(SliceEdge::End) => {
                    span.1 = now;
                    slices.ended(now, of_slice);
                }
                Some(SliceEdge::Leave) => break,
                None => {}
            }
        }
        seen.extend(slices.read(now, u64::MAX, true).map(|read| (span.0, span.1, read)));
        seen
    }

    #[test]
    fn slices_stand_for_all_of_the_time_and_are_on_for_their_share() {
        for (one_in, late) in [(2, 0), (10, 0), (10, 8_000_000), (100, 3_000_000), (200, 100_000)] {
            let mut slices = Slices::begin(0, one_in, 7, (SECOND, SECOND), false);
            let seen = run(&mut slices, 0, 100 * SECOND, late);
            let stand_for: f64 = seen.iter().map(|(.., slice)| slice.stands_for).sum();
            let by_length = seen
                .iter()
                .map(|(from, to, slice)| (to - from - slices.settling()) as f64 * slice.expansion);
            assert!((by_length.sum::<f64>() / stand_for - 1.0).abs() < 1e-6);
            assert_eq!(stand_for, slices.covered as f64, "1 in {one_in}, {late} ns late");
            let on: u64 = seen.iter().map(|(from, to, _)| to - from).sum();
            let share = (one_in * on) as f64 / seen.last().unwrap().1 as f64;
            let bounds = if late > SHORTEST_NS && one_in > 10 { 0.9..1.5 } else { 0.9..1.1 };
            assert!(bounds.contains(&share), "1 in {one_in}, {late} ns late: {share}");
            assert!(seen.windows(2).all(|two| two[0].1 <= two[1].0));
        }
    }

    #[test]
    fn the_slices_of_a_report_stand_for_its_time() {
        for (one_in, late) in [(10, 2_000_000), (2, 9_000_000), (200, 20_000_000)] {
            let mut slices = Slices::begin(0, one_in, 7, (SECOND, SECOND), false);
            let seen = run(&mut slices, 0, 20 * SECOND, late);
            for second in 0..19 {
                let of_report = seen.iter().filter(|(from, ..)| from / SECOND == second);
                let sum: f64 = of_report.map(|(.., slice)| slice.stands_for).sum();
                // A slice that ends late may belong to the report after its own.
                let bounds = SECOND - 3 * late..=SECOND + 3 * late;
                assert!(bounds.contains(&(sum as u64)), "1 in {one_in}, {second}: {sum}");
            }
        }
    }

    #[test]
    fn slices_of_counts_follow_the_counts_of_each_event_and_end_with_them() {
        let mut slices = Slices::begin(5, 10, 7, (SECOND, SECOND), true);
        assert!(slices.is_on() && slices.due() == 5 + COUNTED_SLICE_NS);
        assert_eq!(slices.ended(5 + COUNTED_SLICE_NS, SECOND), 5, "all of it is measured");
        let seen = run(&mut slices, 5 + COUNTED_SLICE_NS, 900_000_000, 0);
        assert!((3..=5).contains(&seen.len()), "{seen:?}");
        assert!(slices.can_decide());
        slices.decided(1);
        assert!(slices.is_last());
        // In short intervals, too, each has a slice.
        let mut short = Slices::begin(0, 10, 7, (100_000_000, 100_000_000), true);
        assert_eq!(short.length(), CYCLE_NS / 10);
        short.ended(short.due(), 100_000_000);
    }

    #[test]
    fn slices_are_at_all_places_of_a_period() {
        let mut slices = Slices::begin(0, 10, 3, (u64::MAX, u64::MAX), false);
        let seen = run(&mut slices, 0, 1000 * SECOND, 100_000);
        let mut places = [0u32; 10];
        seen.iter().for_each(|(from, ..)| places[(from / 1_000_000 % 10) as usize] += 1);
        let mean = seen.len() as f64 / 10.0;
        assert!(places.iter().all(|&n| (0.8..1.2).contains(&(f64::from(n) / mean))), "{places:?}");
    }

    #[test]
    fn the_last_slice_stands_for_the_time_until_events_stay_on() {
        let mut slices = Slices::begin(0, 10, 3, (SECOND, SECOND), false);
        run(&mut slices, 0, 900_000_000, 0);
        assert!(slices.can_decide());
        slices.decided(20);
        assert!(!slices.can_decide() && slices.due() >= slices.covered);
        slices.decided(1);
        let (_, ended, _) = *run(&mut slices, 900_000_000, 3 * SECOND, 0).last().unwrap();
        assert_eq!((slices.covered, slices.edge(ended)), (ended, Some(SliceEdge::Leave)));
    }

    #[test]
    fn the_slices_of_a_run_stand_for_it_whenever_it_ends() {
        let stands_for = |end: u64| {
            let mut slices = Slices::begin(0, 20, 3, (u64::MAX, u64::MAX), false);
            let seen = run(&mut slices, 0, end * 1_000_000, 0);
            seen.iter().map(|(.., slice)| slice.stands_for as u64).sum::<u64>() / 1_000_000
        };
        // Records are read 5 ms before the next slice; a run that ends then omits a half of a gap.
        let exact = (400..1000).filter(|&end| stands_for(end) >= end).count();
        assert!(exact > 560, "{exact} of 600");
    }
}
