//! `serve`: several monitors in one process.

use std::io::Write as _;
use std::process::Command;

use tempfile::NamedTempFile;

use super::server::{Prometheus, free_port, get};
use super::{becomes, value};
use crate::counting::{can_count, usual_refusal};
use crate::live::{live_tests, skip};
use crate::load::{self, Load};
use crate::tool::Tool;

live_tests! {
    served_monitors_have_exact_counts_each,
    served_monitors_count_the_same_in_the_kernel_and_by_records,
    a_served_monitor_that_fails_is_visible_and_the_others_go_on,
    a_file_names_the_monitors_and_their_options,
    errors_of_serve_name_the_monitor,
}

/// Monitors that are served, of a workload and of a process that only waits.
struct ServedTogether {
    tool: Tool,
    port: u16,
    _waiting: Load,
}

impl ServedTogether {
    fn attach(pids: &[u32], monitors: &[&str]) -> ServedTogether {
        let (port, waiting) = (free_port(), load::getppid(1));
        let pids: Vec<String> = pids.iter().chain([&waiting.pid()]).map(u32::to_string).collect();
        let (port_text, pids) = (port.to_string(), pids.join(","));
        let args = ["serve", "-p", &pids, "--prometheus", &port_text, "-i", "200"];
        let tool = Tool::attach_plain(&[&args[..], monitors].concat());
        ServedTogether { tool, port, _waiting: waiting }
    }

    fn value(&self, series: &str) -> Option<f64> {
        value(&get(self.port, "/metrics"), series)
    }
}

/// A monitor that counts calls of getpid in a table of its own.
const CALLS_OF_GETPID: &str = "local m = monitor { summary = 'calls' }\n\
    function m.init()\n\
      local calls = kv { 'comm', count = 'calls' }\n\
      evsel('raw_syscalls:sys_enter/id==39/', function(e) calls:add(e._comm) end)\n\
    end\n\
    return m\n";

fn script(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::with_suffix(".lua").expect("a file can be created");
    file.write_all(text.as_bytes()).expect("the file can be written");
    file
}

fn served_monitors_have_exact_counts_each() {
    const CALLS: u32 = 3000;
    const SLEEPS: usize = 101;
    let (calls, (sleeps, _)) = (load::getppid(CALLS), load::sleeps::<SLEEPS>());
    let monitors = ["ppid=syscalls:--only getppid", "naps=syscalls:--only 'clock_nanosleep'"];
    let served = ServedTogether::attach(&[calls.pid(), sleeps.pid()], &monitors);
    let server = Prometheus::start(served.port, &[])
        .unwrap_or_else(|| skip("no prometheus; install Debian's package"));
    calls.run();
    sleeps.run();
    let of_calls = "perilune_ppid_duration_seconds_count{syscall=\"getppid\"}";
    let of_sleeps = "perilune_naps_duration_seconds_count{syscall=\"clock_nanosleep\"}";
    becomes(CALLS.into(), || served.value(of_calls));
    becomes(SLEEPS as f64, || served.value(of_sleeps));
    becomes(CALLS.into(), || server.query(of_calls));
    becomes(SLEEPS as f64, || server.query(of_sleeps));
    // Later intervals add nothing, and neither has the other's rows.
    std::thread::sleep(std::time::Duration::from_millis(700));
    let page = get(served.port, "/metrics");
    assert_eq!(value(&page, of_calls), Some(CALLS.into()), "{page}");
    assert!(!page.contains("perilune_ppid_duration_seconds_count{syscall=\"clock_nanosleep\"}"));
    // Each has the coverage of its own events: a call is an entry and an exit.
    let events = value(&page, "perilune_ppid_coverage_events_total").expect("it is exported");
    assert_eq!(events, 2.0 * f64::from(CALLS));
    let of_both = value(&page, "perilune_serve_coverage_events_total").expect("it is exported");
    let naps = value(&page, "perilune_naps_coverage_events_total").expect("it is exported");
    assert_eq!(events + naps, of_both);
    for name in ["ppid", "naps", "serve"] {
        let lost = format!("perilune_{name}_coverage_lost_total");
        assert_eq!(value(&page, &lost), Some(0.0), "{page}");
        let up = format!("perilune_monitor_up{{monitor=\"{name}\"}}");
        assert_eq!(value(&page, &up), Some(1.0), "{page}");
    }
    let run = served.tool.finish();
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

fn served_monitors_count_the_same_in_the_kernel_and_by_records() {
    const CALLS: u32 = 3000;
    can_count();
    let id = libc::SYS_getppid;
    let by_id = CALLS_OF_GETPID.replace("'comm'", "'id'").replace("e._comm", "e.id");
    let handler = script(&by_id.replace("id==39", &format!("id=={id}")));
    let handled = format!("handled={}", handler.path().to_str().expect("a path of /tmp"));
    let monitors = ["syscalls:--only getppid", "top:-e raw_syscalls:sys_enter -k id", &handled];
    let series = [
        "perilune_syscalls_duration_seconds_count{syscall=\"getppid\"}".to_owned(),
        format!("perilune_top_sys_enter_total{{id=\"{id}\"}}"),
        format!("perilune_handled_calls_total{{id=\"{id}\"}}"),
    ];
    for place in ["kernel", "auto", "user"] {
        let calls = load::getppid(CALLS);
        let served = match place {
            // The handler needs records.
            "kernel" => &monitors[..2],
            _ => &monitors[..],
        };
        let args = [&["-v", "--where", place][..], served].concat();
        let served = ServedTogether::attach(&[calls.pid()], &args);
        calls.run();
        let wanted = &series[..if place == "kernel" { 2 } else { 3 }];
        for series in wanted {
            becomes(CALLS.into(), || served.value(series));
        }
        let events = served.value("perilune_syscalls_coverage_events_total");
        assert_eq!(events, Some(2.0 * f64::from(CALLS)), "{place}");
        let run = served.tool.finish();
        assert!(!run.stderr.contains("coverage:"), "{}", run.stderr);
        let counted = run.stderr.matches(": counted in the kernel").count();
        let is_usual = place == "auto" && usual_refusal().is_none();
        // An entry and an exit of `syscalls`, and the entry of `top`.
        let expected = if place == "kernel" || is_usual { 3 } else { 0 };
        assert_eq!(counted, expected, "{place}: {}", run.stderr);
        // The records of the handler are not those of all calls, which `top` would need.
        let filter = format!("raw_syscalls:sys_enter: filtered in the kernel: id == {id}");
        assert!(!is_usual || run.stderr.contains(&filter), "{}", run.stderr);
    }
}

fn a_served_monitor_that_fails_is_visible_and_the_others_go_on() {
    const CALLS: u32 = 2000;
    let failing = script(
        "local m = monitor { summary = 'fails' }\n\
         function m.init()\n\
           evsel('raw_syscalls:sys_enter/id==110/', function(e) error 'on purpose' end)\n\
         end\n\
         return m\n",
    );
    let broken = format!("broken={}", failing.path().display());
    let load = load::getppid(CALLS);
    let served = ServedTogether::attach(&[load.pid()], &[&broken, "syscalls:--only getppid"]);
    load.run();
    let calls = "perilune_syscalls_duration_seconds_count{syscall=\"getppid\"}";
    becomes(CALLS.into(), || served.value(calls));
    becomes(0.0, || served.value("perilune_monitor_up{monitor=\"broken\"}"));
    assert_eq!(served.value("perilune_monitor_up{monitor=\"syscalls\"}"), Some(1.0));
    assert_eq!(served.value("perilune_broken_coverage_errors_total"), Some(10.0));
    assert_eq!(served.value("perilune_syscalls_coverage_errors_total"), Some(0.0));
    let run = served.tool.finish();
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("on purpose"), "{}", run.stderr);
    assert!(run.stderr.contains("broken: coverage: 10 errors"), "{}", run.stderr);
}

fn a_file_names_the_monitors_and_their_options() {
    const CALLS: u32 = 500;
    let counting = script(CALLS_OF_GETPID);
    let (load, waiting) = (load::getppid(CALLS), load::getppid(1));
    let port = free_port();
    let mut file = NamedTempFile::with_suffix(".toml").expect("a file can be created");
    let text = format!(
        "prometheus = {port}\ninterval = \"200ms\"\npids = \"{},{}\"\n\
         [syscalls]\nonly = \"getppid,getpid\"\n\
         [other]\nmonitor = \"{}\"\n",
        load.pid(),
        waiting.pid(),
        counting.path().display()
    );
    file.write_all(text.as_bytes()).expect("the file can be written");
    let path = file.path().to_str().expect("the path is UTF-8");
    let tool = Tool::attach_plain(&["serve", path, "--duration", "60s"]);
    load.run();
    let calls = "perilune_syscalls_duration_seconds_count{syscall=\"getppid\"}";
    becomes(CALLS.into(), || value(&get(port, "/metrics"), calls));
    let page = get(port, "/metrics");
    assert_eq!(value(&page, "perilune_other_coverage_events_total"), Some(0.0), "{page}");
    assert_eq!(tool.finish().code, Some(0));
}

fn errors_of_serve_name_the_monitor() {
    let refused = |args: &[&str]| {
        let run = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .args(["serve", "--prometheus", "0"])
            .args(args)
            .output()
            .expect("the built command runs");
        assert!(!run.status.success());
        String::from_utf8_lossy(&run.stderr).into_owned()
    };
    let text = refused(&["syscalls", "trace:-e sched:no_such_event"]);
    assert!(text.starts_with("perilune: trace: "), "{text}");
    assert!(text.contains("no_such_event"), "{text}");
    let text = refused(&["syscalls:-p 1"]);
    assert!(text.contains("syscalls: only the monitor's own options"), "{text}");
    for required in ["top:-e sched:sched_switch -k cpu", "multi-trace:-e a:b -e c:d"] {
        let text = refused(&[&format!("{required} -p 1")]);
        assert!(text.contains(": only the monitor's own options"), "{required}: {text}");
    }
    let query = "sql:-e raw_syscalls:sys_enter --query 'SELECT no_such_column FROM sys_enter'";
    let text = refused(&[query]);
    assert!(text.contains("no such column: no_such_column"), "{text}");
    let handler = script(CALLS_OF_GETPID);
    let handled = format!("handled={}", handler.path().to_str().expect("a path of /tmp"));
    let text = refused(&["--where", "kernel", &handled]);
    assert!(text.contains("perilune: handled: --where kernel: raw_syscalls"), "{text}");
    let text = refused(&["syscalls", "syscalls"]);
    assert!(text.contains("syscalls is there twice"), "{text}");
}
