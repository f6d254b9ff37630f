//! Lines that are printed while the screen is shown: kept, shown at its bottom, and written after
//! it is closed.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::rc::Rc;

/// Maximum number of kept lines; the oldest are dropped first.
const LINES: usize = 1000;

/// The kept lines, and whether lines are kept.
#[derive(Default)]
pub(super) struct Backlog {
    keeping: bool,
    lines: VecDeque<(LineDestination, Vec<u8>)>,
    dropped: u64,
}

/// The destination of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineDestination {
    Results,
    Notes,
}

/// A writer that passes lines on, or keeps them.
pub(super) struct Gate {
    pub(super) backlog: Rc<RefCell<Backlog>>,
    pub(super) place: LineDestination,
    pub(super) beyond: Box<dyn Write>,
}

impl Backlog {
    /// Keeps all lines from now on.
    pub(super) fn keep(&mut self) {
        self.keeping = true;
    }

    /// Passes all lines on from now. Returns the kept ones, for results and for notes, and the
    /// number of older lines that were dropped.
    pub(super) fn release(&mut self) -> ([Vec<u8>; 2], u64) {
        self.keeping = false;
        let mut kept = [Vec::new(), Vec::new()];
        for (place, line) in self.lines.drain(..) {
            kept[place as usize].extend_from_slice(&line);
        }
        (kept, std::mem::take(&mut self.dropped))
    }

    /// Returns the last lines, oldest first, without line ends and colours.
    pub(super) fn last(&self, most: usize) -> impl Iterator<Item = String> {
        let first = self.lines.len().saturating_sub(most);
        self.lines.iter().skip(first).map(|(_, line)| plain(line))
    }

    /// Returns the number of lines since keeping began.
    pub(super) fn count(&self) -> u64 {
        self.lines.len() as u64 + self.dropped
    }

    fn push(&mut self, place: LineDestination, line: &[u8]) {
        if self.lines.len() == LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back((place, line.to_vec()));
    }
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut backlog = self.backlog.borrow_mut();
        if !backlog.keeping {
            return self.beyond.write(bytes);
        }
        // Text writes whole lines.
        bytes
            .split_inclusive(|byte| *byte == b'\n')
            .for_each(|line| backlog.push(self.place, line));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.backlog.borrow().keeping { Ok(()) } else { self.beyond.flush() }
    }
}

/// Returns a line without its end and without escape sequences for colour. All of these come from
/// perilune, because text from outside is escaped.
fn plain(line: &[u8]) -> String {
    let mut text = String::new();
    for (i, part) in String::from_utf8_lossy(line).trim_end().split('\x1b').enumerate() {
        match part.split_once('m') {
            Some((_, behind)) if i > 0 => text += behind,
            _ => text += part,
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_pass_through_until_kept_and_are_returned_in_order() {
        let backlog = Rc::new(RefCell::new(Backlog::default()));
        let gate = |place| Gate { backlog: backlog.clone(), place, beyond: Box::new(io::sink()) };
        let (mut results, mut notes) =
            (gate(LineDestination::Results), gate(LineDestination::Notes));
        results.write_all(b"before\n").unwrap();
        backlog.borrow_mut().keep();
        results.write_all(b"\x1b[2mone\x1b[0m 1\ntwo\n").unwrap();
        notes.write_all(b"note\n").unwrap();
        let last: Vec<String> = backlog.borrow().last(3).collect();
        assert_eq!(last, ["one 1", "two", "note"]);
        let ([kept, noted], dropped) = backlog.borrow_mut().release();
        assert_eq!(kept, b"\x1b[2mone\x1b[0m 1\ntwo\n");
        assert_eq!((&noted[..], dropped), (&b"note\n"[..], 0));
        results.write_all(b"after\n").unwrap();
        assert_eq!(backlog.borrow().count(), 0);
    }

    #[test]
    fn the_oldest_lines_are_dropped_first_and_counted() {
        let backlog = Rc::new(RefCell::new(Backlog::default()));
        backlog.borrow_mut().keep();
        let beyond = Box::new(io::sink());
        let mut gate = Gate { backlog: backlog.clone(), place: LineDestination::Results, beyond };
        for i in 0..LINES + 5 {
            gate.write_all(format!("{i}\n").as_bytes()).unwrap();
        }
        let ([kept, _], dropped) = backlog.borrow_mut().release();
        assert!(kept.starts_with(b"5\n"));
        assert_eq!(dropped, 5);
    }
}
