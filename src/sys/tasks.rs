//! The tasks of the machine, from /proc: the threads of a process, and the names and parents of all
//! tasks.
//!
//! A snapshot is never consistent: tasks start and end while it is taken. Tasks that end meanwhile
//! are omitted; a caller that needs the others enables the side-band records first.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::time::{Duration, SystemTime};

use super::clock::{since_boot, user_ticks_per_second};
use crate::base::text::unescape::unescape;

/// A task and its names, as /proc showed them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskName {
    /// Thread id.
    pub tid: i32,
    /// Process id.
    pub pid: i32,
    /// Process id of the parent; 0 without a parent.
    pub ppid: i32,
    /// Its name as tracepoints show it, at most 15 bytes.
    pub comm: String,
}

/// Returns the threads of a process, ascending. Lists them until two lists agree, since new threads
/// may start meanwhile.
///
/// # Errors
/// `NotFound`: there is no such process.
pub fn threads_of(pid: i32) -> io::Result<Vec<i32>> {
    let mut threads = list_threads(pid)?;
    // Limited, since a process may start threads faster than they can be listed.
    for _ in 0..16 {
        let again = list_threads(pid)?;
        if again == threads {
            break;
        }
        threads = again;
    }
    Ok(threads)
}

/// Returns the threads of several processes, without those of processes that have ended.
pub fn threads_of_all(pids: &[i32]) -> impl Iterator<Item = i32> {
    pids.iter().flat_map(|pid| threads_of(*pid).unwrap_or_default())
}

/// Returns whether one of these threads has not ended. A zombie has, unless it is the first thread
/// of a process that has others.
pub fn any_alive(tids: &[i32]) -> bool {
    let mut text = Vec::with_capacity(STAT_ROOM);
    tids.iter().any(|tid| {
        text.clear();
        let read = File::open(format!("/proc/{tid}/stat")).map(|mut f| f.read_to_end(&mut text));
        match (read, parse_stat(&text)) {
            (Ok(Ok(_)), Some(stat)) => !stat.is_zombie || stat.threads > 1,
            (Err(why), _) | (Ok(Err(why)), _) => {
                !matches!(why.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
            }
            (Ok(Ok(_)), None) => true,
        }
    })
}

/// Returns the thread through which /proc shows the memory and files of a process: its first one
/// or, if that has ended before the others, one that has not.
pub fn living_thread(pid: u32) -> u32 {
    match stat_of(pid) {
        Some(stat) if stat.is_zombie && stat.threads > 1 => {
            other_threads(pid).first().copied().unwrap_or(pid)
        }
        _ => pid,
    }
}

/// Returns the threads of a process, without the first one, that have not ended.
pub fn other_threads(pid: u32) -> Vec<u32> {
    let threads = list_threads(pid.cast_signed()).unwrap_or_default();
    let others = threads.into_iter().map(i32::cast_unsigned).filter(|tid| *tid != pid);
    others.filter(|tid| stat_of(*tid).is_some_and(|stat| !stat.is_zombie)).collect()
}

fn stat_of(tid: u32) -> Option<Stat> {
    let mut text = Vec::with_capacity(STAT_ROOM);
    File::open(format!("/proc/{tid}/stat")).ok()?.read_to_end(&mut text).ok()?;
    parse_stat(&text)
}

/// Returns the process that a thread belongs to.
///
/// # Errors
/// `NotFound`: there is no such thread.
pub fn process_of(tid: i32) -> io::Result<i32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).map_err(|e| gone(e, tid))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|pid| pid.trim().parse().ok())
        .ok_or_else(|| io::Error::other(format!("failed to find the process of task {tid}")))
}

/// Returns all tasks that this process's /proc shows; empty without /proc.
pub fn task_names() -> Vec<TaskName> {
    let (mut tasks, mut text) = (Vec::new(), Vec::with_capacity(STAT_ROOM));
    let mut add = |pid: i32, tid: i32, path: String| {
        text.clear();
        File::open(path).and_then(|mut file| file.read_to_end(&mut text)).ok()?;
        let stat = parse_stat(&text)?;
        tasks.push(TaskName { tid, pid, ppid: stat.ppid, comm: stat.comm });
        Some(stat.threads)
    };
    for pid in numbers("/proc").unwrap_or_default() {
        // Most processes have one thread; their directory of threads need not be opened.
        if add(pid, pid, format!("/proc/{pid}/stat")).is_none_or(|threads| threads == 1) {
            continue;
        }
        for tid in list_threads(pid).unwrap_or_default() {
            if tid != pid {
                add(pid, tid, format!("/proc/{pid}/task/{tid}/stat"));
            }
        }
    }
    tasks
}

/// Larger than a stat file, so that one read returns it completely.
const STAT_ROOM: usize = 1024;

/// Namespace id, owner and start of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Its id in its own pid namespace.
    pub pid: u32,
    /// Its owner, in this process's user namespace; None if unknown.
    pub owner: Option<u32>,
    /// Its start time; None if unknown.
    pub started: Option<SystemTime>,
}

/// Returns the namespace id, owner and start of a process; None if it does not exist.
pub fn inside(pid: u32) -> Option<Inside> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let values = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        line.map(str::split_ascii_whitespace)
    };
    let inner = values("NSpid").and_then(Iterator::last).and_then(|value| value.parse().ok());
    // The second is the effective user id.
    let owner = values("Uid").and_then(|mut uids| uids.nth(1)?.parse().ok());
    // NSpid exists since Linux 4.1.
    Some(Inside { pid: inner.unwrap_or(pid), owner, started: started(pid) })
}

/// Returns when a process started, by the wall clock: rounded down by some 20 ms, so that no file
/// that the process wrote is older. Field 22 of its stat is in ticks since boot.
fn started(pid: u32) -> Option<SystemTime> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let close = stat.iter().rposition(|c| *c == b')')?;
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let ticks: u64 = rest.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let (wall, since_boot) = (SystemTime::now(), since_boot());
    let start = Duration::from_secs_f64(ticks as f64 / f64::from(user_ticks_per_second()));
    // Times of files are those of the kernel's last tick.
    let age = since_boot.saturating_sub(start) + LONGEST_TICK;
    wall.checked_sub(age)
}

/// The kernel's tick at 100 a second, the lowest rate.
const LONGEST_TICK: Duration = Duration::from_millis(10);

fn list_threads(pid: i32) -> io::Result<Vec<i32>> {
    numbers(&format!("/proc/{pid}/task")).map_err(|e| gone(e, pid))
}

/// Returns the entries of a directory whose names are numbers, sorted.
fn numbers(path: &str) -> io::Result<Vec<i32>> {
    let entries = fs::read_dir(path)?;
    let mut numbers: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Maps the errors of a task that has ended to `NotFound`: `ENOENT` or, once its directory is open,
/// `ESRCH`.
fn gone(error: io::Error, tid: i32) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => {
            io::Error::new(io::ErrorKind::NotFound, format!("there is no task {tid}"))
        }
        _ => error,
    }
}

/// Fields of a task's stat.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    comm: String,
    /// Whether it has ended and its parent has not waited for it.
    is_zombie: bool,
    ppid: i32,
    /// Number of threads of its process.
    threads: u32,
}

/// Parses name, state, parent and number of threads from `TID (comm) STATE PPID …`; see
/// proc_pid_stat(5). The name may contain any character.
fn parse_stat(stat: &[u8]) -> Option<Stat> {
    let open = stat.iter().position(|c| *c == b'(')?;
    let close = stat.iter().rposition(|c| *c == b')')?;
    let name = stat.get(open + 1..close)?;
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    let ppid = fields.next()?.parse().ok()?;
    // Fields 4 and 20.
    let threads = fields.nth(15)?.parse().ok()?;
    Some(Stat { comm: comm(&unescape(name, NAME_ESCAPES)), is_zombie, ppid, threads })
}

/// Escapes in a name: /proc writes a newline and a backslash as two characters.
const NAME_ESCAPES: &[(&[u8], u8)] = &[(b"\\n", b'\n'), (b"\\\\", b'\\')];

/// Returns a name as tracepoints show it: the 15 bytes of `task_struct.comm`. In /proc, names of
/// kernel threads are longer, and those of workers include their work: `kworker/0:1-events`.
fn comm(name: &[u8]) -> String {
    let worker = name.starts_with(b"kworker/") && !name.starts_with(b"kworker/R");
    let end = if worker { name.iter().position(|c| *c == b'-' || *c == b'+') } else { None };
    let end = end.unwrap_or(name.len()).min(15);
    String::from_utf8_lossy(name.get(..end).unwrap_or(name)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_any_bytes() {
        const REST: &str = "7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 12 0 99 0";
        for (start, comm, ppid) in [
            ("7 (bash) S 5", "bash", 5),
            ("7 (ended) Z 1", "ended", 1),
            ("7 (a) (b) R 1", "a) (b", 1),
            ("7 (new\\nline\\\\) S 1", "new\nline\\", 1),
            ("7 (tail\\) S 1", "tail\\", 1),
            ("9 (kworker/0:1-events) I 2", "kworker/0:1", 2),
            ("9 (kworker/u8:2+flush-254:0) I 2", "kworker/u8:2", 2),
            ("9 (kworker/R-rcu_gp_something) I 2", "kworker/R-rcu_g", 2),
            ("9 (pool_workqueue_release) S 2", "pool_workqueue_", 2),
        ] {
            let stat = parse_stat(format!("{start} {REST}").as_bytes());
            let is_zombie = start.contains(" Z ");
            assert_eq!(stat, Some(Stat { comm: comm.to_owned(), is_zombie, ppid, threads: 12 }));
        }
        for broken in [&b""[..], b"7", b")(", b"7 (x)", b"7 (x) S", b"7 (x) S y", b"7 (x) S 1 7"] {
            assert_eq!(parse_stat(broken), None);
        }
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        assert!(any_alive(&[pid]));
        child.kill().unwrap();
        while any_alive(&[pid]) {
            std::thread::yield_now();
        }
        assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
        assert!(any_alive(&[pid, std::process::id() as i32]));
        child.wait().unwrap();
        assert!(!any_alive(&[pid]));
    }

    #[test]
    fn threads_of_this_process_are_found_and_named() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("a (thread".into()).spawn(move || {
            // SAFETY: gettid has no preconditions.
            sender.send(unsafe { libc::gettid() }).unwrap();
            ended.recv().unwrap();
        });
        let (tid, pid) = (receiver.recv().unwrap(), std::process::id() as i32);
        assert!(threads_of(pid).unwrap().contains(&tid));
        assert_eq!(process_of(tid).unwrap(), pid);
        let names = task_names();
        let task = names.iter().find(|task| task.tid == tid).unwrap();
        assert_eq!((task.pid, task.comm.as_str()), (pid, "a (thread"));
        assert_eq!(task.ppid, std::os::unix::process::parent_id() as i32);
        end.send(()).unwrap();
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn the_start_time_of_a_process_is_accurate_and_no_file_of_it_is_older() {
        let folder = tempfile::tempdir().unwrap();
        for file in 0..50 {
            let path = folder.path().join(file.to_string());
            let before = SystemTime::now();
            let mut command = std::process::Command::new("sh");
            let mut child =
                command.args(["-c", ": > $0; exec sleep 10"]).arg(&path).spawn().unwrap();
            while !path.exists() {
                std::thread::yield_now();
            }
            let began = inside(child.id()).and_then(|inside| inside.started).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(began >= before - Duration::from_millis(100));
            assert!(began <= fs::metadata(&path).unwrap().modified().unwrap());
        }
    }

    #[test]
    fn a_task_that_does_not_exist_is_not_found() {
        for error in [threads_of(i32::MAX).unwrap_err(), process_of(i32::MAX).unwrap_err()] {
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert_eq!(error.to_string(), "there is no task 2147483647");
        }
    }
}
