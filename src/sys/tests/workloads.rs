//! Workloads: traced from their first system call, started, refused, ended.

use super::*;
use crate::sys::child::Workload;
use crate::sys::live_tests::{needs_root, tracepoint};
use crate::sys::tasks::threads_of;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn events_enabled_before_the_start_count_the_whole_workload() {
    if !needs_root("a tracepoint of another task") {
        return;
    }
    let mut workload = Workload::prepare(&[OsString::from("/bin/true")]).unwrap();
    let target = PerfTarget { pid: workload.pid(), cpu: -1 };
    let events = [
        ("syscalls", "sys_enter_execve"),
        ("sched", "sched_process_exec"),
        ("syscalls", "sys_enter_exit_group"),
    ]
    .map(|(system, name)| open(&tracepoint(system, name, PLACED), target));
    events.iter().for_each(|event| event.enable().unwrap());
    workload.start().unwrap();
    assert!(workload.wait().unwrap().success());
    assert_eq!(events.map(|event| event.read_counts().unwrap().value), [1, 1, 1]);
}

#[test]
fn a_workload_that_cannot_be_run_is_reported_by_name() {
    let mut workload = Workload::prepare(&["/no/such/command".into(), "x".into()]).unwrap();
    let error = workload.start().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    assert_eq!(
        error.to_string(),
        "failed to run `/no/such/command`: No such file or directory (os error 2)"
    );
    assert_eq!(workload.wait().unwrap().code(), Some(127));
    let error = Workload::prepare(&["/proc/version".into()]).unwrap().start().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    assert!(Workload::prepare(&[]).is_err());
    assert!(Workload::prepare(&["a\0b".into()]).is_err());
}

#[test]
fn a_script_whose_interpreter_is_missing_is_reported_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = Workload::prepare(&[script.into()]).unwrap().start().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    let why = "; the file exists, but its interpreter or loader is missing";
    assert!(error.to_string().ends_with(why), "{error}");
}

#[test]
fn an_unstarted_workload_leaves_no_process() {
    let workload = Workload::prepare(&[OsString::from("/bin/true")]).unwrap();
    let pid = workload.pid();
    assert_eq!(threads_of(pid).unwrap(), [pid]);
    drop(workload);
    assert!(threads_of(pid).is_err());
}

#[test]
fn a_workload_has_default_signals_and_can_be_terminated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("status");
    let script = format!("grep ^Sig /proc/self/status > {}; exec sleep 10", file.display());
    let mut workload = Workload::prepare(&["sh".into(), "-c".into(), script.into()]).unwrap();
    workload.start().unwrap();
    let status = loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if text.contains("SigCgt") {
            break text;
        }
        assert!(workload.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    let mask = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
    };
    assert_eq!(mask("SigBlk"), 0);
    assert_eq!(mask("SigIgn") >> (libc::SIGPIPE - 1) & 1, 0);
    workload.terminate().unwrap();
    let status = workload.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGTERM));
    assert_eq!(workload.try_wait().unwrap(), Some(status));
    workload.kill().unwrap();
}
