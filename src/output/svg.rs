//! Flame graphs as pictures: SVG that a browser searches and zooms, drawn by inferno.
//!
//! Colours tell whose code a frame is: orange the kernel's, aqua what was inlined, yellow C++ and Rust, green Java (and, as inferno
//! tells by the name, whatever else has a `/` or a dot in it), red the rest. Of a
//! difference, red is what grew and blue what shrank. A frame too narrow to be seen is left out before it is drawn, so
//! a picture takes time for what it shows and not for what was measured.

use super::folded::time_frames;
use super::text::push_problems;
use crate::base::coverage::Coverage;
use crate::base::draw::Stamp;
use crate::base::flame::{Flame, Mark};
use crate::base::units::human_ns;
use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use jiff::tz::TimeZone;
use std::fmt::Write as _;
use std::io::{self, Write};

/// A frame that has less than this share of the whole is not drawn: an eighth of a pixel.
const SEEN: u64 = 10_000;

/// Words around a picture.
#[derive(Clone, Debug, Default)]
pub struct Caption {
    /// Over it: what was measured.
    pub title: String,
    /// Below that: when, how much, and what is missing.
    pub subtitle: String,
}

impl Caption {
    /// `profile: cpu-clock` over `2026-11-21 15:46:33 to 15:48:33, 12000 samples; 312 lost`.
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
        // That tasks end inside of something is life, not a gap.
        let problems = Coverage { exited: 0, ..*coverage };
        if !problems.is_perfect() {
            subtitle.extend_from_slice(b"; coverage: ");
            push_problems(&mut subtitle, &problems.problems());
        }
        let title = match title {
            "" => format!("{monitor}: {unit}"),
            title => format!("{monitor}: {title}"),
        };
        Caption { title, subtitle: String::from_utf8_lossy(&subtitle).into_owned() }
    }
}

/// So much of a unit, as read: `12000 samples`, `49.157s in all`.
pub fn amount(total: u64, unit: &str) -> String {
    match unit {
        "ns" => format!("{} in all", human_ns(total)),
        unit => format!("{total} {unit}"),
    }
}

/// Draws settled stacks; without any, a picture that says so.
///
/// # Errors
/// The writer's.
pub fn write(flame: &Flame, caption: &Caption, out: &mut dyn Write) -> io::Result<()> {
    if flame.total() == 0 {
        return write_nothing(caption, out);
    }
    let mut seen = flame.clone();
    seen.prune(flame.total() / SEEN);
    let mut lines: Vec<String> =
        seen.stacks().map(|(stack, weight)| line(&seen, stack, weight)).collect();
    lines.sort_unstable();
    draw(&lines, flame, caption, out)
}

/// Draws how settled stacks differ from those of before: as wide as they are now, coloured by what changed. Before that
/// the older ones are scaled to the same total, so that a longer run is no growth everywhere.
///
/// # Errors
/// The writer's.
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

/// A line for inferno, which takes the colours from marks behind the names and does not show them. What would be such a mark
/// in a name, or the first of two weights, is made to look the same and be none.
fn line(flame: &Flame, stack: &[u32], weight: u64) -> String {
    let mut line = String::new();
    for (i, number) in stack.iter().enumerate() {
        if i > 0 {
            line.push(';');
        }
        let (name, mark) = (flame.name_of(*number), flame.mark_of(*number));
        match name.rsplit_once("_[") {
            Some((name, rest)) if mark == Mark::Plain && rest.ends_with(']') => {
                line.extend([name, "_\u{2060}[", rest]);
            }
            _ => line.push_str(name),
        }
        line.push_str(match mark {
            Mark::Plain => "",
            Mark::Kernel => "_[k]",
            Mark::Inlined => "_[i]",
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
    // Of its height: that of DejaVu Sans Mono. With inferno's own, names stand out of their frames where no browser cuts them.
    options.font_width = 0.61;
    options.text_truncate_direction = TextTruncateDirection::Right;
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out)
}

fn write_nothing(caption: &Caption, out: &mut dyn Write) -> io::Result<()> {
    let (title, subtitle) = (xml(&caption.title), xml(&caption.subtitle));
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"90\" font-family=\"monospace\">\
         <rect width=\"100%\" height=\"100%\" fill=\"#eeeeee\"/>\
         <text x=\"600\" y=\"30\" font-size=\"17\" text-anchor=\"middle\">{title}</text>\
         <text x=\"600\" y=\"54\" font-size=\"12\" fill=\"#666666\" text-anchor=\"middle\">{subtitle}</text>\
         <text x=\"600\" y=\"76\" font-size=\"12\" text-anchor=\"middle\">no stack was taken</text></svg>"
    )
}

/// Text that is safe between the tags and in the attributes of a picture.
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

    fn flame(stacks: &[(&[(&str, Mark)], u64)]) -> Flame {
        let mut flame = Flame::new("", "samples");
        for (frames, weight) in stacks {
            let frames: Vec<u32> =
                frames.iter().map(|(name, mark)| flame.name(name, *mark)).collect();
            flame.push(&frames, *weight);
        }
        flame.settle();
        flame
    }

    fn picture(draw: impl FnOnce(&Caption, &mut dyn Write) -> io::Result<()>) -> String {
        let caption = Caption { title: "signal <g>".into(), subtitle: "coverage: 3 lost".into() };
        let mut out = Vec::new();
        draw(&caption, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    const NGINX: (&str, Mark) = ("nginx", Mark::Plain);
    const POLL: (&str, Mark) = ("do_poll", Mark::Kernel);

    #[test]
    fn a_picture_has_its_caption_its_frames_and_no_marks() {
        let flame = flame(&[(&[NGINX, POLL], 3), (&[NGINX, ("new<int>", Mark::Inlined)], 1)]);
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
    fn a_difference_says_how_much_changed() {
        let before = flame(&[(&[NGINX, POLL], 1), (&[NGINX], 1)]);
        let after = flame(&[(&[NGINX, POLL], 6), (&[NGINX], 2)]);
        let svg = picture(|caption, out| write_difference(&before, &after, caption, out));
        assert!(svg.contains("do_poll (6 samples, 75.00%; +25.00%)"), "{svg}");
    }

    #[test]
    fn without_stacks_the_picture_says_so() {
        let svg = picture(|caption, out| write(&Flame::default(), caption, out));
        assert!(svg.contains("no stack was taken") && svg.contains("signal &lt;g&gt;"));
    }

    #[test]
    fn a_name_that_ends_in_a_number_is_no_difference() {
        let flame = flame(&[(&[NGINX, ("spinner 99", Mark::Plain)], 3), (&[NGINX, POLL], 1)]);
        let svg = picture(|caption, out| write(&flame, caption, out));
        assert!(svg.contains("spinner\u{a0}99 (3 samples, 75.00%)"), "{svg}");
        assert!(svg.contains("do_poll (1 samples, 25.00%)"), "{svg}");
    }

    #[test]
    fn a_name_does_not_choose_its_colour() {
        for name in ["a_[k]", "a_[i]", "a_[j]"] {
            let flame = flame(&[(&[(name, Mark::Plain)], 1)]);
            let svg = picture(|caption, out| write(&flame, caption, out));
            let shown = name.replace('[', "\u{2060}[");
            let (_, frame) = svg.split_once(&format!("{shown} (1 samples, 100.00%)")).unwrap();
            let (_, colour) = frame.split_once("fill=\"rgb(").unwrap();
            let colour: Vec<&str> = colour.split([',', ')']).take(3).collect();
            // Red has as much green as blue; orange, aqua and green have not.
            assert_eq!(colour[1], colour[2], "{name}: {colour:?}");
        }
    }
}
