//! task-state: its figures for a task match what the task measured.

use std::{
    path::PathBuf,
    process::{Child, Command},
    time::Duration,
};

use crate::{
    live::{live_tests, skip_anywhere},
    load,
    tool::{Run, Tool, with_all_switches},
};

live_tests! {
    the_times_of_a_task_add_up_to_the_wall_time,
    a_stay_is_printed_with_both_its_events_or_not_at_all,
    a_vfork_parent_is_stuck_until_its_child_ends,
    a_writer_to_a_frozen_file_system_is_printed_with_its_stack,
    a_task_that_is_stuck_when_the_run_ends_is_shown_and_printed,
}

/// Returns the milliseconds of a task in a state, and how often it was in it.
fn in_state(run: &Run, tid: u32, state: &str) -> (f64, u64) {
    let rows = run.of("row").filter(|row| row["tid"] == tid && row["state"] == state);
    rows.fold((0.0, 0), |(ms, calls), row| {
        let us = row["total_us"].as_f64().unwrap_or_default();
        (ms + us / 1e3, calls + row["calls"].as_u64().unwrap_or_default())
    })
}

fn the_times_of_a_task_add_up_to_the_wall_time() {
    let _busy = load::never_idle();
    const ROUNDS: u32 = 5;
    let (load, measured) = load::alternate(ROUNDS, 100);
    let tid = load.pid();
    let of = tid.to_string();
    let args = ["task-state", "--perins", "-p", &of];
    let run = with_all_switches(tid, || crate::watch(&args, load));
    run.is_complete();
    let [wall, asleep, ran] = [0, 1, 2].map(|i| measured.get(i) as f64 / 1e6);
    let [r, preempted, woken, s] = ["R", "R+", "RQ", "S"].map(|state| in_state(&run, tid, state).0);
    // The report covers the time from the switch that starts the task to its last one: its own
    // clock starts a little later and stops before its memory is freed, and others may run then.
    let sum = r + preempted + woken + s;
    let adds_up = (wall - 1.0..wall * 1.2 + 40.0).contains(&sum);
    // A sleep measured by the task includes the wait for a CPU; the scheduler's sleep begins when
    // the timer already runs.
    let slept = s <= asleep && s >= f64::from(ROUNDS) * 99.0;
    let often = in_state(&run, tid, "S").1 >= u64::from(ROUNDS);
    // The time on a CPU is the CPU time accounted by the kernel, and the time that interrupts and a
    // hypervisor took meanwhile.
    let spun = (ran - 1.0..ran * 1.2 + 40.0).contains(&r);
    assert!(
        adds_up && slept && often && spun,
        "R {r} R+ {preempted} RQ {woken} S {s}; wall {wall} asleep {asleep} ran {ran}: {}",
        run.stderr
    );
}

fn a_stay_is_printed_with_both_its_events_or_not_at_all() {
    let _busy = load::never_idle();
    // perilune itself sleeps ten times a second, and is excluded.
    let sleeper = load::sleep_ms(400);
    let tid = sleeper.pid();
    let tool = Tool::attach(&["task-state", "-S", "--than", "50ms"]);
    let own = tool.pid();
    sleeper.run();
    let run = tool.finish();
    let about = |tid: u32| {
        let of = |e: &&serde_json::Value| e["prev_pid"] == tid || e[crate::OWN_PID] == tid;
        run.of("event").filter(of).collect::<Vec<_>>()
    };
    assert!(about(own).is_empty(), "{:?}", about(own));
    let slept = about(tid);
    let [away, woken, ..] = slept[..] else { panic!("{slept:?} {}", run.stderr) };
    assert_eq!(
        (&away["event"], &woken["event"]),
        (&"sched:sched_switch".into(), &"sched:sched_wakeup".into())
    );
    assert_eq!(away["state"], "S");
    let us = away["delay_us"].as_f64().expect("the first event has the delay");
    let at = |event: &serde_json::Value| -> f64 {
        let time = event["time"].as_str().expect("RFC 3339");
        let of_minute: f64 = time[17..time.len() - 1].parse().expect("seconds");
        60.0 * time[14..16].parse::<f64>().expect("minutes") + of_minute
    };
    let between = (at(woken) - at(away)).rem_euclid(3600.0) * 1e6;
    assert!(us >= 400e3 && (us - between).abs() < 2.0, "{us} us, {between} between the events");
    assert!(woken.get("delay_us").is_none(), "each pair is printed once");
}

fn a_vfork_parent_is_stuck_until_its_child_ends() {
    let _busy = load::never_idle();
    let load = load::vforks(3, 50);
    let tid = load.pid();
    let run = crate::watch(&["task-state", "-D", "--perins", "-p", &tid.to_string()], load);
    let (ms, calls) = in_state(&run, tid, "D");
    // It is stuck, too, while the kernel reads a page of its memory from a disk.
    let most = if calls == 3 { 2000.0 } else { f64::INFINITY };
    assert!(calls >= 3 && (150.0..most).contains(&ms), "{ms} ms: {:?}", run.objects);
    assert!(run.of("row").all(|row| row["state"] == "D"));
    run.is_complete();
}

fn a_writer_to_a_frozen_file_system_is_printed_with_its_stack() {
    let _busy = load::never_idle();
    let disk = Frozen::new("frozen");
    let tool = Tool::attach(&["task-state", "-D", "--than", "100ms", "--filter", "frozen-*", "-g"]);
    let writer = disk.write_for(Duration::from_millis(300));
    let run = tool.finish();
    let slept: Vec<_> = run.events_of(writer);
    let first = slept.first().unwrap_or_else(|| panic!("{:?} {}", run.objects, run.stderr));
    assert_eq!(
        (&first["event"], &first["prev_pid"]),
        (&"sched:sched_switch".into(), &writer.into())
    );
    let stack = first["stack"].to_string();
    assert!(stack.contains("percpu_rwsem_wait"), "{stack}");
    let longest = run.of("row").filter_map(|row| row["max_us"].as_f64()).fold(0.0, f64::max);
    assert!((250_000.0..5_000_000.0).contains(&longest), "{longest} us");
}

fn a_task_that_is_stuck_when_the_run_ends_is_shown_and_printed() {
    let disk = Frozen::new("still-frozen");
    let tool = Tool::attach(&["task-state", "-D", "--than", "100ms", "--filter", "frozen-*", "-g"]);
    let (thaw, mut writer) = disk.begin_to_write();
    std::thread::sleep(Duration::from_millis(300));
    let run = tool.finish();
    drop(thaw);
    assert!(writer.wait().expect("our own child").success());

    let shown = || format!("{:?} {}", run.objects, run.stderr);
    let open: Vec<_> = run
        .of("row")
        .filter(|row| row["table"] == "not_ended" && row["tid"] == writer.id())
        .collect();
    let [row] = &open[..] else { panic!("{}", shown()) };
    assert_eq!(row["state"], "D", "{}", shown());
    let us = row["for_us"].as_f64().unwrap_or_default();
    assert!((200_000.0..5_000_000.0).contains(&us), "{}", shown());
    let began = run.events_of(writer.id());
    let stack = began.first().unwrap_or_else(|| panic!("{}", shown()))["stack"].to_string();
    assert!(stack.contains("percpu_rwsem_wait"), "{stack}");
}

/// An ext4 file system in a file, which can be frozen.
struct Frozen(PathBuf);

impl Frozen {
    /// Creates a file system; `name` distinguishes it from those of other tests. Ends the test if
    /// none can be mounted.
    fn new(name: &str) -> Frozen {
        let at = std::env::temp_dir().join(format!("perilune-{name}-{}", std::process::id()));
        std::fs::create_dir_all(at.join("mnt")).expect("a temporary folder");
        let (image, mount) = (at.join("image"), at.join("mnt"));
        // From here on everything that was created is removed on drop.
        let frozen = Frozen(at);
        let made = run(Command::new("truncate").args(["-s", "16M"]).arg(&image))
            && run(Command::new("mkfs.ext4").arg("-q").arg(&image))
            && run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mount));
        if !made {
            skip_anywhere("no ext4 file system can be mounted");
        }
        frozen
    }

    /// Returns the process that tried to write while the file system was frozen for `time`.
    fn write_for(&self, time: Duration) -> u32 {
        let (thaw, mut writer) = self.begin_to_write();
        std::thread::sleep(time);
        drop(thaw);
        assert!(writer.wait().expect("our own child").success());
        writer.id()
    }

    /// Freezes the file system. Returns a value that thaws it when dropped, and the process that
    /// waits to write.
    fn begin_to_write(&self) -> (Thaw, Child) {
        let mount = self.0.join("mnt");
        assert!(run(Command::new("fsfreeze").arg("-f").arg(&mount)));
        let script =
            format!("printf frozen-writer > /proc/$$/comm; echo x > {}/file", mount.display());
        let thaw = Thaw(mount);
        let writer = Command::new("sh").args(["-c", &script]).spawn().expect("sh runs");
        let (stat, since) = (format!("/proc/{}/stat", writer.id()), std::time::Instant::now());
        while !std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains("(frozen-writer) D "))
        {
            assert!(since.elapsed() < load::PATIENCE, "the writer never waited");
            std::thread::sleep(Duration::from_millis(5));
        }
        (thaw, writer)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // Lazy unmount: a writer of a failed test may still use it, and after the unmount it could
        // not be thawed.
        run(Command::new("fsfreeze").arg("-u").arg(self.0.join("mnt")));
        run(Command::new("umount").arg("-l").arg(self.0.join("mnt")));
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Thaws the file system on drop: a frozen mount could not be removed.
struct Thaw(PathBuf);

impl Drop for Thaw {
    fn drop(&mut self) {
        run(Command::new("fsfreeze").arg("-u").arg(&self.0));
    }
}

fn run(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
