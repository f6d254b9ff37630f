//! `--flame-graph`, `--diff` and `--heatmap` on recordings: contents of the files, and when no file
//! is written.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Returns a folder with a script that has a table of stacks, and one that draws its own.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let table = r#"
        local m = monitor { summary = "allocations by stack", options = {
          "call-graph", "flame-graph", choice { "weight", of = { "count", "bytes" }, default = "count" } } }
        function m.init()
          local t = kv { "comm", { "stack", stack_text }, sums = { "bytes" } }
          evsel("kmem:kmalloc", { stack = true }, function(e) t:add(e._comm, e._stack, e.bytes_alloc) emit(e) end)
        end
        return m"#;
    let own = r#"
        local m = monitor { summary = "a graph of its own", options = { "flame-graph" } }
        local t
        function m.init()
          t = flame_graph { title = "allocated", unit = "bytes" }
          evsel("kmem:kmalloc", { stack = true }, function(e)
            t:add(e._stack, e.bytes_alloc, e._comm)
            t:add(1, 7)
          end)
        end
        function m.deinit() t:write("mine") return t end
        return m"#;
    let weighed = r#"
        local m = monitor { summary = "emits with a weight", options = {
          "call-graph", "flame-graph", choice { "weight", of = { "count", "time" }, default = "count" } } }
        function m.init() evsel("sched:sched_switch", { stack = true }) end
        function m.sample(e) emit(e, { time = 1000 * e.prev_state }) end
        return m"#;
    for (name, text) in [("table.lua", table), ("own.lua", own), ("weighed.lua", weighed)] {
        fs::write(folder.path().join(name), text).expect("a script can be written");
    }
    folder
}

/// Runs the command in the folder, over a recording of `tests/scripts`.
fn run(folder: &TempDir, events: &str, words: &[&str]) -> Output {
    let events = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(events);
    Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(words)
        .arg("--replay")
        .arg(events)
        .current_dir(folder.path())
        .env("TZ", "UTC")
        .env("NO_COLOR", "1")
        .output()
        .expect("perilune can be executed")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn read(folder: &TempDir, name: &str) -> String {
    fs::read_to_string(folder.path().join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

const SWITCHES: &str = "\
bash;[truncated];__ppoll;poll;nf_hook;__schedule 1
redis;[redis];schedule;__schedule 2
";

#[test]
fn emitted_stacks_are_folded_root_first_and_not_printed() {
    let folder = folder();
    let ran =
        run(&folder, "stacks.events", &["trace", "-e", "sched:sched_switch", "--flame-graph", "x"]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    assert_eq!(stdout(&ran), "");
    assert_eq!(read(&folder, "x.folded"), SWITCHES);
    let picture = read(&folder, "x.svg");
    for text in [
        "trace: sched:sched_switch",
        "2026-11-21 09:00:00 to 09:00:01, 3 events",
        "schedule (2 events, 66.67%)",
        "poll (1 events, 33.33%)",
    ] {
        assert!(picture.contains(text), "{text}");
    }
    assert!(stderr(&ran).contains("wrote x.folded and x.svg (3 events)"), "{}", stderr(&ran));
}

#[test]
fn each_interval_is_appended_below_its_time() {
    let folder = folder();
    let words = ["trace", "-e", "sched:sched_switch", "--flame-graph", "x.folded", "-i", "400"];
    let ran = run(&folder, "stacks.events", &words);
    assert!(ran.status.success(), "{}", stderr(&ran));
    assert_eq!(
        read(&folder, "x.folded"),
        "2026-11-21;09:00:00;bash;[truncated];__ppoll;poll;nf_hook;__schedule 1\n\
         2026-11-21;09:00:00;redis;[redis];schedule;__schedule 1\n\
         2026-11-21;09:00:00;redis;[redis];schedule;__schedule 1\n"
    );
    assert!(read(&folder, "x.svg").contains("09:00:00 (3 events, 100.00%)"));
}

#[test]
fn a_table_of_stacks_is_a_flame_graph_by_count_or_by_a_sum() {
    let folder = folder();
    for (weight, folded) in [
        ("count", "nginx;alloc_skb;__kmalloc 1\nnginx;leaky;__kmalloc 2\n"),
        ("bytes", "nginx;alloc_skb;__kmalloc 128\nnginx;leaky;__kmalloc 512\n"),
    ] {
        let words = ["./table.lua", "--flame-graph", "x", "--weight", weight];
        let ran = run(&folder, "kmem.events", &words);
        assert!(ran.status.success(), "{}", stderr(&ran));
        assert_eq!(read(&folder, "x.folded"), folded);
        // The events are printed as lines, the stacks as a graph, and the other columns as a table.
        let table = "2026-11-21 09:00:00.005000 \n    comm        bytes\n   nginx          640\n";
        assert!(stdout(&ran).ends_with(table), "{}", stdout(&ran));
        assert_eq!(stdout(&ran).lines().count(), 3 + 3, "{}", stdout(&ran));
    }
}

#[test]
fn a_sum_by_stack_is_a_table_and_the_weight_of_the_graph() {
    let folder = folder();
    let words = ["stackcount", "-e", "kmem:kmalloc", "--sum", "bytes_alloc", "--flame-graph", "x"];
    let ran = run(&folder, "kmem.events", &words);
    assert!(ran.status.success(), "{}", stderr(&ran));
    assert_eq!(read(&folder, "x.folded"), "alloc_skb;__kmalloc 128\nleaky;__kmalloc 512\n");
    let printed = stdout(&ran);
    for text in ["bytes_alloc", " 512", "leaky", " 128", "alloc_skb"] {
        assert!(printed.contains(text), "{text}: {printed}");
    }
}

#[test]
fn a_graph_of_times_has_their_unit_and_counts_only_if_asked() {
    let folder = folder();
    let words = ["locks", "--kernel", "--flame-graph", "x", "--json"];
    let total = |words: &[&str]| -> u64 {
        let ran = run(&folder, "locks.events", words);
        assert!(ran.status.success(), "{}", stderr(&ran));
        let folded = read(&folder, "x.folded");
        let weights =
            folded.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        weights.sum()
    };
    let by_time = total(&words);
    assert!(read(&folder, "x.svg").contains(" ns, "), "{}", read(&folder, "x.svg"));
    assert_eq!(total(&[&words[..], &["--weight", "time"]].concat()), by_time);
    let waits = total(&[&words[..], &["--weight", "count"]].concat());
    assert!(waits > 0 && by_time > 1000 * waits, "{waits} waits of {by_time} ns");
}

#[test]
fn a_top_without_a_key_draws_its_stacks() {
    for event in ["sched:sched_switch", "sched:sched_switch//stack/"] {
        let folder = folder();
        let ran = run(&folder, "stacks.events", &["top", "-e", event, "--flame-graph", "x"]);
        assert!(ran.status.success(), "{}", stderr(&ran));
        let stacks =
            "[redis];schedule;__schedule 2\n[truncated];__ppoll;poll;nf_hook;__schedule 1\n";
        assert_eq!(read(&folder, "x.folded"), stacks, "{event}");
    }
}

/// Prints the live objects after each millisecond: two at the end, one of which was there before.
const SNAPSHOTS: [&str; 7] =
    ["kmemleak", "--alloc", "kmem:kmalloc", "--free", "kmem:kfree", "-i", "1"];

#[test]
fn snapshots_do_not_add_up() {
    let folder = folder();
    let words = [&SNAPSHOTS[..], &["--flame-graph", "x", "--total", "--json"]].concat();
    let ran = run(&folder, "kmem.events", &words);
    assert!(ran.status.success(), "{}", stderr(&ran));
    let folded = read(&folder, "x.folded");
    assert!(folded.lines().count() > 2, "{folded}");
    assert!(folded.ends_with("nginx;leaky;__kmalloc 2\n"), "{folded}");
    // The picture shows the last snapshot, and so does the total.
    assert!(read(&folder, "x.svg").contains(", 2 stacks<"), "{folded}");
    let rows: Vec<String> =
        stdout(&ran).lines().filter(|line| line.contains("\"row\"")).map(str::to_owned).collect();
    for row in rows.iter().rev().take(2) {
        assert!(row.contains(r#""comm":"nginx","bytes":512,"objects":2"#), "{row}");
    }
}

#[test]
fn an_emitted_stack_weighs_what_the_script_says() {
    let folder = folder();
    let words = ["./weighed.lua", "--flame-graph", "x", "--weight", "time"];
    let ran = run(&folder, "stacks.events", &words);
    assert!(ran.status.success(), "{}", stderr(&ran));
    assert!(read(&folder, "x.folded").ends_with("redis;[redis];schedule;__schedule 4000\n"));
    assert!(read(&folder, "x.svg").contains("schedule (4,000 ns, 80.00%)"));
    assert!(read(&folder, "x.svg").contains(", 5us in total<"), "{}", stderr(&ran));
}

#[test]
fn a_script_draws_its_own_graph_and_writes_it() {
    let folder = folder();
    let ran = run(&folder, "kmem.events", &["./own.lua", "--flame-graph", "x"]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    let folded = "nginx;alloc_skb;__kmalloc 128\nnginx;leaky;__kmalloc 512\n";
    assert_eq!(
        (read(&folder, "x.folded"), read(&folder, "mine.folded")),
        (folded.into(), folded.into())
    );
    assert!(read(&folder, "mine.svg").contains("allocated"));
    let ran = run(&folder, "kmem.events", &["./own.lua", "--json"]);
    assert!(
        stdout(&ran).contains(r#""stack":["__kmalloc","leaky"],"comm":"nginx","bytes":512"#),
        "{}",
        stdout(&ran)
    );
}

#[test]
fn a_script_writes_into_the_current_folder_only_unless_it_is_trusted() {
    let folder = folder();
    let own = read(&folder, "own.lua").replace("t:write(\"mine\")", "t:write(\"sub/mine\")");
    fs::write(folder.path().join("elsewhere.lua"), own).unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let ran = run(&folder, "kmem.events", &["./elsewhere.lua"]);
    assert!(stderr(&ran).contains("`sub/mine` contains `/`"), "{}", stderr(&ran));
    assert_eq!(fs::read_dir(folder.path().join("sub")).unwrap().count(), 0);
    let ran = run(&folder, "kmem.events", &["./elsewhere.lua", "--unsafe"]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    assert!(read(&folder, "sub/mine.folded").contains("__kmalloc 512"));
}

#[test]
fn a_difference_is_drawn_against_an_older_run() {
    let folder = folder();
    fs::write(folder.path().join("old.folded"), "redis;[redis];schedule;__schedule 1\n").unwrap();
    // The name of an older --flame-graph is enough.
    for old in ["old.folded", "old", "old.svg"] {
        let words = ["trace", "-e", "sched:sched_switch", "--flame-graph", "x", "--diff", old];
        let ran = run(&folder, "stacks.events", &words);
        assert!(ran.status.success(), "{old}: {}", stderr(&ran));
        assert_eq!(read(&folder, "x.folded"), SWITCHES);
        let picture = read(&folder, "x.svg");
        assert!(picture.contains("redis (2 events, 66.67%; "), "{picture}");
        assert!(picture.contains(&format!("; red grew, blue shrank since {old}<")), "{picture}");
    }
}

#[test]
fn a_heat_map_counts_every_event() {
    let folder = folder();
    let ran =
        run(&folder, "stacks.events", &["trace", "-e", "sched:sched_switch", "--heatmap", "heat"]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    let picture = read(&folder, "heat.svg");
    for text in
        ["<title>0.100 s: 1</title>", "<title>1.200 s: 1</title>", "trace: events over time"]
    {
        assert!(picture.contains(text), "{text}");
    }
    assert_eq!(picture.matches("<title>").count(), 4);
}

#[test]
fn a_heat_map_of_delays_shows_each_and_writes_it_down() {
    let folder = folder();
    let stages = ["-e", "timer:hrtimer_start", "-e", "timer:hrtimer_expire_entry"];
    let words = [&["multi-trace"], &stages[..], &["--heatmap", "late"]].concat();
    let said = stderr(&run(&folder, "hrtimer.events", &words));
    assert!(said.contains("wrote late.svg (2 delays) and late.lat"), "{said}");
    assert_eq!(
        read(&folder, "late.lat"),
        "# microseconds since 2026-11-21 09:00:00; delay in microseconds\n\
         2990.000 1990.000\n8000.000 5000.000\n"
    );
    let picture = read(&folder, "late.svg");
    for text in
        ["multi-trace: delays over time", ", 2 delays", "2 ms to 3 ms, 1.763 ms to 2.097 ms: 1"]
    {
        assert!(picture.contains(text), "{text} in {picture}");
    }
    assert_eq!(picture.matches("<title>").count(), 2);
}

#[test]
fn a_heat_map_shows_what_is_printed_where_a_monitor_prints() {
    let folder = folder();
    fs::write(
        folder.path().join("second.lua"),
        r#"local m = monitor { summary = "every second event", options = {
             "call-graph", "flame-graph", duration { "than", unit = "ns", help = "only what is over it" } } }
           local n, least = 0, nil
           function m.init(opt)
             least = opt.than
             evsel("sched:sched_switch", { stack = true })
           end
           function m.sample(e)
             n = n + 1
             if not least and n % 2 == 0 then emit(e) end
           end
           return m"#,
    )
    .unwrap();
    for (more, count) in [(&[][..], 2), (&["--than", "1s"][..], 0)] {
        let words = [&["./second.lua", "--heatmap", "heat"], more].concat();
        let ran = run(&folder, "stacks.events", &words);
        assert!(ran.status.success(), "{}", stderr(&ran));
        assert_eq!(read(&folder, "heat.svg").matches("<title>").count(), count, "{more:?}");
        assert!(stderr(&ran).contains(&format!("({count} events)")), "{}", stderr(&ran));
    }
}

/// A small file system, unmounted on drop.
struct Disk<'a>(&'a Path);

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_fails_the_run_after_its_results() {
    let folder = folder();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=4k", "tmpfs"]).arg(&disk).output();
    if !mounted.is_ok_and(|mounted| mounted.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "only root may mount a file system");
        return;
    }
    let _disk = Disk(&disk);
    let ran = run(&folder, "kmem.events", &["./table.lua", "--flame-graph", "disk/x"]);
    let said = stderr(&ran);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("--flame-graph: failed to write `disk/x.svg`: No space left"), "{said}");
    assert_eq!(stdout(&ran).lines().count(), 3 + 3, "{}", stdout(&ran));
    // The stacks fit on the disk; of the picture nothing remains.
    let left: Vec<_> = fs::read_dir(&disk).unwrap().flatten().map(|it| it.file_name()).collect();
    assert_eq!(left, ["x.folded"]);
}

#[test]
fn graphs_that_cannot_be_drawn_or_written_are_refused_before_the_run() {
    let folder = folder();
    let target = folder.path().join("target.lua");
    fs::write(&target, "kept").unwrap();
    symlink(&target, folder.path().join("link.svg")).unwrap();
    let trace = ["trace", "-e", "sched:sched_switch"];
    let keyed = ["top", "-e", "sched:sched_switch", "-k", "prev_pid"];
    let plain = r#"local m = monitor { summary = "no stacks", options = { "flame-graph" } }
        function m.init() evsel("sched:sched_switch", function() end) end
        return m"#;
    fs::write(folder.path().join("plain.lua"), plain).unwrap();
    for (words, more, why) in [
        (&trace[..], &["--flame-graph", "link"][..], "`link.svg`: it is a symbolic link"),
        (&trace[..], &["--flame-graph", "no/x"][..], "failed to create `no/x.folded`"),
        (&trace[..], &["--diff", "x"][..], "--diff needs --flame-graph NAME"),
        (
            &trace[..],
            &["--flame-graph", "x", "--diff", "none"][..],
            "--diff: failed to open `none`",
        ),
        (&trace[..], &["--flame-graph", "x", "--diff", "table.lua"][..], "has no folded stacks"),
        (
            &trace[..],
            &["--flame-graph", "x", "--diff", "y", "-i", "1s"][..],
            "--diff compares whole runs",
        ),
        (&["./plain.lua"][..], &["--flame-graph", "x"][..], "no event of this monitor has a stack"),
        (
            &keyed[..],
            &["--flame-graph", "x"][..],
            "--flame-graph draws stacks; omit other keys, or use -k _stack",
        ),
    ] {
        let ran = run(&folder, "stacks.events", &[words, more].concat());
        assert!(!ran.status.success() && stderr(&ran).contains(why), "{more:?}: {}", stderr(&ran));
    }
    let names = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = names.filter(|name| !name.to_string_lossy().ends_with(".lua")).collect();
    assert_eq!(left, ["link.svg"]);
    assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
}
