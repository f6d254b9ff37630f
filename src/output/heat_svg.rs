//! Common parts of both heat maps as SVG: the beginning of the picture, cells, labels of the time
//! axis, the legend, the colours.

use super::svg::{Caption, xml};
use std::io::{self, Write};

/// Begins a picture of this width and height: white, with the caption at the top.
///
/// # Errors
/// `out` cannot be written to.
pub(super) fn begin(
    (width, height): (f64, f64),
    caption: &Caption,
    out: &mut dyn Write,
) -> io::Result<()> {
    let middle = (width / 2.0).floor();
    let (title, subtitle) = (xml(&caption.title), xml(&caption.subtitle));
    write!(
        out,
        "<?xml version=\"1.0\" standalone=\"no\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{middle}\" y=\"26\" font-size=\"17\" text-anchor=\"middle\">{title}</text>\n\
         <text x=\"{middle}\" y=\"46\" fill=\"#666666\" text-anchor=\"middle\">{subtitle}</text>\n"
    )
}

/// Writes a cell: its corner and size in pixels, its colour, and its tooltip.
///
/// # Errors
/// `out` cannot be written to.
pub(super) fn write_cell(
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    fill: &str,
    title: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(
        out,
        "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" \
         fill=\"{fill}\"><title>{title}</title></rect>"
    )
}

/// Writes a label of the time axis below `bottom`, and the line from the axis to it.
///
/// # Errors
/// `out` cannot be written to.
pub(super) fn write_time(x: f64, bottom: f64, label: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<line x1=\"{x:.2}\" y1=\"{bottom}\" x2=\"{x:.2}\" y2=\"{}\" stroke=\"#999999\"/>\
         <text x=\"{x:.2}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
        bottom + 5.0,
        bottom + 20.0
    )
}

/// Writes the colours from 1 to the largest count, and what they count: `events per 20ms`.
/// `colour` returns that of a share of the scale, 0 to 9.
///
/// # Errors
/// `out` cannot be written to.
pub(super) fn write_legend(
    (x, y): (f64, f64),
    unit: &str,
    most: u32,
    colour: impl Fn(u32) -> String,
    out: &mut dyn Write,
) -> io::Result<()> {
    let bottom = y + 10.0;
    write!(out, "<text x=\"{}\" y=\"{bottom}\" text-anchor=\"end\">{unit}: 1</text>", x - 8.0)?;
    for step in 0..10u32 {
        let (x, fill) = (x + f64::from(step) * 16.0, colour(step));
        write!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"16\" height=\"12\" fill=\"{fill}\"/>")?;
    }
    writeln!(out, "<text x=\"{}\" y=\"{bottom}\">{most}</text>", x + 168.0)
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
