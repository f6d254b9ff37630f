//! Stacks of real programs, recorded by the running kernel: each unwinding method returns the call
//! chain of the source.
//!
//! The programs are built here, in C, C++ and Rust, with and without frame pointers. Their
//! functions call each other in a fixed order down to one system call, at whose tracepoint the
//! stack is recorded.

mod programs;
mod watch;

use crate::live::live_tests;
use perilune::event::sampling::{CallGraph, ChainPart, Sampling, StackSampling};
use programs::{WITH_FRAME_POINTERS, WITHOUT_FRAME_POINTERS};
use watch::{Seen, Walked, watch};

live_tests! {
    a_c_program_without_frame_pointers_is_unwound_to_its_start,
    a_program_with_debug_frames_only_is_unwound_as_well,
    a_cpp_program_without_frame_pointers_is_unwound_to_its_start,
    a_rust_program_without_frame_pointers_is_unwound_to_its_start,
    a_thread_is_unwound_to_where_it_began,
    the_frame_interrupted_by_a_signal_follows_its_handler,
    a_function_interrupted_at_its_first_instruction_has_its_own_name,
    code_of_the_kernel_in_user_space_is_unwound,
    frame_pointers_lead_to_main_where_a_program_keeps_them,
    a_stack_deeper_than_its_copy_is_marked_and_counted_as_truncated,
    the_kernel_part_precedes_the_user_part_and_either_can_be_omitted,
    branch_records_are_refused_with_an_alternative,
    the_command_walks_stacks_by_its_option_and_counts_truncated_ones,
}

const GETPPID: &str = "syscalls:sys_enter_getppid";
const DWARF: CallGraph = CallGraph::Dwarf { bytes: 8192 };

fn stack(walk: CallGraph) -> StackSampling {
    StackSampling { walk, ..StackSampling::default() }
}

fn sampled(stack: StackSampling) -> Sampling {
    Sampling { stack: Some(stack), ..Sampling::default() }
}

fn user_names(walked: &Walked) -> Vec<&str> {
    walked.user.iter().map(String::as_str).collect()
}

/// Checks that each stack is complete, begins with these functions, and ends where programs start.
fn are_whole(seen: &Seen, count: usize, first: &[&str]) {
    assert_eq!(seen.stacks.len(), count);
    for walked in &seen.stacks {
        let names = user_names(walked);
        assert_eq!(names.get(..first.len()), Some(first), "{names:?}");
        assert_eq!(names.last(), Some(&"_start"), "{names:?}");
        assert!(!walked.cut && walked.kernel.is_empty(), "{walked:?}");
    }
    assert_eq!(seen.truncated, 0);
}

fn a_c_program_without_frame_pointers_is_unwound_to_its_start() {
    for flags in [&["-pie"][..], &["-no-pie"], &["-static"], &["-static-pie"]] {
        let built = programs::c(programs::CHAIN, &[&WITHOUT_FRAME_POINTERS, flags].concat());
        let seen = watch(&built, GETPPID, sampled(stack(DWARF))).unwrap();
        are_whole(&seen, 3, &["leaf", "charlie", "bravo", "alpha", "main"]);
        // Two functions of the C library, and `_start`.
        assert_eq!(seen.stacks[0].user.len(), 8, "{flags:?} {:?}", seen.stacks[0]);
    }
}

fn a_program_with_debug_frames_only_is_unwound_as_well() {
    let flags = ["-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let built = programs::c(programs::CHAIN, &[&WITHOUT_FRAME_POINTERS[..], &flags].concat());
    let seen = watch(&built, GETPPID, sampled(stack(DWARF))).unwrap();
    assert_eq!(seen.stacks.len(), 3);
    for walked in &seen.stacks {
        let names = user_names(walked);
        assert_eq!(names[..5], ["leaf", "charlie", "bravo", "alpha", "main"], "{names:?}");
    }
}

fn a_cpp_program_without_frame_pointers_is_unwound_to_its_start() {
    let built = programs::cpp(programs::CPP, &WITHOUT_FRAME_POINTERS);
    let seen = watch(&built, GETPPID, sampled(stack(DWARF))).unwrap();
    let chain = [
        "shop::Till::leaf(long)",
        "long shop::charlie<long>(shop::Till&, long)",
        "shop::bravo(shop::Till&, long)",
        "main",
    ];
    are_whole(&seen, 3, &chain);
    assert_eq!(seen.stacks[0].user.len(), 7, "{:?}", seen.stacks[0]);
}

fn a_rust_program_without_frame_pointers_is_unwound_to_its_start() {
    let flags = ["-O", "-C", "force-frame-pointers=no", "--edition", "2024"];
    let built = programs::rust(programs::RUST, &flags);
    let seen = watch(&built, GETPPID, sampled(stack(DWARF))).unwrap();
    assert_eq!((seen.stacks.len(), seen.truncated), (3, 0));
    for walked in &seen.stacks {
        let names = user_names(walked);
        let chain =
            ["getppid", "chain::leaf", "<chain::Walker as chain::Walk>::charlie", "chain::bravo"];
        assert!(names[0].contains(chain[0]), "{names:?}");
        assert_eq!(names[1..4], chain[1..], "{names:?}");
        assert_eq!(names[4], "chain::alpha", "{names:?}");
        let main = names.iter().position(|name| *name == "chain::main").unwrap();
        assert!(main > 4 && names[main..].contains(&"main"), "{names:?}");
        assert_eq!(names.last(), Some(&"_start"), "{names:?}");
    }
}

fn a_thread_is_unwound_to_where_it_began() {
    let built = programs::c(programs::THREAD, &WITHOUT_FRAME_POINTERS);
    let seen = watch(&built, GETPPID, sampled(stack(DWARF))).unwrap();
    assert_eq!((seen.stacks.len(), seen.truncated), (1, 0));
    assert_eq!(user_names(&seen.stacks[0])[..3], ["leaf", "bravo", "work"]);
}

fn the_frame_interrupted_by_a_signal_follows_its_handler() {
    let built = programs::c(programs::SIGNAL, &WITHOUT_FRAME_POINTERS);
    let seen = watch(&built, GETPPID, sampled(stack(DWARF))).unwrap();
    assert_eq!((seen.stacks.len(), seen.truncated), (1, 0), "{:?}", seen.stacks);
    let names = user_names(&seen.stacks[0]);
    // Between them is the unnamed address to which the handler returns.
    assert_eq!(
        (&names[..2], &names[3..6]),
        (&["leaf", "handler"][..], &["bravo", "alpha", "main"][..])
    );
    assert_eq!(names.last(), Some(&"_start"));
}

fn a_function_interrupted_at_its_first_instruction_has_its_own_name() {
    let built = programs::c(programs::SIGNAL_AT_ENTRY, &WITHOUT_FRAME_POINTERS);
    let seen = watch(&built, GETPPID, sampled(stack(DWARF))).unwrap();
    assert_eq!((seen.stacks.len(), seen.truncated), (1, 0), "{:?}", seen.stacks);
    let names = user_names(&seen.stacks[0]);
    assert_eq!(
        (&names[..2], &names[3..6]),
        (&["leaf", "handler"][..], &["bravo", "alpha", "main"][..])
    );
}

fn code_of_the_kernel_in_user_space_is_unwound() {
    let built = programs::c(programs::CLOCK, &WITHOUT_FRAME_POINTERS);
    let sampling = Sampling { freq: Some(4000), ..sampled(stack(DWARF)) };
    let seen = watch(&built, "cpu-clock:u", sampling).unwrap();
    let names: Vec<Vec<&str>> = seen.stacks.iter().map(user_names).collect();
    // The vdso's function of that name, called by the C library's function.
    let clock = |name: Option<&&str>| name.is_some_and(|name| name.ends_with("clock_gettime"));
    let both = |names: &&Vec<&str>| clock(names.first()) && clock(names.get(1));
    let mut inside = names.iter().filter(both).peekable();
    assert!(inside.peek().is_some(), "{names:?}");
    for names in inside {
        let bravo = names.iter().position(|name| *name == "bravo");
        assert!(bravo.is_some_and(|at| names[at..].starts_with(&["bravo", "main"])), "{names:?}");
        assert_eq!(names.last(), Some(&"_start"), "{names:?}");
    }
}

fn frame_pointers_lead_to_main_where_a_program_keeps_them() {
    let built = programs::c(programs::CHAIN, &WITH_FRAME_POINTERS);
    for walk in [CallGraph::FramePointers, DWARF] {
        let seen = watch(&built, GETPPID, sampled(stack(walk))).unwrap();
        assert_eq!((seen.stacks.len(), seen.truncated), (3, 0));
        for walked in &seen.stacks {
            let names = user_names(walked);
            assert_eq!(
                names[..5],
                ["leaf", "charlie", "bravo", "alpha", "main"],
                "{walk}: {names:?}"
            );
        }
    }
}

fn a_stack_deeper_than_its_copy_is_marked_and_counted_as_truncated() {
    let built = programs::c(programs::DEEP, &WITH_FRAME_POINTERS);
    let one = |stack: StackSampling| {
        let mut seen = watch(&built, GETPPID, sampled(stack)).unwrap();
        assert_eq!(seen.stacks.len(), 1);
        (seen.stacks.remove(0), seen.truncated)
    };
    let limit = perilune::sys::machine::sysctl("kernel/perf_event_max_stack").unwrap_or(127);
    let (walked, truncated) = one(stack(CallGraph::FramePointers));
    assert!(walked.cut && walked.user.iter().all(|name| name == "deep"), "{walked:?}");
    assert_eq!((walked.user.len(), truncated), (limit, 1));

    // 300 frames with 64 bytes of locals each do not fit into 8192 bytes.
    let (walked, truncated) = one(stack(DWARF));
    assert!(walked.cut && walked.user.iter().all(|name| name == "deep"), "{walked:?}");
    assert!((40..128).contains(&walked.user.len()) && truncated == 1, "{walked:?}");

    let (walked, truncated) = one(stack(CallGraph::Dwarf { bytes: CallGraph::MOST_BYTES }));
    let deep = walked.user.iter().filter(|name| *name == "deep").count();
    assert_eq!((deep, truncated, walked.cut), (300, 0, false), "{walked:?}");
    assert_eq!(walked.user.last().map(String::as_str), Some("_start"));

    let (walked, truncated) = one(StackSampling { depth: Some(16), ..stack(DWARF) });
    assert_eq!((walked.user.len(), walked.cut, truncated), (16, true, 1));
}

fn the_kernel_part_precedes_the_user_part_and_either_can_be_omitted() {
    let built = programs::c(programs::SLEEPER, &WITHOUT_FRAME_POINTERS);
    let of = |walk, part| {
        let seen =
            watch(&built, "sched:sched_switch", sampled(StackSampling { part, ..stack(walk) }))
                .unwrap();
        let asleep = |walked: &Walked| {
            walked.kernel.iter().any(|name| name.contains("nanosleep"))
                || walked.user.first().is_some_and(|name| name == "leaf")
        };
        let stacks: Vec<Walked> = seen.stacks.into_iter().filter(asleep).collect();
        assert_eq!(stacks.len(), 3, "{stacks:?}");
        stacks
    };
    for walked in of(DWARF, ChainPart::Both) {
        assert!(walked.kernel.len() > 3, "{walked:?}");
        assert_eq!(user_names(&walked)[..3], ["leaf", "bravo", "main"]);
        assert_eq!(walked.user.last().map(String::as_str), Some("_start"));
    }
    for walked in of(DWARF, ChainPart::User) {
        assert!(walked.kernel.is_empty(), "{walked:?}");
        assert_eq!(user_names(&walked)[..3], ["leaf", "bravo", "main"]);
    }
    for walk in [DWARF, CallGraph::FramePointers] {
        for walked in of(walk, ChainPart::Kernel) {
            assert!(walked.user.is_empty() && walked.kernel.len() > 3, "{walked:?}");
        }
    }
    for walked in of(CallGraph::FramePointers, ChainPart::User) {
        assert!(walked.kernel.is_empty() && walked.user[0] == "leaf", "{walked:?}");
    }
}

fn branch_records_are_refused_with_an_alternative() {
    let built = programs::c(programs::CHAIN, &WITHOUT_FRAME_POINTERS);
    for event in [GETPPID, "cpu-clock"] {
        let why = watch(&built, event, sampled(stack(CallGraph::Branches)))
            .err()
            .map(|why| why.to_string());
        let expected = format!(
            "{event}: it has no branch records (LBR), which only hardware counters such as cycles \
             have; use --call-graph=fp or --call-graph=dwarf"
        );
        assert_eq!(why, Some(expected));
    }
}

/// A script that records the stacks of getppid, and nothing else.
const SCRIPT: &str = r#"
local m = monitor { options = { "call-graph" } }
function m.init(opt) evsel("syscalls:sys_enter_getppid", { stack = opt.call_graph }) end
function m.sample(e) emit(e) end
return m
"#;

/// Runs the command with a script and a program; returns its JSON objects and stderr.
fn run(words: &[&str], built: &programs::Built) -> (Vec<serde_json::Value>, String) {
    let script = built.path.with_file_name("stacks.lua");
    std::fs::write(&script, SCRIPT).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_perilune"))
        .arg(&script)
        .arg("--json")
        .args(words)
        .arg("--")
        .arg(&built.path)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let objects = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (objects, String::from_utf8(output.stderr).unwrap())
}

fn the_command_walks_stacks_by_its_option_and_counts_truncated_ones() {
    let built = programs::c(programs::CHAIN, &WITHOUT_FRAME_POINTERS);
    let of = |words: &[&str]| {
        let (objects, _) = run(words, &built);
        let events = objects.iter().filter(|object| object["type"] == "event");
        let depths: Vec<usize> =
            events.map(|event| event["stack"].as_array().map_or(0, Vec::len)).collect();
        let coverage = objects.iter().rfind(|object| object["type"] == "coverage").unwrap();
        let notes = objects.iter().filter(|object| object["type"] == "note");
        let notes: Vec<&str> = notes.filter_map(|note| note["text"].as_str()).collect();
        (depths, coverage["truncated"].as_u64().unwrap(), notes.join("; "))
    };
    let (depths, truncated, _) = of(&["--call-graph=dwarf"]);
    assert_eq!((depths, truncated), (vec![8; 3], 0));
    let (depths, truncated, _) = of(&["--call-graph=dwarf,256"]);
    assert!(depths.iter().all(|depth| (1..8).contains(depth)), "{depths:?}");
    assert_eq!((depths.len(), truncated), (3, 3));
    let (depths, truncated, notes) = of(&["--user-callchain"]);
    assert_eq!((depths, truncated), (vec![0; 3], 0));
    assert!(notes.starts_with("--user-callchain has no effect without stacks; add -g"), "{notes}");
    let (_, said) = run(&["--call-graph=lbr"], &built);
    assert!(said.contains("it has no branch records (LBR)"), "{said}");
}
