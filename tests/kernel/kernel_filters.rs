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
