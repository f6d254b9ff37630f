//! Limits the lines that handlers print while the user types, so that both stay readable, and
//! reports how many were omitted. Reports (except single rows), warnings and answers are always
//! shown, and so is everything while a line is running.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{Draw, EventLine, Level, Report, Stamp};
use crate::base::report::run_stats::Stats;
use crate::base::text::units::counted;
use crate::sys::clock::monotonic_ns;

/// Lines per second, more than a person can read.
const LINES: u64 = 10;

/// Burst size after a quiet period.
const AT_ONCE: u64 = 60;

const SECOND_NS: u64 = 1_000_000_000;

/// Limits the output of another drawing.
pub(super) struct RateLimited<D> {
    out: D,
    /// Whether the prompt is waiting for a line.
    typing: Rc<Cell<bool>>,
    flow: Flow,
}

impl<D: Draw> RateLimited<D> {
    pub(super) fn new(out: D, typing: Rc<Cell<bool>>) -> Self {
        RateLimited { out, typing, flow: Flow::default() }
    }

    /// Returns whether an output of this many lines may be printed.
    fn has_room(&mut self, lines: u64) -> bool {
        !self.typing.get() || self.flow.takes(lines, monotonic_ns())
    }

    /// Prints how many lines were omitted, at most once per `every` nanoseconds.
    fn report_omitted(&mut self, every: u64) {
        let Some(lines) = self.flow.take_omitted(monotonic_ns(), every) else { return };
        let lines = counted(lines, "line");
        self.out.line(&format!(
            "… {lines} omitted: handlers may print {LINES} lines a second while you type; filter \
             the event, or run it outside the prompt to see all"
        ));
    }
}

impl<D: Draw> Draw for RateLimited<D> {
    fn keeps_events(&self) -> bool {
        self.out.keeps_events()
    }

    fn drawn_event(&mut self, event: &mut EventLine<'_>) {
        self.out.drawn_event(event);
    }

    fn event(&mut self, event: &mut EventLine<'_>) {
        if self.has_room(1 + event.stack.len() as u64) {
            self.out.event(event);
        }
    }

    fn report(&mut self, stamp: Stamp, parts: &[Report]) {
        if !matches!(parts, [Report::Row(_)]) || self.has_room(1) {
            self.out.report(stamp, parts);
        }
    }

    fn answer(&mut self, parts: &[Report]) {
        self.out.answer(parts);
    }

    fn line(&mut self, text: &str) {
        if self.has_room(text.lines().count() as u64) {
            self.out.line(text);
        }
    }

    fn note(&mut self, stamp: Stamp, level: Level, text: &str) {
        self.out.note(stamp, level, text);
    }

    fn script_note(&mut self, stamp: Stamp, text: &str) {
        if self.has_room(text.lines().count() as u64) {
            self.out.script_note(stamp, text);
        }
    }

    fn coverage(&mut self, stamp: Stamp, coverage: &Coverage, last: bool) {
        if last {
            self.report_omitted(0);
        }
        self.out.coverage(stamp, coverage, last);
    }

    fn stats(&mut self, stamp: Stamp, stats: &Stats) {
        self.out.stats(stamp, stats);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.report_omitted(SECOND_NS);
        self.out.flush()
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        self.out.flush_if_large()
    }
}

/// A rate limit: lines that may still be printed, and lines omitted.
#[derive(Debug)]
struct Flow {
    room: u64,
    /// Time up to which lines were granted, in nanoseconds.
    at: u64,
    omitted: u64,
    reported_at: u64,
}

impl Default for Flow {
    fn default() -> Self {
        Flow { room: AT_ONCE, at: 0, omitted: 0, reported_at: 0 }
    }
}

impl Flow {
    fn takes(&mut self, lines: u64, now: u64) -> bool {
        let more = now.saturating_sub(self.at) / (SECOND_NS / LINES);
        if more >= AT_ONCE {
            (self.room, self.at) = (AT_ONCE, now);
        } else {
            self.room = AT_ONCE.min(self.room + more);
            self.at += more * (SECOND_NS / LINES);
        }
        if self.room == 0 {
            self.omitted += lines;
            return false;
        }
        self.room = self.room.saturating_sub(lines);
        true
    }

    /// Returns how many lines were omitted, at most once per `every` nanoseconds.
    fn take_omitted(&mut self, now: u64, every: u64) -> Option<u64> {
        if self.omitted == 0 || now.saturating_sub(self.reported_at) < every {
            return None;
        }
        self.reported_at = now;
        Some(std::mem::take(&mut self.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_lines_are_counted_and_not_printed() {
        let mut flow = Flow::default();
        // A thousand lines a second, for ten seconds.
        let times = (0..10_000).map(|i| 100 * SECOND_NS + i * SECOND_NS / 1000);
        let (mut shown, mut reported) = (0, 0);
        for now in times {
            shown += u64::from(flow.takes(1, now));
            reported += flow.take_omitted(now, SECOND_NS).unwrap_or(0);
        }
        assert_eq!(shown, AT_ONCE + 10 * LINES - 1);
        assert_eq!(shown + reported + flow.omitted, 10_000);
        assert!(flow.omitted < 1000, "omitted lines are reported each second");
        // A text longer than the remaining room is printed whole; then nothing until its time is
        // over.
        assert!(flow.takes(500, 200 * SECOND_NS));
        assert!(!flow.takes(1, 200 * SECOND_NS));
        assert!(flow.takes(1, 201 * SECOND_NS));
    }

    #[derive(Default)]
    struct Lines(Rc<Cell<u64>>);

    impl Draw for Lines {
        fn line(&mut self, _: &str) {
            self.0.set(self.0.get() + 1);
        }

        fn note(&mut self, _: Stamp, _: Level, _: &str) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn notes_are_always_printed_and_omissions_reported_at_the_end() {
        let lines = Rc::default();
        let mut calm = RateLimited::new(Lines(Rc::clone(&lines)), Rc::new(Cell::new(true)));
        (0..1000).for_each(|_| calm.script_note(Stamp::default(), "text"));
        calm.flush().unwrap();
        calm.script_note(Stamp::default(), "also omitted, within the second");
        let before = lines.get();
        assert!((AT_ONCE..900).contains(&before), "{before}");
        calm.note(Stamp::default(), Level::Info, "all events are off");
        assert_eq!(lines.get(), before + 1);
        calm.flush().unwrap();
        assert_eq!(lines.get(), before + 1);
        calm.coverage(Stamp::default(), &Coverage::default(), true);
        assert_eq!(lines.get(), before + 2);
    }

    #[test]
    fn nothing_is_omitted_while_the_user_does_not_type() {
        let (lines, typing) = (Rc::default(), Rc::new(Cell::new(false)));
        let mut calm = RateLimited::new(Lines(Rc::clone(&lines)), typing.clone());
        (0..1000).for_each(|_| calm.line("text"));
        assert_eq!(lines.get(), 1000);
        typing.set(true);
        (0..1000).for_each(|_| calm.line("text"));
        assert!((1000 + AT_ONCE..1900).contains(&lines.get()), "{}", lines.get());
        // And the limit is reported.
        let before = lines.get();
        calm.flush().unwrap();
        assert_eq!(lines.get(), before + 1);
    }
}
