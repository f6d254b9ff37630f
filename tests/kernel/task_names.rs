//! Names of tasks that change CPUs, in runs that relate no events.

use std::ffi::CStr;

use crate::live::{live_tests, skip_anywhere};
use crate::load;
use crate::tool::{Run, Tool};

live_tests! {
    each_event_has_the_name_that_its_task_had_then,
    a_filter_by_name_passes_the_events_of_that_name,
    an_own_script_gets_the_name_of_that_time,
}

const CHILDREN: u32 = 200;
const CALLS: u32 = 50;
const ALL: u64 = CHILDREN as u64 * CALLS as u64;

/// Watches children that take the name on one CPU and make calls on another.
fn watch(args: &[&str], name: &'static CStr) -> Run {
    if perilune::sys::cpus::online_cpus().len() < 2 {
        skip_anywhere("one CPU");
    }
    let load = load::getppid_renamed_elsewhere(CHILDREN, name, CALLS);
    let tool = Tool::attach(args);
    load.run();
    let run = tool.finish();
    run.is_complete();
    run
}

fn event(filter: &str) -> String {
    format!("raw_syscalls:sys_enter/id == {}{filter}/", libc::SYS_getppid)
}

fn each_event_has_the_name_that_its_task_had_then() {
    let args = ["top", "-e", &event(""), "-k", "_comm", "--where", "user"];
    let run = watch(&args, c"named-by-key");
    assert_eq!(run.sum("sys_enter", "comm", "named-by-key"), ALL, "{:?}", run.objects);
}

fn a_filter_by_name_passes_the_events_of_that_name() {
    let event = event(" && _comm == \"named-by-filter\"");
    let args = ["top", "-e", &event, "-k", "_comm", "--where", "user"];
    let run = watch(&args, c"named-by-filter");
    assert_eq!(run.sum("sys_enter", "comm", "named-by-filter"), ALL, "{:?}", run.objects);
}

fn an_own_script_gets_the_name_of_that_time() {
    let folder = tempfile::tempdir().expect("a folder for the script");
    let path = folder.path().join("names.lua");
    let text = format!(
        "local m = monitor {{ summary = 'names' }}
         function m.init()
           local calls = kv {{ 'comm' }}
           evsel('{}', function(e) calls:add(e._comm) end)
         end
         return m",
        event("")
    );
    std::fs::write(&path, text).expect("the script can be written");
    let run = watch(&[&path.to_string_lossy()], c"named-by-script");
    assert_eq!(run.sum("count", "comm", "named-by-script"), ALL, "{:?}", run.objects);
}
