//! Flame graphs as SVG that a browser can search and zoom, drawn by inferno.
//!
//! Colours show the origin of a frame: orange the kernel, aqua inlined functions, yellow C++ and
//! Rust, green Java (and, because inferno decides by the name, any name with a `/` or a dot), red
//! everything else. In a difference, red frames grew and blue ones shrank. Frames too narrow to be
//! seen are removed before drawing, so the time to draw depends on what is shown, not on what was
//! measured.

use super::folded::time_frames;
use super::text::push_problems;
use crate::base::report::coverage::Coverage;
use crate::base::report::draw::Stamp;
use crate::base::report::flame::{Flame, FrameKind};
use crate::base::text::units::human_ns;
use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use jiff::tz::TimeZone;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Frames with less than the total divided by this are not drawn: an eighth of a pixel.
const VISIBLE_PARTS: u64 = 10_000;

/// The texts of a picture.
#[derive(Clone, Debug, Default)]
pub struct Caption {
    /// Title: what was measured.
    pub title: String,
    /// Subtitle: when, how much, and what is missing.
    pub subtitle: String,
}

impl Caption {
    /// Returns a caption, such as the title `profile: cpu-clock` and the subtitle
    /// `2026-11-21 15:46:33 to 15:48:33, 12000 samples; coverage: 312 lost`.
    pub fn of(
        monitor: &str,
        (title, unit): (&str, &str),
        total: u64,
        (begin, end): (Stamp, Stamp),
        zone: &TimeZone,
        coverage: &Coverage,
    ) -> Caption {
        let (date, from) = time_frames(zone, begin.wall_ns);
        let (last_date, to) = time_frames(zone, end.wall_ns);
        let to = if date == last_date { to } else { format!("{last_date} {to}") };
        let mut subtitle = format!("{date} {from} to {to}, {}", amount(total, unit)).into_bytes();
        // Tasks that exit inside a state are normal, not a gap.
        let problems = Coverage { exited: 0, ..*coverage };
        if !problems.is_perfect() {
            subtitle.extend_from_slice(b"; coverage: ");
            push_problems(&mut subtitle, &problems.gaps());
        }
        let title = match title {
            "" => format!("{monitor}: {unit}"),
            title => format!("{monitor}: {title}"),
        };
        Caption { title, subtitle: String::from_utf8_lossy(&subtitle).into_owned() }
    }
}

/// Formats an amount of a unit: `12000 samples`, `49.157s in total`.
pub fn amount(total: u64, unit: &str) -> String {
    match unit {
        "ns" => format!("{} in total", human_ns(total)),
        unit => format!("{total} {unit}"),
    }
}

/// Draws merged stacks; without any, a picture with a message.
///
/// # Errors
/// `out` cannot be written to.
pub fn write(flame: &Flame, caption: &Caption, out: &mut dyn Write) -> io::Result<()> {
    if flame.total() == 0 {
        return write_nothing(caption, out);
    }
    let mut visible = flame.clone();
    visible.prune(flame.total() / VISIBLE_PARTS);
    let mut lines: Vec<String> =
        visible.stacks().map(|(stack, weight)| line(&visible, stack, weight)).collect();
    lines.sort_unstable();
    draw(&lines, flame, caption, out)
}

/// Draws the difference between merged stacks and earlier ones: widths are the current ones,
/// colours show the change. The earlier stacks are scaled to the same total first, so that a longer
/// run does not appear as growth everywhere.
///
/// # Errors
/// `out` cannot be written to.
pub fn write_difference(
    before: &Flame,
    flame: &Flame,
    caption: &Caption,
    out: &mut dyn Write,
) -> io::Result<()> {
    if flame.total() == 0 {
        return write_nothing(caption, out);
    }
    let (mut old, mut new) = (Vec::new(), Vec::new());
    super::folded::write(before, &mut old)?;
    super::folded::write(flame, &mut new)?;
    let mut lines = Vec::new();
    let options =
        inferno::differential::Options { normalize: before.total() > 0, ..Default::default() };
    inferno::differential::from_readers(options, &*old, &*new, &mut lines)?;
    let lines = String::from_utf8_lossy(&lines);
    let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    draw(&lines, flame, caption, out)
}

/// Returns a line for inferno, which takes colours from marks after the names and does not show
/// them. A name that contains such a mark, or ends in a number that would be read as the first of
/// two weights, is changed to look the same without being one.
fn line(flame: &Flame, stack: &[u32], weight: u64) -> String {
    let mut line = String::new();
    for (i, number) in stack.iter().enumerate() {
        if i > 0 {
            line.push(';');
        }
        let (name, mark) = (flame.name_of(*number), flame.mark_of(*number));
        match name.rsplit_once("_[") {
            Some((name, rest)) if mark == FrameKind::Plain && rest.ends_with(']') => {
                line.extend([name, "_\u{2060}[", rest]);
            }
            _ => line.push_str(name),
        }
        line.push_str(match mark {
            FrameKind::Plain => "",
            FrameKind::Kernel => "_[k]",
            FrameKind::Inlined => "_[i]",
        });
    }
    if let Some((name, last)) = line.rsplit_once(' ')
        && last.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        line = format!("{name}\u{a0}{last}");
    }
    // Writing to a String cannot fail.
    let _ = write!(line, " {weight}");
    line
}

fn draw(lines: &[String], flame: &Flame, caption: &Caption, out: &mut dyn Write) -> io::Result<()> {
    let mut options = Options::default();
    options.title.clone_from(&caption.title);
    options.subtitle = Some(caption.subtitle.clone()).filter(|text| !text.is_empty());
    options.count_name = if flame.unit.is_empty() { "samples".into() } else { flame.unit.clone() };
    options.colors = Palette::Multi(MultiPalette::Java);
    options.deterministic = true;
    options.image_width = Some(1200);
    // The width relative to the height, that of DejaVu Sans Mono. With inferno's default, names
    // extend beyond their frames in viewers that do not clip them.
    options.font_width = 0.61;
    options.text_truncate_direction = TextTruncateDirection::Right;
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out)
}

fn write_nothing(caption: &Caption, out: &mut dyn Write) -> io::Result<()> {
    let (title, subtitle) = (xml(&caption.title), xml(&caption.subtitle));
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"90\" \
         font-family=\"monospace\">\
         <rect width=\"100%\" height=\"100%\" fill=\"#eeeeee\"/>\
         <text x=\"600\" y=\"30\" font-size=\"17\" text-anchor=\"middle\">{title}</text>\
         <text x=\"600\" y=\"54\" font-size=\"12\" fill=\"#666666\" \
         text-anchor=\"middle\">{subtitle}</text>\
         <text x=\"600\" y=\"76\" font-size=\"12\" text-anchor=\"middle\">\
         no stack was recorded</text></svg>"
    )
}

/// Returns text that is safe between the tags and in the attributes of a picture.
pub(super) fn xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => safe.push('?'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flame(stacks: &[(&[(&str, FrameKind)], u64)]) -> Flame {
        let mut flame = Flame::new("", "samples");
        for (frames, weight) in stacks {
            let frames: Vec<u32> =
                frames.iter().map(|(name, mark)| flame.name(name, *mark)).collect();
            flame.push(&frames, *weight);
        }
        flame.merge_equal();
        flame
    }

    fn picture(draw: impl FnOnce(&Caption, &mut dyn Write) -> io::Result<()>) -> String {
        let caption = Caption { title: "signal <g>".into(), subtitle: "coverage: 3 lost".into() };
        let mut out = Vec::new();
        draw(&caption, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    const NGINX: (&str, FrameKind) = ("nginx", FrameKind::Plain);
    const POLL: (&str, FrameKind) = ("do_poll", FrameKind::Kernel);

    #[test]
    fn a_picture_has_its_caption_its_frames_and_no_marks() {
        let flame = flame(&[(&[NGINX, POLL], 3), (&[NGINX, ("new<int>", FrameKind::Inlined)], 1)]);
        let svg = picture(|caption, out| write(&flame, caption, out));
        for text in [
            "signal &lt;g&gt;",
            "coverage: 3 lost",
            "do_poll (3 samples, 75.00%)",
            "new&lt;int&gt; (1 samples, 25.00%)",
            "nginx (4 samples, 100.00%)",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(!svg.contains("_[k]") && !svg.contains("_[i]"));
    }

    #[test]
    fn a_difference_shows_the_change() {
        let before = flame(&[(&[NGINX, POLL], 1), (&[NGINX], 1)]);
        let after = flame(&[(&[NGINX, POLL], 6), (&[NGINX], 2)]);
        let svg = picture(|caption, out| write_difference(&before, &after, caption, out));
        assert!(svg.contains("do_poll (6 samples, 75.00%; +25.00%)"), "{svg}");
    }

    #[test]
    fn a_picture_without_stacks_has_a_message() {
        let svg = picture(|caption, out| write(&Flame::default(), caption, out));
        assert!(svg.contains("no stack was recorded") && svg.contains("signal &lt;g&gt;"));
    }

    #[test]
    fn a_name_that_ends_in_a_number_is_not_a_difference() {
        let flame = flame(&[(&[NGINX, ("spinner 99", FrameKind::Plain)], 3), (&[NGINX, POLL], 1)]);
        let svg = picture(|caption, out| write(&flame, caption, out));
        assert!(svg.contains("spinner\u{a0}99 (3 samples, 75.00%)"), "{svg}");
        assert!(svg.contains("do_poll (1 samples, 25.00%)"), "{svg}");
    }

    #[test]
    fn a_name_does_not_choose_its_colour() {
        for name in ["a_[k]", "a_[i]", "a_[j]"] {
            let flame = flame(&[(&[(name, FrameKind::Plain)], 1)]);
            let svg = picture(|caption, out| write(&flame, caption, out));
            let shown = name.replace('[', "\u{2060}[");
            let (_, frame) = svg.split_once(&format!("{shown} (1 samples, 100.00%)")).unwrap();
            let (_, colour) = frame.split_once("fill=\"rgb(").unwrap();
            let colour: Vec<&str> = colour.split([',', ')']).take(3).collect();
            // Red has equal green and blue parts; orange, aqua and green do not.
            assert_eq!(colour[1], colour[2], "{name}: {colour:?}");
        }
    }
}
