//! The tracing file system: where it is mounted, its tracepoints, and the formats of their records.
//!
//! Searches /proc/self/mountinfo; a separate tracefs is preferred to the one inside debugfs. If
//! there is none and this user may mount it, it is mounted at its usual place and stays mounted, as
//! with other tracers. See Documentation/trace/events.rst.

use super::errno::errno;
use super::probe_type::ProbeType;
use super::refusal::{Refusal, RefusedCall};
use crate::base::text::unescape::unescape;
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// A readable tracefs.
#[derive(Clone, Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Whether [`Tracefs::find`] mounted it.
    pub mounted_here: bool,
}

impl Tracefs {
    /// Finds the tracefs, or mounts it.
    ///
    /// # Errors
    /// This user may neither read nor mount it, or the kernel has none.
    pub fn find() -> Result<Tracefs, Refusal> {
        let mut unreadable = None;
        for root in mounted() {
            match readable(&root) {
                Ok(()) => return Ok(Tracefs { root, mounted_here: false }),
                // An unreadable mount matters only if there is no better one.
                Err(error) => unreadable = unreadable.or(Some((root, error))),
            }
        }
        if let Some((root, error)) = unreadable {
            return Err(events_refusal(&root, &error));
        }
        let root = match mount("tracefs", TRACEFS) {
            Ok(()) => PathBuf::from(TRACEFS),
            // Before 4.1 it was a directory of debugfs, and /sys had no mount point for it.
            Err(libc::ENOENT | libc::ENODEV) if mount("debugfs", DEBUGFS).is_ok() => {
                Path::new(DEBUGFS).join("tracing")
            }
            Err(errno) => {
                return Err(Refusal::new("tracefs", RefusedCall::Mount("tracefs", TRACEFS), errno));
            }
        };
        readable(&root).map_err(|error| events_refusal(&root, &error))?;
        Ok(Tracefs { root, mounted_here: true })
    }

    /// Returns where it is mounted.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns whether this kernel makes events of a type on request, as the README shows.
    ///
    /// # Errors
    /// The README cannot be read.
    pub fn has_probes(&self, type_: ProbeType) -> io::Result<bool> {
        Ok(type_.is_in(&read(&self.root.join("README"))?))
    }

    /// Returns the names of the functions that ftrace can trace, some thousands to some ten
    /// thousands.
    ///
    /// # Errors
    /// `available_filter_functions` cannot be read.
    pub fn traceable_functions(&self) -> io::Result<HashSet<Box<str>>> {
        let text = read(&self.root.join("available_filter_functions"))?;
        // `NAME [MODULE]`
        Ok(text.lines().filter_map(|line| line.split(' ').next()).map(Box::from).collect())
    }

    /// Returns all tracepoints that can be opened, as system and name, sorted.
    ///
    /// # Errors
    /// `available_events` cannot be read.
    pub fn events(&self) -> io::Result<Vec<(String, String)>> {
        let text = read(&self.root.join("available_events"))?;
        let events = text.lines().filter_map(|line| line.split_once(':'));
        let mut events: Vec<_> =
            events.map(|(system, name)| (system.to_owned(), name.to_owned())).collect();
        events.sort_unstable();
        Ok(events)
    }

    /// Returns the text of a tracepoint's `format` file.
    ///
    /// # Errors
    /// `NotFound`: there is no such tracepoint; `InvalidInput`: the names cannot be those of a
    /// tracepoint.
    pub fn format(&self, system: &str, name: &str) -> io::Result<String> {
        read(&self.event(system, name)?.join("format"))
    }

    /// Returns a tracepoint's number, `perf_event_attr.config`.
    ///
    /// # Errors
    /// As for [`Tracefs::format`]; `InvalidData`: the file does not contain a number.
    pub fn id(&self, system: &str, name: &str) -> io::Result<u64> {
        let path = self.event(system, name)?.join("id");
        let text = read(&path)?;
        text.trim().parse().map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("`{}` does not contain a number", path.display()),
            )
        })
    }

    /// Returns the directory of a tracepoint; refuses names that would lead elsewhere.
    fn event(&self, system: &str, name: &str) -> io::Result<PathBuf> {
        let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['/', '\0']);
        if plain(system) && plain(name) {
            return Ok(self.root.join("events").join(system).join(name));
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("'{system}:{name}' is not an event name"),
        ))
    }
}

const TRACEFS: &str = "/sys/kernel/tracing";
const DEBUGFS: &str = "/sys/kernel/debug";

fn events_refusal(root: &Path, error: &io::Error) -> Refusal {
    Refusal::new("tracefs", RefusedCall::Events(&root.to_string_lossy()), errno(error))
}

fn readable(root: &Path) -> io::Result<()> {
    // This list is read first, and is as protected as everything below the root.
    fs::File::open(root.join("available_events")).map(drop)
}

fn read(path: &Path) -> io::Result<String> {
    // The kernel reports no size, and produces a page of text per read; this capacity makes each
    // read return a whole page.
    let mut bytes = Vec::with_capacity(16 << 10);
    match fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("failed to read `{}`: {error}", path.display()),
        )),
    }
}

/// Returns the directories where tracing files may be, the best first.
fn mounted() -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut places = parse_mountinfo(&table);
    // The sort is stable: apart from these keys, the order of mounting is kept.
    places.sort_by_key(|place| (place.kind != "tracefs", place.at != Path::new(TRACEFS)));
    places
        .into_iter()
        .map(|place| if place.kind == "tracefs" { place.at } else { place.at.join("tracing") })
        .collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Mount<'a> {
    kind: &'a str,
    at: PathBuf,
}

/// Returns the complete (not partly bound) tracefs and debugfs mounts of proc_pid_mountinfo(5):
/// `42 23 0:13 / /sys/kernel/tracing rw,relatime shared:5 - tracefs nodev rw`.
fn parse_mountinfo(table: &str) -> Vec<Mount<'_>> {
    let lines = table.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let kind = after.split(' ').next().filter(|kind| ["tracefs", "debugfs"].contains(kind))?;
        let mut fields = before.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        (root == "/").then(|| Mount { kind, at: unescaped_path(at) })
    });
    lines.collect()
}

/// Decodes a path, in which blanks, tabs, newlines and backslashes are octal escapes.
pub(super) fn unescaped_path(path: &str) -> PathBuf {
    const ESCAPES: &[(&[u8], u8)] =
        &[(b"\\040", b' '), (b"\\011", b'\t'), (b"\\012", b'\n'), (b"\\134", b'\\')];
    PathBuf::from(OsString::from_vec(unescape(path.as_bytes(), ESCAPES)))
}

/// Mounts a file system of the kernel; returns the errno of a refusal.
fn mount(kind: &str, at: &str) -> Result<(), i32> {
    let (Ok(kind), Ok(at)) = (CString::new(kind), CString::new(at)) else {
        return Err(libc::EINVAL);
    };
    const SOURCE: &CStr = c"nodev";
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: the three strings end with a NUL and outlive the call; there are no options.
    let result = unsafe {
        libc::mount(SOURCE.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, std::ptr::null())
    };
    match io::Error::last_os_error() {
        _ if result == 0 => Ok(()),
        // Another process was faster.
        error if errno(&error) == libc::EBUSY => Ok(()),
        error => Err(errno(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_wherever_they_are() {
        let table = "\
            23 1 0:21 / /sys rw,nosuid - sysfs sysfs rw\n\
            41 23 0:7 / /sys/kernel/debug rw shared:9 - debugfs nodev rw\n\
            42 23 0:13 / /mnt/my\\040traces rw,relatime - tracefs nodev rw\n\
            43 23 0:13 /events /bound rw - tracefs nodev rw\n\
            broken line\n";
        let at = |kind, path: &str| Mount { kind, at: path.into() };
        assert_eq!(
            parse_mountinfo(table),
            [at("debugfs", "/sys/kernel/debug"), at("tracefs", "/mnt/my traces")]
        );
        assert_eq!(parse_mountinfo(""), []);
    }

    #[test]
    fn names_cannot_leave_the_events_directory() {
        let tracefs = Tracefs { root: "/".into(), mounted_here: false };
        for (system, name) in [
            ("..", "x"),
            ("x", ".."),
            ("", "x"),
            ("x", ""),
            ("a/b", "x"),
            ("x", "/etc"),
            (".", "x"),
            ("x", "a\0b"),
        ] {
            for result in
                [tracefs.format(system, name), tracefs.id(system, name).map(|_| String::new())]
            {
                assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput);
            }
        }
    }
}
