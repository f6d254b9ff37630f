//! Draws a view as cells of the screen.
//!
//! Columns are as wide as in text output; what does not fit at the right is cut. With little room,
//! printed lines are omitted first, then rows; the title, the status and the keys always remain.

use super::view::{View, visible};
use crate::base::report::draw::{Align, Report, Table};
use crate::base::text::escape;
use crate::output::Colour;
use crate::output::layout::{MeasuredText, TableLayout, lay_out};
use crate::output::shrink::fit_names;
use crate::output::table::push_hist;
use crate::output::text::{push_problems, shown};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// Help for the keys on the last line; it fits 80 columns.
const KEYS: &str = "q quit  space pause  < > sort  r reverse  / filter  Esc all  arrows  Tab table";

/// Maximum number of printed lines that are shown.
const PRINTED: usize = 3;

/// The parts of the output that are not in the view.
pub(super) struct PaintContext {
    /// The last lines that were printed, oldest first.
    pub(super) printed: Vec<String>,
    /// Data pages of each ring, to suggest a larger number.
    pub(super) pages: usize,
    /// Whether losses may be red.
    pub(super) colour: Colour,
}

impl PaintContext {
    /// Returns the number of printed lines to show on a screen of `rows` rows.
    pub(super) fn lines(rows: u16) -> usize {
        if rows < 12 { 0 } else { PRINTED }
    }
}

/// Draws the view.
pub(super) fn paint(view: &View, around: &PaintContext, area: Rect, buffer: &mut Buffer) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    let mut canvas = Canvas { buffer, area, row: 0 };
    canvas.line(&view.page.title, bold);
    let (status, style) = status(view, around);
    canvas.line(&status, style);
    let bottom = area.height.saturating_sub(1);
    let printed = bottom.saturating_sub(around.printed.len() as u16);
    canvas.tables(view, printed);
    canvas.row = printed.max(canvas.row);
    for line in &around.printed {
        canvas.line(line, Style::new().add_modifier(Modifier::DIM));
    }
    canvas.row = bottom;
    let prompt = format!("/{}\u{2588}  Enter keeps the filter, Esc clears it", view.filter);
    canvas.bar(if view.typing { &prompt } else { KEYS }, reversed);
}

/// Returns the status line: coverage, and the changes made by keys.
fn status(view: &View, around: &PaintContext) -> (String, Style) {
    let mut text = Vec::new();
    let missed = |counts: &[(&str, u64)]| counts.iter().any(|(_, count)| *count > 0);
    if missed(&view.missed) {
        text.extend_from_slice(b"coverage: ");
        push_problems(&mut text, &view.missed);
        if missed(&view.missed_lately) {
            text.extend_from_slice(b" (now ");
            push_problems(&mut text, &view.missed_lately);
            text.push(b')');
        }
        let lost = view.missed.iter().any(|(name, count)| *name == "lost" && *count > 0);
        if lost && around.pages > 0 {
            let more = format!("; a larger ring loses less: -m {}", around.pages * 2);
            text.extend_from_slice(more.as_bytes());
        }
    } else {
        text.extend_from_slice(b"coverage: nothing missed");
    }
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if view.paused {
        text += "  [paused]";
    }
    let sorted = view.table().zip(view.sort).and_then(|(table, sort)| visible(table).nth(sort));
    if let Some((_, column)) = sorted {
        text += &format!("  [by {}]", column.title);
    }
    if view.reverse {
        text += "  [reversed]";
    }
    if !view.filter.is_empty() && !view.typing {
        text += &format!("  [/{}]", view.filter);
    }
    let alarm = match around.colour {
        Colour::Always => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Colour::Never => Style::new().add_modifier(Modifier::BOLD),
    };
    (text, if missed(&view.missed) { alarm } else { Style::new() })
}

/// A cursor over the rows of the screen, from the top down.
struct Canvas<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    row: u16,
}

impl Canvas<'_> {
    /// Draws text at a column of the current row, cut at the right edge.
    fn put(&mut self, column: usize, text: &str, style: Style) {
        let (Ok(column), true) = (u16::try_from(column), self.row < self.area.height) else {
            return;
        };
        if column < self.area.width {
            let room = usize::from(self.area.width - column);
            let (x, y) = (self.area.x + column, self.area.y + self.row);
            self.buffer.set_stringn(x, y, text, room, style);
        }
    }

    fn line(&mut self, text: &str, style: Style) {
        self.put(0, text, style);
        self.row += 1;
    }

    /// Draws a line whose style fills the row.
    fn bar(&mut self, text: &str, style: Style) {
        if self.row < self.area.height {
            let row = Rect { y: self.area.y + self.row, height: 1, ..self.area };
            self.buffer.set_style(row, style);
        }
        self.line(text, style);
    }

    /// Draws the parts of the report, the chosen one first, down to the row `end`.
    fn tables(&mut self, view: &View, end: u16) {
        let parts = &view.page.parts;
        let drawn: Vec<&Report> = shown(parts).collect();
        let places = (0..parts.len()).map(|i| (view.chosen + i) % parts.len().max(1));
        for place in places {
            let Some(part) = parts.get(place) else { continue };
            let chosen = place == view.chosen;
            if self.row >= end || !(chosen || drawn.iter().any(|other| std::ptr::eq(*other, part)))
            {
                continue;
            }
            match part {
                Report::Table(table) => self.table(view, table, chosen, end),
                Report::Hist(hist) => {
                    let mut text = Vec::new();
                    push_hist(&mut text, hist, Colour::Never);
                    let text = String::from_utf8_lossy(&text);
                    let skip = if chosen { view.scroll } else { 0 };
                    for line in text.lines().skip(skip) {
                        if self.row < end {
                            self.line(line, Style::new());
                        }
                    }
                }
                Report::Row(_) => {}
            }
        }
    }

    fn table(&mut self, view: &View, table: &Table, chosen: bool, end: u16) {
        if let Some(title) = &table.title {
            let mut text = Vec::new();
            escape::push_shown(&mut text, title.as_bytes());
            self.line(&String::from_utf8_lossy(&text), Style::new().add_modifier(Modifier::BOLD));
        }
        let mut laid = lay_out(table);
        fit_names(&mut laid, self.area.width.into());
        let header = Style::new().add_modifier(Modifier::REVERSED);
        if self.row < end {
            let row = Rect { y: self.area.y + self.row, height: 1, ..self.area };
            self.buffer.set_style(row, header);
            let sorted = view.sort.filter(|_| chosen);
            self.cells(&laid, &laid.titles, |column| match sorted == Some(column) {
                true => header.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
                false => header,
            });
        }
        let skip = if chosen { view.scroll } else { 0 };
        for row in view.rows(table, chosen).into_iter().skip(skip) {
            if self.row >= end {
                break;
            }
            if let Some(cells) = table.rows.get(row) {
                self.cells(&laid, &laid.row(cells), |_| Style::new());
            }
        }
    }

    fn cells(
        &mut self,
        laid: &TableLayout,
        cells: &[MeasuredText],
        style: impl Fn(usize) -> Style,
    ) {
        let mut left = 0;
        for (i, (cell, column)) in cells.iter().zip(&laid.columns).enumerate() {
            let before = match column.align {
                Align::Right => column.width.saturating_sub(cell.width),
                Align::Left => 0,
            };
            self.put(left + before, &String::from_utf8_lossy(&cell.text), style(i));
            if column.arrow {
                self.put(left + column.width, " => ", Style::new());
            }
            left += column.width + if column.arrow { 4 } else { 1 };
        }
        self.row += 1;
    }
}
