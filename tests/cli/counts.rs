//! Counts, ports and shortest durations: checked as options, with one message in all monitors.

use std::process::Command;

#[test]
fn a_value_out_of_range_is_refused_before_the_run() {
    for (args, why) in [
        ("offcpu --rows 0", "--rows: `0` is not a whole number of at least 1"),
        ("cache --rows -1", "--rows: `-1` is not a whole number of at least 1"),
        ("profile --rows 1.5", "--rows: `1.5` is not a whole number of at least 1"),
        ("split-lock -T -1", "-T: `-1` is not a whole number of at least 0"),
        ("tcp --port 1.5", "--port: `1.5` is not a port, a whole number from 1 to 65535"),
        ("tcp --port -1", "--port: `-1` is not a port, a whole number from 1 to 65535"),
        ("tcp --port 65536", "--port: `65536` is not a port, a whole number from 1 to 65535"),
        ("hrtimer -e cs --tick 0", "--tick: `0` is too short; use 10us or more"),
        ("irq-off -L 1us", "-L: `1us` is too short; use 20us or more"),
    ] {
        let words = args.split(' ');
        let output = Command::new(env!("CARGO_BIN_EXE_perilune")).args(words).output();
        let output = output.expect("the built command runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let monitor = args.split(' ').next().unwrap_or_default();
        assert_eq!(output.status.code(), Some(2), "{args}: {said}");
        assert!(said.starts_with(&format!("perilune: {monitor}: {why} (")), "{args}: {said}");
    }
}
