//! Live tests as a list: each runs on a thread of its own, and one that cannot run on this machine
//! is shown as ignored, with the reason. Every test program that lists its tests includes this
//! file.

use std::cell::Cell;
use std::panic::{catch_unwind, resume_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{PoisonError, RwLock};
use std::thread;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use perilune::sys::machine::is_root;

/// Lists the tests of a file: first those that need root, then those that decide themselves. Those
/// that another run of the command disturbs are `alone`: they measure what events cost, or look at
/// what the next run removes. The compiler reports a test that is not listed as dead code.
macro_rules! live_tests {
    ($($test:ident),*; alone: [$($alone:ident),* $(,)?]) => {
        pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
            vec![
                $($crate::live::test(module_path!(), stringify!($test), (true, false), $test),)*
                $($crate::live::test(module_path!(), stringify!($alone), (true, true), $alone),)*
            ]
        }
    };
    (alone: [$($alone:ident),* $(,)?]) => { $crate::live::live_tests!(; alone: [$($alone),*]); };
    (root: [$($test:ident),* $(,)?], any: [$($free:ident),* $(,)?]) => {
        pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
            vec![
                $($crate::live::test(module_path!(), stringify!($test), (true, false), $test),)*
                $($crate::live::test(module_path!(), stringify!($free), (false, false), $free),)*
            ]
        }
    };
    ($($test:ident),* $(,)?) => { $crate::live::live_tests!(root: [$($test),*], any: []); };
}
pub(crate) use live_tests;

/// Runs the tests of these files as the arguments of the test program request.
pub(crate) fn run<const N: usize>(files: [Vec<Trial>; N]) -> ExitCode {
    let tests = files.into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

thread_local! {
    /// Returns why this thread's test fails on this machine; None if it should not.
    pub(crate) static EXCUSE: Cell<fn() -> Option<String>> = const { Cell::new(|| None) };
}

/// Why a test cannot run; it unwinds the test's thread.
struct Skipped(String);

/// Held by each test while it runs: shared, or by one test alone.
static MACHINE: RwLock<()> = RwLock::new(());

/// Creates a test that is named by its path below the crate.
pub(crate) fn test(
    module: &str,
    name: &str,
    (needs_root, alone): (bool, bool),
    test: fn(),
) -> Trial {
    let name = match module.split_once("::") {
        Some((_, module)) => format!("{module}::{name}"),
        None => name.to_owned(),
    };
    let own = name.clone();
    Trial::ignorable_test(name, move || {
        let run = move || {
            // A test that fails poisons nothing: the lock guards no data.
            let _exclusive = alone.then(|| MACHINE.write().unwrap_or_else(PoisonError::into_inner));
            let _shared = (!alone).then(|| MACHINE.read().unwrap_or_else(PoisonError::into_inner));
            if needs_root {
                can_trace();
            }
            if let Err(end) = catch_unwind(test) {
                if let Some(why) = EXCUSE.get()().filter(|_| !end.is::<Skipped>()) {
                    skip_anywhere(&why);
                }
                resume_unwind(end);
            }
        };
        let started = thread::Builder::new().name(own).spawn(run).expect("a thread can be started");
        let Err(end) = started.join() else { return Ok(Completion::Completed) };
        match end.downcast::<Skipped>() {
            Ok(skipped) => Ok(Completion::ignored_with(skipped.0)),
            Err(_) => Err(Failed::without_message()),
        }
    })
}

/// Ends the test if this machine does not let it trace.
pub(crate) fn can_trace() {
    if !is_root() {
        skip("not root");
    }
    if !Path::new("/proc/sys/kernel/perf_event_paranoid").exists() {
        skip("this kernel has no perf_event_open");
    }
}

/// Ends a test that cannot run here, which is a failure on a build machine.
pub(crate) fn skip(missing: &str) -> ! {
    assert!(std::env::var_os("CI").is_none(), "cannot run on a build machine: {missing}");
    skip_anywhere(missing);
}

/// Ends a test that cannot run here. Build machines need not be able to run it, unlike with
/// [`skip`].
pub(crate) fn skip_anywhere(why: &str) -> ! {
    // Not a panic, which would print a message.
    resume_unwind(Box::new(Skipped(why.to_owned())));
}
