//! Probes, as events that this process makes in tracefs.
//!
//! An event is a line of a file such as `uprobe_events` ([`ProbeType`]), with a number like that of
//! a tracepoint. It is made in the group `perilune_PID` and removed with its last perf event. Those
//! of a process that was killed stay, without effect, until perilune makes its next one; before
//! Linux 6.17, the function of an fprobe is still traced, and a tprobe blocks others there.
//!
//! The PMUs `uprobe` and `kprobe` need no such line, but each perf event of theirs is a probe of
//! its own. With one per CPU, all of them run at each call; and if the thread is moved between two
//! of them, the call is counted twice or not at all.

use std::ffi::CStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use super::probe_type::ProbeType;
use super::tasks::any_alive;
use super::tracefs::Tracefs;

/// Where an event is raised, and what is read there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbePoint<'a> {
    /// The type of the event.
    pub type_: ProbeType,
    /// A function or tracepoint of the kernel by name, or the path of a file; without blanks.
    pub place: &'a CStr,
    /// Whether it fires when the function returns, instead of at its call.
    pub at_return: bool,
    /// The instructions that raise it, at least one; their arguments have the same names and types.
    pub sites: &'a [ProbeSite],
}

/// An instruction that raises an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeSite {
    /// Byte offset in the file, or in the function of the kernel.
    pub offset: u64,
    /// Offset in the file of a 16-bit counter that the kernel increments in each process while the
    /// event is open (`REF_CTR_OFFSET`).
    pub semaphore: Option<u64>,
    /// Values that are read, as fetch arguments: `arg1=%di:s32 arg2=+8(%si):u64`; may be empty.
    pub arguments: String,
}

/// An event that this process made in tracefs. It is removed when the last reference is dropped;
/// its perf events must be closed by then.
#[derive(Debug)]
pub struct DynamicEvent {
    type_: ProbeType,
    /// The file that lists events of this type.
    list: PathBuf,
    group: String,
    name: String,
    id: u64,
    format: String,
}

/// Prefix of the names of groups; the process ID follows.
const GROUP: &str = "perilune_";

/// Maximum number of names that are tried: others may be used by a process with the same ID in
/// another PID namespace.
const TRIES: u32 = 1000;

/// Number of attempts to remove an event, and the pause between them: the kernel releases the last
/// perf event a little after it was closed.
const REMOVALS: (u32, Duration) = (20, Duration::from_millis(10));

impl ProbePoint<'_> {
    /// Returns the lines that make the event, one for each site.
    fn lines(&self, group: &str, name: &str) -> impl Iterator<Item = String> {
        let letter = self.type_.letter(self.at_return);
        let by_suffix = self.at_return && self.type_ == ProbeType::Fprobe;
        let place = self.place.to_string_lossy();
        let head =
            format!("{letter}:{group}/{name} {place}{}", if by_suffix { "%return" } else { "" });
        self.sites.iter().map(move |site| {
            let &ProbeSite { offset, semaphore, ref arguments } = site;
            let mut line = match (self.type_, offset) {
                (ProbeType::Uprobe, _) => format!("{head}:{offset:#x}"),
                (_, 0) => head.clone(),
                (_, _) => format!("{head}+{offset:#x}"),
            };
            line.extend(semaphore.map(|counter| format!("({counter:#x})")));
            if !arguments.is_empty() {
                line.extend([" ", arguments]);
            }
            line
        })
    }
}

impl DynamicEvent {
    /// Makes an event for a probe. The first call removes the events that killed processes left.
    ///
    /// # Errors
    /// tracefs cannot be written, or the kernel refuses the probe.
    pub fn create(point: ProbePoint<'_>) -> io::Result<Arc<DynamicEvent>> {
        static SWEPT: Once = Once::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tracefs =
            Tracefs::find().map_err(|refusal| io::Error::from_raw_os_error(refusal.errno))?;
        SWEPT.call_once(|| sweep(tracefs.root()));
        let list = tracefs.root().join(point.type_.list());
        let group = format!("{GROUP}{}", std::process::id());
        for _ in 0..TRIES {
            let name = format!("p{}", NEXT.fetch_add(1, Ordering::Relaxed));
            let mut lines = point.lines(&group, &name);
            let first = lines.next().ok_or(io::ErrorKind::InvalidInput)?;
            match append(&list, &first) {
                // Linux also refuses a second tprobe on a tracepoint in this way before 6.17.
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists
                        && tracefs.id(&group, &name).is_ok() => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    // Removes the event if one of the following steps fails.
                    let mut event = DynamicEvent {
                        type_: point.type_,
                        list,
                        id: 0,
                        group: group.clone(),
                        name: name.clone(),
                        format: String::new(),
                    };
                    lines.try_for_each(|line| append(&event.list, &line))?;
                    event.id = tracefs.id(&event.group, &event.name)?;
                    event.format = tracefs.format(&event.group, &event.name)?;
                    return Ok(Arc::new(event));
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Returns its number, `perf_event_attr.config` of type `PERF_TYPE_TRACEPOINT`.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the description of its records, as tracefs has it.
    pub fn format(&self) -> &str {
        &self.format
    }

    /// Returns its type.
    pub fn type_(&self) -> ProbeType {
        self.type_
    }
}

impl Drop for DynamicEvent {
    fn drop(&mut self) {
        let (tries, pause) = REMOVALS;
        for _ in 0..tries {
            match append(&self.list, &removal(&self.group, &self.name)) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(pause);
                }
                _ => return,
            }
        }
    }
}

fn removal(group: &str, name: &str) -> String {
    format!("-:{group}/{name}")
}

/// Adds a line. Opening the file for writing alone would remove all events.
fn append(list: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(list)?.write_all(line.as_bytes())
}

/// Removes the events of processes that no longer exist, and those of an earlier process with this
/// one's ID. The kernel refuses to remove an event that is in use.
fn sweep(root: &Path) {
    let lists = [ProbeType::Uprobe, ProbeType::Kprobe, ProbeType::Tprobe];
    for list in lists.map(|type_| root.join(type_.list())) {
        let Ok(text) = fs::read_to_string(&list) else { continue };
        for (group, name) in text.lines().filter_map(left_by_perilune) {
            // An event that cannot be removed has no effect.
            let _ = append(&list, &removal(group, name));
        }
    }
}

/// Returns the group and name of an event that a perilune made that has ended, from a line
/// `KIND:GROUP/NAME …`.
fn left_by_perilune(line: &str) -> Option<(&str, &str)> {
    let (group, name) = line.split_once(':')?.1.split_whitespace().next()?.split_once('/')?;
    let pid: i32 = group.strip_prefix(GROUP)?.parse().ok()?;
    let is_other = pid as u32 != std::process::id();
    (!is_other || !any_alive(&[pid])).then_some((group, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_site_of_a_probe_is_a_line_of_its_list() {
        let lines = |point: ProbePoint<'_>| point.lines("perilune_7", "p0").collect::<Vec<_>>();
        let site = |offset, semaphore, arguments: &str| ProbeSite {
            offset,
            semaphore,
            arguments: arguments.to_owned(),
        };
        let sites = [site(0x1139, None, ""), site(0x1200, Some(0x4010), "arg1=%di:s32")];
        let place = c"/proc/self/fd/7";
        let file = ProbePoint { type_: ProbeType::Uprobe, place, at_return: false, sites: &sites };
        assert_eq!(
            lines(file),
            [
                "p:perilune_7/p0 /proc/self/fd/7:0x1139",
                "p:perilune_7/p0 /proc/self/fd/7:0x1200(0x4010) arg1=%di:s32"
            ]
        );
        let entry = [ProbeSite::default()];
        let type_ = ProbeType::Kprobe;
        let kernel = ProbePoint { type_, place: c"f", at_return: true, sites: &entry };
        assert_eq!(lines(kernel), ["r:perilune_7/p0 f"]);
        let fprobe = ProbePoint { type_: ProbeType::Fprobe, ..kernel };
        assert_eq!(lines(fprobe), ["f:perilune_7/p0 f%return"]);
        let arguments = [site(0, None, "id=$arg2:s64")];
        let (type_, place) = (ProbeType::Tprobe, c"sys_enter");
        let tprobe = ProbePoint { type_, place, at_return: false, sites: &arguments };
        assert_eq!(lines(tprobe), ["t:perilune_7/p0 sys_enter id=$arg2:s64"]);
        let inside = [site(4, None, "")];
        let kernel = ProbePoint { at_return: false, sites: &inside, ..kernel };
        assert_eq!(lines(kernel), ["p:perilune_7/p0 f+0x4"]);
    }

    #[test]
    fn only_events_of_ended_perilunes_are_removed() {
        let own = format!("p:perilune_{}/p3 /bin/true:0x10", std::process::id());
        assert_eq!(left_by_perilune(&own).map(|(_, name)| name), Some("p3"));
        let ended = "r16:perilune_2147483647/p12 do_exit+0";
        assert_eq!(left_by_perilune(ended), Some(("perilune_2147483647", "p12")));
        for other in
            ["p:perilune_1/p0 f", "p:probe_a/work /bin/a:0x1", "p:perilune_x/p f", "", "p:"]
        {
            assert_eq!(left_by_perilune(other), None, "{other}");
        }
    }
}
