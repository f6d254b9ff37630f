//! Names of numbers in events: system calls, errors, signals, task states, devices, addresses.
//!
//! All functions are total: a number without a name gets a distinct text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::base::text::number::Number;

/// Returns the system call of this machine's architecture: `openat`; `syscall_9999` for an unknown
/// number.
pub fn syscall_name(number: Number) -> String {
    match number.to::<usize>().and_then(syscalls::Sysno::new) {
        Some(call) => call.name().to_owned(),
        None => format!("syscall_{number}"),
    }
}

/// Returns the error of a system call's result (`-4`) or of an errno field (`4`): `EINTR`; the
/// number if it is not an error.
///
/// Tracepoints also contain results of interrupted calls that are internal to the kernel, such as
/// `ERESTARTSYS`.
pub fn errno_name(number: Number) -> String {
    let errno = number.to::<i32>().and_then(i32::checked_abs).filter(|n| *n > 0);
    match errno.and_then(|n| syscalls::Errno::new(n).name()) {
        Some(name) => name.to_owned(),
        None => number.to_string(),
    }
}

/// Returns the signal as in `kill -l`: `KILL`, `RTMIN+2`; `SIG99` for one without a name. The C
/// library reserves 32 and 33 for itself.
pub fn signal_name(number: Number) -> String {
    let signal = number.to::<i32>();
    if let Some((_, name)) = SIGNALS.iter().find(|(n, _)| Some(*n) == signal) {
        return (*name).to_owned();
    }
    let (first, last) = (libc::SIGRTMIN(), libc::SIGRTMAX());
    match signal {
        Some(n) if n == first => "RTMIN".to_owned(),
        Some(n) if (first..=last).contains(&n) => format!("RTMIN+{}", n - first),
        _ => format!("SIG{number}"),
    }
}

/// Names of signals. The numbers are the C library's because they differ between architectures.
const SIGNALS: &[(i32, &str)] = &[
    (libc::SIGHUP, "HUP"),
    (libc::SIGINT, "INT"),
    (libc::SIGQUIT, "QUIT"),
    (libc::SIGILL, "ILL"),
    (libc::SIGTRAP, "TRAP"),
    (libc::SIGABRT, "ABRT"),
    (libc::SIGBUS, "BUS"),
    (libc::SIGFPE, "FPE"),
    (libc::SIGKILL, "KILL"),
    (libc::SIGUSR1, "USR1"),
    (libc::SIGSEGV, "SEGV"),
    (libc::SIGUSR2, "USR2"),
    (libc::SIGPIPE, "PIPE"),
    (libc::SIGALRM, "ALRM"),
    (libc::SIGTERM, "TERM"),
    (libc::SIGSTKFLT, "STKFLT"),
    (libc::SIGCHLD, "CHLD"),
    (libc::SIGCONT, "CONT"),
    (libc::SIGSTOP, "STOP"),
    (libc::SIGTSTP, "TSTP"),
    (libc::SIGTTIN, "TTIN"),
    (libc::SIGTTOU, "TTOU"),
    (libc::SIGURG, "URG"),
    (libc::SIGXCPU, "XCPU"),
    (libc::SIGXFSZ, "XFSZ"),
    (libc::SIGVTALRM, "VTALRM"),
    (libc::SIGPROF, "PROF"),
    (libc::SIGWINCH, "WINCH"),
    (libc::SIGIO, "IO"),
    (libc::SIGPWR, "PWR"),
    (libc::SIGSYS, "SYS"),
];

/// Returns `prev_state` of sched:sched_switch as ftrace prints it: `S`, combinations as `D|I`, `R+`
/// if preempted.
///
/// The letters and the `+` bit are those of kernels since 4.14 (TASK_REPORT and TASK_REPORT_MAX in
/// include/linux/sched.h).
pub fn task_state(number: Number) -> String {
    const LETTERS: [&str; 8] = ["S", "D", "T", "t", "X", "Z", "P", "I"];
    const PREEMPTED: u64 = 1 << LETTERS.len();
    let Some(bits) = number.to::<i64>().map(|n| n as u64).or_else(|| number.to()) else {
        return number.to_string();
    };
    let set = LETTERS.iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0);
    let mut text = set.map(|(_, letter)| *letter).collect::<Vec<_>>().join("|");
    if text.is_empty() {
        text.push('R');
    }
    if bits & PREEMPTED != 0 {
        text.push('+');
    }
    text
}

/// Returns a `dev_t` in the kernel's encoding, 12 bits of major and 20 of minor
/// (include/linux/kdev_t.h): `8:1`.
pub fn device(number: Number) -> String {
    match number.to::<u32>() {
        Some(dev) => format!("{}:{}", dev >> 20, dev & 0xf_ffff),
        None => number.to_string(),
    }
}

/// Returns an IPv4 address in a `__be32` field, in network byte order on every machine: `10.0.0.7`.
pub fn ip(number: Number) -> String {
    match number.to::<i32>().map(i32::cast_unsigned).or_else(|| number.to()) {
        Some(address) => Ipv4Addr::from(address.to_ne_bytes()).to_string(),
        None => number.to_string(),
    }
}

/// Returns the address in a field of 4 or 16 bytes; `None` for anything else, including an address
/// in text form.
pub fn ip_bytes(bytes: &[u8]) -> Option<String> {
    let written = || std::str::from_utf8(bytes).is_ok_and(|s| s.parse::<IpAddr>().is_ok());
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(v4).to_string());
    }
    let v6 = <[u8; 16]>::try_from(bytes).ok().filter(|_| !written())?;
    Some(Ipv6Addr::from(v6).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(draw: fn(Number) -> String, numbers: &[i128]) -> Vec<String> {
        numbers.iter().map(|n| draw(Number::Int(*n))).collect()
    }

    #[test]
    fn a_system_call_has_the_name_of_this_architecture() {
        assert_eq!(drawn(syscall_name, &[libc::SYS_getppid.into()]), ["getppid"]);
        assert_eq!(drawn(syscall_name, &[99_999, -1]), ["syscall_99999", "syscall_-1"]);
    }

    #[test]
    fn an_error_has_its_name_with_either_sign() {
        assert_eq!(
            drawn(errno_name, &[-4, 4, -110, -512]),
            ["EINTR", "EINTR", "ETIMEDOUT", "ERESTARTSYS"]
        );
        assert_eq!(drawn(errno_name, &[0, 4095, -9999]), ["0", "4095", "-9999"]);
    }

    #[test]
    fn a_signal_has_the_name_that_kill_lists() {
        assert_eq!(
            drawn(signal_name, &[9, 15, 17, 34, 36, 64]),
            ["KILL", "TERM", "CHLD", "RTMIN", "RTMIN+2", "RTMIN+30"]
        );
        assert_eq!(drawn(signal_name, &[0, 33, 65, -1]), ["SIG0", "SIG33", "SIG65", "SIG-1"]);
    }

    #[test]
    fn a_task_state_reads_as_ftrace_prints_it() {
        assert_eq!(
            drawn(task_state, &[0, 1, 2, 0x100, 0x80, 0x82, 0x101, 0x8000_0000]),
            ["R", "S", "D", "R+", "I", "D|I", "S+", "R"]
        );
    }

    #[test]
    fn a_device_is_major_and_minor() {
        assert_eq!(drawn(device, &[0x80_0001, 0x70_0000, 0, -1]), ["8:1", "7:0", "0:0", "-1"]);
    }

    #[test]
    fn an_address_is_drawn_from_a_number_and_from_bytes() {
        let home = i128::from(u32::from_ne_bytes([127, 0, 0, 1]));
        assert_eq!(drawn(ip, &[home, -1, 1 << 32]), ["127.0.0.1", "255.255.255.255", "4294967296"]);
        assert_eq!(ip_bytes(&[10, 0, 0, 7]).as_deref(), Some("10.0.0.7"));
        let mut v6 = [0; 16];
        v6[15] = 1;
        assert_eq!(ip_bytes(&v6).as_deref(), Some("::1"));
        assert_eq!(ip_bytes(b"2001:db8::1:2:34"), None);
        assert_eq!(ip_bytes(b"10.0.0.7"), None);
    }

    #[test]
    fn every_number_has_some_name() {
        let odd = [f64::NAN, f64::INFINITY, -1e300, 1.5].map(Number::from);
        for number in odd.into_iter().chain([Number::Int(i128::MIN), Number::Int(i128::MAX)]) {
            for draw in [syscall_name, errno_name, signal_name, task_state, device, ip] {
                assert!(!draw(number).is_empty());
            }
        }
        assert_eq!(task_state(f64::NAN.into()), "nan");
        assert_eq!(errno_name(Number::Int(i32::MIN.into())), "-2147483648");
    }
}
