//! Text output: event lines, tables and histograms, each with the wall-clock time.
//!
//! - Event, to the results: `WALL-CLOCK %16s %6u FLAGS [%03d] SEC.USEC: sys:name: TEXT`. The text
//!   is that of its printer or its print format, else `name=value …`. Frames follow, indented by
//!   eight spaces, in the form that [`StackStyle`] defines. Fields that the script adds are printed
//!   above, after `* `. In a detail, the line begins with the offset, `+12.345 us`.
//! - Sample of a counter, to the results: `COMM TID SEC.USEC: %10u EVENT:` with its period, as in
//!   `perf script`, then frames as above and an empty line. Without frames, the line has the
//!   address as `ip=`.
//! - Report, to the results: a line with the time, then tables and histograms. Those without rows
//!   are omitted; if none has rows, the line reports that.
//! - Alert, to the results: `WALL-CLOCK ALERT text`.
//! - Coverage, to the results: `coverage: 312 lost, 1 unmatched; …`, only if something was missed.
//! - Note and stats, to stderr: `perilune: warning: text`.
//!
//! Text from outside is always escaped before it reaches a terminal. Widths count characters.

use super::table::{DIM, RED, painted, push_pair};
use super::wall::Wall;
use super::{ByteSink, Colour};
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::{Draw, EventLine, EventText, Level, Report, Stamp};
use crate::base::report::run_stats::Stats;
use crate::base::text::message::{message, push_line};
use crate::base::text::stack_style::StackStyle;
use crate::base::text::units;
use crate::base::text::{digits, escape};
use event::{push_fields, push_record, push_sample, push_stack};
use jiff::tz::TimeZone;
use std::io::{self, Write};

mod report;

pub(super) use report::shown;

/// Options of text output.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// Zone of the wall-clock stamps.
    pub zone: TimeZone,
    /// Whether to use escape sequences; see [`super::colour`].
    pub colour: Colour,
    /// Hides information and warnings (`-q`), never alerts, errors or coverage.
    pub quiet: bool,
    /// Format of stacks.
    pub stacks: StackStyle,
    /// Returns the width of a line of the results in characters; None for no limit. Only a terminal
    /// has a width, and it may change.
    pub columns: fn() -> Option<usize>,
    /// Whether messages go to the same place as results, which must then be flushed first.
    pub together: bool,
    /// Data pages of each ring, so that a loss can suggest a larger number; 0 if there is no ring.
    pub pages: usize,
}

/// Draws text.
pub struct TextOutput {
    results: ByteSink,
    stderr: Box<dyn Write>,
    look: TextOptions,
    wall: Wall,
    /// Number of intervals whose coverage was shown, and the problems of the last of them.
    shown: (usize, Coverage),
    /// Whether the columns omitted for lack of room have been listed.
    omitted_listed: bool,
}

impl TextOutput {
    /// Returns text output with results to one writer and notes to the other. Notes are written at
    /// once.
    pub fn new(results: Box<dyn Write>, stderr: Box<dyn Write>, look: TextOptions) -> TextOutput {
        let wall = Wall::new(look.zone.clone(), ' ');
        TextOutput {
            results: ByteSink::new(results),
            stderr,
            look,
            wall,
            shown: (0, Coverage::default()),
            omitted_listed: false,
        }
    }

    /// Appends the wall-clock time and a blank.
    fn stamp(&mut self, stamp: Stamp) {
        let wall = &mut self.wall;
        painted(&mut self.results.buffer, self.look.colour, DIM, |out| {
            wall.push(out, stamp.wall_ns);
        });
        self.results.buffer.push(b' ');
    }

    /// Writes to stderr at once. A failure is ignored, because it cannot be reported anywhere.
    fn write_message(&mut self, line: &[u8]) {
        if self.look.together {
            // A later flush of the results reports a persistent error.
            let _ = self.results.flush();
        }
        let _ = self.stderr.write_all(line).and_then(|()| self.stderr.flush());
    }
}

impl Draw for TextOutput {
    fn event(&mut self, event: &mut EventLine<'_>) {
        if !event.extra.is_empty() {
            let out = &mut self.results.buffer;
            out.push(b'*');
            for (name, cell) in event.extra {
                out.push(b' ');
                push_pair(out, name, cell);
            }
            out.push(b'\n');
        }
        if let Some(detail) = event.detail {
            digits::push_micros(&mut self.results.buffer, detail.offset_ns, 16);
            self.results.buffer.extend_from_slice(b" us ");
        }
        match event.period {
            Some(period) => push_sample(&mut self.results.buffer, event, period),
            None => {
                self.stamp(event.stamp);
                push_record(&mut self.results.buffer, event);
            }
        }
        let out = &mut self.results.buffer;
        let shown = match event.text {
            EventText::Fields => false,
            EventText::Printer(text) => {
                out.push(b' ');
                escape::push_shown(out, text);
                true
            }
            EventText::Format(push) => {
                out.push(b' ');
                let start = out.len();
                let pushed = push(out);
                match pushed {
                    // Keeps the tabs of the format; those of the record are escaped by now.
                    true => escape::show_but_tabs_from(out, start),
                    false => out.truncate(start - 1),
                }
                pushed
            }
        };
        let sampled = event.period.is_some();
        if !shown {
            // Omits what the line and the first frame already show.
            let first_frame = !event.stack.is_empty();
            let already_shown =
                |name: &str| sampled && (name == "period" || name == "ip" && first_frame);
            push_fields(out, event.fields.iter().filter(|(name, _)| !already_shown(name)));
        }
        out.push(b'\n');
        if !event.stack.is_empty() {
            push_stack(out, event.stack, &self.look.stacks, (self.look.columns)());
            if sampled {
                out.push(b'\n');
            }
        }
    }

    fn report(&mut self, stamp: Stamp, parts: &[Report]) {
        self.push_parts(Some(stamp), parts);
    }

    fn answer(&mut self, parts: &[Report]) {
        self.push_parts(None, parts);
    }

    fn line(&mut self, text: &str) {
        for line in text.lines() {
            // `print` separates its arguments with tabs.
            push_line(&mut self.results.buffer, line);
            self.results.buffer.push(b'\n');
        }
    }

    fn note(&mut self, stamp: Stamp, level: Level, text: &str) {
        let prefix = match level {
            Level::Info | Level::Warning if self.look.quiet => return,
            Level::Alert => {
                self.stamp(stamp);
                painted(&mut self.results.buffer, self.look.colour, RED, |out| {
                    out.extend_from_slice(b"ALERT ");
                    escape::push_shown(out, text.as_bytes());
                });
                return self.results.buffer.push(b'\n');
            }
            Level::Info => "note: ",
            Level::Warning => "warning: ",
            Level::Error => "",
        };
        self.write_message(&message(&format!("{prefix}{text}")));
    }

    fn coverage(&mut self, _stamp: Stamp, coverage: &Coverage, last: bool) {
        // Tasks that exit inside a call or a state (`exit` never returns) are normal, not a gap;
        // JSON has the count.
        let coverage = &Coverage { exited: 0, ..*coverage };
        let (intervals, before) = self.shown;
        // A run of one interval has printed it already.
        let repeated = last && intervals == 1 && coverage.gaps() == before.gaps();
        if coverage.is_perfect() || repeated {
            return;
        }
        let out = &mut self.results.buffer;
        out.extend_from_slice(if last && intervals > 0 {
            b"coverage of the run: "
        } else {
            b"coverage: "
        });
        push_problems(out, &coverage.gaps());
        push_unpaired(out, coverage);
        if coverage.lost > 0 && self.look.pages > 0 {
            out.extend_from_slice(b"; a larger ring loses less: -m ");
            digits::push_u64(out, self.look.pages as u64 * 2);
        }
        if coverage.undelivered > 0 {
            out.extend_from_slice(UNDELIVERED);
        }
        if coverage.thinned > Some(0) {
            out.extend_from_slice(THINNED);
        }
        out.push(b'\n');
        if !last {
            self.shown = (intervals + 1, *coverage);
        }
    }

    fn stats(&mut self, _stamp: Stamp, stats: &Stats) {
        self.write_message(&message(&stats_text(stats)));
    }

    fn flush(&mut self) -> io::Result<()> {
        self.results.flush()
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        self.results.flush_if_large()
    }
}

/// Appends the problems, such as `312 lost, 1 unmatched`.
pub(super) fn push_problems(out: &mut Vec<u8>, problems: &[(&str, u64)]) {
    for (i, &(name, count)) in problems.iter().filter(|(_, n)| *n > 0).enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        // The other names are adjectives, which have no plural.
        let text = if name == "errors" {
            units::counted(count, "error")
        } else {
            format!("{count} {name}")
        };
        out.extend_from_slice(text.as_bytes());
    }
}

/// Printed after the count of events that the kernel counted and did not deliver.
pub(super) const UNDELIVERED: &[u8] =
    b"; the kernel counted the undelivered events and wrote no record of them";

/// Printed after the count of events that were counted and not recorded to stay within `--budget`.
pub(super) const THINNED: &[u8] =
    b"; the other events stand for the thinned ones, \xc2\xb1 is the 95 % confidence interval";

/// Appends `; 558 of 600 starts (93 %) were not paired and are missing above`, if any were not.
fn push_unpaired(out: &mut Vec<u8>, coverage: &Coverage) {
    let (unpaired, starts) = (coverage.unpaired(), coverage.starts);
    if unpaired == 0 || starts == 0 {
        return;
    }
    let percent = unpaired.saturating_mul(100) / starts;
    let share = if percent == 0 { "under 1".to_owned() } else { percent.to_string() };
    let (be, are) = if unpaired == 1 { ("was", "is") } else { ("were", "are") };
    let starts = units::counted(starts, "start");
    out.extend_from_slice(
        format!("; {unpaired} of {starts} ({share} %) {be} not paired and {are} missing above")
            .as_bytes(),
    );
}

/// Returns the cost of the run: `1000 events, 15.3 ns each, …`.
pub(super) fn stats_text(stats: &Stats) -> String {
    let each = stats.ns_per_event.map(|ns| format!(", {ns:.1} ns each"));
    let reports = match stats.report_cpu_ns {
        0 => String::new(),
        ns => format!(", {} of it for reports", units::human_ns(ns)),
    };
    let compiler = &stats.compiler;
    let flushed = match compiler.flushed {
        0 => String::new(),
        1 => ", flushed once".to_owned(),
        times => format!(", flushed {times} times"),
    };
    let programs = stats.program_ns.map(|ns| format!(", {ns:.0} ns each in the kernel"));
    let interpreted =
        compiler.interpreted.map(|part| format!(", {:.0} % interpreted", part * 100.0));
    format!(
        "{}{}{}; own CPU {}{}, {} lost, peak memory {}, first drain after {:.1} ms; {}, \
         {} aborted{}{}",
        units::counted(stats.events, "event"),
        each.unwrap_or_default(),
        programs.unwrap_or_default(),
        units::human_ns(stats.own_cpu_ns),
        reports,
        stats.lost,
        units::human_bytes(stats.max_rss_kb.saturating_mul(1024)),
        stats.start_ms,
        units::counted(compiler.traces, "trace"),
        compiler.aborted,
        flushed,
        interpreted.unwrap_or_default()
    )
}

mod event;
#[cfg(test)]
mod tests;
