//! blktrace, biolatency and biosnoop: each request to a private loop device is seen once.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::Read as _,
    os::fd::AsRawFd as _,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    counting::usual_refusal,
    live::{live_tests, skip_anywhere},
    long_pairs::{fields, pairs},
    paired::{is_exact, start},
    raw_tracepoints::{attached, by_key},
    tool::{Run, Tool},
};

live_tests! {
    each_request_passes_each_stage_once,
    each_request_is_in_the_histogram_of_its_device,
    requests_are_timed_in_the_kernel_as_from_records,
    slow_requests_are_printed_as_from_records,
    fields_of_requests_are_those_of_records,
    each_request_is_printed_with_the_process_that_made_it,
    a_partition_is_refused_with_the_name_of_its_disk,
}

/// Size of one read, and the alignment of its memory.
const BLOCK: usize = 4096;

/// A block device of this test, over a file, with a scheduler.
struct LoopDevice {
    path: String,
    scheduler_before: String,
    _file: tempfile::NamedTempFile,
}

impl LoopDevice {
    fn with_scheduler(scheduler: &str) -> LoopDevice {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.as_file().set_len(8 << 20).expect("it has a size");
        let losetup = Command::new("losetup").args(["-f", "--show"]).arg(file.path()).output();
        let losetup = losetup.expect("losetup can be executed");
        let said = String::from_utf8_lossy(&losetup.stderr);
        assert!(losetup.status.success(), "losetup: {said}");
        let path = String::from_utf8_lossy(&losetup.stdout).trim().to_owned();
        let mut device = LoopDevice { path, scheduler_before: String::new(), _file: file };
        let chosen = std::fs::read_to_string(device.scheduler()).expect("it has a scheduler");
        let chosen = chosen.split(['[', ']']).nth(1).unwrap_or("none");
        device.scheduler_before = chosen.to_owned();
        std::fs::write(device.scheduler(), scheduler).expect("the kernel has this scheduler");
        device
    }

    fn of_queue(&self, file: &str) -> PathBuf {
        let name = Path::new(&self.path).file_name().expect("it is /dev/loopN");
        Path::new("/sys/block").join(name).join(file)
    }

    fn scheduler(&self) -> PathBuf {
        self.of_queue("queue/scheduler")
    }

    /// Returns the device number, such as `7:0`.
    fn number(&self) -> String {
        let mut text = String::new();
        let mut file = File::open(self.of_queue("dev")).expect("it has a number");
        file.read_to_string(&mut text).expect("which is text");
        text.trim().to_owned()
    }

    /// Reads non-adjacent blocks past the page cache, so that each is a separate request.
    fn read_directly(&self, blocks: usize) {
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(libc::O_DIRECT).open(&self.path);
        let file = file.expect("the device opens");
        let mut memory = vec![0u8; 2 * BLOCK];
        let aligned = memory.as_ptr().align_offset(BLOCK);
        for block in 0..blocks {
            let buffer = &mut memory[aligned..aligned + BLOCK];
            file.read_exact_at(buffer, (block * 2 * BLOCK) as u64).expect("it is read");
        }
    }

    /// Makes requests of several kinds: reads, writes with and without a flush, and discards.
    fn use_directly(&self, blocks: usize) {
        self.read_directly(blocks);
        let mut options = OpenOptions::new();
        let file = options.write(true).custom_flags(libc::O_DIRECT).open(&self.path);
        let file = file.expect("the device opens");
        let memory = vec![1u8; 2 * BLOCK];
        let aligned = memory.as_ptr().align_offset(BLOCK);
        for block in 0..blocks {
            let at = (block * 2 * BLOCK) as u64;
            file.write_all_at(&memory[aligned..aligned + BLOCK], at).expect("it is written");
            if block % 4 == 0 {
                file.sync_data().expect("it is flushed");
            }
            let range = [at, BLOCK as u64];
            // SAFETY: the call reads two numbers of 8 bytes.
            let result = unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) };
            assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        }
    }
}

/// `_IO(0x12, 119)`, include/uapi/linux/fs.h.
const BLKDISCARD: libc::c_ulong = 0x1277;

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // A failing restore is ignored, because the device belongs to this test.
        let _ = std::fs::write(self.scheduler(), &self.scheduler_before);
        let _ = Command::new("losetup").args(["-d", &self.path]).status();
    }
}

fn a_partition_is_refused_with_the_name_of_its_disk() {
    let device = LoopDevice::with_scheduler("none");
    let added = Command::new("addpart").args([&*device.path, "1", "2048", "4096"]).status();
    if !added.is_ok_and(|status| status.success()) {
        skip_anywhere("addpart of util-linux cannot add a partition to a loop device");
    }
    let disk = device.path.trim_start_matches("/dev/");
    let number = std::fs::read_to_string(device.of_queue(&format!("{disk}p1/dev")));
    let number = number.expect("it has a number");
    for monitor in ["blktrace", "biolatency", "biosnoop"] {
        let options = [monitor, "--device", number.trim(), "--duration", "1s"];
        let output = Command::new(env!("CARGO_BIN_EXE_perilune")).args(options).output();
        let output = output.expect("the built command runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let why = format!("is a partition, and requests are those of its disk; use '{disk}'");
        assert!(!output.status.success() && said.contains(&why), "{monitor}: {said}");
    }
    let removed = Command::new("delpart").args([&*device.path, "1"]).status();
    assert!(removed.is_ok_and(|status| status.success()));
}

fn each_request_passes_each_stage_once() {
    const READS: usize = 40;
    let direct = [("get", "issue"), ("issue", "complete"), ("get", "complete")];
    let queued =
        [("get", "insert"), ("insert", "issue"), ("issue", "complete"), ("get", "complete")];
    for (scheduler, stages) in [("none", &direct[..]), ("mq-deadline", &queued[..])] {
        let device = LoopDevice::with_scheduler(scheduler);
        let number = device.number();
        // A process that inspects new devices may read from it as well.
        let own = std::process::id().to_string();
        let tool = Tool::attach(&["blktrace", "--device", &number, "-p", &own]);
        device.read_directly(READS);
        let run = tool.finish();
        let mut seen: Vec<(&str, &str, &Value)> = run
            .of("row")
            .filter(|row| row["kind"] == "read" && row["device"] == number.as_str())
            .map(|row| {
                let of = |key: &str| row[key].as_str().unwrap_or_default();
                (of("from"), of("to"), &row["calls"])
            })
            .collect();
        seen.sort_by_key(|(from, to, _)| stages.iter().position(|s| *s == (*from, *to)));
        let calls = Value::from(READS);
        let expected: Vec<_> = stages.iter().map(|(from, to)| (*from, *to, &calls)).collect();
        assert_eq!(seen, expected, "{scheduler}: {:?} {}", run.objects, run.stderr);
        assert_eq!(run.coverage()["unmatched"], 0);
        run.is_complete();
    }
}

fn each_request_is_in_the_histogram_of_its_device() {
    const READS: usize = 40;
    let device = LoopDevice::with_scheduler("none");
    let number = device.number();
    let name = device.path.trim_start_matches("/dev/");
    let tool = Tool::attach(&["biolatency", "--device", name]);
    device.read_directly(READS);
    let run = tool.finish();
    let rows: Vec<_> = run.of("row").filter(|row| row["device"] == number.as_str()).collect();
    let [row] = rows[..] else { panic!("{:?} {}", run.objects, run.stderr) };
    // A process that inspects new devices may read from it as well.
    assert!(row["calls"].as_u64() >= Some(READS as u64) && row["operation"] == "read", "{row}");
    let histogram = run.of("hist").find(|hist| hist["device"] == number.as_str());
    let buckets = histogram.expect("it is drawn")["buckets"].as_array().expect("a list").clone();
    let sum: u64 = buckets.iter().filter_map(|bucket| bucket[2].as_u64()).sum();
    assert_eq!(Some(sum), row["calls"].as_u64(), "{:?}", run.objects);
    run.is_complete();
}

/// Number of requests by kind in the table and in the histograms of a device.
fn by_kind(run: &Run, device: &str) -> BTreeMap<String, (u64, u64)> {
    let mut kinds: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in run.of("row").filter(|row| row["device"] == device) {
        kinds.entry(row["operation"].to_string()).or_default().0 += row["calls"].as_u64().unwrap();
    }
    for hist in run.of("hist").filter(|hist| hist["device"] == device) {
        let buckets = hist["buckets"].as_array().expect("a list");
        let sum: u64 = buckets.iter().filter_map(|bucket| bucket[2].as_u64()).sum();
        kinds.entry(hist["operation"].to_string()).or_default().1 += sum;
    }
    kinds
}

fn requests_are_timed_in_the_kernel_as_from_records() {
    let device = LoopDevice::with_scheduler("none");
    let own = std::process::id().to_string();
    // Also with -p: a completion is an event of another task.
    for scope in [&[][..], &["-p", &own]] {
        // A kernel may pass on neither a record nor a program's event.
        if !(0..5).any(|_| requests_are_timed_alike(&device, scope)) {
            skip_anywhere("this kernel omitted events of some requests");
        }
    }
}

/// Times requests in both places and by default. Returns whether the events of all were seen.
fn requests_are_timed_alike(device: &LoopDevice, scope: &[&str]) -> bool {
    const BLOCKS: usize = 40;
    let number = device.number();
    let args = [&["biolatency", "--device", &number], scope].concat();
    let tools = ["auto", "kernel", "user"].map(|place| start(place, &args));
    let is_of_requests = |name: &String| name.starts_with("block_");
    let at = |tool: &Tool| attached(tool).into_iter().filter(is_of_requests).count();
    let at = tools.each_ref().map(at);
    device.use_directly(BLOCKS);
    let runs = tools.map(Tool::finish);
    let misses =
        |run: &Run| ["undelivered", "unmatched", "open"].iter().any(|gap| run.coverage()[gap] != 0);
    if runs.iter().any(misses) {
        return false;
    }
    runs.iter().for_each(Run::is_complete);
    let [by_default, counted, recorded] = runs.each_ref().map(|run| by_kind(run, &number));
    assert_eq!(counted, recorded);
    assert_eq!(by_default, recorded);
    let raw = if usual_refusal().is_none() { 3 } else { 0 };
    assert_eq!(at, [raw, raw, 0], "programs at raw tracepoints");
    // A worker of the kernel issues discards.
    let kinds = ["read", "write", "discard"].into_iter();
    for kind in kinds.take(if scope.is_empty() { 3 } else { 2 }) {
        let (calls, in_histogram) = counted[&format!("\"{kind}\"")];
        assert_eq!(calls, in_histogram);
        assert!(calls >= BLOCKS as u64, "{kind}: {counted:?}");
    }
    true
}

fn slow_requests_are_printed_as_from_records() {
    const BLOCKS: usize = 40;
    let device = LoopDevice::with_scheduler("none");
    let (number, own) = (device.number(), std::process::id().to_string());
    // Every request takes longer.
    let args = ["biolatency", "--device", &number, "-p", &own, "--than", "1ns"];
    let tools = ["kernel", "user"].map(|place| start(place, &args));
    device.use_directly(BLOCKS);
    let runs = tools.map(Tool::finish);
    runs.iter().for_each(is_exact);
    let [written, recorded] = runs.each_ref().map(|run| {
        let all = pairs(run).into_iter().map(|pair| pair.map(fields));
        all.collect::<Vec<_>>()
    });
    assert!(written.len() >= 2 * BLOCKS, "{:?}", runs[0].objects);
    assert!(written.iter().flatten().all(|event| event["cmd"] == ""), "{written:?}");
    assert_eq!(written, recorded);
    let [timed, by_user] = runs.each_ref().map(|run| by_kind(run, &number));
    assert_eq!(timed, by_user);
    assert_eq!(timed.values().map(|(calls, _)| calls).sum::<u64>(), written.len() as u64);
}

fn fields_of_requests_are_those_of_records() {
    let device = LoopDevice::with_scheduler("none");
    let number = device.number();
    let (major, minor) = number.split_once(':').expect("two numbers");
    let dev = major.parse::<u32>().unwrap() << 20 | minor.parse::<u32>().unwrap();
    for event in ["block_rq_issue", "block_rq_complete"] {
        for (field, column) in [
            ("dev", "dev"),
            ("sector", "sector"),
            ("nr_sector", "nr_sector"),
            ("rwbs[0]", "rwbs_0"),
        ] {
            let selector = format!("block:{event}/dev=={dev}/key={field}/alias=count/");
            let tools = ["kernel", "user"].map(|place| start(place, &["top", "-e", &selector]));
            device.use_directly(20);
            let runs = tools.map(Tool::finish);
            runs.iter().for_each(is_exact);
            let [counted, recorded] = runs.each_ref().map(|run| by_key(run, column, "count"));
            assert_eq!(counted, recorded, "{event} {field}");
            assert!(counted.values().sum::<u64>() >= 60, "{event} {field}: {counted:?}");
        }
    }
}

fn each_request_is_printed_with_the_process_that_made_it() {
    const READS: usize = 40;
    let device = LoopDevice::with_scheduler("none");
    let number = device.number();
    let tool = Tool::attach(&["biosnoop", "--device", &format!("{},8:0", device.path)]);
    device.read_directly(READS);
    let run = tool.finish();
    let own = run.of("row").filter(|row| row["pid"] == std::process::id());
    let own: Vec<_> = own.collect();
    assert_eq!(own.len(), READS, "{:?} {}", run.objects, run.stderr);
    for (i, row) in own.iter().enumerate() {
        let sector = (i * 2 * BLOCK / 512) as u64;
        assert_eq!((&row["sector"], &row["bytes"]), (&sector.into(), &BLOCK.into()), "{row}");
        assert!(row["operation"].as_str().is_some_and(|of| of.starts_with('R')), "{row}");
        assert!(row["disk_us"].as_f64() > Some(0.0) && row["device"] == number.as_str(), "{row}");
    }
    run.is_complete();
}
