//! How events are opened: sampling rates, CPUs, and the message of a refusal.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::{
    live::{live_tests, skip},
    load,
    tool::Tool,
};

live_tests! {
    tasks_forked_on_an_unwatched_cpu_have_names,
    clocks_are_sampled_at_the_requested_rate,
    a_rate_without_an_event_that_has_one_is_noted,
    an_event_of_a_glob_that_cannot_be_sampled_is_omitted_and_named,
    a_missing_cpu_is_refused_wherever_it_is_named,
    an_event_in_exclusive_use_by_another_tracer_is_refused_at_once,
    a_limit_of_processes_or_files_is_named,
    options_that_an_event_cannot_honor_are_refused,
    a_refusal_names_the_user_namespace_as_its_reason,
    missing_samples_of_a_clock_are_noted_and_a_healthy_run_has_no_note,
}

/// Runs the command until it ends by itself.
fn perilune(args: &[&str]) -> Output {
    let run = Command::new(env!("CARGO_BIN_EXE_perilune")).args(args).stdin(Stdio::null()).output();
    run.expect("the built command runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn tasks_forked_on_an_unwatched_cpu_have_names() {
    const FORKS: u32 = 50;
    let event = "sched:sched_process_exit";
    let load = load::forks_elsewhere(FORKS);
    let run = crate::watch(&["trace", "-e", event, "-C", "0", "-v"], load);
    // The event has the name that the kernel knows, too.
    let unknown: Vec<_> = run.of("event").filter(|e| e["comm"] != e["comm_"]).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(run.of("event").count() >= FORKS as usize, "{}", run.stderr);
    assert!(run.of("event").all(|event| event["cpu"] == 0));
    let notes: Vec<_> = run.of("note").filter_map(|note| note["text"].as_str()).collect();
    assert!(notes.iter().any(|text| text.starts_with("task records also from CPU 1")), "{notes:?}");
    run.is_complete();
}

fn clocks_are_sampled_at_the_requested_rate() {
    let attributes = |args: &[&str]| {
        let args = [args, &["--json", "-vv", "--duration", "0.05"]].concat();
        let output = perilune(&args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", said(&output));
        text
    };
    let noted = "cpu-clock: sampled 100 times a second; -F, -c, freq= and period= set another rate";
    for (args, field, is_noted) in [
        (&["trace", "-e", "cpu-clock"][..], "sample_freq=0x64 ", true),
        (&["trace", "-e", "cpu-clock/freq=99/"], "sample_freq=0x63 ", false),
        (&["trace", "-e", "cpu-clock//period=20000/"], "sample_period=0x4e20 ", false),
        (&["top", "-e", "cpu-clock", "-F", "250"], "sample_freq=0xfa ", false),
        (&["top", "-e", "cpu-clock//freq=7/", "-c", "50000"], "sample_freq=0x7 ", false),
        (&["profile", "-e", "cpu-clock//freq=7/"], "sample_freq=0x7 ", false),
        (
            &["top", "-e", "page-faults", "-F", "7"],
            "page-faults: type=0x1 size=0x90 config=0x2 sample_period=0x1 ",
            false,
        ),
    ] {
        let text = attributes(args);
        assert!(text.contains(field), "{args:?}: {text}");
        assert_eq!(text.contains(noted), is_noted, "{args:?}: {text}");
    }
    for (args, why) in [
        (
            &["trace", "-e", "cpu-clock//period=1/"][..],
            "cpu-clock: a period of 1 ns is too short; the kernel's timer needs at least 10000 ns",
        ),
        (&["top", "-e", "task-clock", "-c", "9999"], "task-clock: a period of 9999"),
        (
            &["trace", "-e", "cpu-clock//freq=0/"],
            "freq=0: expected a whole number of samples per second greater than 0",
        ),
        (
            &["trace", "-e", "cpu-clock//freq=9/period=99999/"],
            "freq= and period= exclude each other",
        ),
    ] {
        let output = perilune(args);
        assert!(!output.status.success() && said(&output).contains(why), "{}", said(&output));
    }
}

fn a_rate_without_an_event_that_has_one_is_noted() {
    let output = perilune(&["top", "-e", "page-faults", "-F", "7", "--duration", "0.05"]);
    let said = said(&output);
    assert!(said.contains("-F has no effect: no clock and no hardware event"), "{said}");
    assert!(said.contains("has a rate of its own: page-faults//freq=7/"), "{said}");
}

fn an_event_of_a_glob_that_cannot_be_sampled_is_omitted_and_named() {
    let folder = "/sys/kernel/tracing/events/irq_vectors/irq_work_exit";
    if !Path::new(folder).exists() {
        skip("this kernel has no irq_vectors:irq_work_exit");
    }
    let why = "the kernel does not allow sampling of this tracepoint";
    let output = perilune(&["top", "-e", "irq_vectors:*", "--duration", "0.1"]);
    let noted = format!("irq_vectors:*: omitted irq_work_exit: {why}");
    assert!(output.status.success() && said(&output).contains(&noted), "{}", said(&output));
    for exact in ["irq_vectors:irq_work_exit", "irq_vectors:*,irq_vectors:irq_work_exit"] {
        let args = ["top", "-e", exact, "--where", "user", "--duration", "0.1"];
        let output = perilune(&args);
        let refused = format!("perilune: irq_vectors:irq_work_exit: {why}");
        assert!(!output.status.success() && said(&output).contains(&refused), "{}", said(&output));
        assert!(!said(&output).contains("seccomp"), "{}", said(&output));
    }
}

fn a_missing_cpu_is_refused_wherever_it_is_named() {
    let wakeups = ["-e", "sched:sched_wakeup", "-e"];
    for (args, why) in [
        (&["trace", "-e", "sched:sched_switch", "-C", "4097"][..], "-C 4097: this machine has "),
        (&["trace", "-e", "sched:sched_switch//cpus=4097/"], "cpus=4097: this machine has "),
        (
            &["trace", "-e", "sched:sched_switch//cpus=0/", "-C", "1"],
            "cpus=0: -C watches only CPU 1; ",
        ),
        (
            &[
                &["multi-trace", "-k", "pid"],
                &wakeups[..],
                &["sched:sched_waking,sched:no_such//untraced/"],
            ]
            .concat(),
            "-e: no event 'sched:no_such'",
        ),
        (
            &[
                &["multi-trace", "-k", "pid"],
                &wakeups[..],
                &["sched:sched_waking,sched:sched_switch//untraced/cpus=4097/"],
            ]
            .concat(),
            "-e: cpus=4097: this machine has ",
        ),
    ] {
        let output = perilune(&[args, &["--duration", "0.1"]].concat());
        assert!(
            !output.status.success() && said(&output).contains(why),
            "{args:?}: {}",
            said(&output)
        );
    }
}

/// A uprobe event that tracefs has enabled; removed when dropped.
struct Held {
    tracing: PathBuf,
    instance: PathBuf,
    name: String,
    _folder: tempfile::TempDir,
}

impl Held {
    /// Probes a copy of a program that no process runs.
    fn new() -> Held {
        let folder = tempfile::tempdir().expect("there is room");
        let program = folder.path().join("program");
        std::fs::copy("/bin/true", &program).expect("it can be copied");
        let tracing = PathBuf::from("/sys/kernel/tracing");
        let name = format!("perilune_{}", std::process::id());
        let instance = tracing.join("instances").join(&name);
        let held = Held { tracing, instance, name, _folder: folder };
        let line = format!("p:{}/held {}:0x1000", held.name, program.display());
        held.write(&held.tracing.join("uprobe_events"), &line);
        std::fs::create_dir(&held.instance).expect("an instance can be made");
        held.write(&held.instance.join(format!("events/{}/held/enable", held.name)), "1");
        held
    }

    fn write(&self, file: &Path, line: &str) {
        use std::io::Write as _;
        let opened = std::fs::OpenOptions::new().append(true).open(file);
        let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|why| panic!("{}: {line}: {why}", file.display()));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.write(&self.instance.join(format!("events/{}/held/enable", self.name)), "0");
        // It is busy while another task reads one of its files.
        let removed = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            std::fs::remove_dir(&self.instance).is_ok()
        });
        assert!(removed, "{} can be removed", self.instance.display());
        self.write(&self.tracing.join("uprobe_events"), &format!("-:{}/held", self.name));
    }
}

fn an_event_in_exclusive_use_by_another_tracer_is_refused_at_once() {
    // This run mounts tracefs if it is not mounted.
    drop(perilune(&["trace", "-e", "sched:sched_switch", "-N", "1", "--duration", "0.1"]));
    if !Path::new("/sys/kernel/tracing/uprobe_events").exists() {
        skip("this kernel has no uprobe events");
    }
    let held = Held::new();
    let event = format!("{}:held", held.name);
    let (_, code) = {
        let run = Command::new("timeout")
            .args([
                "-s",
                "KILL",
                "10",
                env!("CARGO_BIN_EXE_perilune"),
                "trace",
                "--duration",
                "1",
                "-e",
                &event,
            ])
            .stdin(Stdio::null())
            .output()
            .expect("timeout runs");
        let why = format!("perilune: {event}: another tracer uses it");
        assert!(said(&run).contains(&why), "{}", said(&run));
        (run.stdout, run.status.code())
    };
    assert_eq!(code, Some(1));
}

fn a_limit_of_processes_or_files_is_named() {
    let limited = |limit: &str, args: &[&str]| {
        let run = Command::new("prlimit")
            .arg(limit)
            .arg(env!("CARGO_BIN_EXE_perilune"))
            .args(args)
            .output();
        said(&run.expect("prlimit runs"))
    };
    let many = ["top", "-e", "sched:*,irq:*,timer:*", "--duration", "0.1"];
    let text = limited("--nofile=40:40", &many);
    assert!(text.contains("no file descriptor is left; RLIMIT_NOFILE is 40: raise it"), "{text}");
}

fn options_that_an_event_cannot_honor_are_refused() {
    for (args, why) in [
        (["tcp", "--drops", "--port=443"], "--port: the event of --drops, skb:kfree_skb, does not"),
        (["net", "--drops", "--device=lo"], "--device: the event of --drops, skb:kfree_skb, does"),
        (["tcp", "--drops", "--each"], "--each: --states, --retransmits, --drops show no"),
        (["tcp", "--states", "--rtt"], "--rtt: --states, --retransmits, --drops show no"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .args(args)
            .args(["--duration", "100ms"])
            .output()
            .expect("the built command runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{args:?}: {said}");
    }
}

fn a_refusal_names_the_user_namespace_as_its_reason() {
    let run = Command::new("unshare")
        .args([
            "-Ur",
            env!("CARGO_BIN_EXE_perilune"),
            "top",
            "-e",
            "cpu-clock",
            "--duration",
            "0.1",
        ])
        .output()
        .expect("unshare runs");
    if said(&run).contains("unshare:") {
        skip("no user namespace can be made here");
    }
    let why = "cpu-clock: permission denied; in a user namespace, perf needs CAP_PERFMON in the \
               initial one";
    assert!(said(&run).contains(why), "{}", said(&run));
}

fn missing_samples_of_a_clock_are_noted_and_a_healthy_run_has_no_note() {
    let (load, measured) = load::alternate(5, 300);
    let pid = load.pid().to_string();
    let tool = Tool::attach(&["trace", "-e", "cpu-clock/freq=500/", "-p", &pid]);
    load.run();
    let run = tool.finish();
    let (came, implied) = (run.of("event").count() as f64, measured.get(2) as f64 / 2e6);
    let is_noted = run.of("note").any(|note| {
        note["text"].to_string().contains("samples arrived, but its running time implies")
    });
    // Timers of a virtual machine may be late, which must be noted; a timer is never early.
    assert!(came > 0.0 && came < implied * 1.05 + 20.0, "{came} of {implied}: {:?}", run.stderr);
    if came > implied * 0.95 {
        assert!(!is_noted, "{came} of {implied}: {:?}", run.objects);
    } else if came < implied * 0.8 {
        assert!(is_noted, "{came} of {implied}: {:?}", run.objects);
    }
    run.is_complete();
}
