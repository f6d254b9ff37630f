//! files, fsync and opens: what a task did with its files, counted by the task.

use std::{
    fs::File,
    io::Write as _,
    os::fd::AsRawFd as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use crate::{live::live_tests, load, load::Load, tool::Run};

live_tests! {
    reads_and_writes_are_counted_by_file,
    a_descriptor_that_was_opened_again_has_no_wrong_path,
    each_fsync_is_timed_with_its_file,
    opens_are_printed_with_flags_and_errors,
    a_path_selects_opens_by_the_argument,
}

/// Returns a folder, and the paths of files in it as the kernel prints them.
fn files<const N: usize>(names: [&str; N]) -> (tempfile::TempDir, [PathBuf; N]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let real = folder.path().canonicalize().expect("it exists");
    (folder, names.map(|name| real.join(name)))
}

/// Lets a task live until perilune has read its descriptors.
fn linger() {
    std::thread::sleep(std::time::Duration::from_millis(500));
}

fn rows_of<'a>(run: &'a Run, path: &'a Path) -> impl Iterator<Item = &'a serde_json::Value> {
    run.of("row").filter(move |row| row["file"] == path.to_str().expect("it is text"))
}

fn reads_and_writes_are_counted_by_file() {
    let (_folder, [one, two]) = files(["one", "two"]);
    let (mut first, second) = (File::create(&one).unwrap(), File::create(&two).unwrap());
    let load = Load::new(|| {
        for _ in 0..300 {
            first.write_all(&[7; 1000]).expect("the disk has room");
        }
        for _ in 0..40 {
            // SAFETY: writes from a buffer of that length to an open file.
            unsafe { libc::pwrite(second.as_raw_fd(), [7u8; 512].as_ptr().cast(), 512, 0) };
        }
        linger();
    });
    let pid = load.pid();
    let run = crate::watch(&["files", "-p", &pid.to_string()], load);
    let sum = |path: &Path, key: &str| -> u64 {
        rows_of(&run, path).map(|row| row[key].as_u64().unwrap_or_default()).sum()
    };
    let sums = |path| ["writes", "written_bytes", "reads"].map(|key| sum(path, key));
    assert_eq!(sums(&one), [300, 300_000, 0], "{:?}", run.objects);
    assert_eq!(sums(&two), [40, 40 * 512, 0], "{:?}", run.objects);
    assert!(rows_of(&run, &one).all(|row| row["pid"] == pid));
    run.is_complete();
}

fn a_descriptor_that_was_opened_again_has_no_wrong_path() {
    let (_folder, paths) = files(["first", "second"]);
    let names = paths.clone().map(|path| [path.as_os_str().as_bytes(), b"\0"].concat());
    let load = Load::new(|| {
        for name in &names {
            // SAFETY: a NUL-terminated path and a buffer of that length; the second file stays
            // open.
            unsafe {
                libc::close(50);
                let fd = libc::open(name.as_ptr().cast(), libc::O_CREAT | libc::O_WRONLY, 0o600);
                libc::dup2(fd, 50);
                libc::close(fd);
                libc::write(50, names.as_ptr().cast(), 10);
            }
        }
        linger();
    });
    let run = crate::watch(&["files", "-p", &load.pid().to_string()], load);
    let marked = run.sum("writes", "file", format!("{} ?", paths[1].display()));
    let exact = paths.each_ref().map(|path| rows_of(&run, path).count());
    // Records with the path that open was passed need no mark.
    assert!((marked, exact) == (2, [0, 0]) || (marked, exact) == (0, [1, 1]), "{:?}", run.objects);
}

fn each_fsync_is_timed_with_its_file() {
    let (_folder, [one, two]) = files(["one", "two"]);
    let (first, second) = (File::create(&one).unwrap(), File::create(&two).unwrap());
    let load = Load::new(|| {
        for _ in 0..5 {
            first.sync_all().expect("it is synced");
        }
        second.sync_data().expect("it is synced");
        linger();
    });
    let run = crate::watch(&["fsync", "-p", &load.pid().to_string()], load);
    for (path, call, calls) in [(&one, "fsync", 5), (&two, "fdatasync", 1)] {
        let rows: Vec<_> = rows_of(&run, path).filter(|row| row["calls"].is_u64()).collect();
        let sum: u64 = rows.iter().filter_map(|row| row["calls"].as_u64()).sum();
        assert_eq!(sum, calls, "{:?}", run.objects);
        assert!(rows.iter().all(|row| row["call"] == call), "{:?}", run.objects);
    }
    run.is_complete();
}

fn opens_are_printed_with_flags_and_errors() {
    let load = load::opens([(c"/dev/null", 4), (c"/nowhere/at-all", 6)]);
    let pid = load.pid();
    let run = crate::watch(&["opens", "-p", &pid.to_string()], load);
    let own = run.of("row").filter(|row| row["pid"] == pid && row["flags"] == "RDONLY");
    let own: Vec<_> = own.collect();
    assert_eq!(own.iter().filter(|row| row["fd"].is_u64()).count(), 4, "{:?}", run.objects);
    assert_eq!(own.iter().filter(|row| row["error"] == "ENOENT").count(), 6, "{own:?}");
    run.is_complete();
}

fn a_path_selects_opens_by_the_argument() {
    let load = load::opens([(c"/dev/null", 4), (c"/nowhere/at-all", 6)]);
    let pid = load.pid();
    let args = ["opens", "--failed", "--path", "/nowhere/*", "-p", &pid.to_string()];
    let run = crate::watch(&args, load);
    let printed = run.of("row").filter(|row| row["pid"] == pid && row["flags"] == "RDONLY");
    assert_eq!(printed.filter(|row| row["error"] == "ENOENT").count(), 6, "{:?}", run.objects);
    assert!(run.of("row").all(|row| row["fd"].is_null()), "{:?}", run.objects);
}
