//! The built command, run with `--json` while a workload does its work, and what it printed.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use serde_json::Value;

/// How long the command may take to attach, and to end once it is interrupted.
const PATIENCE: Duration = Duration::from_secs(20);

/// The command, attached to its events.
pub(crate) struct Tool {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    /// How many lines of stdout there are so far.
    lines: Arc<AtomicUsize>,
    stderr: Receiver<String>,
    said: Vec<String>,
}

/// What a run has printed.
pub(crate) struct Run {
    /// The objects of stdout, one a line.
    pub(crate) objects: Vec<Value>,
    /// stderr.
    pub(crate) stderr: String,
    /// The exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
}

impl Tool {
    /// Starts `perilune ARGS… --json`, and returns when its events are enabled.
    pub(crate) fn attach(args: &[&str]) -> Tool {
        Tool::attach_plain(&[args, &["--json"]].concat())
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The same without `--json`.
    pub(crate) fn attach_plain(args: &[&str]) -> Tool {
        let mut child = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the built command runs");
        let mut out = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let err = child.stderr.take().expect("stderr is piped");
        let lines = Arc::new(AtomicUsize::new(0));
        let counted = lines.clone();
        let stdout = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // A failing read ends the text, which the test then finds wrong.
            while out.read_until(b'\n', &mut bytes).is_ok_and(|got| got > 0) {
                counted.fetch_add(1, Relaxed);
            }
            String::from_utf8(bytes).expect("JSON is UTF-8")
        });
        let (told, stderr) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                if told.send(line).is_err() {
                    break;
                }
            }
        });
        let mut tool = Tool { child, stdout: Some(stdout), lines, stderr, said: Vec::new() };
        tool.wait_until_attached(args);
        tool
    }

    /// Waits until it has printed so many lines.
    pub(crate) fn wait_for_lines(&self, wanted: usize) {
        let since = Instant::now();
        while self.lines.load(Relaxed) < wanted {
            assert!(since.elapsed() < PATIENCE, "it has not printed {wanted} lines after 20 s");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn wait_until_attached(&mut self, args: &[&str]) {
        let since = Instant::now();
        loop {
            match self.stderr.recv_timeout(PATIENCE.saturating_sub(since.elapsed())) {
                Ok(line) => {
                    let attached = line.starts_with("perilune: ") && line.contains("watching");
                    self.said.push(line);
                    if attached {
                        return;
                    }
                }
                Err(why) => {
                    let what = match why {
                        RecvTimeoutError::Timeout => "is not watching after 20 s",
                        RecvTimeoutError::Disconnected => "ended before it watched",
                    };
                    panic!("`perilune {}` {what}; it said: {:?}", args.join(" "), self.said);
                }
            }
        }
    }

    /// Interrupts the command as Ctrl-C does, and returns what it printed.
    pub(crate) fn finish(mut self) -> Run {
        self.interrupt();
        let (text, code) = self.wait();
        let object = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|e| panic!("not JSON: {e}: {line}"))
        };
        let mut said = std::mem::take(&mut self.said);
        said.extend(self.stderr.iter());
        Run { objects: text.lines().map(object).collect(), stderr: said.join("\n"), code }
    }

    /// The same of a run without `--json`: its stdout, and the exit code.
    pub(crate) fn finish_text(mut self) -> (String, Option<i32>) {
        self.interrupt();
        self.wait()
    }

    /// Waits for a run that ends by itself.
    pub(crate) fn finish_by_itself(mut self) -> (String, Option<i32>) {
        self.wait()
    }

    fn interrupt(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            crate::load::interrupt(self.child.id());
        }
    }

    /// Everything on stdout, and the exit code.
    fn wait(&mut self) -> (String, Option<i32>) {
        let since = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our own child can be waited for") {
                break status;
            }
            assert!(since.elapsed() < PATIENCE, "still running 20 s after the interrupt");
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = self.stdout.take().map(JoinHandle::join);
        let text = text.and_then(Result::ok).expect("stdout was read to its end");
        (text, status.code())
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // After `finish` both say that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Run {
    /// The objects of a type.
    pub(crate) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |o| o["type"] == kind)
    }

    /// The events of that process.
    pub(crate) fn events_of(&self, pid: u32) -> Vec<&Value> {
        self.of("event").filter(|e| e["pid"] == pid).collect()
    }

    /// The sum of a column over the rows whose `key` is `value`: rows begin anew with each interval.
    pub(crate) fn sum(&self, column: &str, key: &str, value: impl Into<Value>) -> u64 {
        let value = value.into();
        let rows = self.of("row").filter(|row| row[key] == value);
        rows.map(|row| row[column].as_u64().unwrap_or_default()).sum()
    }

    /// The coverage of the whole run.
    pub(crate) fn coverage(&self) -> &Value {
        let last = self.of("coverage").find(|c| c["final"] == true);
        last.unwrap_or_else(|| panic!("no final coverage; stderr: {}", self.stderr))
    }

    /// Fails unless the run ended well and missed nothing.
    pub(crate) fn is_complete(&self) {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        for problem in ["lost", "undecodable", "errors"] {
            assert_eq!(self.coverage()[problem], 0, "{problem}: {}", self.coverage());
        }
    }
}
