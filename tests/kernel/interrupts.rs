//! irq over soft interrupts that a program causes: packets over loopback, and timers.

use serde_json::Value;

use crate::functions::Program;
use crate::live::live_tests;

live_tests! {
    a_longer_interrupt_is_printed_with_what_ran_in_it,
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
    // The kernel may deliver no event of an idle task.
    let _busy = crate::load::never_idle();
    let before = received();
    let args = ["irq", "--soft", "--than", "1ns", "-a", "-m", "2048"];
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
