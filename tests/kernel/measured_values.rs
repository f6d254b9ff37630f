//! Values of events, measured in the kernel: equal to those of user space and to what the load did.

use std::process::Command;

use serde_json::Value;

use crate::counting::can_count;
use crate::live::live_tests;
use crate::load::Load;
use crate::paired::{both, is_exact, sum};
use crate::tool::Run;

live_tests! {
    sizes_are_distributed_in_the_kernel_as_in_user_space,
    values_of_any_size_are_in_their_buckets,
    a_script_measures_values_by_declaring,
    values_that_may_be_negative_need_records,
}

/// Sizes of writes, each in turn.
const SIZES: [usize; 6] = [0, 1, 3, 100, 4096, 1 << 20];
/// Writes of each size.
const ROUNDS: usize = 2000;
const ALL: f64 = (SIZES.len() * ROUNDS) as f64;

/// Writes each size to /dev/null in turn.
fn writes() -> Load {
    Load::new(|| {
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null").expect("it is there");
        let bytes = vec![1; 1 << 20];
        for _ in 0..ROUNDS {
            for size in SIZES {
                let written = std::io::Write::write(&mut &null, &bytes[..size]);
                assert_eq!(written.expect("it takes all"), size);
            }
        }
    })
}

/// Returns rows and histograms without their times.
fn results(run: &Run) -> Vec<Value> {
    let all = run.of("row").chain(run.of("hist")).cloned();
    all.map(|mut object| {
        object.as_object_mut().expect("an object").remove("time");
        object
    })
    .collect()
}

/// Runs `num-dist` on the writes in both places, which must agree; returns the run in the kernel.
fn distributed(event: &str, further: &[&str]) -> Run {
    can_count();
    let load = writes();
    let pid = load.pid().to_string();
    let [kernel, user] = both(&[&["num-dist", "-e", event, "-p", &pid], further].concat(), load);
    assert!(kernel.of("hist").next().is_some(), "{:?}", kernel.objects);
    assert_eq!(results(&kernel), results(&user));
    assert_eq!(kernel.coverage()["events"], user.coverage()["events"]);
    is_exact(&kernel);
    is_exact(&user);
    kernel
}

fn counts_of_buckets(run: &Run) -> Vec<u64> {
    let buckets = run.of("hist").filter_map(|hist| hist["buckets"].as_array()).flatten();
    buckets.filter_map(|bucket| bucket[2].as_u64()).filter(|count| *count > 0).collect()
}

fn sizes_are_distributed_in_the_kernel_as_in_user_space() {
    let run = distributed("syscalls:sys_enter_write//num=count/", &[]);
    let of = |column: &str| sum(&run, "latency", column, |_| true);
    assert_eq!(of("calls"), ALL, "{:?}", run.objects);
    assert_eq!(of("total"), (ROUNDS * SIZES.iter().sum::<usize>()) as f64);
    assert_eq!((of("min"), of("max")), (0.0, (1 << 20) as f64));
    // 0 and 1 share a bucket.
    let buckets = [2, 1, 1, 1, 1].map(|sizes| sizes * ROUNDS as u64);
    assert_eq!(counts_of_buckets(&run), buckets, "{:?}", run.objects);

    let by_size = distributed("syscalls:sys_enter_write//num=count*2/key=count/", &[]);
    for size in SIZES {
        let of_size = |row: &Value| row["key"] == size;
        assert_eq!(sum(&by_size, "latency", "calls", of_size), ROUNDS as f64, "{size}");
        assert_eq!(sum(&by_size, "latency", "max", of_size), 2.0 * size as f64, "{size}");
    }

    let some = distributed("syscalls:sys_enter_write/count > 3 && _pid > 0/num=count/", &[]);
    assert_eq!(sum(&some, "latency", "calls", |_| true), 3.0 * ROUNDS as f64);
}

fn values_of_any_size_are_in_their_buckets() {
    // Addresses are above the longest delay; 1 << 63 is a large number, not a negative one.
    let event = format!("raw_syscalls:sys_enter/id == {}/num=", libc::SYS_write);
    let addresses = distributed(&format!("{event}args[1]/"), &[]);
    assert_eq!(counts_of_buckets(&addresses).iter().sum::<u64>() as f64, ALL);
    assert_eq!(addresses.coverage()["clamped"], ALL, "{}", addresses.coverage());
    let load = writes();
    let (pid, huge) = (load.pid().to_string(), format!("{event}args[2] | (u64)1 << 63/"));
    for run in both(&["num-dist", "-e", &huge, "-p", &pid], load) {
        assert_eq!(counts_of_buckets(&run), [ALL as u64], "{:?}", run.objects);
        let of = |column: &str| sum(&run, "latency", column, |_| true);
        let most = ((1u64 << 63) + (1 << 20)) as f64;
        assert_eq!((of("calls"), of("min"), of("max")), (ALL, (1u64 << 63) as f64, most));
    }
}

fn a_script_measures_values_by_declaring() {
    can_count();
    let script = r#"
        sizes = latency { { "fd" }, unit = "none", count = "writes" }
        spread = hist.log2 { { "fd" }, title = "size" }
        sizes:measure(evsel "syscalls:sys_enter_write", { value = "count", where = "count != 3",
          rows = { "fd" }, histogram = { spread, columns = { 1 } } })"#;
    let load = writes();
    let pid = load.pid().to_string();
    for run in both(&["eval", script, "-p", &pid], load) {
        let writes = sum(&run, "latency", "calls", |_| true);
        assert_eq!(writes, ALL - ROUNDS as f64, "{:?}", run.objects);
        assert_eq!(counts_of_buckets(&run).iter().sum::<u64>() as f64, writes);
        is_exact(&run);
    }
}

fn values_that_may_be_negative_need_records() {
    can_count();
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["num-dist", "-e", "raw_syscalls:sys_exit//num=ret/", "--where", "kernel"])
        .args(["--duration", "1s"])
        .output()
        .expect("the built command runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("`ret` may be negative"), "{stderr}");
}
