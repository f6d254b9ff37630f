//! A report as text: a line with the time, then tables and histograms.

use super::super::table::{self, BOLD, painted, push_pair};
use super::Text;
use crate::base::draw::{Hist, Report, Stamp, Style, Table};
use crate::base::text::digits;

impl Text {
    /// The line above the tables of a report; it carries the title of `top` when that comes first.
    fn time_line(&mut self, stamp: Stamp, first: &Report) {
        self.stamp(stamp);
        match first {
            Report::Table(table) if table.style == Style::Top => self.top_title(stamp, table),
            _ => self.results.buffer.push(b'\n'),
        }
    }

    /// A report without rows: titles of columns would look like a table that was cut short.
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

    /// The parts that are worth it, under one time line if there is a time.
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
                    let (out, colour) = (&mut self.results.buffer, self.look.colour);
                    let spared = table::push_table(out, table, colour, (self.look.columns)());
                    if !spared.is_empty() && !std::mem::replace(&mut self.told_spared, true) {
                        table::push_spared(out, &spared, colour);
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
        Report::Hist(Hist { buckets, .. }) => !buckets.is_empty(),
        Report::Row(_) => true,
    }
}

/// The parts worth drawing: those with rows, else the first table (or histogram): whoever asked for it by hand sees what it is,
/// and a screen keeps its shape.
pub(in crate::output) fn shown(parts: &[Report]) -> impl Iterator<Item = &Report> {
    let idle = if parts.iter().any(is_full) {
        None
    } else {
        parts.iter().find(|part| matches!(part, Report::Table(_))).or(parts.first())
    };
    parts.iter().filter(|part| is_full(part)).chain(idle)
}
