//! A heat map of events over time as SVG: one column per second, one row for each part of it;
//! darker cells have more events.
//!
//! It shows what a chart of counts per second hides: a pause of a tenth of a second, work that
//! recurs every hundred milliseconds, phases. Each cell shows its time and count as a tooltip.

use super::svg::{Caption, xml};
use crate::base::heat::{Heat, ROWS};
use crate::base::units::human_ns;
use std::io::{self, Write};

const CELL_HEIGHT: usize = 8;
/// Minimum and maximum width of a column, and maximum width of all columns together.
const COLUMN_WIDTH: (usize, usize, usize) = (1, 48, 1100);
const LEFT: usize = 64;
const TOP: usize = 64;
const BOTTOM: usize = 64;
const RIGHT: usize = 24;

/// Draws the map.
///
/// # Errors
/// `out` cannot be written to.
pub fn write(heat: &Heat, caption: &Caption, out: &mut dyn Write) -> io::Result<()> {
    let columns = heat.columns().len().max(1);
    let (least, most, all) = COLUMN_WIDTH;
    let wide = (all / columns).clamp(least, most);
    let (width, height) = (columns * wide, ROWS * CELL_HEIGHT);
    let picture = (LEFT + width.max(560) + RIGHT, TOP + height + BOTTOM);
    let middle = picture.0 / 2;
    let (title, subtitle) = (xml(&caption.title), xml(&caption.subtitle));
    write!(
        out,
        "<?xml version=\"1.0\" standalone=\"no\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" \
         viewBox=\"0 0 {0} {1}\" font-family=\"monospace\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{middle}\" y=\"26\" font-size=\"17\" text-anchor=\"middle\">{title}</text>\n\
         <text x=\"{middle}\" y=\"46\" fill=\"#666666\" text-anchor=\"middle\">{subtitle}</text>\n\
         <rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{width}\" height=\"{height}\" fill=\"#fff8f0\" \
         stroke=\"#cccccc\"/>\n",
        picture.0, picture.1
    )?;
    write_cells(heat, wide, out)?;
    write_axes(heat, wide, out)?;
    write_legend(heat, TOP + height + 40, out)?;
    out.write_all(b"</svg>\n")
}

fn write_cells(heat: &Heat, wide: usize, out: &mut dyn Write) -> io::Result<()> {
    let most = most(heat);
    let row_ns = heat.column_ns() / ROWS as f64;
    for (column, rows) in heat.columns().iter().enumerate() {
        for (row, count) in rows.iter().enumerate().filter(|(_, count)| **count > 0) {
            let x = LEFT + column * wide;
            // The beginning of a second is at the bottom.
            let y = TOP + (ROWS - 1 - row) * CELL_HEIGHT;
            let at = (column as f64 * heat.column_ns() + row as f64 * row_ns) / 1e9;
            writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{CELL_HEIGHT}\" fill=\"{}\">\
                 <title>{at:.3} s: {count}</title></rect>",
                colour(share(*count, most))
            )?;
        }
    }
    Ok(())
}

fn write_axes(heat: &Heat, wide: usize, out: &mut dyn Write) -> io::Result<()> {
    let bottom = TOP + ROWS * CELL_HEIGHT;
    for quarter in 0..=4usize {
        let y = bottom - quarter * ROWS * CELL_HEIGHT / 4 + 4;
        let part = human_ns((heat.column_ns() * quarter as f64 / 4.0) as u64);
        let part = if quarter == 0 { "0".to_owned() } else { part };
        writeln!(out, "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\">{part}</text>", LEFT - 6)?;
    }
    let columns = heat.columns().len().max(1);
    // A label about every 80 pixels, at round numbers.
    let step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
    let step = step.into_iter().find(|step| step * wide >= 80).unwrap_or(2000);
    for column in (0..columns).step_by(step) {
        let x = LEFT + column * wide;
        let at = column as f64 * heat.column_ns() / 1e9;
        writeln!(
            out,
            "<line x1=\"{x}\" y1=\"{bottom}\" x2=\"{x}\" y2=\"{}\" stroke=\"#999999\"/>\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{at:.0} s</text>",
            bottom + 4,
            bottom + 18
        )?;
    }
    Ok(())
}

fn write_legend(heat: &Heat, y: usize, out: &mut dyn Write) -> io::Result<()> {
    let most = most(heat);
    let (cell, from) = (human_ns((heat.column_ns() / ROWS as f64) as u64), LEFT + 200);
    write!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">events per {cell}: 1</text>",
        from - 8,
        y + 10
    )?;
    for step in 0..10usize {
        let count = (most as usize * step / 9).max(1) as u32;
        let fill = colour(share(count, most));
        write!(
            out,
            "<rect x=\"{}\" y=\"{y}\" width=\"16\" height=\"12\" fill=\"{fill}\"/>",
            from + step * 16
        )?;
    }
    writeln!(out, "<text x=\"{}\" y=\"{}\">{most}</text>", from + 168, y + 10)
}

fn most(heat: &Heat) -> u32 {
    heat.columns().iter().flatten().copied().max().unwrap_or(0).max(1)
}

fn share(count: u32, most: u32) -> f64 {
    f64::from(count) / f64::from(most.max(1))
}

/// Returns a colour from light yellow over orange to dark red, by the share of the maximum.
pub(super) fn colour(share: f64) -> String {
    const SCALE: [[f64; 3]; 4] =
        [[255.0, 237.0, 160.0], [254.0, 178.0, 76.0], [240.0, 59.0, 32.0], [110.0, 0.0, 30.0]];
    let share = share.clamp(0.0, 1.0) * 3.0;
    let from = (share as usize).min(2);
    let part = share - from as f64;
    let mix = |i: usize| {
        let (a, b) = (SCALE[from][i], SCALE[from + 1][i]);
        (a + (b - a) * part).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(heat: &Heat) -> String {
        let caption = Caption { title: "profile <x>".into(), subtitle: "3 lost".into() };
        let mut out = Vec::new();
        write(heat, &caption, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn cells_have_their_time_and_count_as_title() {
        let mut heat = Heat::default();
        [0.5e9, 0.501e9, 2.25e9].into_iter().for_each(|time| heat.add(time));
        let svg = picture(&heat);
        for text in ["<title>0.500 s: 2</title>", "<title>2.240 s: 1</title>", "profile &lt;x&gt;"]
        {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("<title>").count(), 2);
    }

    #[test]
    fn empty_and_long_maps_are_drawn() {
        assert!(picture(&Heat::default()).ends_with("</svg>\n"));
        let mut heat = Heat::default();
        (0..100_000).for_each(|second| heat.add(f64::from(second) * 1e9));
        let svg = picture(&heat);
        assert!(svg.contains("width=\"1"), "{}", &svg[..200]);
    }

    #[test]
    fn more_is_darker() {
        assert_eq!(
            (colour(share(0, 9)), colour(share(9, 9))),
            ("#ffeda0".to_owned(), "#6e001e".to_owned())
        );
    }
}
