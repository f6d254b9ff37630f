//! Prints output above the line that is being edited, on a separate thread.
//!
//! rustyline accepts a text only when the editing thread reads it, and blocks the printer of a
//! second text until then. The session must not block, since the editing thread may be waiting for
//! it. Texts are therefore queued; when the queue is full because the terminal is slow, further
//! texts are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::time::Duration;

use anyhow::Context as _;
use rustyline::ExternalPrinter;

use crate::base::text::units::counted;
use crate::sys::own_tid::tid_in_records;
use crate::sys::sched::{self, RtBoost};
use crate::sys::{signal, threads};

/// Limit of queued texts.
const QUEUE: usize = 256;

/// Bytes printed at once: between pieces, the editing thread checks whether it may keep its
/// priority.
const PIECE: usize = 16 << 10;

/// Percent of a CPU at real-time priority. A flood of output uses more, and then has normal
/// priority.
const OF_A_CPU: u64 = 5;

/// Time that a prompt waits for the output above it.
const PATIENCE: Duration = Duration::from_millis(100);

enum Message {
    Text(String),
    /// Answered after everything before it was printed.
    Mark(Sender<()>),
}

/// A writer above the edited line; prints each flush as a whole.
pub(super) struct LinePrinter {
    queue: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
    pending: Vec<u8>,
}

impl LinePrinter {
    /// Starts the thread. Also returns its id, as in tracepoint records.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(
        printer: impl ExternalPrinter + Send + 'static,
    ) -> anyhow::Result<(LinePrinter, i32)> {
        let (queue, waiting) = mpsc::sync_channel(QUEUE);
        let (sender, tid) = mpsc::channel();
        let dropped = Arc::new(AtomicU64::new(0));
        let counts = dropped.clone();
        let work = move || {
            signal::keep_off_this_thread();
            sched::request_short_slices();
            // The results of a line, or a notice that it was stopped, should appear soon.
            let front = RtBoost::request(OF_A_CPU);
            // The receiver waits for the id until it comes.
            let _ = sender.send(tid_in_records());
            print(printer, &waiting, &counts, front);
        };
        threads::start("perilune:print", work)?;
        let tid = tid.recv().context("the thread that prints has ended")?;
        Ok((LinePrinter { queue, dropped, pending: Vec::new() }, tid))
    }

    /// Returns a second writer to the same thread.
    pub(super) fn doubled(&self) -> LinePrinter {
        LinePrinter {
            queue: self.queue.clone(),
            dropped: self.dropped.clone(),
            pending: Vec::new(),
        }
    }

    /// Waits for a short time until everything is printed.
    pub(super) fn wait_until_printed(&self) {
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
    mut front: Option<RtBoost>,
) {
    for message in waiting {
        front.iter_mut().for_each(RtBoost::update);
        let mut text = match message {
            Message::Text(text) => text,
            Message::Mark(reply) => {
                // The requester may have timed out.
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
            // The terminal is gone.
            return;
        }
    }
}

/// Splits a text after line ends; a line is not split, however long it is.
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

impl Write for LinePrinter {
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

    /// Prints only when requested.
    struct Slow(Receiver<()>, Sender<String>);

    impl ExternalPrinter for Slow {
        fn print(&mut self, text: String) -> rustyline::Result<()> {
            let _ = self.0.recv();
            let _ = self.1.send(text);
            Ok(())
        }
    }

    #[test]
    fn a_long_text_is_split_at_line_ends() {
        let text: String = (0..5000).map(|i| format!("{i} é\n")).collect();
        let cut: Vec<&str> = pieces(&text).collect();
        assert_eq!(cut.concat(), text);
        assert_eq!(cut.len(), text.len().div_ceil(PIECE + 8));
        assert!(cut.iter().all(|piece| piece.ends_with('\n') && piece.len() < PIECE + 10));
        assert_eq!(pieces("no end").collect::<Vec<_>>(), ["no end"]);
    }

    #[test]
    fn a_slow_terminal_does_not_block_and_the_missing_text_is_reported() {
        let ((go, going), (seen, printed)) = (mpsc::channel(), mpsc::channel());
        let (mut above, _) = LinePrinter::start(Slow(going, seen)).unwrap();
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
