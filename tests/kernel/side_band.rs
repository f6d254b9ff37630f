//! Callbacks for side-band records, caused by a workload.

use serde_json::Value;
use std::fs;

use crate::live::{live_tests, skip_anywhere};
use crate::load;
use crate::tool::Tool;

live_tests! {
    switches_of_a_watched_task_are_reported,
    new_namespaces_are_reported_with_their_inodes,
    a_new_cgroup_is_reported_with_its_id_and_path,
    a_bpf_program_is_reported_with_its_symbol,
    a_throttled_event_is_reported_by_name,
    a_mapping_has_the_build_id_of_its_file,
    a_callback_that_fails_is_switched_off,
}

/// Returns a script whose module has these functions.
fn script(functions: &str) -> String {
    format!(
        "local m = monitor {{ summary = \"side-band records\" }}
        function m.init() evsel('sched:sched_process_exit', function() end) end
        {functions}\nreturn m\n"
    )
}

/// Runs a script whose module has these functions; returns its rows and all output.
fn run(functions: &str, args: &[&str], command: &[&str]) -> (Vec<Value>, String) {
    let args = [&["--duration", "20s"], args, &["--"], command].concat();
    let ran = crate::script::run(&script(functions), &args);
    (ran.rows().cloned().collect(), ran.text)
}

fn switches_of_a_watched_task_are_reported() {
    let functions = "local ins, outs, tids = 0, 0, {}
        function m.on_switch(r)
          tids[r.tid] = true
          if r.out then outs = outs + 1 else ins = ins + 1 end
        end
        function m.deinit()
          local n = 0
          for _ in pairs(tids) do n = n + 1 end
          emit { ins = ins, outs = outs, tasks = n }
        end";
    const ROUNDS: u32 = 300;
    let (mut first, second) = load::ping_pong(ROUNDS);
    let folder = tempfile::tempdir().expect("a folder for the script");
    let path = folder.path().join("s.lua");
    fs::write(&path, script(functions)).expect("the script can be written");
    let tool = Tool::attach(&[&path.to_string_lossy(), "-p", &first.pid().to_string()]);
    first.start();
    second.run();
    first.wait();
    let run = tool.finish();
    let row = run.of("row").last().unwrap_or_else(|| panic!("no row: {}", run.stderr));
    let number = |key: &str| row[key].as_u64().unwrap_or_default();
    assert_eq!(number("tasks"), 1, "{row}");
    assert!(number("outs") >= u64::from(ROUNDS), "{row}");
    assert!(number("ins").abs_diff(number("outs")) <= 1, "{row}");
}

fn new_namespaces_are_reported_with_their_inodes() {
    let functions = "function m.on_namespaces(r)
          emit { tid = r.tid, uts = r.uts_ns, net = r.net_ns, pid_ns = r.pid_ns }
        end";
    let shell = "readlink /proc/self/ns/net; unshare --uts readlink /proc/self/ns/uts";
    let (rows, text) = run(functions, &[], &["sh", "-c", shell]);
    let inode = |kind: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{kind}:[")));
        let digits = line.and_then(|line| line.split(['[', ']']).nth(1));
        digits.and_then(|digits| digits.parse::<u64>().ok())
    };
    let (net, uts) = (inode("net"), inode("uts"));
    if uts.is_none() {
        skip_anywhere("unshare is missing or not permitted");
    }
    let found = rows.iter().find(|row| row["uts"].as_u64() == uts);
    let found = found.unwrap_or_else(|| panic!("no record of the new namespace: {text}"));
    assert_eq!(found["net"].as_u64(), net, "{text}");
}

fn a_new_cgroup_is_reported_with_its_id_and_path() {
    let Some(hierarchy) = perilune::sys::cgroup::CgroupHierarchy::find() else {
        skip_anywhere("no cgroup hierarchy is mounted");
    };
    let name = format!("perilune-{}-new", std::process::id());
    let folder = hierarchy.root().join(&name);
    let functions = "function m.on_cgroup(r) emit { id = r.id, path = r.path } end";
    let shell = format!("mkdir {0} && stat -c 'inode %i' {0}; rmdir {0}", folder.display());
    let (rows, text) = run(functions, &["-a"], &["sh", "-c", &shell]);
    let line = text.lines().find_map(|line| line.strip_prefix("inode "));
    let Some(inode) = line.and_then(|digits| digits.parse::<u64>().ok()) else {
        skip_anywhere("no cgroup can be created");
    };
    if rows.is_empty() {
        skip_anywhere("this kernel writes no PERF_RECORD_CGROUP");
    }
    let found = rows.iter().find(|row| row["id"].as_u64() == Some(inode));
    let found = found.unwrap_or_else(|| panic!("no record of the group {inode}: {text}"));
    assert_eq!(found["path"], format!("/{name}"), "{text}");
}

fn a_mapping_has_the_build_id_of_its_file() {
    use perilune::decode::elf::Elf;
    let functions = "function m.on_mmap(r) emit { path = r.path, build_id = r.build_id } end";
    let (rows, text) = run(functions, &[], &["/bin/true"]);
    let files = rows.iter().filter(|row| row["path"].as_str().is_some_and(|p| p.starts_with('/')));
    let mut compared = 0;
    for row in files {
        let path = row["path"].as_str().unwrap_or_default();
        let bytes = fs::read(path).expect("the file is there");
        let id = Elf::new(&bytes).expect("a program or library").build_id();
        let digits = id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        assert_eq!(row["build_id"].as_str(), digits.as_deref(), "{path}: {text}");
        compared += usize::from(digits.is_some());
    }
    assert!(compared >= 2, "the program and its library: {text}");
    // Functions are named by the mapped files as before.
    let named = "function m.on_mmap(r) end
        local n, symbol = 0, stack.format 'symbol'
        function m.deinit() emit { n = n } end
        function m.init()
          evsel('cpu-clock', { freq = 2000, functions = true }, function(e)
            if symbol(e._function):match 'busy_loop' then n = n + 1 end
          end)
        end";
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("b.c"), folder.path().join("b"));
    let code = "__attribute__((noinline)) long busy_loop(long n)
        { volatile long x = 0; while (n--) x += n; return x; }
        int main(void) { return busy_loop(400000000) & 0; }";
    fs::write(&source, code).expect("the source can be written");
    let built = std::process::Command::new("cc")
        .args(["-O1", "-Wl,--build-id", "-o"])
        .args([&program, &source])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        skip_anywhere("there is no C compiler");
    }
    let (rows, text) = run(named, &[], &[&program.to_string_lossy()]);
    let samples = rows.last().and_then(|row| row["n"].as_u64()).unwrap_or(0);
    assert!(samples > 50, "{samples}: {text}");
}

fn a_bpf_program_is_reported_with_its_symbol() {
    // The kernel makes these records longer with each listener, and does not fill them.
    let others = [(); 2].map(|()| Tool::attach(&["task-state", "-a"]));
    let functions = "
        function m.on_bpf(r)
          emit { what = 'bpf', kind = r.kind, tag = r.tag, ms = r.time / 1e6 }
        end
        function m.on_ksymbol(r)
          emit { what = 'symbol', kind = r.kind, name = r.name, removed = r.removed,
            ms = r.time / 1e6 }
        end";
    let program = perilune_bpf();
    let (rows, text) = run(functions, &["-a"], &["python3", "-c", program]);
    if text.contains("no program") {
        skip_anywhere("no BPF program can be loaded");
    }
    let of = |what: &str| rows.iter().filter(|row| row["what"] == what).collect::<Vec<_>>();
    let (programs, symbols) = (of("bpf"), of("symbol"));
    assert!(programs.iter().any(|row| row["kind"] == "load"), "{text}");
    assert!(programs.iter().any(|row| row["kind"] == "unload"), "{text}");
    // The name of the symbol is made of the tag. Other programs may come and go meanwhile.
    let is_own = |tag: &str| {
        let prefix = format!("bpf_prog_{tag}");
        let named = symbols
            .iter()
            .filter(|row| row["name"].as_str().is_some_and(|n| n.starts_with(&prefix)));
        named.map(|row| &row["removed"]).eq([&Value::Bool(false), &Value::Bool(true)])
    };
    let mut tags = programs.iter().filter_map(|row| row["tag"].as_str());
    assert!(tags.any(|tag| tag.len() == 16 && is_own(tag)), "{text}");
    drop(others);
    let times: Vec<f64> = rows.iter().filter_map(|row| row["ms"].as_f64()).collect();
    assert!(times.len() >= 4 && times.iter().all(|ms| (0.0..20e3).contains(ms)), "{text}");
}

/// Returns a program that loads `return 0` as a socket filter and closes it, with `bpf(2)`.
fn perilune_bpf() -> &'static str {
    "import ctypes, os, struct\n\
     libc = ctypes.CDLL(None, use_errno=True)\n\
     code = struct.pack('<BBhi', 0xb7, 0, 0, 0) + struct.pack('<BBhi', 0x95, 0, 0, 0)\n\
     insns, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b'GPL')\n\
     attr = struct.pack('<IIQQ', 1, 2, ctypes.addressof(insns), ctypes.addressof(licence))\n\
     attr = ctypes.create_string_buffer(attr.ljust(128, b'\\0'))\n\
     nr = {'x86_64': 321, 'aarch64': 280}[os.uname().machine]\n\
     fd = libc.syscall(nr, 5, attr, 128)\n\
     print('no program' if fd < 0 else 'loaded')\n\
     if fd >= 0: os.close(fd)\n\
     import time; time.sleep(0.3)\n"
}

/// A value of `kernel.perf_event_max_sample_rate`, restored at the end.
struct MaxRate(String);

impl MaxRate {
    const PATH: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

    fn set(hz: u32) -> MaxRate {
        let before = fs::read_to_string(MaxRate::PATH).expect("the limit can be read");
        if fs::write(MaxRate::PATH, hz.to_string()).is_err() {
            skip_anywhere("kernel.perf_event_max_sample_rate cannot be changed");
        }
        MaxRate(before)
    }
}

impl Drop for MaxRate {
    fn drop(&mut self) {
        fs::write(MaxRate::PATH, self.0.trim()).expect("the limit can be restored");
    }
}

fn a_throttled_event_is_reported_by_name() {
    // Above the rates of other runs, and below the 100 kHz of this one.
    let _limit = MaxRate::set(20_000);
    let folder = tempfile::tempdir().expect("a folder for the script");
    let path = folder.path().join("s.lua");
    let text = "local m = monitor { summary = 'throttling' }
        local on, off, name = 0, 0, ''
        function m.init() evsel('cpu-clock', { period = 10000 }, function() end) end
        function m.on_throttle(r)
          name = r.event
          if r.throttled then on = on + 1 else off = off + 1 end
        end
        function m.deinit() emit { on = on, off = off, event = name } end
        return m";
    fs::write(&path, text).expect("the script can be written");
    let load = load::getppid(2_000_000);
    let run = crate::watch(&[&path.to_string_lossy(), "-p", &load.pid().to_string()], load);
    let row = run.of("row").last().unwrap_or_else(|| panic!("no row: {}", run.stderr));
    let number = |key: &str| row[key].as_u64().unwrap_or_default();
    assert!(number("on") > 0, "{row}");
    assert!(number("on").abs_diff(number("off")) <= 2, "{row}");
    assert_eq!(row["event"], "cpu-clock", "{row}");
    assert_eq!(run.coverage()["throttled"], number("on"), "{row}");
}

fn a_callback_that_fails_is_switched_off() {
    let functions = "function m.on_namespaces(r) error('no', 0) end";
    let shell = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do unshare --uts true; done";
    let (_, text) = run(functions, &[], &["sh", "-c", shell]);
    let off = text.matches("on_namespaces").count();
    assert!(off >= 1 && text.contains("switched off"), "{text}");
}
