//! The stacks of getppid as printed by the command.

use std::process::{Command, Stdio};

/// A printed frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// The name; empty if there is none.
    pub(crate) symbol: String,
    pub(crate) offset: u64,
    pub(crate) dso: String,
    /// The text behind `at`.
    pub(crate) line: String,
}

/// A run, and the stack of each printed event, innermost frame first.
pub(crate) struct Watched {
    pub(crate) stacks: Vec<Vec<Frame>>,
    pub(crate) printed: String,
}

impl Watched {
    /// Watches the getppid calls of a command.
    pub(crate) fn run(options: &[&str], workload: &[&str]) -> Watched {
        let event = "syscalls:sys_enter_getppid//stack/";
        Watched::by(&["trace", "-e", event], options, workload)
    }

    /// Watches a command with a monitor and its options.
    pub(crate) fn by(monitor: &[&str], options: &[&str], workload: &[&str]) -> Watched {
        let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .args(monitor)
            .args(["--order", "--duration", "120s"])
            .args(options)
            .args(if workload.is_empty() { &[][..] } else { &["--"] })
            .args(workload)
            .stdin(Stdio::null())
            .output()
            .expect("the built command runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{stderr}");
        let mut events: Vec<(&str, Vec<Frame>)> = Vec::new();
        for line in stdout.lines() {
            match (line.starts_with("    "), events.last_mut()) {
                (true, Some((_, stack))) => stack.push(frame(line.trim())),
                // The task's name follows date and time; lines that are not events are the
                // coverage.
                _ => match line.split_whitespace().nth(2) {
                    Some(comm) if line.starts_with("20") => events.push((comm, Vec::new())),
                    _ => {}
                },
            }
        }
        // The shell calls getppid, too.
        let stacks = events.into_iter().filter(|(comm, _)| *comm != "sh").map(|(_, s)| s).collect();
        Watched { stacks, printed: format!("{stdout}\n{stderr}") }
    }

    /// Returns the names of each stack, up to and including `main`.
    pub(crate) fn names(&self) -> Vec<Vec<&str>> {
        self.stacks.iter().map(|stack| until_main(stack)).collect()
    }

    /// Checks that there are exactly `count` stacks, all with exactly these names.
    pub(crate) fn is_only(&self, names: &[&str], count: usize) {
        let all = self.names();
        let begin: String = self.printed.chars().take(2000).collect();
        assert_eq!(all.len(), count, "{begin}");
        for stack in all {
            assert_eq!(stack, names, "{begin}");
        }
    }

    /// Returns how many stacks have exactly these names.
    pub(crate) fn count(&self, names: &[&str]) -> usize {
        self.names().iter().filter(|stack| *stack == names).count()
    }
}

fn until_main(stack: &[Frame]) -> Vec<&str> {
    let is_main = |f: &Frame| f.symbol == "main" || f.symbol.ends_with("::main");
    let end = stack.iter().position(is_main).map_or(stack.len(), |at| at + 1);
    stack[..end].iter().map(|f| f.symbol.as_str()).collect()
}

/// Parses `ADDRESS[ SYMBOL+OFFSET][ (DSO)][ at LINE]`.
fn frame(line: &str) -> Frame {
    let (rest, line) = line.rsplit_once(" at /").map_or((line, ""), |(rest, line)| (rest, line));
    let (rest, dso) = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")) {
        Some((rest, dso)) => (rest, dso),
        None => (rest, ""),
    };
    let (_, named) = rest.split_once(' ').unwrap_or((rest, ""));
    let (symbol, offset) = named.rsplit_once("+0x").unwrap_or((named, "0"));
    Frame {
        symbol: symbol.to_owned(),
        offset: u64::from_str_radix(offset, 16).unwrap_or(0),
        dso: dso.to_owned(),
        line: line.to_owned(),
    }
}
