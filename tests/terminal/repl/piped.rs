//! A session whose lines come from a pipe, and calls that it can count.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use crate::pty::PATIENCE;

/// A session whose lines this test writes.
pub(crate) struct Session {
    pub(crate) child: Child,
    input: ChildStdin,
    output: BufReader<PipeReader>,
}

impl Session {
    pub(crate) fn begin(words: &[&str]) -> Session {
        Session::with(words, Stdio::inherit(), std::io::pipe().expect("a pipe"))
    }

    /// Starts a session whose messages are part of its answers.
    pub(crate) fn heard(words: &[&str]) -> Session {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let messages = writer.try_clone().expect("a descriptor can be doubled").into();
        Session::with(words, messages, (reader, writer))
    }

    fn with(
        words: &[&str],
        messages: Stdio,
        (reader, writer): (PipeReader, PipeWriter),
    ) -> Session {
        let mut command = super::prompt();
        command.args(words).stdout(writer).stderr(messages);
        let mut child = command.spawn().expect("the built command runs");
        let input = child.stdin.take().expect("it was piped");
        Session { child, input, output: BufReader::new(reader) }
    }

    /// Returns the number of its open events, including its rings.
    pub(crate) fn events(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("it runs");
        let links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
        links.filter(|link| link.to_string_lossy().contains("perf_event")).count()
    }

    /// Returns what a line prints on stdout.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        const MARK: &str = "-- next --";
        writeln!(self.input, "{line}\nprint \"{MARK}\"").expect("lines can be sent");
        let mut answer = String::new();
        loop {
            let mut text = String::new();
            let read = self.output.read_line(&mut text).expect("text comes back");
            if read == 0 || text.trim_end() == MARK {
                return answer.trim_end().to_owned();
            }
            answer.push_str(&text);
        }
    }

    /// Repeats the line until it prints `wanted`: events are handled within the time of a drain.
    pub(crate) fn reaches(&mut self, line: &str, wanted: u64) {
        let since = Instant::now();
        loop {
            let answer = self.ask(line);
            if answer == wanted.to_string() {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{line} is {answer}, not {wanted}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn end(mut self) -> i32 {
        drop(self.input);
        self.child.wait().expect("our own child can be waited for").code().unwrap_or(-1)
    }
}

/// File descriptors that are not open in any process: ten for each test, because tests run in
/// parallel.
pub(crate) const NO_FILES: [i32; 14] = [
    1_000_000, 1_000_010, 1_000_020, 1_000_030, 1_000_040, 1_000_050, 1_000_060, 1_000_070,
    1_000_080, 1_000_090, 1_000_100, 1_000_110, 1_000_120, 1_000_130,
];

pub(crate) fn close_in_vain(number: i32, times: u32) {
    for _ in 0..times {
        // SAFETY: the descriptor does not exist, so nothing is closed.
        unsafe { libc::close(number) };
    }
}

/// Returns a handler that adds to `n` for each call that closes one of ten descriptors.
pub(crate) fn counting(first: i32, add: u32) -> String {
    format!("function(e) if e.fd >= {first} and e.fd < {first} + 10 then n = n + {add} end end")
}
