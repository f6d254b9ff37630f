//! The command as run by a user without privileges. The tests of the terminal include this file,
//! too.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use tempfile::TempDir;

use crate::live::skip;

/// User and group without privileges.
pub(crate) const USER: u32 = 65534;

/// Ends the test unless users may watch only their own processes, in user mode.
pub(crate) fn require_paranoid_2() {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.unwrap_or_default();
    if paranoid.trim() != "2" {
        skip(&format!("perf_event_paranoid is {}, not 2", paranoid.trim()));
    }
}

/// Returns a copy of the command in a folder from which an unprivileged user may execute it.
pub(crate) fn command_of_user() -> (TempDir, Command) {
    let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir();
    let folder = folder.expect("a folder can be made");
    let own = folder.path().join("perilune");
    // Copied by another process: a child forked meanwhile must not hold the file open for writing.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_perilune")).arg(&own).status();
    assert!(copied.is_ok_and(|status| status.success()), "the command can be copied");
    let mut command = Command::new(own);
    command.uid(USER).gid(USER).env_remove("PERILUNE_PATH").current_dir("/");
    (folder, command)
}
