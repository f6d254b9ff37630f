//! Helpers for the tests of all formats: a writer that can be read, and events to draw.

use crate::base::event::value::Value;
use crate::base::report::cell::Cell;
use crate::base::report::draw::{Draw, EventLine, EventText, Stamp};
use crate::base::report::frame::Frame;
use crate::base::text::stack_style::StackStyle;
use crate::output::Colour;
use crate::output::text::{TextOptions, TextOutput};
use jiff::tz::TimeZone;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;

/// A writer that stores what was written; clones share it.
#[derive(Clone, Default)]
pub(super) struct Written(Rc<RefCell<Vec<u8>>>);

impl Written {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).unwrap()
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A pipe whose reader is closed.
pub(super) struct Closed;

impl io::Write for Closed {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the time `clock_ns` after 2026-11-21T09:00:00Z.
pub(super) fn stamp(clock_ns: u64) -> Stamp {
    Stamp { wall_ns: 1_795_251_600_000_000_000 + clock_ns as i64, clock_ns }
}

/// Returns a frame of which only the function's name is known.
pub(super) fn named(symbol: &str) -> Frame {
    Frame { symbol: Some(symbol.into()), kernel: true, ..Frame::default() }
}

/// The parts of an event other than its fields: by default those of `bash` 300 on CPU 0 at 0.1 s.
#[derive(Clone, Copy)]
pub(super) struct TestContext<'a> {
    pub(super) stamp: Stamp,
    pub(super) comm: &'a [u8],
    pub(super) tid: u32,
    pub(super) cpu: u32,
    pub(super) flags: [u8; 4],
    pub(super) name: &'a str,
    pub(super) period: Option<u64>,
    pub(super) text: EventText<'a>,
    pub(super) extra: &'a [(String, Cell)],
    pub(super) stack: &'a [Frame],
}

impl Default for TestContext<'_> {
    fn default() -> Self {
        TestContext {
            stamp: stamp(100_000_000),
            comm: b"bash",
            tid: 300,
            cpu: 0,
            flags: *b"....",
            name: "signal:signal_generate",
            period: None,
            text: EventText::Fields,
            extra: &[],
            stack: &[],
        }
    }
}

/// Draws an event of process 300.
pub(super) fn draw_event(
    draw: &mut dyn Draw,
    fields: &[(&str, Value<'_>)],
    around: &TestContext<'_>,
) {
    let TestContext { stamp, comm, tid, cpu, flags, name, period, text, extra, stack } = *around;
    draw.event(&mut EventLine {
        stamp,
        comm,
        pid: 300,
        tid,
        cpu,
        flags,
        common: [0; 2],
        common_pid: None,
        name,
        role: None,
        period,
        fields,
        text,
        extra,
        detail: None,
        stack,
    });
}

/// Returns options of text in UTC, without colour.
pub(super) fn plain_options() -> TextOptions {
    TextOptions {
        zone: TimeZone::UTC,
        colour: Colour::Never,
        quiet: false,
        stacks: StackStyle::default(),
        columns: || None,
        together: false,
        pages: 512,
    }
}

/// Returns what is drawn as text: results and stderr.
pub(super) fn drawn_with(
    change: impl FnOnce(&mut TextOptions),
    draw: impl FnOnce(&mut TextOutput),
) -> (String, String) {
    let (results, stderr) = (Written::default(), Written::default());
    let mut look = plain_options();
    change(&mut look);
    let mut text = TextOutput::new(Box::new(results.clone()), Box::new(stderr.clone()), look);
    draw(&mut text);
    text.flush().unwrap();
    (results.text(), stderr.text())
}

/// Returns what is drawn as text, without colour, in UTC.
pub(super) fn drawn(draw: impl FnOnce(&mut TextOutput)) -> String {
    drawn_with(|_| {}, draw).0
}
