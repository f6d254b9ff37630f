//! kmemprof in the kernel: equal to its records, and to the memory that a workload allocated.

use perilune::sys::machine::memory_bytes;

use crate::counting::{can_count, usual_refusal};
use crate::live::{live_tests, skip_anywhere};
use crate::load::{self, Load};
use crate::paired::{both, run_briefly, start, sum, with_arguments};
use crate::tool::{Run, Tool};

live_tests! {
    allocations_and_frees_of_the_kernel_match_the_workload,
    each_opened_file_is_allocated_and_freed_in_both_places,
    the_kernel_takes_frees_from_other_cpus_and_tasks,
    the_memory_and_its_size_may_be_expressions,
    an_unknown_free_does_not_count_and_a_second_allocation_replaces_the_first,
    allocations_without_room_are_counted_but_not_their_frees,
    the_memory_zero_does_not_count,
    three_stages_are_two_pairs,
    slab_events_are_taken_from_records_by_default,
}

const PLACES: [&str; 2] = ["kernel", "user"];

/// Returns the sum of a column over the rows of an event.
fn of(run: &Run, event: &str, column: &str) -> f64 {
    sum(run, "kv", column, |row| row["event"] == event)
}

/// Returns the sum of a column over the stacks whose allocator was called by a function.
fn in_function(run: &Run, function: &str, column: &str) -> f64 {
    sum(run, "kv_2", column, |row| row["stack"][1] == function)
}

fn allocations_and_frees_of_the_kernel_match_the_workload() {
    // The number of slots of a pipe times the size of one.
    let alloc = "kmem:kmalloc/bytes_req==640/";
    for words in [
        &["multi-trace", "--impl", "kmemprof", "-e", alloc, "-e", "kmem:kfree"][..],
        &["kmemprof", "--alloc", alloc, "--free", "kmem:kfree", "-i", "60000"],
    ] {
        let mut pipes = load::Pipes::new(50, 20);
        let pid = pipes.pid().to_string();
        let tools = PLACES.map(|place| start(place, &[words, &["-p", &pid]].concat()));
        pipes.run();
        let runs = tools.map(Tool::finish);
        pipes.end();
        for run in &runs {
            let [calls, bytes] = ["calls", "bytes"]
                .map(|column| ["kmem:kmalloc", "kmem:kfree"].map(|event| of(run, event, column)));
            assert_eq!((calls, bytes), ([50.0, 20.0], [51200.0, 20480.0]), "{:?}", run.objects);
            assert_eq!(in_function(run, "alloc_pipe_info", "calls"), 50.0, "{:?}", run.objects);
            assert_eq!(in_function(run, "alloc_pipe_info", "bytes"), 51200.0, "{:?}", run.objects);
            let coverage = run.coverage();
            assert_eq!([&coverage["starts"], &coverage["open"]], [50, 30], "{coverage}");
            run.is_complete();
        }
    }
}

/// Opens a file and closes it, `n` times.
fn opens_and_closes(n: u32) -> Load {
    Load::new(move || {
        for _ in 0..n {
            // SAFETY: a NUL-terminated string, and a descriptor of its own.
            unsafe { libc::close(libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY)) };
        }
    })
}

fn each_opened_file_is_allocated_and_freed_in_both_places() {
    const OPENS: u32 = 20_000;
    let load = opens_and_closes(OPENS);
    let pid = load.pid().to_string();
    let runs = both(&["kmemprof", "-p", &pid, "-i", "200", "-m", "8192"], load);
    let totals = runs.each_ref().map(|run| {
        run.is_complete();
        // An allocation in a task hits no program; a free in an interrupt may.
        let files = in_function(run, "alloc_empty_file", "calls") - f64::from(OPENS);
        assert!((0.0..10.0).contains(&files), "{files} more: {:?}", run.objects);
        ["kmem:kmem_cache_alloc", "kmem:kmem_cache_free", "kmem:kmalloc", "kmem:kfree"]
            .map(|event| ["calls", "bytes"].map(|column| of(run, event, column)))
    });
    let missed: f64 = runs.iter().filter_map(|run| run.coverage()["undelivered"].as_f64()).sum();
    let [kernel, user] = totals;
    assert!(kernel[0][0] >= 2.0 * f64::from(OPENS), "a name and a file for each: {kernel:?}");
    for (kernel, user) in kernel.iter().zip(&user) {
        // The command itself ends between the two runs.
        let tolerance = 100.0 + missed;
        assert!((kernel[0] - user[0]).abs() <= tolerance, "{kernel:?} {user:?} {missed}");
        assert!((kernel[1] - user[1]).abs() <= 4096.0 * tolerance, "{kernel:?} {user:?} {missed}");
    }
}

fn the_kernel_takes_frees_from_other_cpus_and_tasks() {
    for (cpu, made) in [("0", 50.0), ("1", 0.0)] {
        let load = load::pipes_closed_elsewhere(50);
        let alloc = format!("kmem:kmalloc/bytes_req==640&&common_pid=={}/", load.pid());
        let args = ["kmemprof", "--alloc", &alloc, "--free", "kmem:kfree", "-C", cpu];
        for run in both(&args, load) {
            let calls = ["kmem:kmalloc", "kmem:kfree"].map(|event| of(&run, event, "calls"));
            assert_eq!(calls, [made, made], "on CPU {cpu}: {:?} {}", run.objects, run.stderr);
            run.is_complete();
        }
    }
}

fn the_memory_and_its_size_may_be_expressions() {
    const PAGES: usize = 3000;
    let (load, _) = load::faults(PAGES);
    let pid = load.pid().to_string();
    let alloc = "kmem:mm_page_alloc//ptr=pfn+1/size=4096<<order/";
    let args = ["kmemprof", "--alloc", alloc, "--free", "kmem:mm_page_free//ptr=pfn+1/"];
    let [kernel, user] = both(&[&args[..], &["-p", &pid, "-m", "4096"]].concat(), load);
    let missed = kernel.coverage()["undelivered"].as_f64().unwrap_or_default();
    for column in ["calls", "bytes"] {
        for event in ["kmem:mm_page_alloc", "kmem:mm_page_free"] {
            let [kernel, user] = [&kernel, &user].map(|run| of(run, event, column));
            let tolerance = (10.0 + missed) * if column == "bytes" { 4096.0 } else { 1.0 };
            assert!((kernel - user).abs() <= tolerance, "{event} {column}: {kernel} {user}");
        }
    }
    let pages = of(&kernel, "kmem:mm_page_alloc", "bytes") / 4096.0;
    assert!(pages >= PAGES as f64, "{pages}");
}

fn an_unknown_free_does_not_count_and_a_second_allocation_replaces_the_first() {
    const CALLS: u32 = 3000;
    let load = load::getppid_with_arguments(CALLS);
    let (number, shift, pid) = (libc::SYS_getppid, load::PROCESS_SHIFT, load.pid());
    let of_load = format!("id=={number} && args[0] >> {shift} == {pid}");
    // Four calls each share a pointer; calls from the second third on free it, each but the first
    // in vain.
    let third = CALLS / 3;
    let index = format!("(args[0] & {})", (1 << shift) - 1);
    let alloc = format!(
        "raw_syscalls:sys_enter/{of_load} && {index} < {third}/ptr=({index} >> 2) + 1/size={index}/"
    );
    let free = format!(
        "raw_syscalls:sys_enter/{of_load} && {index} >= {third}/ptr=(({index} - {third}) >> 2) + 1/"
    );
    for run in both(&["kmemprof", "--alloc", &alloc, "--free", &free, "-m", "2048"], load) {
        // Both are one event, whose rows have the names of their roles.
        let events = sum(&run, "kv", "calls", |_| true);
        let pairs = third / 4;
        assert_eq!(events, f64::from(third + pairs), "{:?} {}", run.objects, run.stderr);
        let first: u32 = (0..third).sum();
        let last: u32 = (0..third).filter(|index| index % 4 == 3).sum();
        assert_eq!(
            sum(&run, "kv", "bytes", |_| true),
            f64::from(first + last),
            "{:?}",
            run.objects
        );
        let coverage = run.coverage();
        assert_eq!(coverage["unmatched"], third - pairs, "{coverage}");
        assert_eq!(coverage["open"], 0, "{coverage}");
    }
}

fn allocations_without_room_are_counted_but_not_their_frees() {
    const ROOM: u32 = 1 << 18;
    const CALLS: u32 = ROOM + 5000;
    if memory_bytes() < 2 << 30 {
        skip_anywhere("with less memory, the kernel has less room");
    }
    let load = load::getppid_with_arguments(CALLS);
    let from = with_arguments(load.pid(), "args[0]");
    let alloc = format!("{}size=7/", from.replace("key=", "ptr="));
    let args = ["kmemprof", "--alloc", &alloc, "--free", "syscalls:sys_enter_swapoff//ptr=1/"];
    let tool = start("kernel", &args);
    load.run();
    let run = tool.finish();
    run.is_complete();
    let [calls, bytes] = ["calls", "bytes"].map(|column| sum(&run, "kv", column, |_| true));
    assert_eq!([calls, bytes], [f64::from(CALLS), 7.0 * f64::from(CALLS)], "{:?}", run.objects);
    let coverage = run.coverage();
    assert_eq!([&coverage["evicted"], &coverage["open"]], [CALLS - ROOM, ROOM], "{coverage}");
}

fn the_memory_zero_does_not_count() {
    let load = load::getppid_with_arguments(100);
    let first = u64::from(load.pid()) << load::PROCESS_SHIFT;
    let from = with_arguments(load.pid(), &format!("args[0]-{first}"));
    let alloc = format!("{}size=args[0]-{first}/", from.replace("key=", "ptr="));
    let args = ["kmemprof", "--alloc", &alloc, "--free", "syscalls:sys_enter_swapoff//ptr=1/"];
    for run in both(&args, load) {
        for (table, calls) in [("kv", 99.0), ("kv_2", 99.0)] {
            assert_eq!(sum(&run, table, "calls", |_| true), calls, "{:?}", run.objects);
            assert_eq!(sum(&run, table, "bytes", |_| true), 4950.0, "{:?}", run.objects);
        }
        assert_eq!(run.coverage()["starts"], 99, "{}", run.coverage());
    }
}

fn three_stages_are_two_pairs() {
    const CALLS: u32 = 500;
    let load = load::getppid_with_arguments(CALLS);
    let pid = load.pid();
    // Each call is the allocation of a number, the second stage of the one before, and the third of
    // that before this one.
    let events = ["args[0]", "args[0]-1", "args[0]-2"]
        .map(|key| format!("{}size=5/", with_arguments(pid, key).replace("key=", "ptr=")));
    let [first, second, third] = &events;
    let args = ["multi-trace", "--impl", "kmemprof", "-e", first, "-e", second, "-e", third];
    for run in both(&args, load) {
        // Starts of both pairs, and ends of both.
        let calls = 2 * CALLS + (CALLS - 1) + (CALLS - 1);
        assert_eq!(sum(&run, "kv", "calls", |_| true), f64::from(calls), "{:?}", run.objects);
        assert_eq!(sum(&run, "kv", "bytes", |_| true), f64::from(5 * calls), "{:?}", run.objects);
    }
}

fn slab_events_are_taken_from_records_by_default() {
    can_count();
    let why = usual_refusal().unwrap_or("it may hit another BPF program and be missed");
    for further in [&[][..], &["--kernel-callchain"]] {
        let (code, text) = run_briefly(&[&["kmemprof", "--where", "auto"], further].concat());
        assert_eq!(code, Some(0), "{text}");
        for event in ["kmem:kmalloc", "kmem:kfree", "kmem:kmem_cache_free"] {
            let notes: Vec<&str> =
                text.lines().filter(|line| line.contains(&format!("note: {event}: "))).collect();
            let is_recorded =
                |note: &&str| note.contains("counted in user space") && note.contains(why);
            assert!(notes.iter().all(is_recorded) && notes.len() == 1, "{text}");
        }
    }
    let stages = ["-e", "kmem:kmalloc", "-e", "kmem:kfree", "--max-age", "1s"];
    let args = [&["multi-trace", "--impl", "kmemprof", "--where", "kernel"], &stages[..]].concat();
    let (code, text) = run_briefly(&args);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("cannot be counted in the kernel: a maximum age of starts"), "{text}");
}
