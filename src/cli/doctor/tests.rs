//! Machines that are not this one, and what the doctor says of them.

use super::machine::{Symbols, Tracing};
use super::*;
use crate::cli::run::Bundled;
use crate::sys::facts::Facts;
use crate::sys::idle_records::IdleRecords;
use crate::sys::limits::OpenFiles;

/// A machine on which everything works.
fn well() -> Machine {
    Machine {
        facts: Facts {
            paranoid: Some(2),
            perfmon: true,
            mlock_kb: Some(516),
            memlock_kb: Some(8192),
            online: vec![0, 1],
            kernel: "6.18.0".to_owned(),
            ..Facts::default()
        },
        root: true,
        ipc_lock: true,
        files: OpenFiles { soft: 1024, hard: 20000 },
        tracing: Ok(Tracing {
            root: "/sys/kernel/tracing".into(),
            mounted_here: false,
            tracepoints: 2307,
            unreadable: Vec::new(),
            unprintable: Vec::new(),
        }),
        system: Ok(()),
        own: Ok(()),
        hardware: Ok(()),
        probes: [true, true],
        monotonic: true,
        clocksource: Some("kvm-clock".to_owned()),
        hook: true,
        idle: Ok([0, 1].map(|cpu| idle(cpu, 5)).to_vec()),
        symbols: Symbols::Shown,
        kptr_restrict: Some(1),
        btf: true,
        monitors: ["top", "irq"].map(bundled).to_vec(),
    }
}

fn bundled(name: &str) -> Bundled {
    Bundled { name: name.to_owned(), ..Bundled::default() }
}

fn idle(cpu: u32, left: u64) -> IdleRecords {
    IdleRecords { cpu, entered: 5, left, counted: 10, written: 10 }
}

#[test]
fn a_cpu_whose_idle_task_leaves_no_records_is_named() {
    assert_eq!(
        line(&well(), "idle tasks"),
        "idle tasks         ok       their events leave records, on 2 of 2 CPUs"
    );
    let silent = |of| line(&Machine { idle: Ok(vec![idle(0, 5), of]), ..well() }, "idle tasks");
    // It was switched to, and never away.
    let text = silent(idle(1, 0));
    assert!(text.contains("limited  events of CPU 1 leave no record while it is idle"), "{text}");
    assert!(text.contains("a reboot fixes it"), "{text}");
    // Counted, and not written.
    let unwritten = IdleRecords { written: 3, ..idle(1, 5) };
    assert!(silent(unwritten).contains("limited  events of CPU 1"));
    let busy = IdleRecords { cpu: 1, ..IdleRecords::default() };
    let never = Machine { idle: Ok(vec![busy]), ..well() };
    assert!(line(&never, "idle tasks").contains("not checked: no CPU was idle"));
    assert!(
        silent(busy).contains("ok       their events leave records, on 1 of 2 CPUs; the other")
    );
}

#[test]
fn functions_need_two_pmus() {
    let of = |probes| line(&Machine { probes, ..well() }, "functions");
    assert!(of([true, true]).contains(" ok "));
    let text = of([false, true]);
    assert!(text.contains("limited  uprobe: watches programs', not the kernel's"), "{text}");
    assert!(text.contains("CONFIG_KPROBE_EVENTS"), "{text}");
    assert!(of([false, false]).contains("missing  none can be watched"));
}

#[test]
fn each_monitor_that_would_not_begin_says_what_it_lacks() {
    assert_eq!(
        line(&well(), "monitors"),
        "monitors           ok       all 2 bundled monitors begin"
    );
    let why = Some("no event 'kvm:kvm_exit'".to_owned());
    let monitors = vec![bundled("top"), Bundled { lacks: why, ..bundled("kvm-exit") }];
    let (text, code) = told(&Machine { monitors, ..well() });
    assert_eq!(code, 0);
    assert!(text.contains("limited  1 of 2 bundled monitors begins; the others lack:\n"), "{text}");
    assert!(text.contains(" kvm-exit: no event 'kvm:kvm_exit'\n"), "{text}");
}

#[test]
fn a_monitor_that_measures_something_else_is_named_with_the_reason() {
    assert_eq!(
        line(&well(), "fallbacks"),
        "fallbacks          ok       none: every monitor measures what it is meant to"
    );
    let fallbacks = vec!["cycles: no such counter; cpu-clock is taken".to_owned()];
    let monitors = vec![bundled("top"), Bundled { fallbacks, ..bundled("profile") }];
    let (text, code) = told(&Machine { monitors, ..well() });
    assert_eq!(code, 0);
    assert!(text.contains("limited  1 monitor measures something else here:\n"), "{text}");
    assert!(text.ends_with(" profile: cycles: no such counter; cpu-clock is taken\n"), "{text}");
}

/// What is printed of a machine, and the exit code.
fn told(machine: &Machine) -> (String, u8) {
    let mut out = Vec::new();
    let code = write(machine, false, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), code)
}

/// The line of that check.
fn line(machine: &Machine, name: &str) -> String {
    let (text, _) = told(machine);
    let found = text.lines().find(|line| line.starts_with(name));
    found.unwrap_or_else(|| panic!("no {name} in\n{text}")).to_owned()
}

#[test]
fn a_machine_that_lacks_nothing_is_ok_in_every_line() {
    let (text, code) = told(&well());
    assert_eq!(code, 0);
    assert_eq!(text.lines().count(), checks::ALL.len());
    for line in text.lines() {
        assert!(line.contains("  ok       "), "{line}");
    }
    assert_eq!(
        line(&well(), "tracefs"),
        "tracefs            ok       2307 tracepoints at /sys/kernel/tracing"
    );
}

#[test]
fn what_every_monitor_needs_makes_the_exit_code() {
    let no_perf = Machine { facts: Facts { paranoid: None, ..well().facts }, ..well() };
    let refused =
        Machine { system: Err("no".into()), own: Err("not even oneself".into()), ..well() };
    let no_tracefs = Machine { tracing: Err("permission denied".into()), ..well() };
    for machine in [&no_perf, &refused, &no_tracefs] {
        assert_eq!(told(machine).1, 1, "{}", told(machine).0);
    }
    assert!(line(&no_tracefs, "tracefs").ends_with("no tracepoint can be read; permission denied"));
    assert!(line(&refused, "perf events").contains("missing"));
}

#[test]
fn what_only_some_need_does_not() {
    let machine = Machine {
        hardware: Err("no PMU".into()),
        symbols: Symbols::Hidden,
        btf: false,
        hook: false,
        clocksource: Some("hpet".into()),
        files: OpenFiles { soft: 256, hard: 512 },
        ..well()
    };
    let (text, code) = told(&machine);
    assert_eq!(code, 0);
    assert_eq!(text.matches("  limited  ").count(), 4, "{text}");
    assert_eq!(text.matches("  missing  ").count(), 2, "{text}");
    assert!(line(&machine, "kernel symbols").contains("kptr_restrict is 1"));
}

#[test]
fn an_ordinary_user_watches_his_own_with_small_rings() {
    let facts = Facts { perfmon: false, memlock_kb: Some(64), ..well().facts };
    let machine = Machine {
        facts,
        root: false,
        ipc_lock: false,
        system: Err("run as root, or set it to -1".into()),
        ..well()
    };
    assert!(line(&machine, "perf events").ends_with(
        "limited  this user's own programs only (an ordinary user, perf_event_paranoid is 2); run as root, or set it to -1"
    ));
    // (516 + 64 / 2) / 4 pages, less the one of the head.
    assert!(line(&machine, "ring memory").contains("about 136 pages a ring"));
    assert_eq!(told(&machine).1, 0);
}

#[test]
fn formats_that_are_not_understood_are_listed() {
    let tracing = Tracing {
        root: "/t".into(),
        mounted_here: true,
        tracepoints: 10,
        unreadable: vec!["odd:one: no fields".to_owned()],
        unprintable: vec!["odd:two: only the kernel knows `x`".to_owned()],
    };
    let machine = Machine { tracing: Ok(tracing), ..well() };
    let (text, code) = told(&machine);
    assert!(text.contains("1 of 10 tracepoints have a format that is not understood"), "{text}");
    assert!(text.contains("\n                            odd:one: no fields\n"), "{text}");
    let shown = line(&machine, "print formats");
    assert!(shown.contains("ok       9 of 10 tracepoints print as the kernel would"), "{shown}");
    assert!(
        text.contains("\n                            odd:two: only the kernel knows `x`\n"),
        "{text}"
    );
    assert!(line(&machine, "tracefs").contains("mounted just now"));
    assert_eq!(code, 0);
}

#[test]
fn json_has_an_object_for_each_check() {
    let mut out = Vec::new();
    write(&well(), true, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), checks::ALL.len());
    assert!(objects.iter().all(|o| o["type"] == "check" && o["state"] == "ok"));
    assert_eq!(objects[1]["check"], "perf events");
    assert!(objects[1]["advice"].is_null());
}
