//! Tests of the doctor's output for various machines.

use super::machine::{KallsymsAccess, Tracing};
use super::*;
use crate::cli::runtime::Bundled;
use crate::sys::breakpoint_hits::BreakpointHits;
use crate::sys::idle_records::IdleRecords;
use crate::sys::limits::OpenFiles;
use crate::sys::privileges::Privileges;

/// A machine on which everything works.
fn well() -> MachineFacts {
    MachineFacts {
        facts: Privileges {
            paranoid: Some(2),
            perfmon: true,
            mlock_kb: Some(516),
            memlock_kb: Some(8192),
            online: vec![0, 1],
            kernel: "6.18.0".to_owned(),
            ..Privileges::default()
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
        traced: false,
        counting: Ok(()),
        monotonic: true,
        clocksource: Some("kvm-clock".to_owned()),
        hook: true,
        breakpoints: Ok(BreakpointHits { written: 20_000, counted: 20_000 }),
        idle: Ok([0, 1].map(|cpu| idle(cpu, 5)).to_vec()),
        symbols: KallsymsAccess::Shown,
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
fn cpus_with_unrecorded_idle_events_are_listed() {
    assert_eq!(
        line(&well(), "idle tasks"),
        "idle tasks         ok       their events are recorded on 2 of 2 CPUs"
    );
    let silent =
        |of| line(&MachineFacts { idle: Ok(vec![idle(0, 5), of]), ..well() }, "idle tasks");
    // The idle task was switched in, and never out.
    let text = silent(idle(1, 0));
    assert!(text.contains("limited  events of CPU 1 are not recorded while it is idle"), "{text}");
    assert!(text.contains("a reboot fixes it"), "{text}");
    // Counted, but not written.
    let unwritten = IdleRecords { written: 3, ..idle(1, 5) };
    assert!(silent(unwritten).contains("limited  events of CPU 1"));
    let busy = IdleRecords { cpu: 1, ..IdleRecords::default() };
    let never = MachineFacts { idle: Ok(vec![busy]), ..well() };
    assert!(line(&never, "idle tasks").contains("not checked: no CPU was idle"));
    assert!(silent(busy).contains("ok       their events are recorded on 1 of 2 CPUs; the other"));
}

#[test]
fn lost_hits_of_breakpoints_are_shown() {
    assert!(line(&well(), "breakpoints").ends_with("ok       20000 of 20000 hits"));
    let hits = BreakpointHits { written: 20_000, counted: 351 };
    let text = line(&MachineFacts { breakpoints: Ok(hits), ..well() }, "breakpoints");
    assert!(text.contains("limited  hits are lost: 351 of 20000; mem: events are"), "{text}");
    let denied = Err("perf_event_paranoid is 4".to_owned());
    let text = line(&MachineFacts { breakpoints: denied, ..well() }, "breakpoints");
    assert!(text.contains("missing  no hardware breakpoint; perf_event_paranoid is 4"), "{text}");
}

#[test]
fn functions_need_two_pmus() {
    let of = |probes| line(&MachineFacts { probes, ..well() }, "functions");
    assert!(of([true, true]).contains(" ok "));
    let text = of([false, true]);
    assert!(text.contains("limited  uprobe: (programs) only"), "{text}");
    assert!(text.contains("CONFIG_KPROBE_EVENTS"), "{text}");
    assert!(of([false, false]).contains("missing  neither kprobe: nor uprobe:"));
}

#[test]
fn monitors_that_cannot_run_are_listed_with_the_reason() {
    assert_eq!(
        line(&well(), "monitors"),
        "monitors           ok       all 2 bundled monitors can run"
    );
    let why = Some("no event 'kvm:kvm_exit'".to_owned());
    let monitors = vec![bundled("top"), Bundled { lacks: why, ..bundled("kvm-exit") }];
    let (text, code) = output_of(&MachineFacts { monitors, ..well() });
    assert_eq!(code, 0);
    assert!(
        text.contains("limited  1 of 2 bundled monitors can run; the others lack:\n"),
        "{text}"
    );
    assert!(text.contains(" kvm-exit: no event 'kvm:kvm_exit'\n"), "{text}");
}

#[test]
fn monitors_that_can_only_watch_own_programs_are_listed_with_the_reason() {
    let own =
        Bundled { only_own: Some("page-faults: permission denied".into()), ..bundled("stat") };
    let lacks = Bundled { lacks: Some("tracefs: permission denied".into()), ..bundled("irq") };
    let of = |monitors| output_of(&MachineFacts { monitors, ..well() }).0;
    let text = of(vec![bundled("top"), own.clone(), lacks]);
    let found = "2 of 3 bundled monitors can run, 1 of them only with -p or a COMMAND of this user";
    assert!(text.contains(&format!("limited  {found}; the others lack:\n")), "{text}");
    assert!(text.contains(" irq: tracefs: permission denied\n"), "{text}");
    assert!(text.contains(" only own programs: stat: page-faults: permission denied\n"), "{text}");
    let text = of(vec![own]);
    assert!(text.contains("limited  1 of 1 bundled monitors can run, 1 of them only"), "{text}");
}

#[test]
fn monitors_with_a_fallback_are_listed_with_the_reason() {
    assert_eq!(
        line(&well(), "fallbacks"),
        "fallbacks          ok       none: every monitor uses its own events"
    );
    let fallbacks = vec!["cycles: no such counter; cpu-clock is used".to_owned()];
    let monitors = vec![bundled("top"), Bundled { fallbacks, ..bundled("profile") }];
    let (text, code) = output_of(&MachineFacts { monitors, ..well() });
    assert_eq!(code, 0);
    assert!(text.contains("limited  1 monitor uses other events here:\n"), "{text}");
    assert!(text.ends_with(" profile: cycles: no such counter; cpu-clock is used\n"), "{text}");
}

/// Returns the output for a machine, and the exit code.
fn output_of(machine: &MachineFacts) -> (String, u8) {
    let mut out = Vec::new();
    let code = write(machine, false, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), code)
}

/// Returns the line of a check.
fn line(machine: &MachineFacts, name: &str) -> String {
    let (text, _) = output_of(machine);
    let found = text.lines().find(|line| line.starts_with(name));
    found.unwrap_or_else(|| panic!("no {name} in\n{text}")).to_owned()
}

#[test]
fn a_complete_machine_is_ok_in_every_line() {
    let (text, code) = output_of(&well());
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
fn a_missing_requirement_of_all_monitors_exits_with_1() {
    let no_perf = MachineFacts { facts: Privileges { paranoid: None, ..well().facts }, ..well() };
    let refused =
        MachineFacts { system: Err("no".into()), own: Err("not even own tasks".into()), ..well() };
    let no_tracefs = MachineFacts { tracing: Err("permission denied".into()), ..well() };
    for machine in [&no_perf, &refused, &no_tracefs] {
        assert_eq!(output_of(machine).1, 1, "{}", output_of(machine).0);
    }
    assert!(line(&no_tracefs, "tracefs").ends_with("no tracepoint can be read; permission denied"));
    assert!(line(&refused, "perf events").contains("missing"));
}

#[test]
fn a_missing_requirement_of_some_monitors_exits_with_0() {
    let machine = MachineFacts {
        hardware: Err("no PMU".into()),
        symbols: KallsymsAccess::Hidden,
        btf: false,
        hook: false,
        clocksource: Some("hpet".into()),
        files: OpenFiles { soft: 256, hard: 512 },
        ..well()
    };
    let (text, code) = output_of(&machine);
    assert_eq!(code, 0);
    assert_eq!(text.matches("  limited  ").count(), 4, "{text}");
    assert_eq!(text.matches("  missing  ").count(), 2, "{text}");
    assert!(line(&machine, "kernel symbols").contains("kptr_restrict is 1"));
}

#[test]
fn an_ordinary_user_is_limited_to_own_tasks_and_small_rings() {
    let facts = Privileges { perfmon: false, memlock_kb: Some(64), ..well().facts };
    let machine = MachineFacts {
        facts,
        root: false,
        ipc_lock: false,
        system: Err("run as root, or set it to -1".into()),
        ..well()
    };
    assert!(line(&machine, "perf events").ends_with(
        "limited  this user's own programs only (an ordinary user, perf_event_paranoid is 2); run \
         as root, or set it to -1"
    ));
    // (516 + 64 / 2) / 4 pages, minus the head page.
    assert!(line(&machine, "ring memory").contains("about 136 pages per ring"));
    assert_eq!(output_of(&machine).1, 0);
}

#[test]
fn unparsable_formats_are_listed() {
    let tracing = Tracing {
        root: "/t".into(),
        mounted_here: true,
        tracepoints: 10,
        unreadable: vec!["odd:one: no fields".to_owned()],
        unprintable: vec!["odd:two: only the kernel knows `x`".to_owned()],
    };
    let machine = MachineFacts { tracing: Ok(tracing), ..well() };
    let (text, code) = output_of(&machine);
    assert!(text.contains("1 of 10 tracepoints have a format that cannot be parsed"), "{text}");
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

#[test]
fn the_reason_why_the_kernel_cannot_count_is_shown() {
    let denied = Err("permission denied; run as root".to_owned());
    let text = line(&MachineFacts { counting: denied, ..well() }, "counting");
    assert!(text.contains("limited  in user space, from records; permission denied"), "{text}");
}
