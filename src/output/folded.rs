//! Folded stacks: one line per stack with its frames, root first and separated by `;`, then a blank
//! and its weight.
//!
//! flamegraph.pl and similar tools read this format. The lines are sorted and each stack has one
//! line. In a run with intervals, a line begins with the start of the interval as two frames,
//! `2026-11-21;15:46:33;…`, so that `grep 15:46:33` selects that interval.

use crate::base::report::flame::{Flame, FrameKind};
use crate::base::text::digits;
use jiff::tz::TimeZone;
use std::io::{self, BufRead, Write};

use super::wall::Wall;

/// Writes merged stacks.
///
/// # Errors
/// `out` cannot be written to.
pub fn write(flame: &Flame, out: &mut dyn Write) -> io::Result<()> {
    let mut line = Vec::with_capacity(1 << 16);
    for (frames, weight) in flame.stacks() {
        for (i, number) in frames.iter().enumerate() {
            if i > 0 {
                line.push(b';');
            }
            line.extend_from_slice(flame.name_of(*number).as_bytes());
        }
        line.push(b' ');
        digits::push_u64(&mut line, weight);
        line.push(b'\n');
        if line.len() > 1 << 15 {
            out.write_all(&line)?;
            line.clear();
        }
    }
    out.write_all(&line)
}

/// Reads what [`write()`] or another tool wrote. A line without a weight is skipped and counted.
///
/// # Errors
/// `from` cannot be read.
pub fn read(from: impl BufRead) -> io::Result<(Flame, usize)> {
    let (mut flame, mut wrong) = (Flame::default(), 0);
    for line in from.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.rsplit_once(' ').and_then(|(stack, weight)| Some((stack, weight.parse().ok()?)))
        {
            Some((stack, weight)) => {
                let frames: Vec<u32> = stack
                    .trim_end()
                    .split(';')
                    .map(|name| flame.name(name, FrameKind::Plain))
                    .collect();
                flame.push(&frames, weight);
            }
            None => wrong += 1,
        }
    }
    flame.merge_equal();
    Ok((flame, wrong))
}

/// Returns the two frames of a time: its date and its time of day.
pub fn time_frames(zone: &TimeZone, wall_ns: i64) -> (String, String) {
    let (mut wall, mut text) = (Wall::new(zone.clone(), ' '), Vec::new());
    wall.push(&mut text, wall_ns);
    let text = String::from_utf8_lossy(&text);
    let (date, time) = text.split_once(' ').unwrap_or((&text, ""));
    let seconds = time.split_once('.').map_or(time, |(seconds, _)| seconds);
    (date.to_owned(), seconds.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_stacks_round_trip() {
        let text =
            "bash;main;operator new(unsigned long) 3\nnginx: worker;poll 18446744073709551615\n";
        let (flame, wrong) = read(text.as_bytes()).unwrap();
        let mut written = Vec::new();
        write(&flame, &mut written).unwrap();
        assert_eq!((String::from_utf8(written).unwrap().as_str(), wrong), (text, 0));
    }

    #[test]
    fn equal_lines_are_summed_and_lines_without_a_weight_counted() {
        let (flame, wrong) =
            read(&b"# x\nb;c 1\na 2\nb;c 4\n\nnonsense\nx 1.5\n\xff 1"[..]).unwrap();
        let mut written = Vec::new();
        write(&flame, &mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), "a 2\nb;c 5\n\u{fffd} 1\n");
        assert_eq!(wrong, 2);
    }
}
