//! What is printed appears above the line that is being typed, by a thread of its own.
//!
//! rustyline takes a text when the thread that edits is at it, and holds up whoever brings a second one until then. The session
//! must not be held up: the editing thread may be waiting for it. So texts queue up here; of a queue that is full, because the
//! terminal does not keep up, further ones are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::time::Duration;

use anyhow::Context as _;
use rustyline::ExternalPrinter;

use crate::base::units::counted;
use crate::sys::namespace::tid_in_records;
use crate::sys::slice::{self, Front};
use crate::sys::{signal, threads};

/// Texts that wait at most.
const QUEUE: usize = 256;

/// Bytes that are printed at once: the thread that edits looks between them whether it may still go first.
const PIECE: usize = 16 << 10;

/// Percent of a CPU that it may use in front of others. A flood takes more, and then turns with
/// everybody.
const OF_A_CPU: u64 = 5;

/// How long a prompt waits for what is to stand above it.
const PATIENCE: Duration = Duration::from_millis(100);

enum Message {
    Text(String),
    /// To be answered when everything before is printed.
    Mark(Sender<()>),
}

/// Writes above the line, as a whole what is flushed at once.
pub(super) struct Above {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
    pending: Vec<u8>,
}

impl Above {
    /// Starts the thread; gives its number, as tracepoints name it, too.
    ///
    /// # Errors
    /// There is no further thread to be had.
    pub(super) fn start(
        printer: impl ExternalPrinter + Send + 'static,
    ) -> anyhow::Result<(Above, i32)> {
        let (queue, waiting) = mpsc::sync_channel(QUEUE);
        let (told, tid) = mpsc::channel();
        let dropped = Arc::new(AtomicU64::new(0));
        let counts = dropped.clone();
        let work = move || {
            signal::keep_off_this_thread();
            slice::ask_for_short_turns();
            // What a line gives, or that it was stopped, should be seen soon.
            let front = Front::ask(OF_A_CPU);
            // Whoever waits for it is there until it comes.
            let _ = told.send(tid_in_records());
            print(printer, &waiting, &counts, front);
        };
        threads::start("perilune:print", work)?;
        let tid = tid.recv().context("the thread that prints has ended")?;
        Ok((Above { queue, dropped, pending: Vec::new() }, tid))
    }

    /// A second way to the same place.
    pub(super) fn doubled(&self) -> Above {
        Above { queue: self.queue.clone(), dropped: self.dropped.clone(), pending: Vec::new() }
    }

    /// Waits until everything is printed, but not for long.
    pub(super) fn settle(&self) {
        let (reply, printed) = mpsc::channel();
        if self.queue.try_send(Message::Mark(reply)).is_ok() {
            let _ = printed.recv_timeout(PATIENCE);
        }
    }
}

fn print(
    mut printer: impl ExternalPrinter,
    waiting: &Receiver<Message>,
    dropped: &AtomicU64,
    mut front: Option<Front>,
) {
    for message in waiting {
        front.iter_mut().for_each(Front::turn);
        let mut text = match message {
            Message::Text(text) => text,
            Message::Mark(reply) => {
                // Whoever asked may have gone on.
                let _ = reply.send(());
                continue;
            }
        };
        let missing = dropped.swap(0, SeqCst);
        if missing > 0 {
            let missing = counted(missing, "text");
            text.push_str(&format!(
                "perilune: warning: {missing} not shown: the terminal did not keep up\n"
            ));
        }
        if pieces(&text).try_for_each(|piece| printer.print(piece.to_owned())).is_err() {
            // The terminal has gone.
            return;
        }
    }
}

/// A text cut behind line ends; a line is whole, however long it is.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let long = rest.as_bytes().get(PIECE..).unwrap_or_default();
        let end =
            long.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| PIECE + at + 1);
        let (piece, more) = rest.split_at(end);
        rest = more;
        (!piece.is_empty()).then_some(piece)
    })
}

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        match self.queue.try_send(Message::Text(text)) {
            Ok(()) => Ok(()),
            Err(mpsc::TrySendError::Full(_)) => {
                self.dropped.fetch_add(1, SeqCst);
                Ok(())
            }
            Err(mpsc::TrySendError::Disconnected(_)) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes what is printed when it is asked to.
    struct Slow(Receiver<()>, Sender<String>);

    impl ExternalPrinter for Slow {
        fn print(&mut self, text: String) -> rustyline::Result<()> {
            let _ = self.0.recv();
            let _ = self.1.send(text);
            Ok(())
        }
    }

    #[test]
    fn a_long_text_is_printed_in_pieces_of_whole_lines() {
        let text: String = (0..5000).map(|i| format!("{i} é\n")).collect();
        let cut: Vec<&str> = pieces(&text).collect();
        assert_eq!(cut.concat(), text);
        assert_eq!(cut.len(), text.len().div_ceil(PIECE + 8));
        assert!(cut.iter().all(|piece| piece.ends_with('\n') && piece.len() < PIECE + 10));
        assert_eq!(pieces("no end").collect::<Vec<_>>(), ["no end"]);
    }

    #[test]
    fn a_terminal_that_does_not_keep_up_holds_nobody_up_and_is_told_what_it_missed() {
        let ((go, going), (seen, printed)) = (mpsc::channel(), mpsc::channel());
        let (mut above, _) = Above::start(Slow(going, seen)).unwrap();
        for i in 0..QUEUE + 10 {
            writeln!(above, "{i}").unwrap();
            above.flush().unwrap();
        }
        drop(go);
        let first = printed.recv().unwrap();
        let missing = first.lines().nth(1).unwrap_or_default();
        assert!(first.starts_with("0\n") || first.starts_with("1\n"), "{first}");
        let texts: Vec<String> = printed.try_iter().chain(printed.recv_timeout(PATIENCE)).collect();
        assert!(
            missing.contains("not shown") || texts.iter().any(|text| text.contains("not shown"))
        );
    }
}
