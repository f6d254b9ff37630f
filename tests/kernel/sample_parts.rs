//! Samples without the parts that nothing reads: the rest is as exact as with them.

use crate::live::live_tests;
use crate::load;
use crate::tool::{Run, Tool};

live_tests! {
    the_thread_its_name_and_its_cpu_are_known_without_these_parts,
    losses_of_samples_without_a_time_are_counted,
    a_handler_that_reads_times_gets_one_for_each_event,
    a_switched_event_without_times_is_handled_while_it_is_on,
    a_count_names_its_rows_without_the_process,
}

const CALLS: u32 = 30_000;

/// Starts a script of getppid calls, with `rows` of key `k` and sum `n`. `init` is code after their
/// declaration, `options` are options of the run. The file must be kept.
fn attach(init: &str, options: &[&str]) -> (tempfile::NamedTempFile, Tool) {
    let file = tempfile::Builder::new().suffix(".lua").tempfile().expect("a temporary file");
    let text = format!(
        "local m = monitor {{ summary = 'getppid calls' }}\n\
         local calls = 'raw_syscalls:sys_enter/id=={}/'\n\
         function m.init() local rows = kv {{ 'k', sums = {{ 'n' }} }}\n{init} end\nreturn m",
        libc::SYS_getppid
    );
    std::fs::write(file.path(), text).expect("a script can be written");
    let path = file.path().to_str().expect("a path in UTF-8");
    let tool = Tool::attach(&[&[path][..], options].concat());
    (file, tool)
}

/// Runs such a script beside a load.
fn run(init: &str, load: load::Load, options: &[&str]) -> Run {
    let (_file, tool) = attach(init, options);
    load.run();
    tool.finish()
}

fn the_thread_its_name_and_its_cpu_are_known_without_these_parts() {
    for key in ["_tid", "_pid", "_comm", "_cpu"] {
        let load = load::getppid_on(0, CALLS);
        let pid = load.pid();
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("the load has one");
        let init = format!("evsel(calls, function(e) rows:add(e.{key}, 1) end)");
        let run = run(&init, load, &["-m", "1024"]);
        run.is_complete();
        let count = match key {
            "_comm" => run.sum("n", "k", comm.trim_end()),
            "_cpu" => run.sum("n", "k", 0),
            _ => run.sum("n", "k", pid),
        };
        // The name and the CPU may be those of other tasks, too.
        let is_own = ["_tid", "_pid"].contains(&key);
        assert!(count >= u64::from(CALLS), "{key}: {count}");
        assert!(!is_own || count == u64::from(CALLS), "{key}: {count}");
    }
}

fn losses_of_samples_without_a_time_are_counted() {
    let load = load::getppid(20 * CALLS);
    let pid = load.pid();
    // Other tests also call getppid, and lose calls.
    let init =
        format!("evsel(calls, function(e) rows:add(e._tid, 1) end):filter('common_pid == {pid}')");
    let run = run(&init, load, &["-m", "1"]);
    let coverage = run.coverage();
    let lost = coverage["lost"].as_u64().unwrap_or_default();
    assert!(lost > 0, "a ring of one page is full after 100 samples: {coverage}");
    assert_eq!(run.sum("n", "k", pid) + lost, u64::from(20 * CALLS), "{coverage}");
    for problem in ["undecodable", "undelivered", "errors"] {
        assert_eq!(coverage[problem], 0, "{problem}: {coverage}");
    }
}

fn a_handler_that_reads_times_gets_one_for_each_event() {
    // Rings of other CPUs would be read before or after.
    let load = load::getppid_on(1, CALLS);
    let pid = load.pid();
    let init = format!(
        "local last = -1 evsel(calls, function(e)\n\
         if e._tid == {pid} and e._time > last then rows:add(1, 1) last = e._time end end)"
    );
    // The calls of all processes are recorded, also those of other tests.
    let run = run(&init, load, &["-m", "2048"]);
    run.is_complete();
    assert_eq!(run.sum("n", "k", 1), u64::from(CALLS));
}

fn a_switched_event_without_times_is_handled_while_it_is_on() {
    let load = load::getppid(CALLS);
    let pid = load.pid();
    let init = "local ev = evsel(calls, function(e) rows:add(e._tid, 1) end)\n\
                ev:off() every('100ms', function() ev:on() end)";
    let (_file, tool) = attach(init, &["-m", "1024"]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    load.run();
    let run = tool.finish();
    run.is_complete();
    assert_eq!(run.sum("n", "k", pid), u64::from(CALLS), "{:?}", run.objects);
}

fn a_count_names_its_rows_without_the_process() {
    let load = load::getppid(CALLS);
    let pid = load.pid();
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).expect("it has one");
    let count = "local named = kv { 'k', name = { 'comm' } }\n\
                 named:count(evsel(calls), { key = '_tid', name = '_comm' })";
    let run = run(count, load, &["-m", "1024", "--where", "user"]);
    run.is_complete();
    let rows: Vec<_> = run.of("row").filter(|row| row["k"] == pid).collect();
    let [row] = rows[..] else { panic!("{rows:?}") };
    assert_eq!((&row["count"], &row["comm"]), (&CALLS.into(), &comm.trim_end().into()));
}
