//! irq over interrupts that a program causes: soft interrupts by packets over loopback and by
//! timers, and those of the disk.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::UdpSocket;

use serde_json::Value;

use crate::counting::can_count;
use crate::functions::Program;
use crate::live::live_tests;
use crate::load::Load;
use crate::paired::{both, is_exact, run_briefly, start, sum, undelivered};
use crate::raw_tracepoints::{attached, by_key, can_use_arguments};
use crate::tool::Run;

live_tests! {
    a_longer_interrupt_is_printed_with_what_ran_in_it,
    long_soft_interrupts_that_the_kernel_measured_are_printed_with_what_ran_in_them,
    interrupts_of_devices_are_those_of_proc_interrupts,
    soft_interrupts_of_a_task_are_the_same_in_both_places,
    only_events_that_perilune_itself_may_raise_need_records,
}

/// `chain PACKETS TIMEOUTS`: sends datagrams to itself, then waits for some that do not come: each
/// wait ends by a timer of the kernel, whose function is `process_timeout`.
const SOURCE: &str = r#"
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
int main(int argc, char **argv) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at = { .sin_family = AF_INET };
    struct timeval wait = { .tv_usec = 8000 };
    socklen_t size = sizeof at;
    char data[100] = { 0 };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(s, (void *)&at, size) || getsockname(s, (void *)&at, &size)) return 1;
    for (int i = 0; i < atoi(argv[1]); i++)
        if (sendto(s, data, 100, 0, (void *)&at, size) != 100 || recv(s, data, 100, 0) != 100)
            return 2;
    if (setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait)) return 3;
    for (int i = 0; i < atoi(argv[2]); i++) if (recv(s, data, 100, 0) >= 0) return 4;
    return 0;
}
"#;
const PACKETS: u32 = 200;
const TIMEOUTS: u32 = 20;

/// Returns the packets that were received on all CPUs since boot.
fn received() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").expect("procfs is mounted");
    let first = |line: &str| u64::from_str_radix(line.split_whitespace().next()?, 16).ok();
    text.lines().filter_map(first).sum()
}

/// An item of `ran`: `process_timeout 3x 12.1us`, `(no_device) 1 packets`.
struct Item<'a> {
    name: &'a str,
    times: u64,
    us: Option<f64>,
    packets: u64,
}

fn items(row: &Value) -> Vec<Item<'_>> {
    let ran = row["ran"].as_str().unwrap_or_default();
    let texts = ran.split(", ").filter(|item| !item.is_empty());
    texts
        .filter_map(|text| {
            let (before, last) = text.rsplit_once(' ')?;
            let Some(us) = last.strip_suffix("us") else {
                let (name, amount) = before.rsplit_once(' ')?;
                let packets = if last == "packets" { amount.parse().ok()? } else { 0 };
                return Some(Item { name, times: 0, us: None, packets });
            };
            let times = before.rsplit_once(' ').and_then(|(_, times)| times.strip_suffix('x'));
            let name = before.split(' ').next()?;
            let times = times.and_then(|times| times.parse().ok()).unwrap_or(1);
            Some(Item { name, times, us: us.parse().ok(), packets: 0 })
        })
        .collect()
}

fn a_longer_interrupt_is_printed_with_what_ran_in_it() {
    prints_what_ran("user");
}

fn long_soft_interrupts_that_the_kernel_measured_are_printed_with_what_ran_in_them() {
    can_use_arguments();
    let (code, text) = run_briefly(&["irq", "--than", "1s"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("irq:softirq_entry: counted in the kernel"), "{text}");
    assert!(text.contains("irq:irq_handler_entry: counted in user space: `ran` is"), "{text}");
    prints_what_ran("auto");
}

fn prints_what_ran(place: &str) {
    // The kernel may deliver no event of an idle task.
    let _busy = crate::load::never_idle();
    let before = received();
    let args = ["irq", "--soft", "--than", "1ns", "-a", "-m", "2048", "--where", place];
    let run = Program::of(SOURCE, &[]).watched(&args, PACKETS, TIMEOUTS);
    let after = received();
    run.is_complete();
    let rows: Vec<&Value> = run.of("event").filter(|row| row["ran"].is_string()).collect();
    let delay = |row: &Value| row["delay_us"].as_f64().expect("a number");
    let all = || rows.iter().flat_map(|row| items(row).into_iter().map(|item| (delay(row), item)));
    // Others may send packets and set timers, too.
    let packets: u64 = all().map(|(_, item)| item.packets).sum();
    assert!((u64::from(PACKETS)..=after - before).contains(&packets), "{packets}: {rows:?}");
    let timeouts = all().filter(|(_, item)| item.name == "process_timeout");
    let timeouts: u64 = timeouts.map(|(_, item)| item.times).sum();
    assert!(timeouts >= TIMEOUTS.into(), "{timeouts}: {rows:?}");
    // Each time is rounded to a tenth of a microsecond.
    let longer = all().find(|(delay, item)| item.us.is_some_and(|us| us > delay + 0.1));
    assert!(longer.is_none(), "{rows:?}");
}

/// Returns the number of interrupts by the name of their handler, on all CPUs since boot; without
/// interrupts that handlers share.
fn interrupts() -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string("/proc/interrupts").expect("procfs is mounted");
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let _number: u32 = words.next()?.strip_suffix(':')?.parse().ok()?;
        let counts: u64 = words.map_while(|word| word.parse::<u64>().ok()).sum();
        let name = line.split_whitespace().next_back()?;
        (!line.contains(", ")).then(|| (name.to_owned(), counts))
    };
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    for (name, counts) in text.lines().filter_map(of_line) {
        *by_name.entry(name).or_default() += counts;
    }
    by_name
}

/// Writes to the disk `n` times.
fn write_to_disk(n: usize) {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let mut file = tempfile::tempfile_in(folder).expect("a temporary file");
    for _ in 0..n {
        file.write_all(&[1; 4096]).and_then(|()| file.sync_data()).expect("room on the disk");
    }
}

fn interrupts_of_devices_are_those_of_proc_interrupts() {
    can_use_arguments();
    // Linux 6.18 was observed to run no program for interrupts that hit certain threads, which perf
    // events count.
    let complete = (0..10).find(|_| all_interrupts_are_timed());
    assert!(complete.is_some(), "interrupts are missing in each of 10 runs, or the disk has none");
}

/// Times the interrupts of devices. Returns whether none are missing.
fn all_interrupts_are_timed() -> bool {
    let outer = interrupts();
    let tool = start("auto", &["irq", "--hard"]);
    let at = attached(&tool);
    assert!(at.iter().any(|at| at == "irq_handler_entry"), "{at:?}");
    let inner = interrupts();
    write_to_disk(50);
    let inner_end = interrupts();
    let run = tool.finish();
    let outer_end = interrupts();
    is_exact(&run);
    let count = |of: &BTreeMap<String, u64>, name: &str| of.get(name).copied().unwrap_or_default();
    let (mut all, mut is_whole) = (0.0, true);
    for (name, end) in &outer_end {
        let calls = sum(&run, "irq", "calls", |row| row["irq"] == *name);
        let least = count(&inner_end, name) - count(&inner, name);
        let most = end - count(&outer, name);
        assert!(calls <= most as f64, "{name}: {calls} {most}: {:?}", run.objects);
        is_whole &= calls >= least as f64;
        all += calls;
    }
    is_whole && all >= 20.0
}

fn soft_interrupts_of_a_task_are_the_same_in_both_places() {
    can_use_arguments();
    let complete = (0..5).find(|_| both_time_the_same_interrupts());
    assert!(complete.is_some(), "events were missed in each of 5 runs");
}

/// Times the soft interrupts in a task in both places. Returns whether nothing was missed.
fn both_time_the_same_interrupts() -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = socket.local_addr().expect("it is bound");
    let load = Load::new(move || {
        let mut data = [0; 100];
        for _ in 0..PACKETS {
            let sent = socket.send_to(&data, to).and_then(|_| socket.recv(&mut data));
            assert_eq!(sent.ok(), Some(data.len()));
        }
    });
    let pid = load.pid().to_string();
    let [kernel, user] = both(&["irq", "--soft", "-p", &pid], load);
    if undelivered(&kernel) + undelivered(&user) > 0 {
        return false;
    }
    let [calls, expected] = [&kernel, &user].map(|run| by_key(run, "softirq", "calls"));
    assert!(calls.get("\"NET_RX\"").is_some_and(|calls| *calls >= PACKETS.into()), "{calls:?}");
    assert_eq!(calls, expected);
    // The two places measure some microseconds apart.
    let total = |run: &Run| sum(run, "softirq", "total_us", |_| true);
    let difference = (total(&kernel) - total(&user)).abs() / calls.values().sum::<u64>() as f64;
    assert!(difference < 5.0, "{} {}", total(&kernel), total(&user));
    true
}

fn only_events_that_perilune_itself_may_raise_need_records() {
    can_count();
    let select = |event: &'static str| ["top", "-e", event, "--where", "kernel"];
    let (code, text) = run_briefly(&select("irq:softirq_entry//key=vec/"));
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run_briefly(&select("timer:hrtimer_start//key=common_pid/"));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("only a record shows whether an interrupt hit perilune"), "{text}");
}
