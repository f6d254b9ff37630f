//! Values and errors of lines, as they are printed.

use std::io;

use super::Session;
use crate::base::report::draw::Level;

impl Session<'_> {
    pub(super) fn show(&mut self, value: &mlua::Value) {
        if value.is_nil() {
            return;
        }
        self.source.collect(&mut self.prompt, true);
        let counts = self.source.take_counts();
        match self.prompt.drawn(value, &counts) {
            Ok(Some(parts)) => {
                self.prompt.host.context().print(|out| out.answer(&parts));
            }
            Ok(None) => {
                let text = self.prompt.text_of(value);
                self.prompt.host.context().print(|out| out.line(&text));
            }
            Err(why) => self.fail(&format!("{why:#}")),
        }
    }

    pub(super) fn fail(&mut self, why: &str) {
        self.failed = true;
        self.prompt.host.context().note(Level::Error, why);
    }

    pub(super) fn flush(&mut self) {
        let flushed = self.prompt.host.context().flush();
        let Err(why) = flushed else { return };
        self.ended = true;
        // The reader has closed the pipe.
        if why.kind() != io::ErrorKind::BrokenPipe {
            self.unwritten.get_or_insert(why);
        }
    }
}
