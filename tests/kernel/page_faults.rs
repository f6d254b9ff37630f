//! page-faults: a workload that touches N new pages causes N faults in them.

use perf_event_open_sys::bindings as abi;
use perilune::sys::attr::{Attr, PerfTarget};
use perilune::sys::perf::PerfEvent;
use serde_json::Value;

use crate::counters::refused;
use crate::groups::needs_inherited_counts;
use crate::live::live_tests;
use crate::load;
use crate::script::written;
use crate::tool::{Run, Tool};

live_tests! {
    each_touched_page_is_one_fault,
    with_a_period_one_sample_represents_that_many_faults,
    events_that_sample_the_same_fault_have_a_sample_each,
    events_with_different_stacks_of_the_same_fault_are_refused,
    a_stack_that_another_program_did_not_request_is_truncated,
    a_fault_that_another_program_samples_first_has_its_event_and_time,
}

/// Number of pages that the loads of these tests touch.
const PAGES: u64 = 20_000;

/// Checks the number of samples of the faults in [`PAGES`], with a period. The task also touches
/// its stack and its code; each of two CPUs keeps a remainder.
#[track_caller]
fn check_samples(samples: &Value, period: u64, run: &Run) {
    let (samples, least) = (samples.as_u64().unwrap_or(0), PAGES / period);
    assert!((least - 2..least + 10 + 100 / period).contains(&samples), "{samples}: {}", run.stderr);
}

fn reports_another_program(run: &Run) -> bool {
    let is_it = |text: &str| text.contains("that another program requested");
    run.of("note").any(|note| note["text"].as_str().is_some_and(is_it))
}

/// Runs a script with this `m.init` over the faults of a task, which emits `n` at its end. `begin`
/// is called with the task before it begins; what it returns is held until the end.
fn run_script<T>(order: bool, init: &str, begin: impl FnOnce(i32) -> T) -> Run {
    let text = format!(
        "local m, n = monitor {{ summary = 'faults', order = {order} }}, {{}}
         function m.init() {init} end
         function m.deinit() emit(n) end
         return m"
    );
    let (_folder, path) = written(&text);
    let (load, _) = load::faults(PAGES as usize);
    let pid = load.pid();
    let tool = Tool::attach(&[&path, "-p", &pid.to_string()]);
    let held = begin(pid as i32);
    load.run();
    drop(held);
    tool.finish()
}

fn each_touched_page_is_one_fault() {
    const FEW: usize = 1000;
    let (load, measured) = load::faults(FEW);
    let pid = load.pid();
    let run = crate::watch(&["page-faults", "--address", "-p", &pid.to_string()], load);
    let (first, all) = (measured.get(0), measured.get(1));
    let address = |row: &serde_json::Value| {
        let text = row["address"].as_str().unwrap_or_default().trim_start_matches("0x").to_owned();
        u64::from_str_radix(&text, 16).unwrap_or_default()
    };
    let inside = run.of("row").filter(|row| (first..first + all).contains(&address(row)));
    let inside: Vec<_> = inside.collect();
    assert_eq!(inside.len(), FEW, "{}", run.stderr);
    assert!(inside.iter().all(|row| row["faults"] == 1 && row["pid"] == pid));
    run.is_complete();
}

fn with_a_period_one_sample_represents_that_many_faults() {
    let (load, _) = load::faults(PAGES as usize);
    let pid = load.pid();
    let watched = ["trace", "-e", "page-faults/period=100/", "-p", &pid.to_string()];
    let run = crate::watch(&watched, load);
    let periods: Vec<_> = run.of("event").map(|event| event["period"].as_u64()).collect();
    assert!(periods.iter().all(|period| *period == Some(100)), "{periods:?}");
    check_samples(&periods.len().into(), 100, &run);
    run.is_complete();
}

fn events_that_sample_the_same_fault_have_a_sample_each() {
    needs_inherited_counts();
    // The kernel gives all samples of a fault the ID of the first. The layouts of these differ.
    let init = "
        local function count(period, selector, spec)
          n['every' .. period] = 0
          evsel(selector, spec or {}):each(function(e)
            n['every' .. period] = n['every' .. period] + 1
          end)
        end
        count(1, 'page-faults', { period = 1 })
        count(10, 'page-faults//period=10/')
        count(20, 'page-faults//period=20/', { stack = 'fp' })";
    let run = run_script(true, init, |_| ());
    let row = run.of("row").next().unwrap_or_else(|| panic!("{}", run.stderr));
    for period in [1, 10, 20] {
        check_samples(&row[format!("every{period}")], period, &run);
    }
    assert!(!reports_another_program(&run), "{:?}", run.objects);
    run.is_complete();
}

fn events_with_different_stacks_of_the_same_fault_are_refused() {
    let text = "local m = monitor { summary = 'faults' }
        function m.init()
          evsel('page-faults', { period = 2, stack = true }, function() end)
          evsel('page-faults', { period = 2, stack = true, max_stack = 1 }, function() end)
        end
        return m";
    let (_folder, path) = written(text);
    let (code, said) = refused(&[&path]);
    let why = "two events of the run sample it with different stacks or registers";
    assert!(code == Some(1) && said.contains(why), "{code:?} {said}");
}

/// Opens an event of page faults, as another program does. The kernel handles the event that was
/// opened last first.
fn open_first(pid: i32, fields: &[(&str, u64)]) -> PerfEvent {
    let mut attr = Attr::software(abi::PERF_COUNT_SW_PAGE_FAULTS.into());
    for (name, value) in [("sample_period", 5), ("use_clockid", 1)].iter().chain(fields) {
        attr.set(name, *value).expect("the attr has this field");
    }
    let target = PerfTarget { pid, cpu: -1 };
    PerfEvent::open(&attr, target, "page-faults").expect("a second event").event
}

fn a_stack_that_another_program_did_not_request_is_truncated() {
    needs_inherited_counts();
    let init = "n.samples, n.empty = 0, 0
        evsel('page-faults//period=10/', { stack = true }, function(e)
          n.samples = n.samples + 1
          if stack_text(e._stack) == '' then n.empty = n.empty + 1 end
        end)";
    // A fault in user space has no frame in the kernel.
    let kinds = abi::PERF_SAMPLE_TIME | abi::PERF_SAMPLE_CALLCHAIN;
    let fields = [
        ("sample_type", kinds.into()),
        ("exclude_callchain_user", 1),
        ("clockid", libc::CLOCK_MONOTONIC as u64),
    ];
    let run = run_script(true, init, |pid| open_first(pid, &fields));
    let row = run.of("row").next().unwrap_or_else(|| panic!("{}", run.stderr));
    check_samples(&row["samples"], 10, &run);
    assert_eq!(row["empty"], 0, "{row}");
    let truncated = run.coverage()["truncated"].as_u64();
    assert!(truncated > Some(PAGES / 10 * 9 / 10), "{}", run.coverage());
    assert!(reports_another_program(&run), "{}", run.stderr);
}

fn a_fault_that_another_program_samples_first_has_its_event_and_time() {
    needs_inherited_counts();
    let init = "n.samples, n.early, n.late = 0, 0, 0
        evsel('page-faults//period=10/', function(e)
          n.samples = n.samples + 1
          if e._time < 0 then n.early = n.early + 1 end
          if e._time > 600e9 then n.late = n.late + 1 end
        end)";
    for (order, kinds) in [
        (true, abi::PERF_SAMPLE_TIME),
        (true, abi::PERF_SAMPLE_TIME | abi::PERF_SAMPLE_IDENTIFIER),
        (false, abi::PERF_SAMPLE_TIME),
        (false, abi::PERF_SAMPLE_TIME | abi::PERF_SAMPLE_IDENTIFIER),
    ] {
        let clock = ("clockid", libc::CLOCK_REALTIME as u64);
        let other = |pid| open_first(pid, &[("sample_type", kinds.into()), clock]);
        let run = run_script(order, init, other);
        let row = run.of("row").next().unwrap_or_else(|| panic!("{}", run.stderr));
        check_samples(&row["samples"], 10, &run);
        for count in [&row["early"], &row["late"], &run.coverage()["disordered"]] {
            assert_eq!(*count, 0, "{order} {kinds:#x}: {row} {}", run.coverage());
        }
        assert!(reports_another_program(&run), "{order} {kinds:#x}: {}", run.stderr);
        run.is_complete();
    }
}
