//! Where the files of a table are: `KIND/TABLE/host=H/monitor=M/date=D/FILE.parquet`, the layout of
//! Hive, whose folders engines read as columns.

use crate::output::file::writable;
use crate::sys::folder::Folder;
use crate::sys::user::effective_uid;
use anyhow::{Context as _, Result, anyhow, bail};
use jiff::tz::TimeZone;
use jiff::{Timestamp, civil::Date};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The keys of the partitions, which engines add as columns.
pub(super) const PARTITIONS: [&str; 3] = ["host", "monitor", "date"];
/// Maximum number of bytes of the name of a folder; a file system permits 255.
const NAME_BYTES: usize = 120;
/// Maximum number of bytes of the value of a partition.
const VALUE_BYTES: usize = 240;

/// The part of the tree that a run writes to.
pub(super) struct Partition {
    folder: PathBuf,
    host: String,
    monitor: String,
    /// Number of files that were begun.
    begun: u64,
}

impl Partition {
    /// Begins below `folder`, which is created if it is missing.
    ///
    /// # Errors
    /// The folder cannot be created, or is a link.
    pub(super) fn begin(folder: &Path, host: &str, monitor: &str) -> Result<Partition> {
        make_folder(folder, false)?;
        let value = |key: &str, text: &str| format!("{key}={}", escaped(text));
        let [host_key, monitor_key, _] = PARTITIONS;
        Ok(Partition {
            folder: folder.to_owned(),
            host: value(host_key, host),
            monitor: value(monitor_key, monitor),
            begun: 0,
        })
    }

    /// Returns the folder of all tables.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a new file of the table at `table`, and creates its folders. `day`
    /// counts from the Unix epoch; `first_ns` is the time of the file's first row.
    ///
    /// # Errors
    /// A folder cannot be created, is a link or belongs to another user.
    pub(super) fn file(&mut self, table: &Path, day: i64, first_ns: i64) -> Result<PathBuf> {
        let mut path = self.folder.clone();
        let (host, monitor) = (Path::new(&self.host), Path::new(&self.monitor));
        let date = format!("{}={}", PARTITIONS[2], date(day));
        for part in table.iter().chain([host.as_os_str(), monitor.as_os_str(), date.as_ref()]) {
            path.push(part);
            make_folder(&path, true)?;
        }
        self.begun += 1;
        let time = Timestamp::from_nanosecond(first_ns.into()).unwrap_or_default();
        let time = TimeZone::UTC.to_datetime(time).strftime("%H%M%S.%6f").to_string();
        // Processes of several containers may have the same number; their times differ.
        path.push(format!("{time}-{}-{}.parquet", std::process::id(), self.begun));
        Ok(path)
    }
}

fn date(day: i64) -> Date {
    let time = Timestamp::from_second(day.saturating_mul(86_400)).unwrap_or_default();
    TimeZone::UTC.to_datetime(time).date()
}

/// Creates a folder unless it exists. With `is_own`, an existing one must belong to this user or to
/// root, because others could replace what is in it.
fn make_folder(path: &Path, is_own: bool) -> Result<()> {
    let shown = path.display();
    // `DIR/` names the same folder as `DIR`.
    let name: PathBuf = path.components().collect();
    if name.file_name().is_none() {
        return Ok(());
    }
    let place = writable(&name)?;
    let failed = || format!("failed to create the folder `{shown}`");
    let found = match place.found {
        Some(found) => found,
        None => match place.folder.make(&place.name) {
            Ok(()) => return Ok(()),
            // Another run has created it meanwhile.
            Err(why) if why.kind() == ErrorKind::AlreadyExists => {
                place.folder.look(&place.name, false).with_context(failed)?
            }
            Err(why) => return Err(why).with_context(failed),
        },
    };
    let data = found.metadata().with_context(failed)?;
    if !data.is_dir() {
        bail!("`{shown}` is not a folder; name another one");
    }
    if is_own && ![0, effective_uid()].contains(&data.uid()) {
        bail!("the folder `{shown}` belongs to uid {}; choose another one", data.uid());
    }
    Folder::of(found).check_writable().map_err(|why| not_writable(why, path))
}

/// Returns an error that names the reason why files cannot be created in a folder.
fn not_writable(why: io::Error, path: &Path) -> anyhow::Error {
    let shown = path.display();
    match why.kind() {
        ErrorKind::ReadOnlyFilesystem => {
            anyhow!("the folder `{shown}` is on a read-only file system; choose another one")
        }
        ErrorKind::PermissionDenied => {
            anyhow!("no permission to write to the folder `{shown}`; choose another one")
        }
        _ => anyhow::Error::new(why).context(format!("failed to write to the folder `{shown}`")),
    }
}

/// Returns the name of a table's folder: engines ignore names that begin with `.` or `_`, and some
/// refuse `:`.
pub(super) fn folder_name(name: &str) -> String {
    let mut safe = String::with_capacity(name.len());
    for (i, c) in name.chars().enumerate() {
        match c {
            ':' => safe.push_str("__"),
            '.' | '_' if i == 0 => safe.push('x'),
            c if c.is_ascii_alphanumeric() || "_.-".contains(c) => safe.push(c),
            _ => safe.push('_'),
        }
    }
    safe.truncate(NAME_BYTES);
    if safe.is_empty() { "x".to_owned() } else { safe }
}

/// Returns a value of a partition, with other characters as `%XX`, as Hive and its readers do.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        if safe.len() >= VALUE_BYTES {
            break;
        }
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' => safe.push(byte.into()),
            byte => safe.push_str(&format!("%{byte:02X}")),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_for_every_engine() {
        assert_eq!(folder_name("sched:sched_switch"), "sched__sched_switch");
        assert_eq!(folder_name("../x"), "x._x");
        assert_eq!(folder_name("uprobe:/bin/sh:f(a, b)"), "uprobe___bin_sh__f_a__b_");
        assert_eq!(folder_name(""), "x");
        assert_eq!(escaped("web-1.example"), "web-1.example");
        assert_eq!(escaped("a/b=c d"), "a%2Fb%3Dc%20d");
        assert_eq!(date(20_783).to_string(), "2026-11-26");
    }

    #[test]
    fn the_error_of_a_folder_names_why_it_is_not_writable() {
        let text = |errno| {
            let why = io::Error::from_raw_os_error(errno);
            format!("{:#}", not_writable(why, Path::new("/data")))
        };
        let read_only = "the folder `/data` is on a read-only file system; choose another one";
        let forbidden = "no permission to write to the folder `/data`; choose another one";
        assert_eq!(text(libc::EROFS), read_only);
        assert_eq!(text(libc::EACCES), forbidden);
        assert_eq!(text(libc::EPERM), forbidden);
        let stale = text(libc::ESTALE);
        assert!(stale.starts_with("failed to write to the folder `/data`: Stale"), "{stale}");
    }

    #[test]
    fn a_folder_that_is_a_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert!(Partition::begin(&link, "h", "m").is_err());
        let mut partition = Partition::begin(folder.path(), "h", "m").unwrap();
        std::os::unix::fs::symlink("/tmp", folder.path().join("rows")).unwrap();
        assert!(partition.file(Path::new("rows/t"), 1, 0).is_err());
        let file = partition.file(Path::new("events/t"), 20_783, 1_795_690_800_000_000_000);
        let file = file.unwrap();
        assert!(file.starts_with(folder.path().join("events/t/host=h/monitor=m/date=2026-11-26")));
        assert!(file.parent().unwrap().is_dir());
    }
}
