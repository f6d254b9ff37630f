//! Filters of counts in the kernel.

use super::{in_kernel, in_user_space, is_exact};
use crate::live::live_tests;
use crate::load;

live_tests! {
    filters_are_checked_before_an_event_is_counted,
    filters_read_the_task_and_the_cpu_of_an_event,
}

fn filters_are_checked_before_an_event_is_counted() {
    let load = load::getppid_with_arguments(4000);
    let pid = load.pid();
    let number = libc::SYS_getppid;
    // The second condition is for user space, or for a program in the kernel.
    let event = format!(
        "raw_syscalls:sys_enter/id == {number} && args[0] % 4 == 1/key=_pid/top-add=args[0]&7/"
    );
    let tool = in_kernel(&["-e", &event]);
    load.run();
    let run = tool.finish();
    assert_eq!(run.sum("args_0_7", "pid", pid), 500 + 500 * 5, "{:?}", run.objects);
    is_exact(&run);
}

fn filters_read_the_task_and_the_cpu_of_an_event() {
    const CALLS: u32 = 300;
    let number = libc::SYS_getppid;
    // Nothing else of these counts reads what the filter reads.
    for (filter, passes) in [
        ("_pid > 0", true),
        ("_pid == _tid", true),
        ("_cpu * 2 >= 0", true),
        ("(_cpu + 1) > 0", true),
        ("_pid > 99999999", false),
        ("_cpu + 1 > 4096", false),
    ] {
        let event = format!("raw_syscalls:sys_enter/id == {number} && {filter}/key=_tid/");
        for start in [in_kernel, in_user_space] {
            let load = load::getppid(CALLS);
            let pid = load.pid();
            let tool = start(&["-e", &event]);
            load.run();
            let run = tool.finish();
            let calls = if passes { CALLS.into() } else { 0 };
            assert_eq!(run.sum("sys_enter", "tid", pid), calls, "{filter}: {:?}", run.objects);
        }
    }
}
