//! Where lines come from: another thread reads them, and rings a bell that the session's poll hears.

use std::io::{PipeReader, Read as _};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError};

/// What the reading thread has for the session.
#[derive(Debug)]
pub enum Typed {
    /// A line, or several that belong together. The thread waits until it was run.
    Line(String),
    /// What may stand behind `before`; wanted soon or never.
    Names {
        /// The line up to the cursor.
        before: String,
        /// Where they are to be sent.
        reply: Sender<Names>,
    },
    /// There are no more.
    End,
}

/// Where a word begins that could be completed, and what it could become.
pub type Names = (usize, Vec<String>);

/// The session's end of it.
pub struct Console {
    /// What was typed.
    pub typed: Receiver<Typed>,
    /// Readable when something was sent.
    pub bell: PipeReader,
    /// Tells the thread that its line was run.
    pub ready: SyncSender<()>,
    /// Waits until what was printed can be seen, but not for long.
    pub settle: Box<dyn Fn()>,
    /// That thread and others of ours, as tracepoints name them.
    pub tids: Vec<i32>,
}

impl Console {
    /// What was typed meanwhile, if something was.
    pub(super) fn take(&self) -> Option<Typed> {
        match self.typed.try_recv() {
            Ok(typed) => Some(typed),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Typed::End),
        }
    }

    /// Waits for it.
    pub(super) fn wait(&self) -> Typed {
        self.typed.recv().unwrap_or(Typed::End)
    }

    /// The bell was heard.
    pub(super) fn heard(&mut self) {
        // What it could not read now, it hears again.
        let _ = self.bell.read(&mut [0; 64]);
    }

    /// Lets the thread go on to the next line.
    pub(super) fn go_on(&self) {
        (self.settle)();
        // A thread that is gone reads no more lines.
        let _ = self.ready.try_send(());
    }
}
