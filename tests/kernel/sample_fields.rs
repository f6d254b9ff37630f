//! Fields of samples that are recorded on request, compared with other sources of the same fact.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde_json::Value;

use crate::breakpoints::hits::needs_each_hit;
use crate::cgroup::Cgroup;
use crate::live::{live_tests, skip_anywhere};
use crate::load::SharedPage;

live_tests! {
    the_cgroup_of_a_sample_is_that_of_its_task,
    a_run_of_one_cgroup_has_the_events_of_its_tasks_only,
    a_cgroup_that_does_not_exist_is_refused,
    the_registers_of_a_sample_contain_its_instruction_pointer,
    the_page_of_the_code_has_a_size,
    the_physical_address_of_a_write_is_that_of_its_page,
    branches_without_a_pmu_are_refused_with_the_reason,
    a_field_of_the_attr_has_an_effect_or_is_refused_with_what_to_write,
    each_cgroup_of_a_glob_is_counted,
    a_field_that_no_script_reads_is_not_recorded,
}

/// Returns a script with this `m.init`.
fn script(init: &str) -> String {
    format!(
        "local m = monitor {{ summary = \"fields\" }}\nfunction m.init()\n{init}\nend\nreturn m\n"
    )
}

/// Runs a script over a shell command; returns the rows that it emitted, and all output.
fn run(init: &str, args: &[&str], shell: &str) -> (Vec<Value>, String) {
    let args = [&["--duration", "20s"], args, &["--", "sh", "-c", shell]].concat();
    let ran = crate::script::run(&script(init), &args);
    (ran.rows().cloned().collect(), ran.text)
}

/// Runs in user and kernel mode for some time, in one task.
const BUSY: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

fn the_cgroup_of_a_sample_is_that_of_its_task() {
    let group = Cgroup::new("field");
    let inode = fs::metadata(&group.path).expect("the group exists").ino();
    let init = "evsel('sched:sched_process_exec', function(e)
        emit { path = e._cgroup, id = e._cgroup_id, container = e._container }
      end)";
    let (rows, text) = run(init, &[], &group.run("sh -c :; sh -c :"));
    let inside: Vec<&Value> =
        rows.iter().filter(|row| row["path"] == group.name.as_str()).collect();
    assert_eq!(inside.len(), 2, "two shells: {text}");
    assert!(inside.iter().all(|row| row["id"] == inode), "{inode}: {text}");
    assert!(inside.iter().all(|row| row["container"] == "-"), "{text}");
}

fn a_run_of_one_cgroup_has_the_events_of_its_tasks_only() {
    let group = Cgroup::new("only");
    let other = Cgroup::new("other");
    let (mut seen, mut all) = (0, String::new());
    let inner = "for i in 1 2 3 4 5; do sh -c :; done";
    let work = format!("sh -c '{}'; sh -c '{}'", group.run(inner), other.run(inner));
    let init = "evsel('sched:sched_process_exec', function(e) emit { path = e._cgroup } end)";
    for pattern in [group.name.clone(), format!("{}*ly", &group.name[..group.name.len() - 3])] {
        let (rows, text) = run(init, &["--cgroup", &pattern], &work);
        assert!(rows.iter().all(|row| row["path"] == group.name.as_str()), "{pattern}: {text}");
        assert_eq!(rows.len(), 5, "{pattern}: {text}");
        (seen, all) = (seen + rows.len(), text);
    }
    assert_eq!(seen, 10, "{all}");
}

fn a_cgroup_that_does_not_exist_is_refused() {
    let init = "evsel('sched:sched_process_exit', function(e) end)";
    let (_, text) = run(init, &["--cgroup", "/there-is-none"], "true");
    assert!(text.contains("--cgroup: no cgroup matches `/there-is-none` below /"), "{text}");
    let (_, text) = run(init, &["--cgroup", "/", "-p", "1"], "true");
    assert!(text.contains("--cgroup already selects the tasks; omit -p and -t"), "{text}");
}

fn a_field_of_the_attr_has_an_effect_or_is_refused_with_what_to_write() {
    for (field, why) in [
        ("sigtrap", "'sigtrap' of an evsel: each event would send SIGTRAP"),
        ("inherit_stat", "which nothing reads"),
        ("remove_on_exec", "switch the event off in on_exec"),
        ("aux_output", "AUX areas (Intel PT, CoreSight) are not read"),
        ("context_switch", "define m.on_switch"),
        ("config1", "name the event: PMU/config=N"),
        ("watermark", "whose fill level --watermark sets; wakeup_events = 1 handles each"),
        ("wakeup_watermark", "whose fill level --watermark sets; wakeup_events = 1 handles each"),
        ("precise_ip", "'precise_ip' of an evsel has no effect: only hardware counters"),
        ("pinned", "'pinned' of an evsel has no effect: software events need no hardware counter"),
        ("exclusive", "'exclusive' of an evsel has no effect: software events need no hardware"),
        ("sample_max_stack", "has no effect: the event has no call chains of the kernel"),
        ("exclude_callchain_kernel", "has no effect: the event has no call chains of the kernel"),
        ("exclude_callchain_user", "has no effect: the event has no call chains of the kernel"),
        ("max_stack", "'max_stack' of an evsel has no effect: no stack is recorded"),
        ("registers", "'registers' of an evsel is true or false, not of type integer"),
        ("registers = true, stack", "sched:sched_process_exit is not a function; use kprobe:NAME"),
        ("branch_sample_type", "it selects the branches of e._branches"),
        ("wakeup_event", "an evsel has no 'wakeup_event'; did you mean 'wakeup_events'?"),
    ] {
        let init = format!("evsel('sched:sched_process_exit', {{ {field} = 1 }}, print)");
        let (_, text) = run(&init, &[], "true");
        assert!(text.contains(why), "{field}: {text}");
        assert!(!text.contains("refuses its attributes"), "{field}: {text}");
    }
    let init = "local n = 0
        evsel('sched:sched_process_exec', { wakeup_events = 1 }, function() emit { exec = 1 } end)";
    assert_eq!(run(init, &[], "true").0.len(), 1);
}

fn each_cgroup_of_a_glob_is_counted() {
    let groups = [Cgroup::new("glob-a"), Cgroup::new("glob-b")];
    let glob = format!("/perilune-{}-glob-*", std::process::id());
    let work = groups.each_ref().map(|group| format!("sh -c '{}'", group.run("true")));
    let command = ["stat", "-a", "-e", "sched:sched_process_exec", "--cgroup", &glob, "--json"];
    let run = |work: &str| {
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_perilune"))
            .args(command)
            .args(["--", "sh", "-c", work])
            .output()
            .expect("the built command runs");
        String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
    };
    let text = run(&format!("{0}; {0}; {1}", work[0].replace("&& true", "&& env true"), work[1]));
    let objects = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let rows: Vec<Value> = objects.filter(|object| object["type"] == "row").collect();
    let count = |group: &Cgroup| {
        rows.iter().find(|row| row["cgroup"] == group.name.as_str()).map(|row| row["count"].clone())
    };
    // `env` and `true` are executed in the first group, twice; `true` is a builtin in the other.
    assert_eq!((count(&groups[0]), count(&groups[1])), (Some(4.into()), Some(0.into())), "{text}");
    drop(groups);
    assert!(run("true").contains("--cgroup: no cgroup matches `/perilune-"), "removed by now");
}

fn the_registers_of_a_sample_contain_its_instruction_pointer() {
    let init = "local all, equal, user = 0, 0, 0
      evsel('cpu-clock', { freq = 2000 }, function(e)
        all = all + 1
        if e._regs.ip == e._ip then equal = equal + 1 end
        if e._user_regs.sp then user = user + 1 end
        if all == 50 then emit { all = all, equal = equal, user = user } end
      end)";
    let (rows, text) = run(init, &[], BUSY);
    let row = rows.first().unwrap_or_else(|| panic!("fewer than 50 samples: {text}"));
    assert_eq!((&row["equal"], &row["user"]), (&50.into(), &50.into()), "{text}");
}

fn the_page_of_the_code_has_a_size() {
    let init = "local all, pages = 0, 0
      evsel('cpu-clock', { freq = 2000, exclude = { kernel = true } }, function(e)
        all = all + 1
        local size = e._code_page_size
        if size == 4096 or size == 2097152 then pages = pages + 1 end
        if all == 20 then emit { pages = pages } end
      end)";
    let (rows, text) = run(init, &[], BUSY);
    let row = rows.first().unwrap_or_else(|| panic!("fewer than 20 samples: {text}"));
    // A page that was evicted meanwhile has no size.
    assert!(row["pages"].as_u64() >= Some(18), "{text}");
}

fn the_physical_address_of_a_write_is_that_of_its_page() {
    const STORES: u32 = 20;
    needs_each_hit();
    let page = SharedPage::new();
    let Some(physical) = page.physical() else { skip_anywhere("/proc/self/pagemap is hidden") };
    let event = format!("mem:{:#x}/8:w", page.place());
    let init = format!(
        "evsel('{event}', function(e)
          emit {{ at = hex(e._phys_addr), size = e._data_page_size }}
        end)"
    );
    let folder = tempfile::tempdir().expect("a folder for the script");
    let path = folder.path().join("s.lua");
    fs::write(&path, script(&init)).expect("the script can be written");
    let load = page.stores(STORES);
    let run = crate::watch(&[&path.to_string_lossy(), "-p", &load.pid().to_string()], load);
    let rows: Vec<&Value> = run.of("row").collect();
    assert_eq!(rows.len() as u32, STORES, "{}", run.stderr);
    let expected = format!("{physical:#x}");
    assert!(rows.iter().all(|row| row["at"] == expected.as_str()), "{expected}: {rows:?}");
    assert!(rows.iter().all(|row| row["size"] == 4096), "{rows:?}");
}

fn branches_without_a_pmu_are_refused_with_the_reason() {
    if fs::exists("/sys/bus/event_source/devices/cpu").unwrap_or(false) {
        skip_anywhere("this machine has a PMU");
    }
    let init = "evsel('cpu-clock', function(e) emit { n = #e._branches } end)";
    let (rows, text) = run(init, &[], "true");
    let why = "cpu-clock: it has no branch records (LBR), which only hardware counters such as \
               cycles have; omit `_branches`";
    assert!(rows.is_empty() && text.contains(why), "{text}");
}

fn a_field_that_no_script_reads_is_not_recorded() {
    let opened = |init: &str| run(init, &["-vv"], "true").1;
    let with = opened("evsel('cpu-clock', function(e) return e._cgroup end)");
    let without = opened("evsel('cpu-clock', function(e) return e._ip end)");
    let sample_type = |text: &str| {
        let lines = text.lines().filter(|line| line.contains("cpu-clock: type="));
        let digits = lines.filter_map(|line| line.split("sample_type=0x").nth(1)).next();
        let digits = digits.and_then(|rest| rest.split([' ', '"']).next()).unwrap_or_default();
        u64::from_str_radix(digits, 16).unwrap_or_else(|why| panic!("{why}: {text}"))
    };
    // PERF_SAMPLE_CGROUP.
    assert_eq!(sample_type(&with) & 1 << 21, 1 << 21, "{with}");
    assert_eq!(sample_type(&without) & 1 << 21, 0, "{without}");
}
