//! `monitors`: lists all monitors, their purpose and their origin.

use std::io::{self, Write};

use super::runtime::Runtime;

/// Writes a line for each monitor. A monitor that does not load is listed with its error.
///
/// # Errors
/// The output cannot be written.
pub fn write(runtime: &mut dyn Runtime, out: &mut dyn Write) -> io::Result<()> {
    let lines: Vec<(String, String, String)> = runtime
        .monitors()
        .into_iter()
        .map(|name| {
            let (summary, origin) = described(&name, runtime);
            (name, summary, origin)
        })
        .collect();
    let width = |text: fn(&(String, String, String)) -> &str| {
        lines.iter().map(|line| text(line).chars().count()).max().unwrap_or(0)
    };
    let (names, summaries) = (width(|l| &l.0), width(|l| &l.1));
    for (name, summary, origin) in &lines {
        let line = format!("{name:names$}  {summary:summaries$}  {origin}");
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Returns a monitor's summary and origin; if it does not load, the first line of its error, and no
/// origin.
pub(super) fn described(name: &str, runtime: &mut dyn Runtime) -> (String, String) {
    match runtime.load(name) {
        Ok(Some(monitor)) => (monitor.summary, monitor.origin),
        Ok(None) => ("no longer exists".to_owned(), String::new()),
        Err(error) => {
            let text = format!("{error:#}");
            (format!("does not load: {}", text.lines().next().unwrap_or_default()), String::new())
        }
    }
}
