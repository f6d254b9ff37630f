//! What handlers print while somebody types is bounded, so that both can be read: so many lines a second, and how many more there
//! were. Reports, warnings and answers are always shown, as is what comes while a line waits for it.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use crate::base::coverage::Coverage;
use crate::base::draw::{Draw, EventLine, Level, Report, Stamp, Stats};
use crate::base::units::counted;
use crate::sys::clock::monotonic_ns;

/// Lines a second: more than a person reads.
const LINES: u64 = 10;

/// So many may come at once after a quiet time.
const AT_ONCE: u64 = 60;

const SECOND_NS: u64 = 1_000_000_000;

/// Draws through another one.
pub(super) struct Calm<D> {
    out: D,
    /// Whether the prompt waits for a line.
    typing: Rc<Cell<bool>>,
    flow: Flow,
}

impl<D: Draw> Calm<D> {
    pub(super) fn new(out: D, typing: Rc<Cell<bool>>) -> Self {
        Calm { out, typing, flow: Flow::default() }
    }

    /// Whether something of so many lines may be printed.
    fn has_room(&mut self, lines: u64) -> bool {
        !self.typing.get() || self.flow.takes(lines, monotonic_ns())
    }

    /// Says how much was left out, no more often than `every`.
    fn tell(&mut self, every: u64) {
        let Some(lines) = self.flow.take_left_out(monotonic_ns(), every) else { return };
        let lines = counted(lines, "line");
        self.out.line(&format!(
            "… {lines} left out: handlers print more than {LINES} a second while you type; narrow the event, or run it by \
             itself to see all"
        ));
    }
}

impl<D: Draw> Draw for Calm<D> {
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
            self.tell(0);
        }
        self.out.coverage(stamp, coverage, last);
    }

    fn stats(&mut self, stamp: Stamp, stats: &Stats) {
        self.out.stats(stamp, stats);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tell(SECOND_NS);
        self.out.flush()
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        self.out.flush_if_large()
    }
}

/// How many lines may still come, and how many did not.
#[derive(Debug)]
struct Flow {
    room: u64,
    /// Up to when there was room given, nanoseconds.
    at: u64,
    left_out: u64,
    told_at: u64,
}

impl Default for Flow {
    fn default() -> Self {
        Flow { room: AT_ONCE, at: 0, left_out: 0, told_at: 0 }
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
            self.left_out += lines;
            return false;
        }
        self.room = self.room.saturating_sub(lines);
        true
    }

    /// What was left out, no more often than `every`.
    fn take_left_out(&mut self, now: u64, every: u64) -> Option<u64> {
        if self.left_out == 0 || now.saturating_sub(self.told_at) < every {
            return None;
        }
        self.told_at = now;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_shown_at_a_readable_pace_and_the_rest_counted() {
        let mut flow = Flow::default();
        // A thousand lines a second, for ten seconds.
        let times = (0..10_000).map(|i| 100 * SECOND_NS + i * SECOND_NS / 1000);
        let (mut shown, mut told) = (0, 0);
        for now in times {
            shown += u64::from(flow.takes(1, now));
            told += flow.take_left_out(now, SECOND_NS).unwrap_or(0);
        }
        assert_eq!(shown, AT_ONCE + 10 * LINES - 1);
        assert_eq!(shown + told + flow.left_out, 10_000);
        assert!(flow.left_out < 1000, "it is told each second");
        // One that is longer than what is left comes whole, and nothing behind it until its time is over.
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
    fn what_the_session_says_is_shown_in_any_flood_and_at_its_end_what_was_left_out() {
        let lines = Rc::default();
        let mut calm = Calm::new(Lines(Rc::clone(&lines)), Rc::new(Cell::new(true)));
        (0..1000).for_each(|_| calm.script_note(Stamp::default(), "text"));
        calm.flush().unwrap();
        calm.script_note(Stamp::default(), "left out, too, within the second");
        let before = lines.get();
        assert!((AT_ONCE..900).contains(&before), "{before}");
        calm.note(Stamp::default(), Level::Info, "every event is off");
        assert_eq!(lines.get(), before + 1);
        calm.flush().unwrap();
        assert_eq!(lines.get(), before + 1);
        calm.coverage(Stamp::default(), &Coverage::default(), true);
        assert_eq!(lines.get(), before + 2);
    }

    #[test]
    fn nothing_is_left_out_while_nobody_types() {
        let (lines, typing) = (Rc::default(), Rc::new(Cell::new(false)));
        let mut calm = Calm::new(Lines(Rc::clone(&lines)), typing.clone());
        (0..1000).for_each(|_| calm.line("text"));
        assert_eq!(lines.get(), 1000);
        typing.set(true);
        (0..1000).for_each(|_| calm.line("text"));
        assert!((1000 + AT_ONCE..1900).contains(&lines.get()), "{}", lines.get());
        // And that is said.
        let before = lines.get();
        calm.flush().unwrap();
        assert_eq!(lines.get(), before + 1);
    }
}
