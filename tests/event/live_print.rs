//! Event texts of perilune, compared with the kernel's own texts of the same events.
//!
//! A separate ftrace instance records while a workload runs. Its `trace` is the kernel's text; its
//! `trace_pipe_raw` has the same records in the same order, so every event is compared without a
//! search.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use perilune::decode::format::Format;
use perilune::decode::print::PrintProgram;
use perilune::symbol::RunningKernel;

use crate::kernel;
use crate::live::{live_tests, skip};
use crate::workload;

live_tests! {
    root: [],
    any: [
        the_text_of_an_event_equals_the_kernels,
    ]
}

/// Systems whose events the workload triggers, and some that it does not.
const SYSTEMS: &[&str] = &[
    "alarmtimer",
    "block",
    "cgroup",
    "csd",
    "exceptions",
    "ext4",
    "fib",
    "filelock",
    "filemap",
    "gpio",
    "huge_memory",
    "interconnect",
    "io_uring",
    "iomap",
    "ipi",
    "irq",
    "irq_vectors",
    "jbd2",
    "kmem",
    "lock",
    "maple_tree",
    "migrate",
    "mmap",
    "mmap_lock",
    "msr",
    "napi",
    "neigh",
    "net",
    "notifier",
    "oom",
    "page_pool",
    "pagemap",
    "percpu",
    "power",
    "printk",
    "qdisc",
    "raw_syscalls",
    "rcu",
    "regmap",
    "rseq",
    "sched",
    "signal",
    "skb",
    "sock",
    "swiotlb",
    "task",
    "tcp",
    "thp",
    "timer",
    "timestamp",
    "tlb",
    "udp",
    "vmalloc",
    "vmscan",
    "workqueue",
    "writeback",
    "x86_fpu",
];

/// System calls with events of their own.
const CALLS: &[&str] =
    &["openat", "close", "getppid", "read", "write", "kill", "clone3", "mmap", "socket"];

fn the_text_of_an_event_equals_the_kernels() {
    let root = kernel::tracefs();
    let instance = Instance::create(&root);
    for system in SYSTEMS {
        instance.try_write(&format!("events/{system}/enable"), "1");
    }
    for call in CALLS {
        instance.try_write(&format!("events/syscalls/sys_enter_{call}/enable"), "1");
        instance.try_write(&format!("events/syscalls/sys_exit_{call}/enable"), "1");
    }
    instance.write("tracing_on", "1");
    workload::run();
    instance.write("tracing_on", "0");
    instance.write("events/enable", "0");

    let running =
        RunningKernel::new(perilune::sys::clock::ticks_per_second(), &root, std::rc::Rc::default());
    let events = Events::read(&root, &running);
    let mut compared: BTreeMap<&str, Compared> = BTreeMap::new();
    for cpu in 0.. {
        let directory = instance.0.join(format!("per_cpu/cpu{cpu}"));
        if !directory.exists() {
            break;
        }
        let theirs = lines(&directory, &events);
        let mut records = 0;
        for record in records_of(&directory) {
            let id = u64::from(u16::from_ne_bytes([record[0], record[1]]));
            let Some(event) = events.by_id.get(&id) else { panic!("no event {id}") };
            let Some(theirs) = theirs.get(records) else { break };
            records += 1;
            event.compare(&record, theirs, &running, compared.entry(&event.name).or_default());
        }
        eprintln!("cpu {cpu}: {records} events of {} lines", theirs.len());
        assert_eq!(records, theirs.len(), "cpu {cpu}");
    }
    report(&compared);
}

/// Results of comparing an event's records.
#[derive(Default)]
struct Compared {
    equal: usize,
    fallback: usize,
    /// Pairs of the kernel's text and perilune's.
    different: Vec<(String, String)>,
    /// Parts that were excluded from the comparison.
    apart: BTreeSet<&'static str>,
}

fn report(compared: &BTreeMap<&str, Compared>) {
    let mut equal = 0;
    for (name, all) in compared {
        let apart: Vec<&str> = all.apart.iter().copied().collect();
        if all.different.is_empty() && all.equal > 0 {
            equal += 1;
        }
        eprintln!("{:7} equal {:3} refused {name} {}", all.equal, all.fallback, apart.join(", "));
    }
    eprintln!("{equal} tracepoints print as the kernel does");
    let different: Vec<_> = compared
        .iter()
        .filter(|(_, all)| !all.different.is_empty())
        .map(|(name, all)| format!("{name} ({}): {:#?}", all.different.len(), all.different[0]))
        .collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(equal >= 40, "only {equal} tracepoints fired");
}

/// The formats of this kernel, compiled.
struct Events {
    by_id: BTreeMap<u64, Event>,
}

struct Event {
    name: String,
    system: String,
    program: Option<PrintProgram>,
    /// Whether the text includes the address of a page.
    has_page: bool,
}

impl Events {
    fn read(root: &Path, running: &RunningKernel) -> Events {
        let mut by_id = BTreeMap::new();
        for (system, name) in kernel::events(root) {
            let path = root.join("events").join(&system).join(&name).join("format");
            let Ok(text) = fs::read_to_string(path) else { continue };
            let format = Format::parse(&text).unwrap();
            let has_page = format.print_fmt.contains("vmemmap_base");
            let program = PrintProgram::compile(&format, running).ok();
            by_id.insert(format.id, Event { name, system, program, has_page });
        }
        Events { by_id }
    }
}

impl Event {
    fn compare(&self, record: &[u8], theirs: &str, running: &RunningKernel, to: &mut Compared) {
        let mut ours = Vec::new();
        let Some(program) = &self.program else {
            to.fallback += 1;
            return;
        };
        program.push(&mut ours, record, running).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let ours = String::from_utf8_lossy(&ours).into_owned();
        let theirs = theirs.strip_prefix(&format!("{}: ", self.name)).unwrap_or(theirs);
        let (mut a, mut b) = (theirs.to_owned(), ours.clone());
        if self.system == "syscalls" {
            // The kernel prints these with a separate printer: the same names, the same numbers.
            to.apart.insert("system call");
            (a, b) = (call_words(&a), call_words(&b));
        }
        if self.has_page {
            to.apart.insert("page address");
            (a, b) = (without_page(&a), without_page(&b));
        }
        if a == b {
            to.equal += 1;
        } else {
            to.different.push((theirs.to_owned(), ours));
        }
    }
}

/// Normalises `sys_close(fd: 3)` and `fd: 0x00000003` to `fd: 3`; `sys_close -> 0x0` and `0x0` to
/// `0`.
fn call_words(text: &str) -> String {
    let inner = match (text.strip_prefix("sys_"), text.split_once(" -> ")) {
        (Some(_), Some((_, result))) => result,
        (Some(call), None) => {
            call.split_once('(').map_or("", |(_, rest)| rest).trim_end_matches(')')
        }
        (None, _) => text,
    };
    let word = |word: &str| match word.rsplit_once("0x") {
        Some((before, digits)) => {
            let digits = digits.trim_start_matches('0');
            format!("{before}{}", if digits.is_empty() { "0" } else { digits })
        }
        None => word.to_owned(),
    };
    inner.split(", ").map(word).collect::<Vec<_>>().join(", ")
}

/// Removes the number behind `page=`.
fn without_page(text: &str) -> String {
    let Some((before, rest)) = text.split_once("page=") else { return text.to_owned() };
    format!("{before}{}", rest.split_once(' ').map_or("", |(_, rest)| rest))
}

/// Returns the kernel's lines of one CPU; the lines of one event are joined.
fn lines(directory: &Path, events: &Events) -> Vec<String> {
    let text = fs::read(directory.join("trace")).unwrap();
    let text = String::from_utf8_lossy(&text);
    let names: BTreeSet<&str> = events.by_id.values().map(|event| event.name.as_str()).collect();
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let begins = line.starts_with("sys_")
            || line.split_once(": ").is_some_and(|(name, _)| names.contains(name))
            || line.strip_suffix(':').is_some_and(|name| names.contains(name));
        match lines.last_mut() {
            Some(last) if !begins => {
                last.push('\n');
                last.push_str(line);
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

/// Returns the raw records of one CPU: pages of the ring buffer (`events/header_page`,
/// `events/header_event`).
fn records_of(directory: &Path) -> Vec<Vec<u8>> {
    let pages = pipe(&directory.join("trace_pipe_raw"));
    let mut records = Vec::new();
    for page in pages.chunks_exact(4096) {
        let u32_at = |at: usize| u32::from_ne_bytes(page[at..at + 4].try_into().unwrap());
        // The upper bits are flags for record loss.
        let end = 16 + (u32_at(8) & 0xfffff) as usize;
        let mut at = 16;
        while at < end {
            let header = u32_at(at);
            at += 4;
            let len = match header & 0x1f {
                0 => {
                    let len = u32_at(at) as usize - 4;
                    at += 4;
                    records.push(page[at..at + len].to_vec());
                    len
                }
                29 if header >> 5 == 0 => break,
                // A discarded record.
                29 => u32_at(at) as usize,
                30 | 31 => 4,
                words => {
                    let len = words as usize * 4;
                    records.push(page[at..at + len].to_vec());
                    len
                }
            };
            at += len;
        }
    }
    records
}

/// Returns the current contents of a pipe. Each read returns one page; the last reads return the
/// pages that are not full.
fn pipe(path: &Path) -> Vec<u8> {
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file =
        fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
    let (mut all, mut page) = (Vec::new(), [0; 4096]);
    loop {
        match file.read(&mut page) {
            Ok(0) | Err(_) => return all,
            Ok(len) => {
                all.extend_from_slice(&page[..len]);
                all.resize(all.len().next_multiple_of(4096), 0);
            }
        }
    }
}

/// An ftrace instance, removed on drop.
struct Instance(PathBuf);

impl Instance {
    fn create(root: &Path) -> Instance {
        let path = root.join("instances").join(format!("perilune-test-{}", std::process::id()));
        if let Err(why) = fs::create_dir(&path) {
            skip(&format!("no instance of ftrace: {why}"));
        }
        let instance = Instance(path);
        instance.write("tracing_on", "0");
        // Text only, addresses unhashed; a full buffer stops recording, so that both files have the
        // same events.
        instance.write("options/context-info", "0");
        instance.try_write("options/hash-ptr", "0");
        instance.write("options/overwrite", "0");
        instance.write("buffer_size_kb", "4096");
        instance
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap_or_else(|e| panic!("{file}: {e}"));
    }

    /// Writes a file that not every kernel has.
    fn try_write(&self, file: &str, text: &str) {
        let _ = fs::write(self.0.join(file), text);
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.try_write("tracing_on", "0");
        self.try_write("events/enable", "0");
        if let Err(why) = fs::remove_dir(&self.0) {
            eprintln!("{}: {why}", self.0.display());
        }
    }
}
