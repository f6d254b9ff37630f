//! Reads from /proc the files behind descriptors of a process, its arguments and its user.
//!
//! A process changes and ends while it is read, so the values are those of the moment of the call,
//! not of an event before it. See proc_pid_fd(5), proc_pid_cmdline(5) and proc_pid_status(5).

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;

/// Maximum number of bytes of the arguments; a process may have megabytes of them.
const ARGUMENTS_MAX: u64 = 4096;

/// A process, as /proc shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStatus {
    /// Its arguments, joined by blanks; at most 4096 bytes. Empty for a process without arguments,
    /// such as a kernel thread or a process that has ended and was not waited for.
    pub arguments: Vec<u8>,
    /// Effective user id.
    pub uid: u32,
    /// Process id of its parent; 0 without a parent.
    pub ppid: u32,
}

/// Returns the file of a descriptor as the kernel prints it: a path, `/path (deleted)`,
/// `socket:[12345]`, `pipe:[12345]`, `anon_inode:[eventpoll]`.
///
/// # Errors
/// `NotFound`: there is no such process or descriptor. `PermissionDenied`: the process belongs to
/// another user.
pub fn file_of(pid: u32, fd: u32) -> io::Result<Vec<u8>> {
    let link = fs::read_link(format!("/proc/{pid}/fd/{fd}"))?;
    Ok(link.into_os_string().into_vec())
}

/// Returns the arguments, user and parent of a process.
///
/// # Errors
/// `NotFound`: there is no such process.
pub fn status_of(pid: u32) -> io::Result<ProcessStatus> {
    let mut arguments = Vec::new();
    let file = File::open(format!("/proc/{pid}/cmdline"))?;
    file.take(ARGUMENTS_MAX).read_to_end(&mut arguments)?;
    while arguments.pop_if(|byte| *byte == 0).is_some() {}
    arguments.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    let status = fs::read(format!("/proc/{pid}/status"))?;
    let status = String::from_utf8_lossy(&status);
    let value = |name: &str, nth: usize| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(nth)?.parse::<u32>().ok()
    };
    let (Some(uid), Some(ppid)) = (value("Uid:", 1), value("PPid:", 0)) else {
        return Err(io::Error::other(format!("failed to parse /proc/{pid}/status")));
    };
    Ok(ProcessStatus { arguments, uid, ppid })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_descriptor_has_the_name_that_the_kernel_prints() {
        let pid = std::process::id();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("a file");
        let file = File::create(&path).unwrap();
        let fd = file.as_raw_fd() as u32;
        let name = || String::from_utf8(file_of(pid, fd).unwrap()).unwrap();
        assert_eq!(name(), path.to_str().unwrap());
        fs::remove_file(&path).unwrap();
        assert_eq!(name(), format!("{} (deleted)", path.display()));
        let (reader, _writer) = io::pipe().unwrap();
        let pipe = file_of(pid, reader.as_raw_fd() as u32).unwrap();
        assert!(pipe.starts_with(b"pipe:["), "{pipe:?}");
        assert_eq!(file_of(pid, 1 << 20).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_process_has_its_arguments_user_and_parent() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        // Its arguments are set during its exec.
        let since = std::time::Instant::now();
        let mut status = status_of(child.id());
        while status.as_ref().is_ok_and(|status| status.arguments != b"sleep 600")
            && since.elapsed() < std::time::Duration::from_secs(60)
        {
            std::thread::yield_now();
            status = status_of(child.id());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let status = status.unwrap();
        assert_eq!(status.arguments, b"sleep 600");
        assert_eq!(status.ppid, std::process::id());
        // SAFETY: geteuid has no arguments and cannot fail.
        assert_eq!(status.uid, unsafe { libc::geteuid() });
        assert!(status_of(child.id()).is_err());
    }
}
