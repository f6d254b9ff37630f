//! Filters with conditions that only the kernel can check, combined with the exclusion of
//! perilune's own threads: the events that pass are those of a certain function, or of a certain
//! system call argument.

use crate::load;
use crate::tool::{Run, Tool};
use crate::{live::live_tests, watch};

live_tests! {
    a_filter_by_function_passes_the_events_of_that_function,
    addresses_are_keys_in_hexadecimal_or_unsigned,
    a_filter_by_user_text_passes_the_calls_with_that_argument,
    conditions_that_the_kernel_does_not_support_are_checked_in_user_space,
    conditions_that_this_kernel_refuses_are_checked_in_user_space,
    roles_that_share_an_event_check_their_own_filters_when_the_kernel_refuses_both,
}

/// Pipes that the workload creates; each needs two allocations in `alloc_pipe_info`.
const PIPES: u32 = 300;
const MAKER: &str = "alloc_pipe_info";

/// Returns the allocations of one workload that a run counted, by the calling function.
fn counted(run: &Run, of: impl Fn(&str) -> bool) -> u64 {
    let rows = run.of("row").filter(|row| row["site"].as_str().is_some_and(&of));
    rows.map(|row| row["kmalloc"].as_u64().unwrap_or_default()).sum()
}

fn a_filter_by_function_passes_the_events_of_that_function() {
    let load = load::pipes_closed_elsewhere(PIPES);
    let pid = load.pid();
    let attach = |filter: &str| {
        let script = "local m = monitor { summary = 'sites', order = false, options = { event { \
                      'event', short = 'e', required = true } } }\n\
            function m.init(opt)\n\
              local ev, by = evsel(opt.event), kv { 'site', count = 'kmalloc' }\n\
              local site = expr_of('ksymbol(call_site)', ev, 'text')\n\
              ev:each(function(e) by:add(site(e)) end)\n\
            end\nreturn m\n";
        let file = tempfile::Builder::new().suffix(".lua").tempfile().expect("a temporary file");
        std::fs::write(file.path(), script).expect("a script can be written");
        let path = file.path().to_str().expect("a path in UTF-8");
        let tool = Tool::attach(&[path, "-e", &format!("kmem:kmalloc/{filter}/")]);
        (tool, file)
    };
    let of = format!("common_pid=={pid}");
    let tools = [
        attach(&of),
        attach(&format!("{of} && call_site.function=={MAKER}")),
        attach(&format!("call_site.function=={MAKER} && {of}")),
        attach(&format!("!(call_site.function=={MAKER}) && {of}")),
        attach(&format!("{of} && call_site.function!={MAKER}")),
        attach(&format!("!({of} && !(call_site.function=={MAKER})) && {of}")),
    ];
    load.run();
    let runs = tools.map(|(tool, _)| tool.finish());
    let is_maker = |site: &str| site == MAKER;
    let [all, by, by_first, other, unequal, twice] = &runs;
    let (made, rest) = (counted(all, is_maker), counted(all, |site| !is_maker(site)));
    assert_eq!(made, 2 * u64::from(PIPES), "{}", all.stderr);
    for run in [by, by_first, twice] {
        assert_eq!(
            (counted(run, is_maker), counted(run, |_| true)),
            (made, made),
            "{}",
            run.stderr
        );
    }
    for run in [other, unequal] {
        assert_eq!((counted(run, is_maker), counted(run, |_| true)), (0, rest), "{}", run.stderr);
    }
    runs.iter().for_each(Run::is_complete);
}

fn addresses_are_keys_in_hexadecimal_or_unsigned() {
    let load = load::pipes_closed_elsewhere(PIPES);
    let of = load.pid().to_string();
    let events = "kmem:kmalloc/call_site.function==alloc_pipe_info/";
    let by_site = Tool::attach(&["top", "-e", events, "-k", "call_site", "-p", &of]);
    let run = watch(&["top", "-e", events, "-k", "ptr", "-p", &of], load);
    let by_site = by_site.finish();
    let count = |row: &serde_json::Value| row["kmalloc"].as_u64().unwrap_or_default();
    // Page tables of five levels leave eight bits.
    let is_of_kernel = |bits: u64| bits >> 56 == 0xff;
    for row in run.of("row") {
        let digits = row["ptr"].as_str().and_then(|key| key.strip_prefix("0x"));
        let bits = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        assert!(bits.is_some_and(is_of_kernel), "{row}");
    }
    assert!(by_site.of("row").all(|row| row["call_site"].as_u64().is_some_and(is_of_kernel)));
    for run in [&run, &by_site] {
        let all: u64 = run.of("row").map(count).sum();
        assert_eq!(all, 2 * u64::from(PIPES), "{}", run.stderr);
        run.is_complete();
    }
}

fn a_filter_by_user_text_passes_the_calls_with_that_argument() {
    const FILES: [(&std::ffi::CStr, u64); 2] =
        [(c"/tmp/perilune-none-a", 30), (c"/tmp/perilune-none-b", 70)];
    let load = load::opens(FILES);
    let pid = load.pid();
    let [(_, of_a), (_, of_b)] = FILES;
    let filters = [
        ("filename ~ \"*none-a\"", of_a),
        ("filename ~ \"/tmp/perilune-none-*\"", of_a + of_b),
        ("filename == \"/tmp/perilune-none-b\"", of_b),
        ("filename.ustring == \"/tmp/perilune-none-b\"", of_b),
        ("filename ~ \"*none-*\" && !(filename ~ \"*-b\")", of_a),
        ("filename ~ \"*no such name*\"", 0),
    ];
    let tools = filters.map(|(filter, _)| {
        let event = format!("syscalls:sys_enter_openat/{filter} && common_pid=={pid}/");
        Tool::attach(&["top", "-e", &event, "-k", "common_pid"])
    });
    load.run();
    for (tool, (filter, opens)) in tools.into_iter().zip(filters) {
        let run = tool.finish();
        let passed = run.sum("sys_enter_openat", "common_pid", pid);
        assert_eq!(passed, opens, "{filter}: {}", run.stderr);
        run.is_complete();
    }
}

fn conditions_that_the_kernel_does_not_support_are_checked_in_user_space() {
    let load = load::getppid(5000);
    let pid = load.pid();
    // Every call passes the kernel's part; the other part does not compare a field with a number,
    // so it is checked in user space.
    let event =
        format!("raw_syscalls:sys_enter/common_pid=={pid} && id - {} == 0/", libc::SYS_getppid);
    let run = watch(&["top", "-e", &event, "-k", "id", "-v", "--where", "user"], load);
    assert_eq!(run.coverage()["events"], 5000, "{}", run.stderr);
    assert_eq!(run.sum("sys_enter", "id", libc::SYS_getppid), 5000);
    assert_eq!(run.of("row").filter(|row| row["id"] != libc::SYS_getppid).count(), 0);
    let notes: Vec<_> = run.of("note").filter_map(|note| note["text"].as_str()).collect();
    let halves = format!("in the kernel: common_pid == {pid} (");
    assert!(notes.iter().any(|note| note.contains(&halves)), "{notes:?}");
    let ours = format!("in user space: id - {} == 0 (", libc::SYS_getppid);
    assert!(notes.iter().any(|note| note.contains(&ours)), "{notes:?}");
    // The load makes other calls, too: they were received, and are reported.
    assert!(notes.iter().any(|note| note.contains("were rejected by user-space filters")));
    run.is_complete();
}

fn conditions_that_this_kernel_refuses_are_checked_in_user_space() {
    let load = load::getppid(5000);
    let pid = load.pid();
    // The number of CPUs that the kernel supports is not known here: the kernel rejects such a
    // list.
    let event = format!(
        "raw_syscalls:sys_enter/common_pid=={pid} && CPU & CPUS{{0-100000}} && id=={}/",
        libc::SYS_getppid
    );
    let run = watch(&["top", "-e", &event, "-k", "id"], load);
    let notes: Vec<_> = run.of("note").filter_map(|note| note["text"].as_str()).collect();
    let expected = "raw_syscalls:sys_enter: this kernel refuses the filter 'CPU & CPUS{0-100000}'";
    assert!(notes.iter().any(|note| note.starts_with(expected)), "{notes:?}");
    assert_eq!(run.coverage()["events"], 5000, "{notes:?}");
    assert_eq!(run.sum("sys_enter", "id", libc::SYS_getppid), 5000);
    run.is_complete();
}

fn roles_that_share_an_event_check_their_own_filters_when_the_kernel_refuses_both() {
    let load = load::getppid(3000);
    let (pid, id) = (load.pid(), libc::SYS_getppid);
    let of = pid.to_string();
    let events = format!(
        "raw_syscalls:sys_enter/CPU & CPUS{{0-100000}}/alias=any/,\
         raw_syscalls:sys_enter/id=={id}/alias=own/,raw_syscalls:sys_enter/id!={id}/alias=other/"
    );
    let run = watch(&["top", "-e", &events, "-k", "id", "-p", &of, "-v"], load);
    for (column, calls) in [("any", 3000), ("own", 3000), ("other", 0)] {
        assert_eq!(run.sum(column, "id", id), calls, "{column}: {}", run.stderr);
    }
    let notes: Vec<_> = run.of("note").filter_map(|note| note["text"].as_str()).collect();
    assert!(!notes.iter().any(|note| note.contains("filtered in the kernel")), "{notes:?}");
    run.is_complete();
}
