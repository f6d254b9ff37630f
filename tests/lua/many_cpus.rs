//! A machine of 256 CPUs: the tables of a row per CPU are whole, and each number is that CPU's.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const CPUS: u64 = 256;

/// Column and event of `percpu-stat`; the count of a CPU is (CPU + 1) × (place + 1) × 100,000.
const COUNTS: [(&str, &str); 15] = [
    ("switch", "context-switches"),
    ("wakeup", "sched:sched_wakeup"),
    ("migrate", "cpu-migrations"),
    ("fault", "page-faults"),
    ("irq", "irq:irq_handler_entry"),
    ("tick", "irq_vectors:local_timer_entry"),
    ("resched", "irq_vectors:reschedule_entry"),
    ("timer", "timer:timer_expire_entry"),
    ("hrtimer", "timer:hrtimer_expire_entry"),
    ("work", "workqueue:workqueue_execute_start"),
    ("rx", "net:netif_receive_skb"),
    ("tx", "net:net_dev_xmit"),
    ("issue", "block:block_rq_issue"),
    ("complete", "block:block_rq_complete"),
    ("syscall", "raw_syscalls:sys_enter"),
];

fn count(cpu: u64, place: usize) -> u64 {
    (cpu + 1) * (place as u64 + 1) * 100_000
}

/// Returns the file of a recording in a new folder.
fn recording(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("machine.events");
    std::fs::write(&path, text).expect("it can be written");
    (folder, path)
}

fn run(arguments: &[&str], recording: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(arguments)
        .arg("--replay")
        .arg(recording)
        .output()
        .expect("the command runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn counted() -> String {
    let mut text = String::new();
    for cpu in 0..CPUS {
        for (place, (_, event)) in COUNTS.iter().enumerate() {
            let _ = writeln!(text, "0.5 {cpu} 0 - {event}: value={}", count(cpu, place));
        }
    }
    text
}

#[test]
fn percpu_stat_has_each_cpus_counts_and_their_totals() {
    let (_folder, path) = recording(&counted());
    let text = run(&["percpu-stat", "--syscalls"], &path);
    let mut lines = text.lines().skip(1);
    let titles: Vec<_> = lines.next().expect("titles").split_whitespace().skip(1).collect();
    assert_eq!(titles, COUNTS.map(|(title, _)| title));
    let rows: HashMap<_, Vec<u64>> = lines
        .map(|line| {
            let (name, counts) = line.split_once(' ').expect("a name and counts");
            (name, counts.split_whitespace().map(|n| n.parse().expect("a count")).collect())
        })
        .collect();
    assert_eq!(rows.len() as u64, CPUS + 1);
    for cpu in 0..CPUS {
        let expected: Vec<_> = (0..COUNTS.len()).map(|place| count(cpu, place)).collect();
        assert_eq!(rows[cpu.to_string().as_str()], expected, "CPU {cpu}");
    }
    let sum = CPUS * (CPUS + 1) / 2;
    let totals: Vec<_> = (1..=COUNTS.len() as u64).map(|n| sum * n * 100_000).collect();
    assert_eq!(rows["total"], totals);
}

/// Every CPU is busy for another part of its second.
#[test]
fn cpu_util_has_each_cpus_share() {
    let mut text = String::new();
    for cpu in 0..CPUS {
        let user = (cpu + 1) * 3_000_000;
        for (event, ns) in [
            ("user-time", user),
            ("nice-time", 0),
            ("system-time", 100_000_000),
            ("idle-time", 900_000_000 - user),
            ("iowait-time", 0),
            ("irq-time", 0),
            ("softirq-time", 0),
            ("steal-time", 0),
            ("guest-time", 0),
            ("guest-nice-time", 0),
        ] {
            let _ = writeln!(text, "0.5 {cpu} 0 - {event}: value={ns}");
        }
    }
    let (_folder, path) = recording(&text);
    let rows: Vec<serde_json::Value> = run(&["cpu-util", "--json"], &path)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .filter(|row: &serde_json::Value| row["type"] == "row" && row["cpu"].is_u64())
        .collect();
    assert_eq!(rows.len() as u64, CPUS);
    for (cpu, row) in (0..CPUS).zip(&rows) {
        assert_eq!(row["cpu"], cpu);
        let user = row["user_percent"].as_f64().expect("a share");
        assert!((user - (cpu + 1) as f64 * 0.3).abs() < 0.051, "CPU {cpu}: {row}");
    }
}

/// A timer of 10 ms on each CPU is on time, but for one tick of one CPU: due at 50 ms, it comes at
/// 95 ms, so interrupts were off for 45 to 55 ms.
#[test]
fn irq_off_reports_the_one_cpu_whose_timer_is_late() {
    const LATE: u64 = 200;
    let mut text = String::new();
    for tick in 1..=15 {
        for cpu in 0..CPUS {
            let ms = match (cpu, tick) {
                (LATE, 5) => 95,
                (LATE, 6..=9) => continue,
                _ => tick * 10,
            };
            let _ = writeln!(
                text,
                "0.{ms:03} {cpu} {} task cpu-clock: period=10000000 ip=0xffffffff81000010",
                1000 + cpu
            );
        }
    }
    let (_folder, path) = recording(&text);
    let rows: Vec<serde_json::Value> = run(&["irq-off", "--json"], &path)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .filter(|row: &serde_json::Value| row["type"] == "row")
        .collect();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["cpu"], &rows[0]["calls"]), (&LATE.into(), &1.into()), "{rows:?}");
}
