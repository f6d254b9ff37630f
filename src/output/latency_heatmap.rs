//! A heat map of delays as SVG: time from left to right, the delay upwards in powers of two; darker
//! cells have more delays.
//!
//! It shows what percentiles hide: two modes, a cache that fills, a few delays that are a thousand
//! times longer and occur every ten seconds. Colours follow the logarithm of the count, so that
//! rare delays are visible. Each cell shows its count as a tooltip.

use super::heat_svg::{self, colour};
use super::svg::Caption;
use crate::base::report::delay_map::{DelayMap, ROWS};
use std::io::{self, Write};

const LEFT: f64 = 92.0;
const TOP: f64 = 64.0;
const WIDTH: f64 = 1040.0;
const HEIGHT: f64 = 440.0;
const RIGHT: f64 = 28.0;
const BOTTOM: f64 = 96.0;

/// Minimum number of rows, so that delays of similar length do not fill the picture.
const ROWS_LEAST: usize = 12;

/// The lightest colour, as a share of the darkest: a single delay must be visible on white.
const FAINTEST: f64 = 0.22;

/// Minimum distance of two labels in pixels: horizontal and vertical.
const APART: (f64, f64) = (104.0, 16.0);

/// The part of a map that is shown.
struct MapWindow {
    columns: usize,
    column_ns: f64,
    rows: std::ops::Range<usize>,
}

impl MapWindow {
    fn x(&self, ns: f64) -> f64 {
        LEFT + ns / self.column_ns * WIDTH / self.columns as f64
    }

    fn y(&self, height: f64) -> f64 {
        TOP + HEIGHT - (height - self.rows.start as f64) * HEIGHT / self.rows.len() as f64
    }
}

/// Draws the map of a run of `length` nanoseconds.
///
/// # Errors
/// `out` cannot be written to.
pub fn write(
    map: &DelayMap,
    length: f64,
    caption: &Caption,
    out: &mut dyn Write,
) -> io::Result<()> {
    let frame = MapWindow {
        columns: ((length / map.grid().column_ns()).ceil() as usize)
            .max(map.grid().columns().len())
            .max(1),
        column_ns: map.grid().column_ns(),
        rows: rows(map),
    };
    let (width, height) = (LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM);
    let (middle, centre, bottom) = (width / 2.0, TOP + HEIGHT / 2.0, TOP + HEIGHT + 42.0);
    heat_svg::begin((width, height), caption, out)?;
    write!(
        out,
        "<text x=\"{middle}\" y=\"{bottom}\" fill=\"#666666\" text-anchor=\"middle\">\
         time since the start of the run</text>\n\
         <text transform=\"translate(18 {centre}) rotate(-90)\" fill=\"#666666\" \
         text-anchor=\"middle\">delay</text>\n"
    )?;
    write_axes(&frame, out)?;
    write_cells(map, &frame, out)?;
    writeln!(
        out,
        "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" \
         stroke=\"#999999\"/>"
    )?;
    write_legend(map, out)?;
    out.write_all(b"</svg>\n")
}

/// Returns the rows that are not empty, and a margin around them.
fn rows(map: &DelayMap) -> std::ops::Range<usize> {
    let used = |row: &usize| {
        map.grid().columns().iter().any(|rows| rows.get(*row).is_some_and(|n| *n > 0))
    };
    let first = (0..ROWS).find(used).unwrap_or(40).saturating_sub(1);
    let last = (0..ROWS).rev().find(used).unwrap_or(first) + 2;
    let missing = ROWS_LEAST.saturating_sub(last - first);
    first.saturating_sub(missing / 2)..last + missing.div_ceil(2)
}

fn write_cells(map: &DelayMap, frame: &MapWindow, out: &mut dyn Write) -> io::Result<()> {
    let most = map.grid().most();
    let (wide, high) = (WIDTH / frame.columns as f64, HEIGHT / frame.rows.len() as f64);
    out.write_all(b"<g shape-rendering=\"crispEdges\">\n")?;
    for (column, row, count) in map.grid().cells() {
        let begin = column as f64 * frame.column_ns;
        let title = format!(
            "{} to {}, {} to {}: {count}",
            label(begin),
            label(begin + frame.column_ns),
            label(DelayMap::least(row)),
            label(DelayMap::least(row + 1)),
        );
        let at = (frame.x(begin), frame.y(row as f64 + 1.0));
        heat_svg::write_cell(at, (wide, high), &shade(count, most), &title, out)?;
    }
    out.write_all(b"</g>\n")
}

fn write_axes(frame: &MapWindow, out: &mut dyn Write) -> io::Result<()> {
    let (right, bottom) = (LEFT + WIDTH, TOP + HEIGHT);
    let octave = frame.y(0.0) - frame.y(DelayMap::height(2.0));
    let every = if octave >= APART.1 { 1 } else { 3 }; // 1, 2 and 5, or powers of ten
    for delay in round_numbers(0, 14).step_by(every) {
        let y = frame.y(DelayMap::height(delay));
        if (TOP..=bottom).contains(&y) {
            writeln!(
                out,
                "<line x1=\"{LEFT}\" y1=\"{y:.2}\" x2=\"{right}\" y2=\"{y:.2}\" \
                 stroke=\"#e8e8e8\"/>\
                 <text x=\"{}\" y=\"{:.2}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                label(delay)
            )?;
        }
    }
    let length = frame.columns as f64 * frame.column_ns;
    let step = round_numbers(3, 18).find(|step| step / length * WIDTH >= APART.0).unwrap_or(length);
    let mut time = 0.0;
    while time <= length {
        heat_svg::write_time(frame.x(time), bottom, &label(time), out)?;
        time += step;
    }
    Ok(())
}

fn write_legend(map: &DelayMap, out: &mut dyn Write) -> io::Result<()> {
    let most = map.grid().most();
    let count = |step: u32| f64::from(most).powf(f64::from(step) / 9.0) as u32;
    let unit = format!("delays per {} of time", label(map.grid().column_ns()));
    let at = (LEFT + 300.0, TOP + HEIGHT + 66.0);
    heat_svg::write_legend(at, &unit, most, |step| shade(count(step), most), out)
}

/// Returns the colour of a count, by its logarithm.
fn shade(count: u32, most: u32) -> String {
    let log = |count: u32| f64::from(count.max(1)).ln();
    let share = if most > 1 { log(count) / log(most) } else { 0.5 };
    colour(FAINTEST + (1.0 - FAINTEST) * share)
}

/// Returns 1, 2 and 5 times each power of ten, from `10^first` to below `10^last`.
fn round_numbers(first: i32, last: i32) -> impl Iterator<Item = f64> {
    (first..last).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)))
}

/// Formats a time with its unit: `20 us`, `1.5 s`.
fn label(ns: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let (size, unit) = UNITS.into_iter().find(|unit| ns >= unit.0).unwrap_or((1.0, "ns"));
    if ns < 1.0 {
        return "0".to_owned();
    }
    let text = format!("{:.3}", ns / size);
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(map: &DelayMap, length: f64) -> String {
        let caption = Caption { title: "multi-trace <x>".into(), subtitle: "3 lost".into() };
        let mut out = Vec::new();
        write(map, length, &caption, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn cells_have_their_time_delay_and_count_as_title() {
        let mut map = DelayMap::default();
        for (time, delay) in [(5e6, 1100.0), (5.1e6, 1200.0), (80e6, 3e7)] {
            assert!(map.add(time, delay));
        }
        let svg = picture(&map, 100e6);
        for text in [
            "<title>5 ms to 6 ms, 1.024 us to 1.218 us: 2</title>",
            "<title>80 ms to 81 ms, 28.216 ms to 33.554 ms: 1</title>",
            ">10 us</text>",
            ">100 ms</text>",
            "multi-trace &lt;x&gt;",
        ] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert_eq!(svg.matches("<title>").count(), 2);
    }

    #[test]
    fn empty_and_long_maps_are_drawn() {
        assert!(picture(&DelayMap::default(), 0.0).ends_with("</svg>\n"));
        let mut map = DelayMap::default();
        (0..100_000).for_each(|i| assert!(map.add(f64::from(i) * 1e9, f64::from(i))));
        let svg = picture(&map, 1e14);
        assert!(
            svg.matches("<title>").count() > 256 && svg.contains(">100000 s</text>"),
            "{}",
            svg.len()
        );
    }

    #[test]
    fn a_count_of_one_is_visible_and_more_is_darker() {
        assert_eq!(shade(9, 9), colour(1.0));
        assert_ne!(shade(1, 1000), colour(0.0));
        assert_ne!(shade(1, 1000), shade(30, 1000));
    }
}
