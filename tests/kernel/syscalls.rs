//! syscalls: calls selected by name, and calls without a return.

use crate::{live::live_tests, load};

live_tests! {
    only_the_selected_calls_are_counted,
    a_call_that_does_not_return_is_counted,
}

fn only_the_selected_calls_are_counted() {
    for (option, names, calls) in [("--only", "getpp*,close", 3000), ("--not", "getppid", 0)] {
        let load = load::getppid(3000);
        let args = ["syscalls", option, names, "-p", &load.pid().to_string()];
        let run = crate::watch(&args, load);
        assert_eq!(run.sum("calls", "syscall", "getppid"), calls, "{option}: {:?}", run.objects);
        let other = run.of("row").any(|row| row["syscall"] == "exit_group");
        assert_eq!(other, option == "--not", "{:?}", run.objects);
        run.is_complete();
    }
}

fn a_call_that_does_not_return_is_counted() {
    let load = load::forks(20);
    let parent = load.pid();
    let run = crate::watch(&["syscalls", "--only", "exit_group", "-p", &parent.to_string()], load);
    // Each child ends with exit_group, and so does their parent.
    let rows = run.of("row").filter(|row| row["unpaired"] == "does not return");
    let calls: u64 = rows.filter_map(|row| row["calls"].as_u64()).sum();
    assert_eq!(calls, 21, "{:?}", run.objects);
}
