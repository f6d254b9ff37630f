//! Runaway scripts are stopped, by CPU time and by Ctrl-C, and the Lua state is usable afterwards.
//!
//! A separate test program, one test at a time: signals and the guard belong to the process.
#![allow(clippy::print_stderr, reason = "a skipped test says why")]

mod spins;

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mlua::{Function, Value};
use perilune::script::vm::guard::{
    CpuLimits, Failure, Guard, Phase, Reason, Stopped, hook_stops_compiled_loops,
};
use perilune::script::vm::{Limits, Vm};
use perilune::sys::signal;
use spins::SPINS;

fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    signal::install().unwrap();
    signal::forget_interrupts();
    one
}

fn machine() -> Vm {
    let vm = Vm::new(Limits { memory: 256 << 20 }).unwrap();
    vm.on_print(Box::new(|_| {}));
    vm
}

/// Returns the spin as a handler, with its body on line 3.
fn handler(vm: &Vm, body: &str) -> Function {
    match vm.script("@/somewhere/spin.lua", &format!("return function()\n\n{body}\nend")) {
        Ok(Value::Function(function)) => function,
        other => panic!("{other:?}"),
    }
}

/// Returns a trusted loop that continues after each failing event, like the dispatcher.
fn driver(vm: &Vm, handler: &Function) -> Function {
    let source = "local handler, xpcall = ...
        local function explain(why) return debug.traceback(tostring(why), 2) end
        return function() for i = 1, 1e9 do xpcall(handler, explain, i) end end";
    vm.trusted("driver", source, (handler, vm.lua().globals().get::<Function>("xpcall").unwrap()))
        .unwrap()
}

fn short() -> CpuLimits {
    CpuLimits {
        handler: Duration::from_millis(100),
        load: Duration::from_millis(200),
        report: Duration::from_millis(400),
    }
}

fn never() -> CpuLimits {
    let minute = Duration::from_secs(60);
    CpuLimits { handler: minute, load: minute, report: minute }
}

#[track_caller]
fn stopped<T: std::fmt::Debug>(result: Result<T, Failure>) -> Stopped {
    match result {
        Err(Failure::Stopped(stopped)) => stopped,
        other => panic!("not stopped: {other:?}"),
    }
}

fn still_works(vm: &Vm, guard: &Guard) {
    let sum = handler(vm, "local x = 0 for i = 1, 1e6 do x = x + i end return x");
    let sum = guard.run(Phase::Handler, || sum.call::<f64>(())).unwrap();
    assert_eq!(sum, 500_000_500_000.0);
    assert!(
        vm.trusted::<bool>("test", "return (debug.gethook()) == nil and jit.status()", ()).unwrap()
    );
}

/// Returns the CPU time of this thread: on a busy machine more time passes.
fn cpu_time() -> Duration {
    Duration::from_nanos(perilune::sys::clock::thread_cpu_ns())
}

/// Sends SIGINT `count` times to the calling thread, the first after a moment.
fn interrupt_me(count: u32) -> std::thread::JoinHandle<()> {
    // SAFETY: pthread_self has no arguments.
    let me = unsafe { libc::pthread_self() };
    std::thread::spawn(move || {
        for _ in 0..count {
            std::thread::sleep(Duration::from_millis(40));
            // SAFETY: the test's thread joins this one before it ends.
            assert_eq!(unsafe { libc::pthread_kill(me, libc::SIGINT) }, 0);
        }
    })
}

#[test]
fn the_hook_of_this_build_stops_compiled_loops() {
    let start = Instant::now();
    assert!(hook_stops_compiled_loops(), "{}", perilune::script::vm::guard::NO_HOOK);
    eprintln!("the probe took {:?}", start.elapsed());
}

#[test]
fn every_spin_is_stopped_by_cpu_time_with_its_line() {
    let _alone = alone();
    for (name, body) in SPINS {
        let vm = machine();
        let guard = Guard::with_limits(&vm, short()).unwrap();
        let spin = handler(&vm, body);
        for call in [spin.clone(), driver(&vm, &spin)] {
            let start = cpu_time();
            let stopped = stopped(guard.run(Phase::Handler, || call.call::<()>(())));
            let used = cpu_time() - start;
            assert!(used < Duration::from_secs(3), "{name}: {used:?}");
            assert_eq!(stopped.reason, Reason::CpuTime(Duration::from_millis(100)), "{name}");
            assert_eq!(
                stopped.to_string(),
                "spin.lua:3: handler stopped: it ran for over 0.1 s of CPU on one batch",
                "{name}"
            );
        }
        still_works(&vm, &guard);
    }
}

#[test]
fn every_spin_is_stopped_by_the_second_ctrl_c() {
    let _alone = alone();
    for (name, body) in SPINS {
        let vm = machine();
        let guard = Guard::with_limits(&vm, never()).unwrap();
        let spin = driver(&vm, &handler(&vm, body));
        signal::forget_interrupts();
        let start = cpu_time();
        let sender = interrupt_me(2);
        let stopped = stopped(guard.run(Phase::Handler, || spin.call::<()>(())));
        sender.join().unwrap();
        let used = cpu_time() - start;
        assert!(used < Duration::from_secs(3), "{name}: {used:?}");
        assert_eq!(stopped.to_string(), "spin.lua:3: handler stopped by Ctrl-C", "{name}");
        assert!(guard.interrupted());
        still_works(&vm, &guard);
    }
}

#[test]
fn the_first_ctrl_c_is_only_a_flag_in_a_handler() {
    let _alone = alone();
    let vm = machine();
    let guard = Guard::with_limits(&vm, never()).unwrap();
    let busy = handler(&vm, "local t = os.clock() while os.clock() - t < 0.3 do end return 7");
    let sender = interrupt_me(1);
    assert_eq!(guard.run(Phase::Handler, || busy.call::<i64>(())).unwrap(), 7);
    sender.join().unwrap();
    assert!(guard.interrupted());
}

#[test]
fn the_first_ctrl_c_stops_a_file_that_loads_for_ever() {
    let _alone = alone();
    let vm = machine();
    let guard = Guard::with_limits(&vm, never()).unwrap();
    let sender = interrupt_me(1);
    let result = guard.run(Phase::Load, || vm.script("@dir/l.lua", "local x\nwhile true do end"));
    sender.join().unwrap();
    assert_eq!(stopped(result).to_string(), "l.lua:2: script stopped by Ctrl-C");
    // Interrupted before it started.
    let result = guard.run(Phase::Load, || vm.script("@l.lua", "return 1"));
    assert_eq!(stopped(result).to_string(), "script stopped by Ctrl-C");
}

#[test]
fn loading_has_a_limit_of_cpu_time() {
    let _alone = alone();
    let vm = machine();
    let guard = Guard::with_limits(&vm, short()).unwrap();
    let result = guard.run(Phase::Load, || vm.script("@l.lua", "while true do end"));
    assert_eq!(
        stopped(result).to_string(),
        "l.lua:1: script stopped: it ran for over 0.2 s of CPU while it was loaded"
    );
}

#[test]
fn ctrl_c_leaves_a_report_some_time_to_end() {
    let _alone = alone();
    let vm = machine();
    let guard = Guard::with_limits(&vm, never()).unwrap();
    let report =
        handler(&vm, "local t = os.clock() while os.clock() - t < 0.2 do end return 'rows'");
    let sender = interrupt_me(2);
    assert_eq!(guard.run(Phase::Report, || report.call::<String>(())).unwrap(), "rows");
    sender.join().unwrap();
}

#[test]
fn a_report_that_never_ends_is_stopped_by_cpu_time_and_by_the_second_ctrl_c() {
    let _alone = alone();
    for (limits, interrupts, why) in [
        (short(), 1, "spin.lua:3: report stopped: it ran for over 0.4 s of CPU on one report"),
        (never(), 2, "spin.lua:3: report stopped by Ctrl-C"),
    ] {
        let vm = machine();
        let guard = Guard::with_limits(&vm, limits).unwrap();
        let report = handler(&vm, "while true do end");
        signal::forget_interrupts();
        let sender = interrupt_me(interrupts);
        let result = guard.run(Phase::Report, || report.call::<()>(()));
        sender.join().unwrap();
        assert_eq!(stopped(result).to_string(), why);
        still_works(&vm, &guard);
    }
}

#[test]
fn a_ctrl_c_that_came_before_a_line_began_stops_it() {
    let _alone = alone();
    let vm = machine();
    let guard = Guard::with_limits(&vm, never()).unwrap();
    let line = handler(&vm, "while true do end");
    // SAFETY: raise sends to the calling thread, and SIGINT is caught.
    unsafe { libc::raise(libc::SIGINT) };
    let result = guard.run(Phase::Line, || line.call::<()>(()));
    assert_eq!(stopped(result).reason, Reason::Interrupt);
}

#[test]
fn many_short_batches_are_not_one_long_batch() {
    let _alone = alone();
    let vm = machine();
    let guard = Guard::with_limits(&vm, short()).unwrap();
    let batch = handler(&vm, "local t = os.clock() while os.clock() - t < 0.02 do end");
    for _ in 0..20 {
        guard.run(Phase::Handler, || batch.call::<()>(())).unwrap();
    }
}

#[test]
fn waiting_does_not_count_as_cpu_time() {
    let _alone = alone();
    let vm = machine();
    let guard = Guard::with_limits(&vm, short()).unwrap();
    let nap = vm.lua().create_function(|_, ()| {
        std::thread::sleep(Duration::from_millis(400));
        Ok(())
    });
    vm.add_global("nap", nap.unwrap()).unwrap();
    let sleepy = handler(&vm, "nap() local x = 0 for i = 1, 1e5 do x = x + 1 end return x");
    assert_eq!(guard.run(Phase::Handler, || sleepy.call::<f64>(())).unwrap(), 1e5);
}

#[test]
fn a_nested_call_has_its_own_guard() {
    let _alone = alone();
    let vm = machine();
    let guard = std::rc::Rc::new(Guard::with_limits(&vm, short()).unwrap());
    let spin = handler(&vm, "while true do end");
    // Weak: a guard that its own Lua state keeps alive would never be dropped.
    let inner = std::rc::Rc::downgrade(&guard);
    let run = vm.lua().create_function(move |_, ()| {
        let inner = inner.upgrade().expect("the guard outlives its calls");
        let stopped = stopped(inner.run(Phase::Handler, || spin.call::<()>(())));
        Ok(stopped.to_string())
    });
    vm.add_global("run", run.unwrap()).unwrap();
    let outer = handler(&vm, "return run()");
    let text = guard.run(Phase::Report, || outer.call::<String>(())).unwrap();
    assert!(text.starts_with("spin.lua:3: handler stopped"), "{text}");
    let outer = handler(&vm, "run() while true do end");
    stopped(guard.run(Phase::Handler, || outer.call::<()>(())));
}

#[test]
fn an_ordinary_error_is_an_error_of_the_script() {
    let _alone = alone();
    let vm = machine();
    let guard = Guard::new(&vm).unwrap();
    let failing = handler(&vm, "error 'mine'");
    match guard.run(Phase::Handler, || failing.call::<()>(())) {
        Err(Failure::Script(error)) => assert_eq!(error.message, "spin.lua:3: mine"),
        other => panic!("{other:?}"),
    }
    assert!(Guard::new(&vm).is_err(), "one at a time");
}

#[test]
fn an_interrupt_sent_to_another_thread_is_counted() {
    let _alone = alone();
    std::thread::spawn(|| {
        // SAFETY: raise sends to the calling thread.
        unsafe { libc::raise(libc::SIGINT) };
    })
    .join()
    .unwrap();
    let start = Instant::now();
    while signal::interrupts() == 0 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(signal::interrupts(), 1);
}

#[test]
fn an_interrupt_ends_a_wait_at_once() {
    let _alone = alone();
    let sender = interrupt_me(1);
    let start = Instant::now();
    // SAFETY: no descriptors are passed.
    let result = unsafe { libc::poll(std::ptr::null_mut(), 0, 120_000) };
    let errno = std::io::Error::last_os_error();
    sender.join().unwrap();
    assert_eq!((result, errno.raw_os_error()), (-1, Some(libc::EINTR)));
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_changed_terminal_is_flagged_once() {
    let _alone = alone();
    signal::take_resized();
    // SAFETY: raise sends to the calling thread, and SIGWINCH is caught.
    unsafe { libc::raise(libc::SIGWINCH) };
    assert!(signal::take_resized());
    assert!(!signal::take_resized());
}

/// Runs one of the ignored tests below in a child process.
fn child(test: &str) -> std::process::Output {
    let own = std::env::current_exe().unwrap();
    Command::new(own).args(["--exact", test, "--nocapture", "--ignored"]).output().unwrap()
}

#[test]
fn the_third_ctrl_c_ends_the_process_even_inside_c() {
    let output = child("in_a_child_a_pattern_backtracks_for_ever");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("perilune: stopped by the third signal"), "{stderr}");
}

#[test]
#[ignore = "ends its process; run by the_third_ctrl_c_ends_the_process_even_inside_c"]
fn in_a_child_a_pattern_backtracks_for_ever() {
    let _alone = alone();
    let vm = machine();
    let guard = Guard::with_limits(&vm, never()).unwrap();
    // LuaJIT's own function, which scripts have only with --unsafe.
    let spin = "return function() return string.find(('a'):rep(60), ('.-'):rep(60) .. 'b') end";
    let spin: Function = vm.lua().load(spin).eval().unwrap();
    let _sender = interrupt_me(3);
    let _ = guard.run(Phase::Handler, || spin.call::<()>(()));
}

#[test]
fn nohup_is_respected() {
    let output = child("in_a_child_sighup_was_ignored");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.status.signal(), None);
}

#[test]
#[ignore = "changes its process's signals; run by nohup_is_respected"]
fn in_a_child_sighup_was_ignored() {
    // SAFETY: signal(2) with SIG_IGN installs no code.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    let _alone = alone();
    // SAFETY: raise sends to the calling thread.
    unsafe { libc::raise(libc::SIGHUP) };
    assert_eq!(signal::interrupts(), 0);
}
