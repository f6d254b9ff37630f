//! The parts of an event's line, and the stack below it.

use crate::base::event::value::Value;
use crate::base::report::draw::{EventLine, Stamp};
use crate::base::report::frame::Frame;
use crate::base::text::stack_style::StackStyle;
use crate::base::text::{digits, escape, field};
use crate::output::layout::shorten;

/// Appends a tracepoint's record up to its name, in the format of ftrace.
pub(super) fn push_record(out: &mut Vec<u8>, event: &EventLine<'_>) {
    escape::push_shown_right(out, event.comm, 16);
    out.push(b' ');
    push_task(out, event.tid, 6);
    out.push(b' ');
    out.extend(event.flags.map(|flag| if flag.is_ascii_graphic() { flag } else { b'.' }));
    out.extend_from_slice(b" [");
    digits::push_padded(out, event.cpu.into(), 3, b'0');
    out.extend_from_slice(b"] ");
    push_clock(out, event.stamp);
    out.extend_from_slice(b": ");
    escape::push_shown(out, event.name.as_bytes());
    out.push(b':');
}

/// Appends a sample up to its event's name, in the format of `perf script`.
pub(super) fn push_sample(out: &mut Vec<u8>, event: &EventLine<'_>, period: u64) {
    escape::push_shown(out, event.comm);
    out.push(b' ');
    push_task(out, event.tid, 0);
    out.push(b' ');
    push_clock(out, event.stamp);
    out.extend_from_slice(b": ");
    digits::push_padded(out, period, 10, b' ');
    out.push(b' ');
    escape::push_shown(out, event.name.as_bytes());
    out.push(b':');
}

/// Appends `SEC.USEC` of the clock that stamps events.
fn push_clock(out: &mut Vec<u8>, stamp: Stamp) {
    digits::push_u64(out, stamp.clock_ns / 1_000_000_000);
    out.push(b'.');
    digits::push_padded(out, stamp.clock_ns % 1_000_000_000 / 1000, 6, b'0');
}

/// Appends one line of at most `room` characters per frame, with aligned addresses; all frames on
/// one line if the style has a separator of its own.
pub(super) fn push_stack(
    out: &mut Vec<u8>,
    frames: &[Frame],
    style: &StackStyle,
    room: Option<usize>,
) {
    /// Digits of an address.
    const ADDRESS: usize = 16;
    let chosen = style.chosen(frames);
    let Some(last) = chosen.len().checked_sub(1) else { return };
    for (i, frame) in chosen.into_iter().enumerate() {
        let start = out.len();
        if i == 0 || style.between.is_none() {
            out.extend_from_slice(b"        ");
        }
        let text = out.len();
        style.push(out, frame, if style.between.is_none() { ADDRESS } else { 0 });
        escape::show_from(out, text);
        if let (None, Some(room)) = (&style.between, room) {
            shorten(out, start, room);
        }
        match &style.between {
            Some(between) if i < last => out.extend_from_slice(between.as_bytes()),
            _ => out.push(b'\n'),
        }
    }
    out.extend_from_slice(style.behind.as_bytes());
}

/// Appends ` name=value` for each field.
pub(super) fn push_fields<'a>(
    out: &mut Vec<u8>,
    fields: impl Iterator<Item = &'a (&'a str, Value<'a>)>,
) {
    for (name, value) in fields {
        out.push(b' ');
        escape::push_shown(out, name.as_bytes());
        out.push(b'=');
        field::push_value(out, value);
    }
}

/// Appends a thread id; -1 is a task that is being released and does not have one any more.
pub(super) fn push_task(out: &mut Vec<u8>, tid: u32, width: usize) {
    match tid {
        u32::MAX => {
            out.resize(out.len() + width.saturating_sub(2), b' ');
            out.extend_from_slice(b"-1");
        }
        tid => digits::push_padded(out, tid.into(), width, b' '),
    }
}
