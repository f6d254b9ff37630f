//! A heat map of events over time as SVG: one column per second, one row for each part of it;
//! darker cells have more events.
//!
//! It shows what a chart of counts per second hides: a pause of a tenth of a second, work that
//! recurs every hundred milliseconds, phases. Each cell shows its time and count as a tooltip.

use super::heat_svg::{self, colour};
use super::svg::Caption;
use crate::base::report::heat::{Heat, ROWS};
use crate::base::text::units::human_ns;
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
    let columns = heat.grid().columns().len().max(1);
    let (least, most, all) = COLUMN_WIDTH;
    let wide = (all / columns).clamp(least, most);
    let (width, height) = (columns * wide, ROWS * CELL_HEIGHT);
    let picture = (LEFT + width.max(560) + RIGHT, TOP + height + BOTTOM);
    heat_svg::begin((picture.0 as f64, picture.1 as f64), caption, out)?;
    writeln!(
        out,
        "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{width}\" height=\"{height}\" fill=\"#fff8f0\" \
         stroke=\"#cccccc\"/>"
    )?;
    write_cells(heat, wide, out)?;
    write_axes(heat, wide, out)?;
    write_legend(heat, TOP + height + 40, out)?;
    out.write_all(b"</svg>\n")
}

fn write_cells(heat: &Heat, wide: usize, out: &mut dyn Write) -> io::Result<()> {
    let most = heat.grid().most();
    let row_ns = heat.grid().column_ns() / ROWS as f64;
    let size = (wide as f64, CELL_HEIGHT as f64);
    for (column, row, count) in heat.grid().cells() {
        // The beginning of a second is at the bottom.
        let (x, y) = (LEFT + column * wide, TOP + (ROWS - 1 - row) * CELL_HEIGHT);
        let time = (column as f64 * heat.grid().column_ns() + row as f64 * row_ns) / 1e9;
        let (fill, title) = (colour(share(count, most)), format!("{time:.3} s: {count}"));
        heat_svg::write_cell((x as f64, y as f64), size, &fill, &title, out)?;
    }
    Ok(())
}

fn write_axes(heat: &Heat, wide: usize, out: &mut dyn Write) -> io::Result<()> {
    let bottom = TOP + ROWS * CELL_HEIGHT;
    for quarter in 0..=4usize {
        let y = bottom - quarter * ROWS * CELL_HEIGHT / 4 + 4;
        let part = human_ns((heat.grid().column_ns() * quarter as f64 / 4.0) as u64);
        let part = if quarter == 0 { "0".to_owned() } else { part };
        writeln!(out, "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\">{part}</text>", LEFT - 6)?;
    }
    let columns = heat.grid().columns().len().max(1);
    // A label about every 80 pixels, at round numbers.
    let step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
    let step = step.into_iter().find(|step| step * wide >= 80).unwrap_or(2000);
    for column in (0..columns).step_by(step) {
        let label = format!("{:.0} s", column as f64 * heat.grid().column_ns() / 1e9);
        heat_svg::write_time((LEFT + column * wide) as f64, bottom as f64, &label, out)?;
    }
    Ok(())
}

fn write_legend(heat: &Heat, y: usize, out: &mut dyn Write) -> io::Result<()> {
    let most = heat.grid().most();
    let cell = human_ns((heat.grid().column_ns() / ROWS as f64) as u64);
    let fill = |step| colour(share((most as usize * step as usize / 9).max(1) as u32, most));
    let at = ((LEFT + 200) as f64, y as f64);
    heat_svg::write_legend(at, &format!("events per {cell}"), most, fill, out)
}

fn share(count: u32, most: u32) -> f64 {
    f64::from(count) / f64::from(most.max(1))
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
