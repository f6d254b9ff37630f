//! cpu-util, and other shares of a CPU's time, compared with the kernel's accounting.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use serde_json::Value;

use crate::counters::has_hardware_counters;
use crate::live::live_tests;
use crate::load;
use crate::tool::Tool;

live_tests! {
    the_times_of_a_cpu_match_the_kernels_accounting,
    the_time_of_a_cpu_is_counted_only_while_it_is_switched_on,
    no_share_of_a_busy_cpu_exceeds_a_hundred_however_short_the_interval,
    a_busy_cpu_has_its_share_whatever_other_cpus_wake_on_it,
    an_ordinary_user_may_read_the_accounting,
}

/// Returns the line of each CPU in /proc/stat.
fn times() -> Vec<[u64; 10]> {
    let stat = fs::read_to_string("/proc/stat").expect("the kernel accounts");
    let cpus = stat.lines().skip(1).take_while(|line| line.starts_with("cpu"));
    let numbers = |line: &str| {
        let mut all = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok());
        [(); 10].map(|()| all.next().unwrap_or(0))
    };
    cpus.map(numbers).collect()
}

/// Returns the ticks that a CPU spent between two lines of /proc/stat: user, guest, system,
/// interrupts, soft interrupts, steal and idle.
fn spent(from: &[u64; 10], to: &[u64; 10]) -> [f64; 7] {
    let of = |field: usize| to[field] as f64 - from[field] as f64;
    let guest = of(8) + of(9);
    [of(0) + of(1) - guest, guest, of(2), of(5), of(6), of(7), of(3) + of(4)]
}

fn the_times_of_a_cpu_match_the_kernels_accounting() {
    let before = times();
    let tool = Tool::attach(&["cpu-util", "-i", "60000"]);
    let from = times();
    let (load, measured) = load::alternate(3, 1000);
    load.run();
    let to = times();
    let run = tool.finish();
    let after = times();
    // Three seconds on a quiet machine.
    assert!(measured.get(2) > 100_000_000, "the load ran for {} ns only", measured.get(2));
    for cpu in 0..from.len() {
        let row = run.of("row").find(|row| row["cpu"] == cpu).expect("a row for each CPU");
        // The run counted at least from `from` to `to`, and at most from `before` to `after`: on a
        // busy machine it starts and ends late.
        let inner = spent(&from[cpu], &to[cpu]);
        let outer = spent(&before[cpu], &after[cpu]);
        for (column, time) in [
            ("user_percent", 0),
            ("guest_percent", 1),
            ("system_percent", 2),
            ("irq_percent", 3),
            ("softirq_percent", 4),
            ("steal_percent", 5),
            ("idle_percent", 6),
        ] {
            let rest = |all: &[f64; 7]| all.iter().sum::<f64>() - all[time];
            let least = 100.0 * inner[time] / (inner[time] + rest(&outer));
            let most = 100.0 * outer[time] / (outer[time] + rest(&inner));
            // With hardware counters the other columns are computed from cycles, which are counted
            // differently.
            let accounted = ["irq_percent", "softirq_percent", "steal_percent"];
            if has_hardware_counters() && !accounted.contains(&column) {
                continue;
            }
            let shown = row[column].as_f64().unwrap_or(f64::NAN);
            let range = least - 2.0..=most + 2.0;
            assert!(range.contains(&shown), "{column} {shown}, not {range:.1?}: {row}");
        }
    }
}

/// Counts CPU times of the whole run, of its first second, and of no time at all.
const SWITCHED: &str = r#"
local m = monitor { summary = "times that are switched off" }
function m.init()
  local only = { count = true }
  local user, idle = evsel("user-time", only), evsel("idle-time", only)
  local system = evsel("system-time", only)
  system:off()
  every(1, function() idle:off() end)
  return counters {
    { "user", function(n) return n(user) end },
    { "idle", function(n) return n(idle) end },
    { "system", function(n) return n(system) end },
  }
end
return m
"#;

fn the_time_of_a_cpu_is_counted_only_while_it_is_switched_on() {
    let mut script = tempfile::Builder::new().suffix(".lua").tempfile().expect("a temporary file");
    script.write_all(SWITCHED.as_bytes()).expect("it can be written");
    let path = script.path().to_string_lossy().into_owned();
    let before = times();
    let tool = Tool::attach(&[&path, "-a", "-i", "60000"]);
    let (load, _measured) = load::alternate(20, 100);
    load.run();
    let run = tool.finish();
    let after = times();
    // The kernel counted both modes meanwhile: the load makes system calls and spins.
    let accounted = |i: usize| {
        before.iter().zip(&after).map(|(before, after)| after[i] - before[i]).sum::<u64>()
    };
    assert!(accounted(0) > 0 && accounted(2) > 0);
    let of = |column| run.of("row").filter_map(|row| row[column].as_f64()).sum::<f64>();
    assert!(of("user") > 0.0, "{:?}", run.objects);
    assert_eq!(of("system"), 0.0, "{:?}", run.objects);
}

/// The columns that add up to all of a CPU's time.
const MODES: [&str; 7] = [
    "user_percent",
    "system_percent",
    "guest_percent",
    "irq_percent",
    "softirq_percent",
    "steal_percent",
    "idle_percent",
];

fn no_share_of_a_busy_cpu_exceeds_a_hundred_however_short_the_interval() {
    let _busy = load::never_idle();
    for (interval, reports) in [("100", 12), ("250", 6), ("1000", 3)] {
        let tool = Tool::attach(&["cpu-util", "-i", interval]);
        let before = times();
        // Each report has a row per CPU and its coverage; two notes stand above the first.
        tool.wait_for_lines(reports * (before.len() + 1) + 2);
        let run = tool.finish();
        let after = times();
        let of = |row: &Value, mode: &str| row[mode].as_f64().unwrap_or(f64::NAN);
        let rows: Vec<&Value> = run.of("row").collect();
        assert!(rows.len() >= reports * before.len(), "{:?}", run.objects);
        // The last interval may be shorter than a tick, and then has no shares.
        let whole = rows.iter().filter(|row| !row["user_percent"].is_null());
        for row in whole {
            let sum: f64 = MODES.iter().map(|mode| of(row, mode)).sum();
            assert!(MODES.iter().all(|mode| (0.0..=100.0).contains(&of(row, mode))), "{row}");
            assert!(has_hardware_counters() || (99.9..100.1).contains(&sum), "{row}");
        }
        for cpu in 0..before.len() {
            // The spinning tasks leave no idle time.
            assert!(spent(&before[cpu], &after[cpu])[6] <= 2.0, "{before:?} {after:?}");
            let own = rows.iter().filter(|row| row["cpu"] == cpu && !row["user_percent"].is_null());
            let idle: Vec<f64> = own.map(|row| of(row, "idle_percent")).collect();
            let mean = idle.iter().sum::<f64>() / idle.len() as f64;
            assert!(mean < 5.0, "-i {interval}, CPU {cpu}: {idle:?}");
        }
    }
}

fn a_busy_cpu_has_its_share_whatever_other_cpus_wake_on_it() {
    let _busy = load::never_idle();
    let tool = Tool::attach(&["profile", "-F", "0", "-i", "60000"]);
    let (mut sleeper, waker) = load::wakeups_elsewhere(10_000);
    sleeper.start();
    waker.run();
    sleeper.wait();
    let run = tool.finish();
    let rows: Vec<&Value> = run.of("row").collect();
    assert!(rows.len() > 1, "{:?}", run.objects);
    for row in rows {
        let share = row["share_percent"].as_f64().unwrap_or(f64::NAN);
        assert!((95.0..=100.0).contains(&share), "{row}");
    }
}

fn an_ordinary_user_may_read_the_accounting() {
    const USER: u32 = 65534;
    let _busy = load::never_idle();
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    let args = ["cpu-util", "-i", "60000", "--duration", "1s", "--json"];
    let output = command.args(args).uid(USER).gid(USER).output().expect("the command runs");
    let (out, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    let objects = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let rows: Vec<Value> = objects.filter(|object| object["type"] == "row").collect();
    assert_eq!(rows.len(), times().len(), "{out}{said}");
    for row in rows {
        let of = |mode: &str| row[mode].as_f64().unwrap_or(f64::NAN);
        let sum: f64 = MODES.iter().map(|mode| of(mode)).sum();
        assert!(of("idle_percent") < 5.0 && (99.9..100.1).contains(&sum), "{row}");
    }
}
