//! Printers: Lua functions that format an event, from the search path, from a plugin, or from the
//! monitor itself.
//!
//! The built command replays recordings, without privilege even if the tests run as root: root does
//! not accept scripts from a folder that every user may write to, such as the one for temporary
//! files.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A folder with files that every user may read.
struct Folder(TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Folder {
        let folder = TempDir::new().expect("a temporary folder");
        open_to_all(folder.path());
        for (name, text) in files {
            let path = folder.path().join(name);
            let parent = path.parent().expect("a file stands in a folder");
            std::fs::create_dir_all(parent).expect("a folder in the temporary one");
            open_to_all(parent);
            std::fs::write(&path, text).expect("a file in the temporary folder");
        }
        Folder(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
        .expect("the folder is ours");
}

fn is_root() -> bool {
    // SAFETY: takes no argument, never fails.
    unsafe { libc::geteuid() == 0 }
}

/// Runs `perilune ARGS…` over a recording, as an unprivileged user.
fn replay(folder: &Folder, events: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.args(args).arg("--replay").arg(events).env("PERILUNE_PATH", folder.0.path());
    command.env("TZ", "UTC").stdin(Stdio::null());
    if is_root() {
        command.uid(65534).gid(65534);
    }
    command.output().expect("the built command runs")
}

/// Returns the path of a recording of the tree.
fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/scripts/{name}.events"))
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}

/// Returns the events of a JSON run.
fn events(output: &Output) -> Vec<serde_json::Value> {
    objects(output).into_iter().filter(|o| o["type"] == "event").collect()
}

fn objects(output: &Output) -> Vec<serde_json::Value> {
    lines(&output.stdout).iter().map(|l| serde_json::from_str(l).expect("a line of JSON")).collect()
}

const SIGNAL: &str = r#"printer("signal:signal_generate", function(e)
    return ("%s gets %d of %s"):format(e.comm, e.sig, e._comm)
end)"#;

const TRACE: [&str; 3] = ["trace", "-e", "signal:signal_generate"];

#[test]
fn the_text_of_a_printer_replaces_the_fields() {
    let folder = Folder::new(&[("printers/signal.lua", SIGNAL)]);
    let output = replay(&folder, &recording("signal"), &TRACE);
    let shown = lines(&output.stdout);
    assert!(
        shown[0].ends_with(".... [000] 0.100000: signal:signal_generate: nginx gets 9 of bash"),
        "{shown:?}"
    );
    assert!(!shown.iter().any(|line| line.contains("sig=")), "{shown:?}");
    assert_eq!(output.status.code(), Some(0), "{:?}", lines(&output.stderr));
    // Every monitor prints the event this way.
    let signal = replay(&folder, &recording("signal"), &["signal"]);
    assert!(lines(&signal.stdout)[0].ends_with("nginx gets 9 of bash"));
}

#[test]
fn json_has_the_text_beside_the_fields() {
    let folder = Folder::new(&[("printers/signal.lua", SIGNAL)]);
    let output = replay(&folder, &recording("signal"), &[&TRACE[..], &["--json"]].concat());
    let events = events(&output);
    assert_eq!(events[0]["text"], "nginx gets 9 of bash");
    assert_eq!((&events[0]["sig"], &events[0]["comm_"]), (&9.into(), &"nginx".into()));
    let without = Folder::new(&[]);
    let output = replay(&without, &recording("signal"), &[&TRACE[..], &["--json"]].concat());
    assert!(!String::from_utf8_lossy(&output.stdout).contains("\"text\":\"nginx"), "no printer");
}

#[test]
fn a_recording_keeps_the_fields_whatever_prints_them() {
    let folder = Folder::new(&[("printers/signal.lua", SIGNAL)]);
    let output = replay(&folder, &recording("signal"), &[&TRACE[..], &["--events"]].concat());
    assert!(String::from_utf8_lossy(&output.stdout).contains(" signal:signal_generate: sig=9 "));
}

#[test]
fn an_event_that_was_kept_prints_by_its_own_printer() {
    let both = r#"
        printer("raw_syscalls:sys_enter", function(e)
          return "enters " .. e.id .. " on " .. e._cpu
        end)
        printer("raw_syscalls:sys_exit", function(e)
          return "leaves " .. e.id .. " with " .. e.ret
        end)
    "#;
    let folder = Folder::new(&[("printers/sys.lua", both)]);
    let output = replay(&folder, &recording("sys"), &["syscalls", "--than", "4ms", "--json"]);
    let plain =
        replay(&Folder::new(&[]), &recording("sys"), &["syscalls", "--than", "4ms", "--json"]);
    let (events, plain) = (events(&output), events(&plain));
    assert!(events.len() >= 2 && events.len() == plain.len(), "{events:?}");
    for (event, plain) in events.iter().zip(&plain) {
        let expected = match plain["event"].as_str() {
            Some("raw_syscalls:sys_enter") => format!("enters {} on {}", plain["id"], plain["cpu"]),
            _ => format!("leaves {} with {}", plain["id"], plain["ret"]),
        };
        assert_eq!(event["text"], expected);
        assert_eq!(event["time"], plain["time"]);
    }
}

/// Creates a recording of twelve forks, a millisecond apart.
fn forks(folder: &Folder) -> PathBuf {
    let line =
        |i: u32| format!("0.{i:03}000000 0 {i} sh sched:sched_process_fork: child_pid={i}\n");
    let path = folder.path("forks.events");
    std::fs::write(&path, (1..=12).map(line).collect::<String>()).expect("the folder is ours");
    path
}

const FORKS: [&str; 4] = ["trace", "-e", "sched:sched_process_fork", "--json"];

#[test]
fn a_printer_that_fails_is_counted_and_switched_off() {
    let text = "-- A field misspelt.\nprinter(\"sched:sched_process_fork\", function(e)\n  return \
                e.chidl_pid\nend)\n";
    let folder = Folder::new(&[("printers/fork.lua", text)]);
    let output = replay(&folder, &forks(&folder), &FORKS);
    let objects = objects(&output);
    let notes: Vec<&str> = objects
        .iter()
        .filter(|o| o["type"] == "note" && o["level"] == "error")
        .filter_map(|o| o["text"].as_str())
        .collect();
    let message =
        "fork.lua:3: sched:sched_process_fork has no field 'chidl_pid'; did you mean 'child_pid'?";
    assert_eq!(notes.iter().filter(|text| text.starts_with(message)).count(), 10, "{notes:?}");
    assert_eq!(
        notes.last(),
        Some(&"sched:sched_process_fork: its printer failed 10 times and is switched off")
    );
    let events = events(&output);
    assert_eq!(events.len(), 12, "each is printed");
    assert!(events.iter().all(|e| e["text"].is_null() && e["child_pid"] == e["tid"]));
    let last = objects.iter().find(|o| o["final"] == true).expect("the last coverage");
    assert_eq!(last["errors"], 10);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_printer_may_decline_and_must_give_text() {
    let text = r#"
        printer("sched:sched_process_fork", function(e)
          if e.child_pid % 3 == 0 then return nil end
          if e.child_pid == 4 then return {} end
          if e.child_pid == 5 then return 2.5 end
          if e.child_pid == 7 then emit(e) end
          return e._text:upper() .. "\n"
        end)
    "#;
    let folder = Folder::new(&[("printers/fork.lua", text)]);
    let output = replay(&folder, &forks(&folder), &FORKS);
    let events = events(&output);
    assert_eq!(events.len(), 12, "{:?}", lines(&output.stderr));
    for event in &events {
        let expected = match event["child_pid"].as_u64() {
            Some(3 | 4 | 6 | 7 | 9 | 12) => serde_json::Value::Null,
            Some(5) => "2.5".into(),
            Some(n) => format!("CHILD_PID={n}\n").into(),
            None => panic!("{event}"),
        };
        assert_eq!(event["text"], expected, "{event}");
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("fork.lua:2: a printer returns text, not a table"), "{said}");
    assert!(
        said.contains("fork.lua:6: a printer returns its text; emit is for handlers"),
        "{said}"
    );
    // Characters that would break the line are escaped in text output.
    let shown = replay(&folder, &forks(&folder), &FORKS[..3]);
    assert!(lines(&shown.stdout)[0].ends_with(r": CHILD_PID=1\n"), "{:?}", lines(&shown.stdout));
    let shown = lines(&shown.stdout).into_iter().filter(|l| l.contains(": sched:")).count();
    assert_eq!(shown, 12);
}

#[test]
fn a_printer_that_never_ends_is_stopped_and_its_event_is_printed_by_default() {
    let text = r#"
        printer("sched:sched_process_fork", function(e)
          if e.child_pid == 3 then while true do end end
          return "forked " .. e.child_pid
        end)
    "#;
    let folder = Folder::new(&[("printers/fork.lua", text)]);
    let output = replay(&folder, &forks(&folder), &FORKS);
    let events = events(&output);
    // All events but the one at which the printer was stopped.
    let printed: Vec<_> = events.iter().map(|e| e["child_pid"].as_u64().unwrap_or(0)).collect();
    assert_eq!(printed, [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(
        (&events[1]["text"], &events[2]["text"]),
        (&"forked 2".into(), &serde_json::Value::Null)
    );
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("fork.lua:3: handler stopped: it ran for over "), "{said}");
    assert!(said.contains("the printer of sched:sched_process_fork is switched off"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_printer_stopped_outside_a_handler_leaves_no_record_open_and_other_printers_continue() {
    let printer = r#"
        local seen = {}
        printer("signal:signal_generate", function(e)
          if e.sig == 9 then seen.e = e while true do end end
          return "signal " .. e.sig
        end)
    "#;
    let monitor = r#"
        local m = monitor { summary = "prints kept events from a timer" }
        function m.init()
          local kept, n = pending { keep = true }, 0
          evsel("signal:signal_generate", function(e)
            kept:open(e.sig, e)
            if e.sig ~= 9 then emit(e) end
          end)
          every("10ms", function()
            local start = kept:get(9)
            if start and n == 0 then n = 1 emit(start.event) end
          end)
        end
        return m
    "#;
    let folder = Folder::new(&[("printers/signal.lua", printer), ("kept.lua", monitor)]);
    let output = replay(&folder, &recording("signal"), &["kept", "--json"]);
    let events = events(&output);
    let texts: Vec<_> = events.iter().map(|event| event["text"].clone()).collect();
    assert_eq!(texts, ["signal 15", "signal 17"], "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_printer_closest_to_the_user_wins() {
    let says =
        |who: &str| format!("printer('sched:sched_process_fork', function() return '{who}' end)");
    let monitor = format!(
        "local m = monitor {{ summary = 'x' }}\n{}\nfunction m.init() \
         evsel('sched:sched_process_fork', function(e) emit(e) end) end\nreturn m",
        says("monitor")
    );
    let folder = Folder::new(&[
        ("printers/a.lua", &says("site a")),
        ("printers/b.lua", &says("site b")),
        ("one.lua", &says("plugin one")),
        ("two.lua", &says("plugin two")),
        ("own.lua", &monitor),
    ]);
    let (one, two) = (folder.path("one.lua"), folder.path("two.lua"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    let both = format!("{one},{two}");
    for (words, who) in [
        (vec!["trace", "-e", "sched:sched_process_fork"], "site b"),
        (vec!["own"], "monitor"),
        (vec!["own", "--plugin", one], "plugin one"),
        (vec!["own", "--plugin", one, "--plugin", two], "plugin two"),
        (vec!["own", "--plugin", &both], "plugin two"),
    ] {
        let output = replay(&folder, &forks(&folder), &[&words[..], &["--json"]].concat());
        let events = events(&output);
        assert_eq!(events.len(), 12, "{:?}", lines(&output.stderr));
        assert!(events.iter().all(|e| e["text"] == who), "{words:?}: {}", events[0]);
    }
}

#[test]
fn a_file_that_does_not_load_stops_no_monitor_but_a_plugin_does() {
    let folder = Folder::new(&[
        ("printers/broken.lua", "printer('a:b')"),
        ("printers/signal.lua", SIGNAL),
        ("files.lua", "printer('a:b', function() end) io.open('/etc/passwd')"),
        ("late.lua", "printer('signal:signal_generate', function(e) printer('a:b', print) end)"),
        ("none.lua", "local x = 1"),
        ("glob.lua", "printer('sched:*', function() end)"),
    ]);
    let output = replay(&folder, &recording("signal"), &TRACE);
    assert!(lines(&output.stdout)[0].ends_with("nginx gets 9 of bash"));
    let plugin = |name: &str| {
        let path = folder.path(name);
        let output = replay(
            &folder,
            &recording("signal"),
            &[&TRACE[..], &["--plugin", path.to_str().unwrap()]].concat(),
        );
        (output.status.code(), lines(&output.stderr).join("\n"))
    };
    let (code, said) = plugin("files.lua");
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with("perilune: files.lua:1: no global 'io': scripts run in a sandbox"),
        "{said}"
    );
    let (code, said) = plugin("glob.lua");
    assert_eq!(code, Some(1));
    assert!(said.starts_with("perilune: glob.lua:1: 'sched:*' is not an event name"), "{said}");
    let (code, said) = plugin("gone.lua");
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with("perilune: --plugin: ") && said.contains("gone.lua: No such file"),
        "{said}"
    );
    let (code, said) = plugin("late.lua");
    assert_eq!(code, Some(1));
    assert!(said.contains("late.lua:1: printers are selected when the run begins"), "{said}");
    assert_eq!(plugin("none.lua").0, Some(0));
}

#[test]
fn root_refuses_a_printer_that_other_users_can_write() {
    if !is_root() {
        return;
    }
    let folder = Folder::new(&[("printers/signal.lua", SIGNAL), ("plugin.lua", SIGNAL)]);
    let plugin = folder.path("plugin.lua");
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
        command.args(TRACE).args(more).arg("--replay").arg(recording("signal"));
        command.env("PERILUNE_PATH", folder.0.path()).stdin(Stdio::null());
        command.output().expect("the built command runs")
    };
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o666)).unwrap();
    let refused = run(&["--plugin", plugin.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    let said = lines(&refused.stderr).join("\n");
    assert!(said.contains("a root run reads only what root alone can write; chmod go-w"), "{said}");
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o644)).unwrap();
    let taken = run(&["--plugin", plugin.to_str().unwrap()]);
    assert!(
        lines(&taken.stdout)[0].ends_with("nginx gets 9 of bash"),
        "{:?}",
        lines(&taken.stderr)
    );
    // In the folder for temporary files, other users cannot replace a folder that root owns.
    let followed = run(&[]);
    let out = lines(&followed.stdout);
    assert!(out[0].ends_with("nginx gets 9 of bash"), "{out:?}");
    std::fs::set_permissions(folder.0.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let plain = run(&[]);
    assert!(lines(&plain.stdout)[0].contains("sig=9"), "{:?}", lines(&plain.stdout));
}
