//! The built command, run with `--json` during a workload, and its output.

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

use crate::live::skip_anywhere;

/// Timeout for the command to attach, and to end after an interrupt.
const PATIENCE: Duration = Duration::from_secs(120);

/// The command, attached to its events.
pub(crate) struct Tool {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    /// Number of lines on stdout so far.
    lines: Arc<AtomicUsize>,
    stderr: Receiver<String>,
    said: Vec<String>,
}

/// Output of a run.
#[derive(Debug)]
pub(crate) struct Run {
    /// The objects on stdout, one per line.
    pub(crate) objects: Vec<Value>,
    /// The text on stderr.
    pub(crate) stderr: String,
    /// The exit code; None if a signal ended it.
    pub(crate) code: Option<i32>,
}

impl Tool {
    /// Starts `perilune ARGS… --json`, and returns when its events are enabled.
    pub(crate) fn attach(args: &[&str]) -> Tool {
        Tool::attach_plain(&[args, &["--json"]].concat())
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Like [`Tool::attach`], without `--json`.
    pub(crate) fn attach_plain(args: &[&str]) -> Tool {
        Tool::attach_with(args, &[])
    }

    /// Like [`Tool::attach_plain`], with these environment variables.
    pub(crate) fn attach_with(args: &[&str], variables: &[(&str, &str)]) -> Tool {
        let mut child = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .args(args)
            .envs(variables.iter().copied())
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
            // A failing read ends the text, and the test's checks then fail.
            while out.read_until(b'\n', &mut bytes).is_ok_and(|got| got > 0) {
                counted.fetch_add(1, Relaxed);
            }
            String::from_utf8(bytes).expect("JSON is UTF-8")
        });
        let (sender, stderr) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut tool = Tool { child, stdout: Some(stdout), lines, stderr, said: Vec::new() };
        tool.wait_until_attached(args);
        tool
    }

    /// Waits until it has printed `wanted` lines.
    pub(crate) fn wait_for_lines(&self, wanted: usize) {
        let since = Instant::now();
        while self.lines.load(Relaxed) < wanted {
            assert!(since.elapsed() < PATIENCE, "it has not printed {wanted} lines after 120 s");
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
                        RecvTimeoutError::Timeout => "is not watching after 120 s",
                        RecvTimeoutError::Disconnected => "ended before it watched",
                    };
                    panic!("`perilune {}` {what}; it printed: {:?}", args.join(" "), self.said);
                }
            }
        }
    }

    /// Interrupts the command as Ctrl-C does, and returns its output.
    pub(crate) fn finish(mut self) -> Run {
        self.interrupt();
        self.output()
    }

    /// Like [`Tool::finish`], for a run that ends without its interrupt.
    pub(crate) fn output(mut self) -> Run {
        let (text, code) = self.wait();
        let object = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|e| panic!("not JSON: {e}: {line}"))
        };
        let mut said = std::mem::take(&mut self.said);
        said.extend(self.stderr.iter());
        Run { objects: text.lines().map(object).collect(), stderr: said.join("\n"), code }
    }

    /// Like [`Tool::finish`], for a run without `--json`: returns its stdout and exit code.
    pub(crate) fn finish_text(mut self) -> (String, Option<i32>) {
        self.interrupt();
        self.wait()
    }

    /// Waits for a run that ends by itself.
    pub(crate) fn finish_by_itself(mut self) -> (String, Option<i32>) {
        self.wait()
    }

    /// Kills the command, which cannot prepare for it.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("our own child can be killed");
        self.wait();
    }

    fn interrupt(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            crate::load::interrupt(self.child.id());
        }
    }

    /// Returns everything on stdout, and the exit code.
    fn wait(&mut self) -> (String, Option<i32>) {
        let since = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our own child can be waited for") {
                break status;
            }
            assert!(since.elapsed() < PATIENCE, "still running 120 s after the interrupt");
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = self.stdout.take().map(JoinHandle::join);
        let text = text.and_then(Result::ok).expect("stdout was read to its end");
        (text, status.code())
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // Both calls fail after `finish`, because the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Run {
    /// Returns the objects of a type.
    pub(crate) fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |o| o["type"] == kind)
    }

    /// Returns the events of a process.
    pub(crate) fn events_of(&self, pid: u32) -> Vec<&Value> {
        self.of("event").filter(|e| e["pid"] == pid).collect()
    }

    /// Returns the sum of a column over the rows whose `key` is `value`: rows start again in each
    /// interval.
    pub(crate) fn sum(&self, column: &str, key: &str, value: impl Into<Value>) -> u64 {
        let value = value.into();
        let rows = self.of("row").filter(|row| row[key] == value);
        rows.map(|row| row[column].as_u64().unwrap_or_default()).sum()
    }

    /// Returns the coverage of the whole run.
    pub(crate) fn coverage(&self) -> &Value {
        let last = self.of("coverage").find(|c| c["final"] == true);
        last.unwrap_or_else(|| panic!("no final coverage; stderr: {}", self.stderr))
    }

    /// Fails unless the run ended successfully and missed nothing.
    pub(crate) fn is_complete(&self) {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        for problem in ["lost", "undecodable", "errors"] {
            assert_eq!(self.coverage()[problem], 0, "{problem}: {}", self.coverage());
        }
    }
}

/// As [`with_switches`]; ends the test if the kernel omitted switches to the task.
pub(crate) fn with_all_switches(pid: u32, watched: impl FnOnce() -> Run) -> Run {
    let (run, missing) = with_switches(pid, watched);
    if missing > 0 {
        skip_anywhere(&format!("this kernel omitted {missing} switches to the task"));
    }
    run
}

/// Runs `watched` while a second tool counts the switches from and to a task. Also returns how many
/// switches to the task the kernel omitted: they are events of the task before it, and a 6.18
/// kernel has no events of switches away from some tasks of a virtual machine's agent.
pub(crate) fn with_switches(pid: u32, watched: impl FnOnce() -> Run) -> (Run, u64) {
    let switches = format!(
        "sched:sched_switch/prev_pid=={pid}/key=prev_pid/alias=away/,\
         sched:sched_switch/next_pid=={pid}/key=next_pid/alias=back/"
    );
    let witness = Tool::attach(&["top", "-e", &switches]);
    let run = watched();
    let seen = witness.finish();
    seen.is_complete();
    assert_eq!(seen.coverage()["undelivered"], 0, "{}", seen.coverage());
    let [away, back] = ["away", "back"].map(|column| seen.sum(column, "prev_pid", pid));
    assert!(away > 0, "{:?}", seen.objects);
    (run, away.saturating_sub(back))
}
