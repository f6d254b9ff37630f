//! cache, writeback, reclaim and oom over files of a known size and a control group with a limit.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::functions::Program;
use crate::live::{live_tests, skip_anywhere};
use crate::tool::Run;

live_tests! {
    pages_of_a_file_are_read_added_and_removed,
    small_reads_and_faults_of_a_mapping_are_counted_by_what_they_find,
    each_dirty_page_is_counted_and_written_back,
    a_writer_beyond_the_limit_of_its_group_reclaims,
    the_victim_of_the_oom_killer_is_the_process_that_grew,
}

/// `chain FILE PAGES`: writes the file, removes it from the cache, and reads it twice.
/// `chain FILE PAGES sync`: writes the file and syncs its file system.
const FILES: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    static char data[65536];
    long pages = atol(argv[2]), size = sysconf(_SC_PAGESIZE);
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (long i = 0; i < pages; i++) if (write(fd, data, size) != size) return 1;
    if (argc > 3) return syncfs(fd) != 0;
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    for (int pass = 0; pass < 2; pass++) {
        lseek(fd, 0, SEEK_SET);
        while (read(fd, data, sizeof data) > 0) {}
    }
    return 0;
}
"#;
const PAGES: u64 = 64;

/// Runs a monitor over the program; returns its output and the sum of a column over the rows of the
/// file.
fn of_file(args: &[&str], more: &[&str]) -> (Run, impl Fn(&Run, &str, &str) -> u64) {
    let program = Program::of(FILES, &[]);
    let file = format!("{}.data", program.path());
    let run = program.with_arguments(args, &[&[&*file, &PAGES.to_string()], more].concat());
    run.is_complete();
    let inode = fs::metadata(&file).expect("the program wrote it").ino();
    let sum = move |run: &Run, table: &str, column: &str| {
        let rows = run.of("row").filter(|row| row["inode"] == inode && row["table"] == table);
        rows.filter_map(|row| row[column].as_u64()).sum()
    };
    (run, sum)
}

fn pages_of_a_file_are_read_added_and_removed() {
    let (run, sum) = of_file(&["cache", "--files"], &[]);
    let of = |column: &str| sum(&run, "pages", column);
    let (added, removed) = (of("added"), of("removed"));
    if added == 0 {
        skip_anywhere("the file system of the temporary folder does not use the page cache");
    }
    // The first read adds the removed pages.
    assert_eq!(added, PAGES + removed, "{:?}", run.objects);
    if reads_are_reported() {
        let found = ["read", "missed", "faults"].map(of);
        assert_eq!(found, [2 * PAGES, removed, 0], "{:?}", run.objects);
    }
}

fn reads_are_reported() -> bool {
    let events = Path::new("/sys/kernel/tracing/events");
    ["filemap/mm_filemap_get_pages", "syscalls/sys_exit_read"]
        .iter()
        .all(|event| events.join(event).exists())
}

/// `chain SMALL LARGE`: writes a file of 3000 bytes, and one of 160 pages. Removes both from the
/// cache; reads the first with a buffer of 128 KiB, and without readahead each 16th page of the
/// second one, and then touches these pages in a mapping. Copies the first file to the end of the
/// second.
const PARTS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>
int main(int argc, char **argv) {
    static char data[131072];
    int fd[2];
    for (int i = 0; i < 2; i++) {
        fd[i] = open(argv[i + 1], O_RDWR | O_CREAT | O_TRUNC, 0600);
        for (long n = i ? 160 : 1; n > 0; n--)
            if (write(fd[i], data, i ? 4096 : 3000) < 0) return 1;
        fsync(fd[i]);
        posix_fadvise(fd[i], 0, 0, POSIX_FADV_DONTNEED);
    }
    lseek(fd[0], 0, SEEK_SET);
    while (read(fd[0], data, sizeof data) > 0) {}
    posix_fadvise(fd[1], 0, 0, POSIX_FADV_RANDOM);
    for (int i = 0; i < 10; i++)
        if (pread(fd[1], data, 100, i * 16 * 4096) != 100) return 2;
    volatile char *memory = mmap(0, 160 * 4096, PROT_READ, MAP_SHARED, fd[1], 0);
    for (int i = 0; i < 10; i++) (void)memory[i * 16 * 4096];
    lseek(fd[1], 160 * 4096, SEEK_SET);
    return sendfile(fd[1], fd[0], &(off_t){ 0 }, 3000) != 3000;
}
"#;

fn small_reads_and_faults_of_a_mapping_are_counted_by_what_they_find() {
    if !reads_are_reported() {
        skip_anywhere("the kernel does not report reads of the page cache; Linux 6.18 does");
    }
    let program = Program::of(PARTS, &[]);
    let files = ["small", "large"].map(|name| format!("{}.{name}", program.path()));
    let run = program.with_arguments(&["cache", "--files"], &files.each_ref().map(|f| &**f));
    run.is_complete();
    let of = |file: &str, column: &str| {
        let inode = fs::metadata(file).expect("the program wrote it").ino();
        run.sum(column, "inode", inode)
    };
    let [small, large] =
        files.each_ref().map(|file| ["read", "missed", "faults", "added"].map(|c| of(file, c)));
    if large[3] == 0 {
        skip_anywhere("the file system of the temporary folder does not use the page cache");
    }
    if of(&files[0], "removed") != 1 || of(&files[1], "removed") != 160 {
        skip_anywhere("the kernel did not remove clean pages of the files on request");
    }
    // Written, and read from the disk by one call; then from the cache by another one.
    assert_eq!(small, [2, 1, 0, 2], "{:?}", run.objects);
    // Written, read from the disk, touched, written by the copy.
    assert_eq!(large, [10, 10, 10, 160 + 10 + 1], "{:?}", run.objects);
}

fn each_dirty_page_is_counted_and_written_back() {
    for place in ["auto", "user"] {
        let options = ["writeback", "--files", "-a", "--where", place];
        let (run, sum) = of_file(&options, &["sync"]);
        let dirtied = sum(&run, "dirtied", "folios");
        if dirtied == 0 {
            skip_anywhere("the file system of the temporary folder is not on a disk");
        }
        assert_eq!(dirtied, PAGES, "{place}: {:?}", run.objects);
        assert_eq!(sum(&run, "written_back", "pages"), PAGES, "{place}: {:?}", run.objects);
    }
}

/// `chain GROUP/cgroup.procs MIB FILE [PID]`: enters the group, and writes MIB to FILE. With PID,
/// uses as much memory instead, in a child: writes to PID its number, the signal that ended it, and
/// how many microseconds tasks waited for memory meanwhile.
const LIMITED: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void enter(const char *procs) {
    int fd = open(procs, O_WRONLY);
    if (fd < 0 || write(fd, "0", 1) != 1) _exit(2);
    close(fd);
}
static unsigned long long stalled(void) {
    unsigned long long total = 0;
    FILE *file = fopen("/proc/pressure/memory", "r");
    const char *line = "some avg10=%*f avg60=%*f avg300=%*f total=%llu";
    if (!file || fscanf(file, line, &total) != 1) return 0;
    fclose(file);
    return total;
}
int main(int argc, char **argv) {
    static char data[65536];
    long bytes = atol(argv[2]) << 20;
    unsigned long long before = stalled();
    pid_t child = fork();
    if (child) {
        int status;
        waitpid(child, &status, 0);
        if (argc < 5) return status != 0;
        FILE *file = fopen(argv[4], "w");
        fprintf(file, "%d %d %llu", child, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                stalled() - before);
        return fclose(file);
    }
    enter(argv[1]);
    if (argc < 5) {
        int fd = open(argv[3], O_WRONLY | O_CREAT | O_TRUNC, 0600);
        for (long i = 0; i < bytes; i += sizeof data)
            if (write(fd, data, sizeof data) < 0) _exit(1);
        _exit(0);
    }
    char *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (long i = 0; i < bytes; i += 4096) memory[i] = 1;
    _exit(0);
}
"#;
const LIMIT_MIB: u64 = 16;
const USED_MIB: u64 = 40;

/// A control group with a limit of memory, removed at the end.
struct Limited(PathBuf);

impl Limited {
    fn new(name: &str) -> Limited {
        let name = format!("perilune-{}-{name}", std::process::id());
        let limit = (LIMIT_MIB << 20).to_string();
        let folders = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
        for (folder, file) in folders.into_iter().zip(["memory.limit_in_bytes", "memory.max"]) {
            let group = Path::new(folder).join(&name);
            if fs::create_dir(&group).is_err() {
                continue;
            }
            let group = Limited(group);
            if fs::write(group.0.join(file), &limit).is_ok() {
                return group;
            }
        }
        skip_anywhere("no control group can limit memory here");
    }

    /// Runs a monitor over a child that uses more memory than the limit.
    fn run(&self, args: &[&str], more: &[&str]) -> (Run, Program) {
        let program = Program::of(LIMITED, &[]);
        let procs = self.0.join("cgroup.procs").to_string_lossy().into_owned();
        let file = format!("{}.data", program.path());
        let used = USED_MIB.to_string();
        let own = [&[&*procs, &used, &file], more].concat();
        let run = program.with_arguments(args, &own);
        if run.code != Some(0) && self.holds_files_in_memory() {
            skip_anywhere("the temporary folder is in memory, which cannot be reclaimed");
        }
        run.is_complete();
        (run, program)
    }

    /// Returns whether the group is charged for the file that its child wrote, as on a tmpfs.
    fn holds_files_in_memory(&self) -> bool {
        let stat = fs::read_to_string(self.0.join("memory.stat")).unwrap_or_default();
        let bytes = stat.lines().find_map(|line| line.strip_prefix("shmem ")?.parse::<u64>().ok());
        bytes.is_some_and(|bytes| bytes > LIMIT_MIB << 19)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

fn a_writer_beyond_the_limit_of_its_group_reclaims() {
    let group = Limited::new("reclaim");
    let (run, _program) = group.run(&["reclaim"], &[]);
    let rows = |table: &str| {
        let rows = run.of("row").filter(|row| row["table"] == table && row["kind"] == "cgroup");
        rows.cloned().collect::<Vec<Value>>()
    };
    let sum = |table: &str, column: &str| -> f64 {
        rows(table).iter().filter_map(|row| row[column].as_f64()).sum()
    };
    assert!(rows("freed").iter().all(|row| row["comm"] == "chain"), "{:?}", run.objects);
    // All but what fits into the group, which other pages of the program share.
    let (freed, least) = (sum("freed", "pages"), ((USED_MIB - LIMIT_MIB) << 20) as f64 / 4096.0);
    assert!(freed >= least && freed < least * 1.5, "{freed} of {least}: {:?}", run.objects);
    assert!(sum("direct_reclaim", "calls") >= 1.0 && sum("direct_reclaim", "total_us") > 0.0);
}

fn the_victim_of_the_oom_killer_is_the_process_that_grew() {
    let group = Limited::new("oom");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pid = folder.path().join("pid").to_string_lossy().into_owned();
    let before = stalled_us();
    let (run, _program) = group.run(&["oom"], &[&pid]);
    let after = stalled_us();
    let text = fs::read_to_string(&pid).expect("the program wrote it");
    let written: Vec<u32> = text.split(' ').map(|word| word.parse().expect("a number")).collect();
    let [child, signal, least_us] = written[..] else { panic!("{text}") };
    assert_eq!(signal, libc::SIGKILL as u32);
    let victim = run.of("row").find(|row| row["victim"].is_string());
    let victim = victim.unwrap_or_else(|| panic!("no kill: {:?}", run.objects));
    assert_eq!((&victim["pid"], &victim["victim"]), (&child.into(), &"chain".into()), "{victim}");
    let mib =
        |row: &Value, column: &str, unit: u64| (row[column].as_u64().unwrap_or(0) * unit) >> 20;
    let grown = run.of("row").find(|row| row["table"] == "grown" && row["pid"] == child);
    let grown = grown.unwrap_or_else(|| panic!("it did not grow: {:?}", run.objects));
    let range = LIMIT_MIB - 2..LIMIT_MIB + 4;
    assert!(range.contains(&mib(grown, "bytes", 1)), "{grown}");
    if victim["anon_kib"].is_number() {
        assert!(range.contains(&mib(victim, "anon_kib", 1024)), "{victim}");
    }
    let pressure = run.of("row").find(|row| row["table"] == "pressure" && row["tasks"] == "some");
    let (Some(before), Some(after)) = (before, after) else {
        return assert_eq!(pressure, None, "the kernel does not measure it");
    };
    let pressure = pressure.unwrap_or_else(|| panic!("no pressure: {:?}", run.objects));
    // The program measures a part of the run, and the test a longer time.
    let waited = (pressure["waited_ms"].as_f64().expect("a number") * 1e3).round() as u64;
    let range = u64::from(least_us)..=after - before;
    assert!(range.contains(&waited), "{waited} not in {range:?}: {pressure}");
    assert!(victim["some10"].is_number() && victim["full60"].is_number(), "{victim}");
}

/// Returns the microseconds since boot in which a task waited for memory.
fn stalled_us() -> Option<u64> {
    let text = fs::read_to_string("/proc/pressure/memory").ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.rsplit_once("total=")?.1.parse().ok()
}
