//! The source of lines: another thread reads them, and wakes the session's poll through a pipe.

use std::io::{PipeReader, Read as _};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError};

/// A message from the reading thread to the session.
#[derive(Debug)]
pub enum ConsoleMessage {
    /// A line, or several that belong together. The thread waits until it has been run.
    Line(String),
    /// A request for the completions of `before`; the thread waits for a short time only.
    Names {
        /// The line up to the cursor.
        before: String,
        /// Receives them.
        reply: Sender<Completions>,
    },
    /// The end of the input.
    End,
}

/// The start of the completed text, and its completions.
pub type Completions = (usize, Vec<String>);

/// The session's end of the console.
pub struct Console {
    /// The messages.
    pub typed: Receiver<ConsoleMessage>,
    /// Readable when a message was sent.
    pub bell: PipeReader,
    /// Signals the thread that its line has been run.
    pub ready: SyncSender<()>,
    /// Waits a short time until the printed output is visible.
    pub wait_until_printed: Box<dyn Fn()>,
    /// The ids of that thread and of the console's other threads, as in tracepoint records.
    pub tids: Vec<i32>,
}

impl Console {
    /// Returns the next message, if there is one.
    pub(super) fn take(&self) -> Option<ConsoleMessage> {
        match self.typed.try_recv() {
            Ok(typed) => Some(typed),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(ConsoleMessage::End),
        }
    }

    /// Waits for the next message.
    pub(super) fn wait(&self) -> ConsoleMessage {
        self.typed.recv().unwrap_or(ConsoleMessage::End)
    }

    /// Empties the wakeup pipe.
    pub(super) fn clear_wakeup(&mut self) {
        // After a failed read, the pipe stays readable and wakes the session again.
        let _ = self.bell.read(&mut [0; 64]);
    }

    /// Lets the thread read the next line.
    pub(super) fn go_on(&self) {
        (self.wait_until_printed)();
        // A thread that has ended reads no more lines.
        let _ = self.ready.try_send(());
    }
}
