//! The order of events in many rings, and the reports of record loss: fewer relations, but never a
//! wrong one. A replay of a recording has the losses, the children of tasks and the end of the run.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use perilune::base::event::chain::ChainBuilder;
use perilune::event::catalog::Catalog as _;
use perilune::event::sampling::Sampling;
use perilune::run::catalog::MachineCatalog;
use perilune::source::live::Live;
use perilune::source::live::change::Closer;
use perilune::source::request::{MappingRecords, Opening, SampleParts, ServedRole, SourceRequest};
use perilune::source::{Batch, SideBand, SideBandKind, Sink, UserStack};
use serde_json::Value;

use crate::{
    live::live_tests,
    load,
    tool::{Run, Tool},
    watch,
};

live_tests! {
    a_sleep_is_never_reported_too_long_with_lost_records,
    a_token_is_found_only_where_it_is,
    a_loss_window_is_reported_before_concurrent_events_of_other_cpus,
    events_counted_but_not_written_by_the_kernel_are_undelivered,
    a_loss_window_is_reported_although_an_event_with_more_losses_was_closed,
    a_replay_of_a_process_includes_its_children_and_grandchildren,
    a_replay_has_the_losses_of_the_run,
    a_replay_ends_when_the_run_ended,
}

const MS: u64 = 20;
const ROUNDS: u32 = 60;

/// Returns a run, the number of sleeps that it related, their shortest and longest time in
/// microseconds, and the longest time by the workload's own clock.
fn sleeps(args: &[&str]) -> (Run, f64, [f64; 2], f64) {
    let (load, measured) = load::sleeps_in_storms(ROUNDS, MS);
    let of = load.pid().to_string();
    let ends = ["-e", "raw_syscalls:sys_enter", "-e", "raw_syscalls:sys_exit"];
    let by = ["--impl", "syscalls", "-p", &of];
    let run = watch(&[&["multi-trace"], &ends[..], &by, args].concat(), load);
    let rows: Vec<_> = run.of("row").filter(|row| row["syscall"] == "clock_nanosleep").collect();
    let number = |key: &str| rows.first().and_then(|row| row[key].as_f64()).unwrap_or_default();
    let (calls, span) = (number("calls"), [number("min_us"), number("max_us")]);
    (run, calls, span, measured.get(0) as f64 / 1e3)
}

fn a_sleep_is_never_reported_too_long_with_lost_records() {
    let requested = (MS * 1000) as f64;
    let (run, calls, [shortest, longest], truth) = sleeps(&[]);
    run.is_complete();
    assert_eq!(calls, f64::from(ROUNDS), "{:?}", run.objects);
    assert!(
        requested <= shortest && longest <= truth,
        "{shortest}..{longest} of {requested}..{truth} us"
    );
    let (run, calls, [shortest, longest], truth) = sleeps(&["-m", "4", "--where", "user"]);
    let coverage = run.coverage();
    assert!(coverage["lost"].as_u64() > Some(0), "the storms were too small: {coverage}");
    assert!(calls > 0.0 && calls < f64::from(ROUNDS), "{calls} of {ROUNDS}: {coverage}");
    assert!(
        requested <= shortest && longest <= truth,
        "{shortest}..{longest} of {requested}..{truth} us"
    );
}

fn a_token_is_found_only_where_it_is() {
    const ROUNDS: u32 = 500;
    let mut loads = load::token_ring::<4>(ROUNDS);
    let pids = loads.each_ref().map(load::Load::pid);
    let of = pids.map(|pid| pid.to_string()).join(",");
    let tool = Tool::attach(&["trace", "-e", "syscalls:sys_enter_getppid", "--order", "-p", &of]);
    loads.iter_mut().for_each(load::Load::start);
    loads.into_iter().for_each(load::Load::wait);
    let run = tool.finish();
    run.is_complete();
    let seen: Vec<u64> = run.of("event").filter_map(|event| event["pid"].as_u64()).collect();
    let around: Vec<u64> = (0..ROUNDS).flat_map(|_| pids.map(u64::from)).collect();
    assert_eq!(seen, around);
    let cpus: std::collections::BTreeSet<_> =
        run.of("event").filter_map(|event| event["cpu"].as_u64()).collect();
    assert!(cpus.len() > 1 || std::thread::available_parallelism().is_ok_and(|n| n.get() == 1));
}

fn a_loss_window_is_reported_before_concurrent_events_of_other_cpus() {
    let script = r#"
        local m = monitor { summary = "loss windows, and late reports of them", order = true }
        local last, holes, late = 0, 0, 0
        function m.init()
          evsel("raw_syscalls:sys_enter/id==GETPPID/", function(e) last = e._time end)
        end
        function m.on_lost(from, to)
          holes = holes + 1
          if last > from then late = late + 1 end
        end
        function m.deinit() emit { holes = holes, late = late } end
        return m
    "#;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("holes.lua");
    let script = script.replace("GETPPID", &libc::SYS_getppid.to_string());
    std::fs::write(&path, script).expect("the script can be written");
    let tool = Tool::attach(&[&path.display().to_string(), "-m", "1"]);
    let mut loads = [load::getppid(300_000), load::getppid(300_000)];
    loads.iter_mut().for_each(load::Load::start);
    loads.into_iter().for_each(load::Load::wait);
    let run = tool.finish();
    let number = |key: &str| run.of("row").find_map(|row| row[key].as_u64()).unwrap_or_default();
    let (holes, late) = (number("holes"), number("late"));
    assert!(holes > 2 && late == 0, "{late} of {holes}: {:?}", run.objects);
}

/// Events and loss windows that a ring reported.
#[derive(Default)]
struct Delivered {
    events: u64,
    loss_windows: u32,
}

impl Sink for Delivered {
    unsafe fn dispatch(&mut self, batch: &mut Batch) {
        self.events += batch.slots().len() as u64;
    }

    fn side(&mut self, side: SideBand<'_>) {
        self.loss_windows += u32::from(matches!(side.what, SideBandKind::LossWindow { .. }));
    }

    fn unwind(&mut self, _: &UserStack<'_>, _: &mut ChainBuilder<'_>) {}

    fn stopped(&self) -> bool {
        false
    }
}

/// Only one test at a time opens events of this process.
static ALONE: Mutex<()> = Mutex::new(());

/// Returns a request for this thread on CPU 0, with rings of `pages` pages.
fn this_thread(pages: usize) -> SourceRequest {
    load::pin_to_cpu_0();
    // SAFETY: takes no argument and never fails.
    let tid = unsafe { libc::gettid() };
    SourceRequest {
        cpus: vec![0],
        watched: vec![0],
        tasks: Some(vec![tid]),
        processes: Vec::new(),
        cgroups: None,
        workload: false,
        off: Vec::new(),
        pages: Some(pages),
        watermark: 50,
        ordered: true,
        mmap: MappingRecords::Omitted,
        side: Default::default(),
        watch_self: true,
        own_tids: Vec::new(),
    }
}

/// Returns the opening of getppid calls, for one role.
fn getppids(role: u32) -> Opening {
    let event = MachineCatalog::default().describe("syscalls:sys_enter_getppid");
    Opening {
        event: event.expect("the event is there"),
        glob: None,
        filter: None,
        sampling: Sampling::default(),
        parts: SampleParts::ALL,
        roles: vec![ServedRole::unfiltered(role)],
        follows_cgroups: false,
        pairs: None,
    }
}

/// Detaches the events of this process from their rings, as far as the kernel allows: the owner of
/// a ring keeps it.
fn detach_rings() {
    const SET_OUTPUT: libc::Ioctl = 0x2405;
    let files = std::fs::read_dir("/proc/self/fd").expect("they can be listed").flatten();
    for file in files {
        let is_event = std::fs::read_link(file.path())
            .is_ok_and(|to| to.to_string_lossy().contains("[perf_event]"));
        let number = file.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        if let (true, Some(number)) = (is_event, number) {
            // SAFETY: the call takes a number, and changes an event only.
            unsafe { libc::ioctl(number, SET_OUTPUT, -1 as libc::c_long) };
        }
    }
}

fn events_counted_but_not_written_by_the_kernel_are_undelivered() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let calls = |n: u64| {
        // SAFETY: takes no argument and never fails.
        (0..n).for_each(|_| assert!(unsafe { libc::getppid() } >= 0));
    };
    let mut live = Live::open(vec![getppids(0)], &this_thread(64), 1).expect("it can be opened");
    let mut delivered = Delivered::default();
    live.enable(false).expect("it can be enabled");
    calls(100);
    live.look_for_undelivered(true);
    assert_eq!(live.undelivered(), 0, "they are still in the ring");
    detach_rings();
    calls(50);
    // During the run, and one CPU at a time.
    live.look_for_undelivered(false);
    assert_eq!(live.undelivered(), 50);
    live.disable();
    live.drain(live.now(), &mut delivered);
    live.look_for_undelivered(true);
    assert_eq!((delivered.events, live.lost(true), live.undelivered()), (100, Some(0), 50));
    assert_eq!(live.undelivering(), [0]);
}

fn a_loss_window_is_reported_although_an_event_with_more_losses_was_closed() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let request = this_thread(1);
    // SAFETY: takes no argument and never fails.
    let getppid = || unsafe { libc::getppid() };
    let closer = Closer::start(|| {}).expect("a thread can be started");
    let mut live = Live::open(Vec::new(), &request, 2).expect("rings can be opened");
    let mut delivered = Delivered::default();
    live.enable(false).expect("there is nothing to enable");
    for (role, calls, holes) in [(0, 10_000, 1), (1, 200, 2)] {
        live.add(vec![getppids(role)], &request, 2).expect("the event can be opened");
        live.switch(&[(role, true)].into()).expect("the event can be enabled");
        (0..calls).for_each(|_| assert!(getppid() >= 0));
        live.switch(&[(role, false)].into()).expect("the event can be disabled");
        live.drain(live.now(), &mut delivered);
        // Immediately, because no record followed.
        assert_eq!(delivered.loss_windows, holes);
        live.close(role, &closer);
    }
    assert_eq!(live.lost(true), Some(10_200 - delivered.events));
    live.look_for_undelivered(true);
    assert_eq!(live.undelivered(), 0, "lost records are not undelivered");
    assert!(delivered.events < 200, "{}", delivered.events);
}

const ENTER: &str = "syscalls:sys_enter_getppid";

/// Runs `perilune ARGS… --json --replay FILE`, and returns the objects that it prints.
fn replayed(file: &Path, args: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(args)
        .args(["--json", "--replay"])
        .arg(file)
        .output()
        .expect("the built command runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), output.stderr);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&err));
    out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns the recorded text of `perilune trace ARGS… --events -o FILE` during a workload.
fn record(file: &Path, args: &[&str], load: load::Load) -> String {
    let out = file.to_str().expect("its name is text");
    let tool = Tool::attach_plain(&[&["trace"], args, &["--events", "-o", out]].concat());
    load.run();
    assert_eq!(tool.finish_text().1, Some(0));
    std::fs::read_to_string(file).expect("the recording exists")
}

fn a_replay_of_a_process_includes_its_children_and_grandchildren() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("tree.events");
    let load = load::getppid_in_tree(3, 100);
    let pid = load.pid().to_string();
    let live = Tool::attach(&["stat", "-e", ENTER, "-p", &pid]);
    record(&file, &["-e", ENTER], load);
    let live = live.finish();
    let count = |objects: &[Value]| -> u64 {
        let rows = objects.iter().filter(|object| object["type"] == "row");
        rows.filter_map(|row| row["count"].as_u64()).sum()
    };
    // The task, three children and three grandchildren.
    assert_eq!(count(&live.objects), 700, "{:?}", live.objects);
    for option in ["-p", "-t"] {
        let objects = replayed(&file, &["stat", "-e", ENTER, option, &pid]);
        assert_eq!(count(&objects), 700, "{option}: {objects:?}");
    }
}

fn a_replay_has_the_losses_of_the_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("lost.events");
    let events = ["-m", "1", "-e", "raw_syscalls:sys_enter"];
    let text = record(&file, &events, load::getppid(300_000));
    let live = text.lines().find_map(|line| line.strip_prefix("# coverage of the run: "));
    let lost = live.and_then(|line| line.split_once(" lost")?.0.parse::<u64>().ok());
    assert!(lost > Some(0), "the ring was not full: {live:?}");
    let objects = replayed(&file, &["trace", "-e", "raw_syscalls:sys_enter"]);
    let coverage = objects.iter().find(|object| object["final"] == true);
    assert_eq!(coverage.and_then(|coverage| coverage["lost"].as_u64()), lost);
    assert!(text.contains(" LOST: n=0 ns="), "loss windows are recorded");
}

fn a_replay_ends_when_the_run_ended() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("end.events");
    let load = load::getppid(10);
    let pid = load.pid().to_string();
    let out = file.to_str().expect("its name is text");
    let args = ["trace", "-e", ENTER, "-p", &pid, "--duration", "1200ms", "--events", "-o", out];
    let tool = Tool::attach_plain(&args);
    load.run();
    tool.finish_by_itself();
    let text = std::fs::read_to_string(&file).expect("the recording exists");
    let end = text.lines().find_map(|line| line.strip_prefix("# end ")?.parse::<f64>().ok());
    let end = end.expect("the recording has its end");
    let objects = replayed(&file, &["stat", "-e", ENTER, "-i", "100"]);
    let rows: Vec<&Value> = objects.iter().filter(|object| object["type"] == "row").collect();
    // One row per interval: the last one may be shorter.
    assert_eq!(rows.len(), (end * 10.0).ceil() as usize, "{end}: {rows:?}");
    let count: u64 = rows.iter().filter_map(|row| row["count"].as_u64()).sum();
    assert_eq!(count, 10, "{rows:?}");
}
