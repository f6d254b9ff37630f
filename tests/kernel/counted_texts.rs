//! Texts whose place differs between records, as keys of counts in the kernel.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::live::live_tests;
use crate::paired::{is_exact, run_briefly, start};
use crate::raw_tracepoints::by_key;

live_tests! {
    texts_of_more_than_63_bytes_are_cut_in_the_kernel,
}

const EXECS: &str = "sched:sched_process_exec//key=filename/alias=execs/";

/// Copies a program to a path of `bytes` bytes that ends with `letter`, behind what is kept of a
/// longer path. Executes it `times` times.
fn executed(folder: &Path, bytes: usize, letter: &str, times: usize) -> PathBuf {
    let prefix = folder.as_os_str().len() + 1;
    let name = format!("{}{letter}", "x".repeat(bytes - prefix - 1));
    let path = folder.join(name);
    std::fs::copy("/bin/true", &path).expect("there is room for a program");
    for _ in 0..times {
        assert!(Command::new(&path).status().expect("it is a program").success());
    }
    path
}

fn texts_of_more_than_63_bytes_are_cut_in_the_kernel() {
    let folder = tempfile::Builder::new().prefix("p").rand_bytes(6).tempdir_in("/tmp");
    let folder = folder.expect("a temporary folder");
    let tool = start("kernel", &["top", "-e", EXECS]);
    let whole = executed(folder.path(), 63, "a", 3);
    let cut = executed(folder.path(), 64, "a", 4);
    executed(folder.path(), 65, "b", 2);
    executed(folder.path(), 200, "c", 1);
    let run = tool.finish();
    is_exact(&run);
    let execs = by_key(&run, "filename", "execs");
    let row = |path: &str| execs.get(&format!("\"{path}\"")).copied();
    assert_eq!(row(&whole.to_string_lossy()), Some(3), "{execs:?}");
    let cut = cut.to_string_lossy();
    assert_eq!(row(&format!("{}…", &cut[..60])), Some(4 + 2 + 1), "{execs:?}");
    let ours = execs.keys().filter(|key| key.contains(&cut[..20])).count();
    assert_eq!(ours, 2, "{execs:?}");

    let (code, text) = run_briefly(&["top", "-e", EXECS, "--where", "auto"]);
    assert_eq!(code, Some(0), "{text}");
    let why = "counted in user space: a text of more than 63 bytes would be cut";
    assert!(text.contains(why) || crate::counting::usual_refusal().is_some(), "{text}");
}
