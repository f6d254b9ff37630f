//! Pressure stall information: how much tasks wait for a resource.
//!
//! See Documentation/accounting/psi.rst of the kernel.

use std::io;

/// A line of `/proc/pressure/RESOURCE`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    /// Share of the last 10, 60 and 300 s in percent; the kernel updates them every 2 s.
    pub averages: [f64; 3],
    /// Microseconds since boot.
    pub total_us: u64,
}

/// The time in which tasks were stalled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// At least one task was stalled. For `irq`, which has no such line, the same as `full`.
    pub some: Stall,
    /// All tasks that were not idle were stalled. None for `cpu` before Linux 5.13.
    pub full: Option<Stall>,
}

/// The resources that the kernel knows.
const RESOURCES: [&str; 4] = ["cpu", "memory", "io", "irq"];

/// Returns the pressure of a resource: `cpu`, `memory`, `io` or `irq`.
///
/// # Errors
/// The kernel has no such resource, or was started without pressure stall information (`psi=1`).
pub fn pressure(resource: &str) -> io::Result<Pressure> {
    if !RESOURCES.contains(&resource) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let text = std::fs::read_to_string(format!("/proc/pressure/{resource}"))?;
    parse(&text).ok_or_else(|| io::Error::other(format!("failed to parse '{text}'")))
}

/// Parses the lines `some …` and `full …`; None without either one.
fn parse(text: &str) -> Option<Pressure> {
    let line = |kind: &str| text.lines().find_map(|line| stall(line.strip_prefix(kind)?));
    let (some, full) = (line("some "), line("full "));
    // The resource `irq` has no line `some`.
    Some(Pressure { some: some.or(full)?, full })
}

/// Parses `avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn stall(line: &str) -> Option<Stall> {
    let value = |name: &str| {
        let field = line.split_whitespace().find_map(|field| field.strip_prefix(name));
        field.and_then(|field| field.strip_prefix('='))
    };
    let average = |name: &str| value(name)?.parse().ok();
    Some(Stall {
        averages: [average("avg10")?, average("avg60")?, average("avg300")?],
        total_us: value("total")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lines_are_parsed() {
        let text = "some avg10=1.53 avg60=0.87 avg300=0.25 total=34521\n\
            full avg10=0.00 avg60=0.13 avg300=0.07 total=17\n";
        let some = Stall { averages: [1.53, 0.87, 0.25], total_us: 34521 };
        let full = Stall { averages: [0.0, 0.13, 0.07], total_us: 17 };
        assert_eq!(parse(text), Some(Pressure { some, full: Some(full) }));
        assert_eq!(
            parse("some avg10=1.53 avg60=0.87 avg300=0.25 total=34521\n").unwrap().full,
            None
        );
        assert_eq!(parse("some avg10=x"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn only_resources_are_read() {
        assert_eq!(pressure("../version").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
