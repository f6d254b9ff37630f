//! A report as text: a line with the time, then tables and histograms.

use super::super::table::{self, BOLD, painted, push_pair};
use super::TextOutput;
use crate::base::report::draw::{DrawnHistogram, Report, Stamp, Style, Table};
use crate::base::text::digits;

impl TextOutput {
    /// Appends the line above the tables of a report; it contains the title of `top` if that comes
    /// first.
    fn time_line(&mut self, stamp: Stamp, first: &Report) {
        self.stamp(stamp);
        match first {
            Report::Table(table) if table.style == Style::Top => self.top_title(stamp, table),
            _ => self.results.buffer.push(b'\n'),
        }
    }

    /// Appends a report without rows. Column titles alone would look like a truncated table.
    fn nothing(&mut self, stamp: Stamp, first: &Report) {
        self.stamp(stamp);
        match first {
            Report::Table(table) if table.style == Style::Top => self.top_title(stamp, table),
            _ => self.results.buffer.extend_from_slice(b"nothing to show\n"),
        }
    }

    fn top_title(&mut self, stamp: Stamp, table: &Table) {
        let time = self.wall.time_of_day(stamp.wall_ns);
        painted(&mut self.results.buffer, self.look.colour, BOLD, |out| {
            out.extend_from_slice(b"perilune - ");
            out.extend_from_slice(time);
            out.extend_from_slice(b"  sample ");
            digits::push_u64(out, table.samples);
            out.extend_from_slice(b" events");
        });
        self.results.buffer.push(b'\n');
    }

    /// Appends the parts to show, under one time line if there is a time.
    pub(super) fn push_parts(&mut self, stamp: Option<Stamp>, parts: &[Report]) {
        if let (Some(stamp), Some(first)) = (stamp, parts.first())
            && !parts.iter().any(is_full)
        {
            return self.nothing(stamp, first);
        }
        let mut timed = false;
        for part in shown(parts) {
            if let Report::Row(pairs) = part {
                self.stamp(stamp.unwrap_or_default());
                for (i, (name, cell)) in pairs.iter().enumerate() {
                    if i > 0 {
                        self.results.buffer.push(b' ');
                    }
                    push_pair(&mut self.results.buffer, name, cell);
                }
                self.results.buffer.push(b'\n');
                continue;
            }
            let titled = !timed;
            if let (false, Some(stamp)) = (timed, stamp) {
                self.time_line(stamp, part);
            }
            timed = true;
            match part {
                Report::Table(table) => {
                    if let (Style::Top, false, Some(stamp)) = (table.style, titled, stamp) {
                        self.top_title(stamp, table);
                    }
                    let (sink, colour) = (&mut self.results, self.look.colour);
                    let omitted = table::push_table(sink, table, colour, (self.look.columns)());
                    let out = &mut sink.buffer;
                    table::push_hidden(out, table.hidden, colour);
                    if !omitted.is_empty() && !std::mem::replace(&mut self.omitted_listed, true) {
                        table::push_omitted(out, &omitted, colour);
                    }
                }
                Report::Hist(hist) => {
                    table::push_hist(&mut self.results.buffer, hist, self.look.colour);
                }
                Report::Row(_) => {}
            }
        }
    }
}

fn is_full(part: &Report) -> bool {
    match part {
        Report::Table(Table { rows, .. }) => !rows.is_empty(),
        Report::Hist(DrawnHistogram { buckets, .. }) => !buckets.is_empty(),
        Report::Row(_) => true,
    }
}

/// Returns the parts to draw: those with rows, else the first table (or histogram), so that a
/// report requested by hand shows its columns, and a screen keeps its layout.
pub(in crate::output) fn shown(parts: &[Report]) -> impl Iterator<Item = &Report> {
    let idle = if parts.iter().any(is_full) {
        None
    } else {
        parts.iter().find(|part| matches!(part, Report::Table(_))).or(parts.first())
    };
    parts.iter().filter(|part| is_full(part)).chain(idle)
}
