//! Filters that perilune accepts and rejects, compared with the kernel.

use std::fs;

use perilune::event::filter::Filter;

use crate::kernel::{self, Of, Tracepoint};
use crate::live::live_tests;

live_tests! {
    root: [],
    any: [
        the_kernel_accepts_each_filter_that_perilune_accepts_and_prints,
        the_kernel_refuses_each_filter_that_perilune_refuses,
        the_longest_filter_is_as_long_as_the_kernels,
        random_filters_get_the_same_verdict_from_both,
    ]
}

const SWITCH: &str = "sched:sched_switch";
const SIGNAL: &str = "signal:signal_generate";

/// Returns the parsed filter, or the reason for which perilune rejects it.
fn verdict(event: &str, filter: &str) -> Result<Filter, String> {
    let format = kernel::format(event).unwrap();
    let parsed = Filter::parse(filter).map_err(|e| e.to_string())?;
    parsed.check(event, &format).map_err(|e| e.to_string())?;
    Ok(parsed)
}

fn kernel_accepts(event: &str, filter: &str) -> bool {
    let format = kernel::format(event).unwrap();
    Tracepoint::open(format.id, Of::Me, 0).unwrap().set_filter(filter).is_ok()
}

const ACCEPTED: &[(&str, &str)] = &[
    (SWITCH, "prev_pid == 1"),
    (SWITCH, "prev_pid==1&&next_pid==2"),
    (SWITCH, "prev_pid>=1 || prev_prio <= 3 || prev_prio<3 || next_pid > 5"),
    (SWITCH, "prev_state & 0x10"),
    (SWITCH, "!prev_pid==1"),
    (SWITCH, "!!prev_pid==1"),
    (SWITCH, "! ( prev_pid==1 )"),
    (SWITCH, "!(prev_pid==1 || !prev_pid == 2) && next_pid==3"),
    (SWITCH, "((prev_pid==1) && (next_pid != 2 || (cpu == 0)))"),
    (SWITCH, "prev_pid==-1"),
    (SWITCH, "prev_pid==010"),
    (SWITCH, "prev_pid==0X1F"),
    (SWITCH, "prev_pid==4294967296"),
    (SWITCH, "prev_pid==9223372036854775807"),
    (SWITCH, "prev_pid==-9223372036854775808"),
    (SWITCH, "prev_pid==00000000000000000000001"),
    (SWITCH, "common_type==18446744073709551615"),
    (SWITCH, "common_pid != 1"),
    (SWITCH, "prev_comm == \"a\""),
    (SWITCH, "prev_comm=='a \"b\"'"),
    (SWITCH, "prev_comm != \"\""),
    (SWITCH, "prev_comm~\"!a*\""),
    (SWITCH, "prev_comm~\"1*\""),
    (SWITCH, "prev_comm.ustring == \"a\""),
    (SWITCH, "prev_comm==\"a\"&&next_pid==2"),
    (SWITCH, "prev_comm==\"a && (b\""),
    (SWITCH, "CPU==1"),
    (SWITCH, "cpu<1"),
    (SWITCH, "CPU&1"),
    (SWITCH, "CPU & CPUS{1}"),
    (SWITCH, "CPU & CPUS{0-1}"),
    (SWITCH, "CPU == CPUS{ 0,1 }"),
    (SWITCH, "CPU != CPUS{0}"),
    (SWITCH, "prev_pid & CPUS{0-1}"),
    (SWITCH, "COMM == \"a\""),
    (SWITCH, "comm ~ \"a*\""),
    (SWITCH, "__cpu<4"),
    (SWITCH, "comm_get(__pid) ~ \"python*\""),
    (SWITCH, "prev_state.function == schedule"),
    (SIGNAL, "comm ~ \"nginx*\" && result == 0 && (sig == 9 || sig == 15)"),
    ("timer:hrtimer_start", "function.function == hrtimer_wakeup"),
    ("timer:hrtimer_start", "function.function == hrtimer_wakeup && mode == 1"),
    ("timer:hrtimer_start", "(function.function == hrtimer_wakeup)"),
    ("timer:hrtimer_start", "(function.function != hrtimer_wakeup )||mode==1"),
    ("timer:hrtimer_start", "!(mode==1 && function.function == hrtimer_wakeup)&&softexpires>5"),
    ("timer:hrtimer_start", "function==0xffffffffc0537050"),
    ("raw_syscalls:sys_enter", "id == 110"),
    ("syscalls:sys_enter_openat", "filename == \"a\""),
    ("syscalls:sys_enter_openat", "filename.ustring ~ \"/etc*\""),
    ("skb:kfree_skb", "location.function == udp_rcv"),
    ("ipi:ipi_send_cpumask", "cpumask & CPUS{0-1}"),
    ("ipi:ipi_send_cpumask", "cpumask == CPUS{1}"),
    ("sched:sched_process_exec", "filename ~ \"*bash\""),
    ("block:block_rq_issue", "rwbs==\"W\"&&nr_sector<4"),
    ("block:block_rq_issue", "cmd == \"W\""),
];

const REFUSED: &[(&str, &str)] = &[
    (SWITCH, ""),
    (SWITCH, " "),
    (SWITCH, "0"),
    (SWITCH, "abc"),
    (SWITCH, "abc == 1"),
    (SWITCH, "prev_pid"),
    (SWITCH, "prev_pid ="),
    (SWITCH, "prev_pid = 1"),
    (SWITCH, "prev_pid ==="),
    (SWITCH, "prev_pid === 1"),
    (SWITCH, "prev_pid =="),
    (SWITCH, "prev_pid => 1"),
    (SWITCH, "prev_pid << 1"),
    (SWITCH, "prev_pid in (1)"),
    (SWITCH, "&& prev_pid==1"),
    (SWITCH, "prev_pid==1 !"),
    (SWITCH, "()"),
    (SWITCH, "prev_pid==1 && ()"),
    (SWITCH, "(prev_pid==1)(next_pid==2)"),
    (SWITCH, "prev_pid==1 (next_pid==2)"),
    (SWITCH, "prev_pid==1 & next_pid==2"),
    (SWITCH, "prev_pid==1 | next_pid==2"),
    (SWITCH, "prev_pid==1 and next_pid==2"),
    (SWITCH, "(prev_pid==1"),
    (SWITCH, "prev_pid==1)"),
    (SWITCH, ")prev_pid==1("),
    (SWITCH, "prev_pid==1&& &&next_pid==2"),
    (SWITCH, "prev_pid==1&&||next_pid==2"),
    (SWITCH, "prev_comm==\"a\"next_pid==2"),
    (SWITCH, "prev_pid== - 1"),
    (SWITCH, "prev_pid==08"),
    (SWITCH, "prev_pid==0x"),
    (SWITCH, "prev_pid==+1"),
    (SWITCH, "prev_pid==12abc"),
    (SWITCH, "prev_pid==9223372036854775808"),
    (SWITCH, "prev_pid==0xffffffffffffffff"),
    (SWITCH, "prev_pid==-9223372036854775809"),
    (SWITCH, "prev_pid==000000000000000000000001"),
    (SWITCH, "common_type==-1"),
    (SWITCH, "common_type==-0"),
    (SWITCH, "common_type==18446744073709551616"),
    (SWITCH, "1==prev_pid"),
    (SWITCH, "prev_pid==next_pid"),
    (SWITCH, "prev_comm==a"),
    (SWITCH, "prev_comm==\"a"),
    (SWITCH, "prev_comm==\"a\\\"b\""),
    (SWITCH, "prev_comm>\"a\""),
    (SWITCH, "prev_comm&\"a\""),
    (SWITCH, "prev_comm==1"),
    (SWITCH, "prev_comm!~\"1*\""),
    (SWITCH, "prev_pid==\"1\""),
    (SWITCH, "prev_pid~1"),
    (SWITCH, "prev_pid~\"1\""),
    (SWITCH, "CPU==\"1\""),
    (SWITCH, "CPU < CPUS{1}"),
    (SWITCH, "CPU & CPUS {1}"),
    (SWITCH, "CPU & CPUS{}"),
    (SWITCH, "CPU & CPUS{1"),
    (SWITCH, "CPU & CPUS{a}"),
    (SWITCH, "CPU & CPUS{3-1}"),
    (SWITCH, "CPUS{0-1}"),
    (SWITCH, "prev_comm == CPUS{1}"),
    (SWITCH, "COMM == 1"),
    (SWITCH, "COMM > \"a\""),
    (SWITCH, "prev_pid.function == schedule"),
    (SWITCH, "COMM.function == schedule"),
    (SWITCH, "prev_pid.foo == 1"),
    (SWITCH, "prev_pid .function == 1"),
    ("timer:hrtimer_start", "function == hrtimer_wakeup"),
    ("timer:hrtimer_start", "function == 'a'"),
    ("timer:hrtimer_start", "function == -1"),
    ("timer:hrtimer_start", "function.function > hrtimer_wakeup"),
    ("timer:hrtimer_start", "function.function == \"hrtimer_wakeup\""),
    ("timer:hrtimer_start", "function.function == -1"),
    ("timer:hrtimer_start", "function.function =="),
    ("raw_syscalls:sys_enter", "args[0] == 1"),
    ("syscalls:sys_enter_openat", "filename == 1"),
    ("skb:kfree_skb", "reason == NO_SOCKET"),
    ("ipi:ipi_send_cpumask", "cpumask < CPUS{0-1}"),
    ("ipi:ipi_send_cpumask", "cpumask == \"1\""),
    ("sched:sched_process_exec", "filename == 1"),
    ("block:block_rq_issue", "cmd == 1"),
];

/// Filters that the kernel accepts and perilune rejects, because the kernel does not do what they
/// state.
const REFUSED_BY_US_ALONE: &[(&str, &str)] = &[
    (SWITCH, "prev_pid==1 &&"),
    (SWITCH, "prev_pid==1 ||"),
    (SWITCH, "STACKTRACE == 1"),
    ("raw_syscalls:sys_enter", "args == 1"),
    ("ipi:ipi_send_cpumask", "cpumask == 1"),
];

fn the_kernel_accepts_each_filter_that_perilune_accepts_and_prints() {
    let cpus = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    for (event, filter) in ACCEPTED {
        if kernel::format(event).is_none()
            || (filter.contains('1') && filter.contains("CPUS") && cpus.trim() == "0")
        {
            eprintln!("not compared: {event} or its CPUs are not here: {filter}");
            continue;
        }
        let ours = verdict(event, filter).unwrap_or_else(|e| panic!("{event} {filter}: {e}"));
        assert!(
            kernel_accepts(event, &ours.to_kernel()),
            "{event}: {filter}: {}",
            ours.to_kernel()
        );
        let again = Filter::parse(&ours.to_kernel()).unwrap();
        assert_eq!(again.to_kernel(), ours.to_kernel());
    }
}

fn the_kernel_refuses_each_filter_that_perilune_refuses() {
    for (event, filter) in REFUSED {
        if kernel::format(event).is_none() {
            eprintln!("not compared: no {event}");
            continue;
        }
        assert!(verdict(event, filter).is_err(), "perilune accepts {event} {filter}");
        assert!(!kernel_accepts(event, filter), "the kernel accepts {event} {filter}");
    }
    for (event, filter) in REFUSED_BY_US_ALONE {
        assert!(verdict(event, filter).is_err(), "perilune accepts {event} {filter}");
        assert!(
            kernel_accepts(event, filter),
            "the kernel refuses {event} {filter}, but perilune gives another reason"
        );
    }
}

fn the_longest_filter_is_as_long_as_the_kernels() {
    for (spare, accepted) in [(1, true), (0, false)] {
        let mut filter = String::from("prev_pid == 1");
        while filter.len() + " || prev_pid == 1".len() < 4096 {
            filter += " || prev_pid == 1";
        }
        let filter = format!("{filter}{}", " ".repeat(4096 - spare - filter.len()));
        assert_eq!(verdict(SWITCH, &filter).is_ok(), accepted);
        assert_eq!(kernel_accepts(SWITCH, &filter), accepted, "{} bytes", filter.len());
    }
}

fn random_filters_get_the_same_verdict_from_both() {
    let format = kernel::format(SWITCH).unwrap();
    // Closing the last event of a tracepoint is slow, so one stays open.
    let _open = Tracepoint::open(format.id, Of::Me, 0).unwrap();
    let mut seed = 0x9e3779b97f4a7c15u64;
    let mut accepted = 0;
    for _ in 0..3000 {
        let mut tokens = Vec::new();
        grow(&mut tokens, &mut seed, 0);
        if random(&mut seed).is_multiple_of(2) {
            let at = random(&mut seed) as usize % (tokens.len() + 1);
            let token = TOKENS[random(&mut seed) as usize % TOKENS.len()];
            match random(&mut seed) % 3 {
                0 if at < tokens.len() => drop(tokens.remove(at)),
                1 if at < tokens.len() => tokens[at] = token,
                _ => tokens.insert(at, token),
            }
        }
        let filter = tokens.join(if random(&mut seed).is_multiple_of(2) { " " } else { "" });
        let ours = verdict(SWITCH, &filter);
        accepted += u32::from(ours.is_ok());
        let sent = ours.as_ref().map_or(filter.clone(), Filter::to_kernel);
        let tracepoint = Tracepoint::open(format.id, Of::Me, 0).unwrap();
        let theirs = tracepoint.set_filter(&sent).is_ok();
        let dangling = filter.trim_end_matches([' ', ')', '!']);
        if theirs && ours.is_err() && dangling.ends_with(['&', '|']) {
            continue;
        }
        assert_eq!(ours.is_ok(), theirs, "{filter}: {ours:?}");
    }
    assert!((1000..2500).contains(&accepted), "{accepted}");
}

const TOKENS: [&str; 30] = [
    "prev_pid",
    "prev_comm",
    "CPU",
    "COMM",
    "nofield",
    "==",
    "!=",
    "<=",
    "&",
    "~",
    "=",
    "1",
    "-1",
    "0x1f",
    "08",
    "\"a\"",
    "'b*'",
    "\"",
    "(",
    ")",
    "!",
    "&&",
    "||",
    "|",
    " ",
    "CPUS{0}",
    "and",
    "next_pid == 2",
    "prev_comm ~ \"x*\"",
    "[",
];

fn grow(tokens: &mut Vec<&'static str>, seed: &mut u64, depth: u32) {
    match random(seed) % if depth < 4 { 8 } else { 4 } {
        0 => tokens.extend(["prev_pid", "==", "1"]),
        1 => tokens.extend(["prev_comm", "~", "'b*'"]),
        2 => tokens.extend(["CPU", "&", "CPUS{0}"]),
        3 => tokens.extend(["next_pid", "!=", "-1"]),
        4 => {
            tokens.push("!");
            grow(tokens, seed, depth + 1);
        }
        5 => {
            tokens.push("(");
            grow(tokens, seed, depth + 1);
            tokens.push(")");
        }
        joined => {
            grow(tokens, seed, depth + 1);
            tokens.push(if joined == 6 { "&&" } else { "||" });
            grow(tokens, seed, depth + 1);
        }
    }
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed >> 11
}
