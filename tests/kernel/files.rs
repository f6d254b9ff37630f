//! files, fsync and opens: what a task did with its files, counted by the task.

use std::{
    fs::File,
    io::Write as _,
    os::fd::AsRawFd as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use crate::functions::Program;
use crate::{live::live_tests, load, load::Load, tool::Run, user::command_of_user};

live_tests! {
    reads_and_writes_are_counted_by_file,
    a_copy_between_descriptors_is_a_read_and_a_write,
    a_descriptor_that_was_opened_again_has_no_wrong_path,
    a_dup3_that_fails_replaces_no_descriptor,
    a_thread_with_descriptors_of_its_own_has_its_own_files,
    each_fsync_is_timed_with_its_file,
    each_msync_is_timed_without_a_file,
    opens_are_printed_with_flags_and_errors,
    a_path_selects_opens_by_the_argument,
    a_mark_ends_with_the_interval_of_the_uncertain_reading,
    a_user_who_may_not_read_tracefs_gets_the_remedy,
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

fn a_copy_between_descriptors_is_a_read_and_a_write() {
    let (_folder, [from, to]) = files(["from", "to"]);
    std::fs::write(&from, [7; 6000]).expect("the disk has room");
    let (source, target) = (File::open(&from).unwrap(), File::create(&to).unwrap());
    let load = Load::new(|| {
        let (source, target) = (source.as_raw_fd(), target.as_raw_fd());
        let null = std::ptr::null_mut();
        // SAFETY: open files, and no offsets.
        unsafe {
            for _ in 0..20 {
                libc::sendfile(target, source, null, 100);
            }
            for _ in 0..10 {
                libc::copy_file_range(source, null, target, null, 300, 0);
            }
            let mut ends = [0; 2];
            libc::pipe(ends.as_mut_ptr());
            libc::splice(source, null, ends[1], null, 50, 0);
            libc::splice(ends[0], null, target, null, 50, 0);
        }
        linger();
    });
    let run = crate::watch(&["files", "-p", &load.pid().to_string()], load);
    let sums = |path: &Path| {
        ["reads", "read_bytes", "writes", "written_bytes"].map(|key| -> u64 {
            rows_of(&run, path).map(|row| row[key].as_u64().unwrap_or_default()).sum()
        })
    };
    assert_eq!(sums(&from), [31, 5050, 0, 0], "{:?}", run.objects);
    assert_eq!(sums(&to), [0, 0, 31, 5050], "{:?}", run.objects);
    assert_eq!(sums(Path::new("pipe")), [1, 50, 1, 50], "{:?}", run.objects);
    run.is_complete();
}

fn a_descriptor_that_was_opened_again_has_no_wrong_path() {
    let (_folder, paths) = files(["first", "second"]);
    let names = paths.clone().map(|path| [path.as_os_str().as_bytes(), b"\0"].concat());
    // Above the descriptors that parallel tests have open at the fork.
    let target = 900;
    let load = Load::new(|| {
        for name in &names {
            // SAFETY: a NUL-terminated path and a buffer of that length; the second file stays
            // open.
            unsafe {
                libc::close(target);
                let fd = libc::open(name.as_ptr().cast(), libc::O_CREAT | libc::O_WRONLY, 0o600);
                libc::dup2(fd, target);
                libc::close(fd);
                libc::write(target, names.as_ptr().cast(), 10);
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

fn a_dup3_that_fails_replaces_no_descriptor() {
    let (_folder, [one, two]) = files(["one", "two"]);
    let (first, second) = (File::create(&one).unwrap(), File::create(&two).unwrap());
    let load = Load::new(|| {
        let (first, second) = (first.as_raw_fd(), second.as_raw_fd());
        // SAFETY: open files, and a buffer of that length; dup3 refuses the flags.
        unsafe {
            libc::write(first, [7u8; 10].as_ptr().cast(), 10);
            for _ in 0..30 {
                libc::write(second, [7u8; 10].as_ptr().cast(), 10);
                libc::dup3(first, second, libc::O_APPEND);
            }
        }
        linger();
    });
    let run = crate::watch(&["files", "-p", &load.pid().to_string()], load);
    let written = |path: &Path| -> u64 {
        rows_of(&run, path).map(|row| row["written_bytes"].as_u64().unwrap_or_default()).sum()
    };
    assert_eq!([written(&one), written(&two)], [10, 300], "{:?}", run.objects);
    run.is_complete();
}

/// A thread leaves the table of descriptors, opens the file `own` and copies its descriptor to
/// number 900, which is that of the file `shared` in the first thread. Both write then.
const OWN_TABLE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
static void *other(void *unused) {
    if (unshare(CLONE_FILES)) _exit(3);
    dup2(open("own", O_WRONLY | O_CREAT, 0600), 900);
    usleep(300000);
    for (int i = 0; i < 50; i++) write(900, "0123456789", 10);
    usleep(500000);
    return unused;
}
int main(int argc, char **argv) {
    pthread_t thread;
    if (chdir(argv[1])) return 1;
    dup2(open("shared", O_WRONLY | O_CREAT, 0600), 900);
    if (pthread_create(&thread, 0, other, 0)) return 2;
    usleep(150000);
    for (int i = 0; i < 70; i++) write(900, "01234", 5);
    usleep(300000);
    for (int i = 0; i < 30; i++) write(900, "01234", 5);
    return pthread_join(thread, 0);
}
"#;

fn a_thread_with_descriptors_of_its_own_has_its_own_files() {
    let (folder, [own, shared]) = files(["own", "shared"]);
    let program = Program::of(OWN_TABLE, &["-pthread"]);
    let run = program.with_arguments(&["files"], &[&folder.path().to_string_lossy()]);
    let sums = |path: &Path| {
        ["writes", "written_bytes"].map(|key| -> u64 {
            rows_of(&run, path).map(|row| row[key].as_u64().unwrap_or_default()).sum()
        })
    };
    assert_eq!((sums(&own), sums(&shared)), ([50, 500], [100, 500]), "{:?}", run.objects);
    run.is_complete();
}

fn a_mark_ends_with_the_interval_of_the_uncertain_reading() {
    let (_folder, [path]) = files(["again"]);
    let load = Load::new(|| {
        // Closed before its path can be read, then open for longer than an interval.
        for stays in [0, 1500, 1500] {
            let mut file = File::options().create(true).append(true).open(&path).unwrap();
            file.write_all(b"x").expect("the disk has room");
            std::thread::sleep(std::time::Duration::from_millis(stays));
        }
        linger();
    });
    let run = crate::watch(&["files", "-i", "1000", "-p", &load.pid().to_string()], load);
    let exact: u64 = rows_of(&run, &path).filter_map(|row| row["writes"].as_u64()).sum();
    let marked = run.sum("writes", "file", format!("{} ?", path.display()));
    assert_eq!(exact + marked, 3, "{:?}", run.objects);
    assert!(exact >= 1, "the last write is certain: {:?}", run.objects);
}

fn a_user_who_may_not_read_tracefs_gets_the_remedy() {
    let (_folder, mut command) = command_of_user();
    let output = command.args(["opens", "--duration", "100ms"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("permission denied on ") && said.contains("run as root"), "{said}");
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

fn each_msync_is_timed_without_a_file() {
    const SIZE: usize = 4096;
    let (_folder, [path]) = files(["mapped"]);
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    file.set_len(SIZE as u64).unwrap();
    let load = Load::new(|| {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file of that size, which only this task uses.
        let failed = unsafe {
            let at = libc::mmap(
                std::ptr::null_mut(),
                SIZE,
                access,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            );
            let writes = (0..3).filter(|i| {
                *at.cast::<u8>() = *i;
                libc::msync(at, SIZE, libc::MS_SYNC) != 0
            });
            writes.count()
        };
        assert_eq!(failed, 0);
        linger();
    });
    let pid = load.pid();
    let run = crate::watch(&["fsync", "-p", &pid.to_string()], load);
    let rows: Vec<_> = run.of("row").filter(|row| row["call"] == "msync").collect();
    assert_eq!(rows.iter().filter_map(|row| row["calls"].as_u64()).sum::<u64>(), 3, "{rows:?}");
    assert!(rows.iter().all(|row| row["pid"] == pid && row["file"] == "-"), "{rows:?}");
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
