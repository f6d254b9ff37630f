//! Scripts that control a run on the kernel: which of their events are enabled, and when the run
//! ends.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{live::live_tests, load};

live_tests! {
    an_event_that_init_turned_off_stays_off_when_the_command_is_executed,
    an_event_that_init_turned_off_is_delivered_once_it_is_on,
    a_run_whose_handlers_are_all_disabled_ends_with_the_reason,
    no_ordered_event_after_the_duration_is_handled,
    a_run_of_many_tracepoints_has_written_everything_before_it_closes_them,
    a_script_has_an_events_text_as_the_kernel_would_print_it,
    callbacks_report_watched_tasks_or_all_tasks_on_request,
}

/// Output of a script's run.
pub(crate) struct Ran {
    /// The JSON objects that the script printed.
    objects: Vec<Value>,
    code: Option<i32>,
    /// All output, that of the script's command included.
    pub(crate) text: String,
}

impl Ran {
    /// Returns the rows that the script emitted.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(|object| object["type"] == "row")
    }

    /// Returns how many events the run missed.
    pub(crate) fn missed(&self) -> u64 {
        let last = self.objects.iter().find(|object| object["final"] == true);
        let last = last.unwrap_or_else(|| panic!("no final coverage: {}", self.text));
        ["lost", "undelivered"].map(|key| last[key].as_u64().unwrap_or(0)).iter().sum()
    }

    /// Returns the number that the script gave `key` in a row that it emitted.
    fn number(&self, key: &str) -> u64 {
        let found = self.rows().filter_map(|row| row[key].as_u64()).last();
        found.unwrap_or_else(|| panic!("no {key}: {}", self.text))
    }
}

/// Writes a script into a folder that is removed when it is dropped. Returns both.
pub(crate) fn written(text: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder for the script");
    let path = folder.path().join("s.lua");
    std::fs::write(&path, text).expect("the script can be written");
    let path = path.to_string_lossy().into_owned();
    (folder, path)
}

/// Runs a script to its end, with `--json`.
pub(crate) fn run(script: &str, args: &[&str]) -> Ran {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("perilune-{}-{}.lua", std::process::id(), NEXT.fetch_add(1, Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, script).expect("the script can be written");
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .arg(&path)
        .arg("--json")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("the built command runs");
    std::fs::remove_file(&path).expect("the script is still there");
    let stdout = String::from_utf8_lossy(&output.stdout);
    Ran {
        objects: stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
        code: output.status.code(),
        text: format!("{stdout}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

const QUIET: &str = r#"
    local m = monitor { summary = "system calls of a command, off at first" }
    local calls, ends, exits = 0, 0, 0
    function m.init()
      local quiet = evsel("raw_syscalls:sys_enter", function(e)
        calls = calls + 1
        if e.id == EXIT_GROUP then ends = ends + 1 end
      end)
      quiet:off()
      evsel("sched:sched_process_exec", function() WAKE end)
      evsel("sched:sched_process_exit", function() exits = exits + 1 end)
    end
    function m.deinit() emit { calls = calls, ends = ends, exits = exits } end
    return m
"#;

fn quiet(wake: &str) -> String {
    QUIET.replace("EXIT_GROUP", &libc::SYS_exit_group.to_string()).replace("WAKE", wake)
}

fn an_event_that_init_turned_off_stays_off_when_the_command_is_executed() {
    let ran = run(&quiet(""), &["--duration", "120s", "--", "sleep", "0.1"]);
    assert_eq!((ran.number("calls"), ran.number("exits")), (0, 1), "{}", ran.text);
    assert_eq!(ran.code, Some(0));
}

fn an_event_that_init_turned_off_is_delivered_once_it_is_on() {
    let ran = run(&quiet("quiet:on()"), &["--duration", "120s", "--", "sleep", "3"]);
    assert_eq!((ran.number("ends"), ran.number("exits")), (1, 1), "{}", ran.text);
}

fn a_run_whose_handlers_are_all_disabled_ends_with_the_reason() {
    let script = r#"
        local m = monitor { summary = "fails at every event" }
        local seen = 0
        function m.init()
          evsel("raw_syscalls:sys_enter", function(e) seen = seen + 1 error("no") end)
        end
        function m.deinit() emit { seen = seen } end
        return m
    "#;
    let ran = run(script, &["--duration", "120s"]);
    assert_eq!(ran.number("seen"), 10, "{}", ran.text);
    assert_eq!(ran.text.matches("every handler is switched off, so the run ends").count(), 1);
    assert_eq!(ran.code, Some(1), "{}", ran.text);
}

fn no_ordered_event_after_the_duration_is_handled() {
    let mut busy = load::getppid(10_000_000);
    busy.start();
    let script = r#"
        local m = monitor { summary = "how late the last event is", order = true }
        local seen, last = 0, 0
        local function see(e) seen = seen + 1 last = e._time end
        function m.init()
          evsel("raw_syscalls:sys_enter", see)
          evsel("raw_syscalls:sys_exit", see)
        end
        function m.deinit(seconds) emit { seen = seen, last_ns = last, took_ns = seconds * 1e9 } end
        return m
    "#;
    let ran = run(script, &["--duration", "200ms", "-p", &busy.pid().to_string()]);
    assert!(ran.number("seen") > 0, "{}", ran.text);
    assert!(ran.number("last_ns") <= 200_000_000, "{}", ran.text);
    assert_eq!(ran.number("took_ns"), 200_000_000, "{}", ran.text);
    let last = ran.objects.iter().rfind(|object| object["type"] == "coverage");
    assert_eq!(last.map(|last| &last["events"]), Some(&ran.number("seen").into()), "{}", ran.text);
}

fn a_run_of_many_tracepoints_has_written_everything_before_it_closes_them() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["trace", "-e", "syscalls:sys_enter_s*", "--json", "--duration", "50ms"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built command runs");
    let mut stdout = child.stdout.take().expect("stdout is piped");
    let stdout = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let said = stderr.lines().map_while(Result::ok).find(|line| line.contains("closing"));
    assert!(said.is_some_and(|line| line.contains("all results are written; closing ")));
    for _ in 0..3 {
        load::interrupt(child.id());
    }
    assert_eq!(child.wait().ok().and_then(|status| status.code()), Some(0));
    let text = stdout.join().expect("the thread does not panic").expect("JSON is UTF-8");
    let last = text.lines().last().and_then(|line| serde_json::from_str::<Value>(line).ok());
    assert!(last.is_some_and(|last| last["final"] == true), "{text}");
}

fn a_script_has_an_events_text_as_the_kernel_would_print_it() {
    let script = r#"
        local m = monitor { summary = "the text of an event" }
        function m.init()
          evsel("sched:sched_process_exec", function(e) emit { text = e._text } end)
        end
        return m
    "#;
    let ran = run(script, &["--duration", "120s", "--", "/bin/true"]);
    let rows: Vec<&Value> = ran.objects.iter().filter(|o| o["type"] == "row").collect();
    assert_eq!(rows.len(), 1, "{}", ran.text);
    let text = rows[0]["text"].as_str().unwrap_or_default();
    let pids = text.strip_prefix("filename=/bin/true pid=").and_then(|t| t.split_once(" old_pid="));
    let (pid, old) = pids.unwrap_or_else(|| panic!("{text}"));
    assert_eq!(pid, old, "one thread: {text}");
    assert!(pid.parse::<u32>().is_ok(), "{text}");
}

const FORKS: &str = r#"
    local m = monitor { summary = "forks and ends of tasks"ALL }
    local forks, ends, execs = 0, 0, 0
    function m.init() evsel("sched:sched_process_hang", function() end) end
    function m.on_fork() forks = forks + 1 end
    function m.on_exit() ends = ends + 1 end
    function m.on_exec() execs = execs + 1 end
    function m.deinit() emit { forks = forks, ends = ends, execs = execs } end
    return m
"#;

fn callbacks_report_watched_tasks_or_all_tasks_on_request() {
    let three = ["--", "sh", "-c", "sleep 0.3; for i in 1 2 3; do /bin/true; done"];
    let beside_others = |script: &str| {
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Others execute as long as the run takes, however late it starts to watch.
            scope.spawn(|| {
                while !ended.load(Relaxed) {
                    let status = Command::new("/bin/true").status();
                    assert!(status.is_ok_and(|status| status.success()));
                }
            });
            let ran = run(script, &three);
            ended.store(true, Relaxed);
            ran
        })
    };
    let ran = beside_others(&FORKS.replace("ALL", ""));
    let counts = ["forks", "ends", "execs"].map(|key| ran.number(key));
    // The shell and its four children have executed; the shell ended, too.
    assert_eq!(counts, [4, 5, 5], "{}", ran.text);
    let ran = beside_others(&FORKS.replace("ALL", ", all_tasks = true"));
    assert!(ran.number("forks") > 4 && ran.number("execs") > 5, "{}", ran.text);
}
