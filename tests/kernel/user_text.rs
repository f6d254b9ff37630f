//! Strings in user memory: the names that a workload passes to system calls arrive as it passed
//! them, in order, and what could not be read is reported.

use std::ffi::CString;

use crate::live::live_tests;
use crate::load;
use crate::tool::{Run, Tool};

live_tests! {
    each_name_arrives_as_it_was_passed,
    both_names_of_a_call_arrive,
    a_name_in_memory_that_was_never_used_is_a_fault,
    numbers_are_compared_before_a_record_is_written,
    names_are_keys_of_expressions_and_part_of_the_text,
    only_calls_of_the_watched_process_arrive,
}

const SCRIPT: &str = "local m = monitor { summary = 'names', options = { event { 'event', \
    short = 'e', required = true } } }\n\
    function m.init(opt)\n\
      evsel(opt.event):each(function(e) emit { file = e.filename, to = FIELD, pid = e._pid } end)\n\
    end\nreturn m\n";

/// Attaches a script that prints the names of an event, and the `field`.
fn attach(event: &str, field: &str, more: &[&str]) -> (Tool, tempfile::NamedTempFile) {
    let file = tempfile::Builder::new().suffix(".lua").tempfile().expect("a temporary file");
    let script = SCRIPT.replace("FIELD", field);
    std::fs::write(file.path(), script).expect("a script can be written");
    let path = file.path().to_str().expect("a path in UTF-8");
    (Tool::attach(&[&[path, "-v", "-e", event], more].concat()), file)
}

fn texts(run: &Run, column: &str, pid: u32) -> Vec<String> {
    let rows = run.of("row").filter(|row| row["pid"].as_u64() == Some(u64::from(pid)));
    rows.map(|row| row[column].as_str().unwrap_or_default().to_owned()).collect()
}

/// Returns whether a note of the run contains a text.
fn is_noted(run: &Run, text: &str) -> bool {
    run.objects.iter().any(|object| object["text"].as_str().is_some_and(|t| t.contains(text)))
}

fn names(n: usize) -> Vec<CString> {
    (0..n).map(|i| CString::new(format!("/tmp/perilune-name-{i}")).expect("no NUL")).collect()
}

fn each_name_arrives_as_it_was_passed() {
    let mut names = names(300);
    names.push(CString::new("").expect("no NUL"));
    names.push(CString::new("/a\tb\u{7}\u{fc}").expect("no NUL"));
    names.push(CString::new("x".repeat(4094)).expect("no NUL"));
    names.push(CString::new("x".repeat(5000)).expect("no NUL"));
    let load = load::opens_names(&names);
    let pid = load.pid();
    let (tool, _file) = attach("syscalls:sys_enter_openat", "0", &["-p", &pid.to_string()]);
    load.run();
    let run = tool.finish();
    let mut expected: Vec<String> =
        names.iter().map(|name| name.to_str().expect("UTF-8").to_owned()).collect();
    // PATH_MAX, with its NUL.
    expected.last_mut().expect("there are names").truncate(4095);
    assert_eq!(texts(&run, "file", pid), expected, "{}", run.stderr);
    run.is_complete();
}

fn both_names_of_a_call_arrive() {
    let names = names(20);
    let load = load::links_names(&names);
    let pid = load.pid();
    let event = "syscalls:sys_enter_link";
    let file = tempfile::Builder::new().suffix(".lua").tempfile().expect("a temporary file");
    let script = SCRIPT.replace("FIELD", "e.newname").replace("e.filename", "e.oldname");
    std::fs::write(file.path(), script).expect("a script can be written");
    let tool = Tool::attach(&[file.path().to_str().expect("a path in UTF-8"), "-e", event]);
    load.run();
    let run = tool.finish();
    let expected: Vec<&str> = names.iter().map(|name| name.to_str().expect("UTF-8")).collect();
    assert_eq!(texts(&run, "file", pid), expected, "{}", run.stderr);
    assert_eq!(texts(&run, "to", pid), vec!["/proc/none/name"; names.len()], "{}", run.stderr);
    run.is_complete();
}

fn a_name_in_memory_that_was_never_used_is_a_fault() {
    let load = load::opens_untouched_name();
    let pid = load.pid();
    let (tool, _file) = attach("syscalls:sys_enter_openat", "0", &["-p", &pid.to_string()]);
    load.run();
    let run = tool.finish();
    assert_eq!(texts(&run, "file", pid), ["(fault)", "/tmp/perilune-untouched"], "{}", run.stderr);
    assert!(
        is_noted(&run, "those of watched tasks are shown as (fault) or empty"),
        "{:?}",
        run.objects
    );
}

fn numbers_are_compared_before_a_record_is_written() {
    let names = names(40);
    let load = load::opens_names(&names);
    let pid = load.pid();
    // The names are opened with O_RDONLY and O_PATH in turn.
    let event = format!("syscalls:sys_enter_openat/flags & {} && dfd != 7/", libc::O_PATH);
    let (tool, _file) = attach(&event, "0", &[]);
    load.run();
    let run = tool.finish();
    assert_eq!(texts(&run, "file", pid).len(), 20, "{}", run.stderr);
    assert!(texts(&run, "file", pid)[1].ends_with("-3"), "{}", run.stderr);
    assert!(is_noted(&run, "filtered in the kernel: flags & "), "{:?}", run.objects);
    assert_eq!(run.coverage()["filtered"].as_u64().unwrap_or(0), 0, "{}", run.coverage());
    run.is_complete();
}

fn names_are_keys_of_expressions_and_part_of_the_text() {
    let names = names(3);
    let load = load::opens_names(&names);
    let pid = load.pid();
    let event = "syscalls:sys_enter_openat/filename ~ \"*perilune-name-*\"/";
    let top = Tool::attach(&["top", "-e", event, "-k", "filename", "-p", &pid.to_string()]);
    let trace = Tool::attach_plain(&["trace", "-e", event, "-p", &pid.to_string()]);
    load.run();
    let run = top.finish();
    for name in &names {
        let name = name.to_str().expect("UTF-8");
        assert_eq!(run.sum("sys_enter_openat", "filename", name), 1, "{}", run.stderr);
    }
    let (text, _) = trace.finish_text();
    assert!(text.contains("\"/tmp/perilune-name-2\", flags: 0x"), "{text}");
}

fn only_calls_of_the_watched_process_arrive() {
    let names = names(50);
    let (watched, other) = (load::opens_names(&names), load::opens_names(&names));
    let pid = watched.pid();
    let (tool, _file) = attach("syscalls:sys_enter_openat", "0", &["-p", &pid.to_string()]);
    other.run();
    watched.run();
    let run = tool.finish();
    assert_eq!(texts(&run, "file", pid).len(), names.len(), "{}", run.stderr);
    assert_eq!(run.of("row").count(), names.len(), "{}", run.stderr);
    run.is_complete();
}
