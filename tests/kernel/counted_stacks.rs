//! Call chains that the kernel counts: the frames and numbers of records, and of what a program
//! did.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use crate::counting::{can_count, usual_refusal};
use crate::functions::{Program, watch};
use crate::live::live_tests;
use crate::load;
use crate::tool::{Run, Tool};

live_tests! {
    each_path_to_a_call_has_its_count_and_its_frames_in_both_places,
    the_chains_of_a_single_system_call_begin_in_user_space,
    a_chain_beyond_the_limit_is_cut_as_in_a_record,
    each_of_many_stacks_has_its_count_and_those_without_room_are_counted_together,
    programs_that_a_process_executes_have_their_own_functions,
    a_library_in_the_place_of_another_does_not_name_its_functions,
    processes_share_a_row_if_only_kernel_frames_are_counted,
    flame_graphs_and_intervals_are_those_of_user_space,
    user_stacks_that_perilune_unwinds_need_records,
}

/// `chain N M DEPTH BITS [PROGRAM…]`: calls getppid N times by one path and M times by another one,
/// once below DEPTH calls, and once by each of 2^BITS paths; then executes PROGRAM.
const SOURCE: &str = r#"
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#define PLAIN __attribute__((noipa))
PLAIN long call(void) { return syscall(SYS_getppid) + 1; }
PLAIN long short_path(void) { return call() + 1; }
PLAIN long long_path(void) { return short_path() + 1; }
PLAIN long deep(long n) { return n ? deep(n - 1) + 1 : call(); }
PLAIN long many(long bits);
PLAIN long left(long bits) { return many(bits) + 1; }
PLAIN long right(long bits) { return many(bits) + 1; }
PLAIN long many(long bits) { return bits ? left(bits - 1) + right(bits - 1) : call(); }
int main(int argc, char **argv) {
    for (int i = 0; i < atoi(argv[1]); i++) short_path();
    for (int i = 0; i < atoi(argv[2]); i++) long_path();
    if (atoi(argv[3])) deep(atoi(argv[3]));
    if (atoi(argv[4])) many(atoi(argv[4]));
    if (argc > 5) return execv(argv[5], argv + 5);
    return 0;
}
"#;

/// `chain LIBRARY FUNCTION…`: calls a function of each library 100 times, and unloads it before the
/// next one.
const LOADER: &str = r#"
#include <dlfcn.h>
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i += 2) {
        void *library = dlopen(argv[i], RTLD_NOW);
        long (*function)(void) = (long (*)(void))dlsym(library, argv[i + 1]);
        for (int n = 0; n < 100; n++) function();
        dlclose(library);
    }
    return 0;
}
"#;

const PLACES: [&str; 2] = ["kernel", "user"];

/// The rows of a run: frames, and how often they were counted.
type Rows = BTreeMap<Vec<String>, u64>;

/// A selector of calls of getppid.
fn calls() -> String {
    format!("raw_syscalls:sys_enter/id=={}/", libc::SYS_getppid)
}

/// Counts what a command does. Shows all rows.
fn stacks(place: &str, args: &[&str], command: &[&str]) -> Run {
    let all = ["stackcount", "--rows", "1000000", "--where", place, "-m", "4096"];
    let run = watch(&[&all, args].concat(), command);
    run.is_complete();
    run
}

fn rows(run: &Run) -> Rows {
    let mut rows = Rows::new();
    for row in run.of("row") {
        let frames = row["stack"].as_array().into_iter().flatten();
        let frames = frames.map(|frame| frame.as_str().unwrap_or_default().to_owned());
        let frames = frames.filter(|frame| !is_of_tools(frame));
        *rows.entry(frames.collect()).or_default() += row["count"].as_u64().unwrap_or_default();
    }
    rows
}

/// Returns whether the kernel inserts a frame while other tools watch the event as well.
fn is_of_tools(frame: &str) -> bool {
    frame.starts_with("__traceiter_")
}

/// Returns how often calls were counted that have this frame, and no other one of `without`.
fn with(rows: &Rows, frame: &str, without: &[&str]) -> u64 {
    let has = |frames: &[String], name: &str| frames.iter().any(|frame| frame == name);
    let is_one =
        |frames: &[String]| has(frames, frame) && !without.iter().any(|other| has(frames, other));
    rows.iter().filter(|(frames, _)| is_one(frames)).map(|(_, count)| count).sum()
}

fn each_path_to_a_call_has_its_count_and_its_frames_in_both_places() {
    can_count();
    let program = Program::of(SOURCE, &[]);
    let counted = |place| {
        let path = program.path();
        rows(&stacks(place, &["-e", &calls()], &[&path, "7000", "300", "0", "0"]))
    };
    let [kernel, user] = PLACES.map(counted);
    assert_eq!(kernel, user);
    assert_eq!(with(&kernel, "short_path", &["long_path"]), 7000, "{kernel:?}");
    assert_eq!(with(&kernel, "long_path", &[]), 300, "{kernel:?}");
    assert_eq!(with(&kernel, "entry_SYSCALL_64_after_hwframe", &[]), 7300, "{kernel:?}");
}

fn the_chains_of_a_single_system_call_begin_in_user_space() {
    can_count();
    let program = Program::of(SOURCE, &[]);
    let event = ["-e", "syscalls:sys_enter_getppid"];
    let counted = |place| rows(&stacks(place, &event, &[&program.path(), "100", "30", "0", "0"]));
    let [kernel, user] = PLACES.map(counted);
    assert_eq!(kernel, user);
    assert_eq!(kernel.values().sum::<u64>(), 130, "{kernel:?}");
}

fn a_chain_beyond_the_limit_is_cut_as_in_a_record() {
    can_count();
    let program = Program::of(SOURCE, &[]);
    for event in [calls(), format!("{}/max-stack=9/", calls().trim_end_matches('/'))] {
        let counted = |place| {
            let run = stacks(place, &["-e", &event], &[&program.path(), "50", "0", "300", "0"]);
            // A frame of other tools takes the place of the outermost one.
            let inner = rows(&run).into_keys().map(|frames| frames[..frames.len().min(7)].to_vec());
            (inner.collect::<BTreeSet<_>>(), run.coverage()["truncated"].clone())
        };
        let [kernel, user] = PLACES.map(counted);
        assert_eq!(kernel, user, "{event}");
        assert!(kernel.1.as_u64() > Some(0), "{kernel:?}");
    }
}

fn each_of_many_stacks_has_its_count_and_those_without_room_are_counted_together() {
    can_count();
    let program = Program::of(SOURCE, &[]);
    for bits in [12, 16u32] {
        let (event, bits_text) = (calls(), bits.to_string());
        let command = [&*program.path(), "0", "0", "0", &bits_text];
        let run = stacks("kernel", &["-e", &event], &command);
        let (rows, all) = (rows(&run), 1u64 << bits);
        assert_eq!(rows.values().sum::<u64>(), all, "{}", run.coverage());
        let alone = rows.iter().filter(|(frames, _)| frames.iter().any(|frame| frame == "many"));
        let alone: Vec<u64> = alone.map(|(_, count)| *count).collect();
        assert!(alone.iter().all(|count| *count == 1), "{}", run.coverage());
        let evicted = run.coverage()["evicted"].as_u64().unwrap_or_default();
        assert_eq!(alone.len() as u64 + evicted, all, "{}", run.coverage());
        // A slow machine reads the table before it is full.
        assert!(bits > 12 || evicted == 0, "{}", run.coverage());
    }
}

fn programs_that_a_process_executes_have_their_own_functions() {
    can_count();
    let first = Program::of(SOURCE, &[]);
    let other = SOURCE.replace("short_path", "another_path");
    let second = Program::of(&other, &[]);
    let (first, second) = (first.path(), second.path());
    // Each process lasts some milliseconds, and executes the second program in between.
    let shell =
        format!("for i in 1 2 3 4 5 6 7 8 9 10; do {first} 20 1 0 0 {second} 30 2 0 0; done");
    let counted = |place| {
        let event = calls();
        rows(&stacks(place, &["-e", &event], &["/bin/sh", "-c", &shell]))
    };
    let [kernel, user] = PLACES.map(counted);
    assert_eq!(kernel, user);
    assert_eq!(with(&kernel, "short_path", &[]), 10 * 21, "{kernel:?}");
    assert_eq!(with(&kernel, "another_path", &[]), 10 * 32, "{kernel:?}");
    // Both have functions at the same addresses, so some chains may belong to either.
    let command = ["setarch", "-R", &*first, "40", "0", "0", "0", &*second, "50", "0", "0", "0"];
    let run = stacks("kernel", &["-e", &calls()], &command);
    let rows = rows(&run);
    let [of_first, of_second, either] =
        ["short_path", "another_path", "(other)"].map(|name| with(&rows, name, &[]));
    assert!(of_first <= 40 && of_second <= 50, "{rows:?}");
    assert_eq!(of_first + of_second + either, 90, "{rows:?}");
    assert_eq!(run.coverage()["evicted"].as_u64() > Some(0), either > 0, "{}", run.coverage());
}

fn a_library_in_the_place_of_another_does_not_name_its_functions() {
    can_count();
    let program = Program::of(LOADER, &[]);
    let folder = tempfile::tempdir().expect("there is room");
    let library = |name: &str| {
        let [source, path] = ["c", "so"].map(|end| folder.path().join(format!("{name}.{end}")));
        let code = format!(
            "#include <sys/syscall.h>\n#include <unistd.h>\n\
             static long call(void) {{ return syscall(SYS_getppid) + 1; }}\n\
             long {name}(void) {{ return call() + 1; }}\n"
        );
        fs::write(&source, code).expect("there is room");
        let flags = ["-O0", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-o"];
        program.run(Command::new("gcc").args(flags).args([&path, &source]));
        path.to_string_lossy().into_owned()
    };
    let [a, b] = ["of_a", "of_b"].map(library);
    let event = calls();
    let run = stacks("kernel", &["-e", &event], &[&program.path(), &a, "of_a", &b, "of_b"]);
    let rows = rows(&run);
    let [of_a, of_b] = ["of_a", "of_b"].map(|name| with(&rows, name, &[]));
    // Chains of the same addresses may belong to either.
    let either: u64 = with(&rows, "(other)", &[]);
    assert!(of_a <= 100 && of_b <= 100, "{rows:?}");
    assert_eq!(of_a + of_b + either, 200, "{rows:?}");
}

fn processes_share_a_row_if_only_kernel_frames_are_counted() {
    can_count();
    let program = Program::of(SOURCE, &[]);
    let (path, event) = (program.path(), calls());
    let shell = format!("{path} 20 0 0 0; {path} 30 0 0 0");
    let run = stacks("kernel", &["--kernel-callchain", "-e", &event], &["sh", "-c", &shell]);
    let rows = rows(&run);
    // The shell may call it, too.
    let counts: Vec<u64> = rows.values().copied().collect();
    assert!(matches!(counts[..], [50..60]), "{rows:?}");
    let both = stacks("kernel", &["-e", &event], &["sh", "-c", &shell]);
    assert_eq!(with(&self::rows(&both), "short_path", &[]), 50, "rows are joined by their names");
}

fn flame_graphs_and_intervals_are_those_of_user_space() {
    const CALLS: u32 = 300_000;
    can_count();
    let folder = tempfile::tempdir().expect("there is room");
    let graph = |place| folder.path().join(place).to_string_lossy().into_owned();
    let graphs = PLACES.map(graph);
    let event = calls();
    let load = load::getppid(CALLS);
    let pid = load.pid().to_string();
    let tools = [0, 1].map(|at| {
        let (place, graph) = (PLACES[at], &graphs[at]);
        Tool::attach(&[
            "stackcount",
            "-e",
            &event,
            "-p",
            &pid,
            "-m",
            "4096",
            "--where",
            place,
            "-i",
            "100",
            "--flame-graph",
            graph,
        ])
    });
    load.run();
    tools.map(Tool::finish).iter().for_each(Run::is_complete);
    let folded = graphs.map(|graph| {
        let text = fs::read_to_string(format!("{graph}.folded")).expect("a flame graph");
        let mut stacks = BTreeMap::new();
        for line in text.lines() {
            let (frames, count) = line.rsplit_once(' ').expect("frames and a count");
            // The first two frames are the time of the interval.
            let frames = frames.split(';').skip(2).filter(|frame| !is_of_tools(frame));
            let frames: Vec<String> = frames.map(str::to_owned).collect();
            *stacks.entry(frames).or_insert(0) += count.parse::<u32>().expect("a count");
        }
        stacks
    });
    assert_eq!(folded[0], folded[1]);
    assert_eq!(folded[0].values().sum::<u32>(), CALLS, "{:?}", folded[0]);
}

fn user_stacks_that_perilune_unwinds_need_records() {
    can_count();
    let program = Program::of(SOURCE, &[]);
    let event = calls();
    let args = ["stackcount", "-v", "-e", &event, "--call-graph=dwarf"];
    let run = watch(&args, &[&program.path(), "5", "0", "0", "0"]);
    run.is_complete();
    let why = usual_refusal().unwrap_or("user stacks without frame pointers");
    let note = format!("counted in user space: {why}");
    let mut notes = run.of("note").filter_map(|note| note["text"].as_str());
    assert!(notes.any(|text| text.ends_with(&note)), "{:?}", run.objects);
}
