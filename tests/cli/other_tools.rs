//! Commands and arguments as perf, bpftrace and bcc spell them: the error has the replacement.

use crate::bench::refused;

#[test]
fn a_tool_of_bcc_is_refused_with_the_monitor_to_use() {
    for (name, hint) in [
        ("execsnoop", "; instead of bcc's: 'execs'"),
        ("execsnoop-bpfcc", "; instead of bcc's: 'execs'"),
        ("tcplife.bt", "; instead of bcc's: 'tcp --each'"),
        ("syscalls-bpfcc", "; did you mean 'syscalls'?"),
        ("no-such-tool-bpfcc", ""),
    ] {
        assert_eq!(
            refused(&[name]),
            format!(
                "perilune: no monitor or command '{name}'{hint} (perilune monitors lists them)"
            )
        );
    }
}

#[test]
fn a_rate_that_is_not_a_whole_number_is_refused_with_the_form() {
    for (words, why) in [
        (["units", "-F", "max"], "-F: `max` is not a number; write the rate: sysctl kernel.perf_"),
        (["units", "-F", "1K"], "`1K` is not a whole number of at least 0; write it without a"),
        (["trace", "-e", "cs/period=1K/"], "expected a whole number of events per sample"),
        (["trace", "-e", "cs/freq=true/"], "expected a whole number of samples per second"),
    ] {
        let line = refused(&words);
        assert!(line.contains(why), "{line}");
    }
}
