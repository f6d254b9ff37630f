//! The flame graph files of a run that is killed, and of one that replaces existing files.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::{
    live::live_tests,
    load::{PATIENCE, Pipes},
    tool::{Run, Tool},
};

live_tests! {
    a_run_killed_before_its_first_file_leaves_no_file,
    a_killed_run_leaves_its_intervals_and_blocks_no_later_run,
}

/// Bytes that `kmalloc` returns for the slots of one pipe.
const BYTES: u64 = 1024;

fn attach(pipes: &Pipes, folder: &Path) -> Tool {
    let (of, name) = (pipes.pid().to_string(), folder.join("x"));
    let name = name.to_str().expect("a folder of ASCII");
    // Restricted to this process: the frees of the whole machine could overflow the ring, and a
    // loss discards all earlier allocations.
    let freed = format!("kmem:kfree/common_pid=={of}/");
    let events = ["--alloc", "kmem:kmalloc/bytes_req==640/", "--free", &freed, "-p", &of];
    let files = ["--flame-graph", name, "--weight", "bytes", "-i", "100"];
    Tool::attach(&[&["kmemleak"], &events[..], &files].concat())
}

/// Returns the weights of the file's lines, once there are at least `least` of them.
fn weights(folder: &Path, least: usize) -> Vec<u64> {
    let since = Instant::now();
    loop {
        let text = fs::read_to_string(folder.join("x.folded")).unwrap_or_default();
        if text.lines().count() >= least && text.ends_with('\n') {
            let weight = |line: &str| line.rsplit_once(' ').and_then(|(_, n)| n.parse().ok());
            return text.lines().map(|line| weight(line).expect("a whole line")).collect();
        }
        assert!(since.elapsed() < PATIENCE, "{least} lines did not arrive: {text}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn finish(tool: Tool, pipes: Pipes) -> Run {
    let run = tool.finish();
    pipes.end();
    run.is_complete();
    run
}

fn a_run_killed_before_its_first_file_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let name = folder.path().join("x");
    let tool = Tool::attach(&["profile", "--flame-graph", name.to_str().expect("ASCII")]);
    // Dropping the tool kills it.
    drop(tool);
    let left = fs::read_dir(folder.path()).expect("it is there").flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn a_killed_run_leaves_its_intervals_and_blocks_no_later_run() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let mut pipes = Pipes::new(30, 0);
    let tool = attach(&pipes, folder.path());
    pipes.run();
    let before = weights(folder.path(), 3);
    // Dropping the tool kills it.
    drop(tool);
    pipes.end();
    let left = weights(folder.path(), 3);
    assert!(left.starts_with(&before), "{before:?} {left:?}");
    // The first interval may have seen only some of them.
    assert!(left[1..].iter().all(|weight| *weight == 30 * BYTES), "{left:?}");

    let mut pipes = Pipes::new(10, 0);
    let tool = attach(&pipes, folder.path());
    pipes.run();
    let run = finish(tool, pipes);
    let again = weights(folder.path(), 1);
    assert!(again.iter().all(|weight| *weight <= 10 * BYTES), "{again:?}");
    assert_eq!(again.last(), Some(&(10 * BYTES)), "the last part was not written: {}", run.stderr);
    assert!(folder.path().join("x.svg").exists());
}
