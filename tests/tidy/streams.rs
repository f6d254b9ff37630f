//! Access to the standard streams, and creation of files.

use crate::{Finding, source::Source};

/// The file that opens the standard streams.
const STREAMS: &str = "src/sys/streams.rs";

/// Files that use a stream from there unchanged. Each escapes what it writes: an output format, or
/// [`Lines`] in `main_with`.
const WRITERS: &[&str] = &[
    "src/main.rs",
    "src/run.rs",
    "src/output/screen.rs",
    "src/cli/repl.rs",
    "src/sys/live_tests.rs",
];

/// Names that bypass [`STREAMS`].
const OPENED: &[&str] =
    &["println!", "print!(", "dbg!(", "io::stdout", "io::stderr", "io::Stdout", "io::Stderr"];

/// Files that create files: the one function for results, and caches in folders that no other user
/// can write.
const CREATORS: &[&str] =
    &["src/output/file.rs", "src/sys/folder.rs", "src/symbol/kernel/kallsyms_cache.rs"];

/// Calls that create or change a file.
const CREATED: &[&str] =
    &["fs::write(", "File::create", "create_new(", ".truncate(true)", "fs::rename(", "O_CREAT"];

/// Reports files that open the standard streams themselves: only one does, so that nothing
/// unescaped reaches a terminal.
pub(crate) fn one_file_opens_the_standard_streams(file: &Source) -> Vec<Finding> {
    if !file.path.starts_with("src/") || file.path == STREAMS {
        return Vec::new();
    }
    let raw =
        ["stdout(", "stdout;", "stderr(", "stderr;", "{"].map(|end| format!("streams::{end}"));
    let raw: Vec<&str> = raw.iter().map(String::as_str).collect();
    let raw = if WRITERS.contains(&file.path.as_str()) { &[] } else { &raw[..] };
    let what = "a standard stream is opened here; write with `sys::streams::print_message` or \
                `print`, or to the writer that the caller gives";
    found(file, &[OPENED, raw].concat(), what)
}

/// Reports files that create files: only few may, so that all follow the same rules about links and
/// other users' files.
pub(crate) fn one_file_creates_files(file: &Source) -> Vec<Finding> {
    let is_test = file.path.contains("/tests") || file.path.contains("/trial");
    if !file.path.starts_with("src/") || is_test || CREATORS.contains(&file.path.as_str()) {
        return Vec::new();
    }
    found(file, CREATED, "a file is created here; use `output::file`")
}

/// Returns findings for lines above the file's tests that contain one of these names.
fn found(file: &Source, names: &[&str], what: &str) -> Vec<Finding> {
    let lines = file.code.lines().take_while(|line| !line.contains("#[cfg(test)]"));
    let has = |line: &str| names.iter().any(|name| line.contains(name));
    lines.enumerate().filter(|(_, line)| has(line)).map(|(at, _)| file.at(at, what)).collect()
}

#[test]
fn a_second_way_to_the_terminal_and_to_files_is_found() {
    for (path, text) in [
        ("src/run/live.rs", "fn f() { eprintln!() }"),
        ("src/run/live.rs", "let _ = writeln!(std::io::stderr(), 1);"),
        ("src/cli/help.rs", "use crate::sys::streams::{self, stdout};"),
    ] {
        assert_eq!(
            one_file_opens_the_standard_streams(&Source::new(path, text)).len(),
            1,
            "{text}"
        );
    }
    for text in ["fs::write(path, text)", "OpenOptions::new().create_new(true)"] {
        assert_eq!(one_file_creates_files(&Source::new("src/cli/new.rs", text)).len(), 1, "{text}");
    }
    let text = "use crate::sys::streams;\nstreams::print_message(text)";
    let fine = Source::new("src/run/live.rs", text);
    assert!(one_file_opens_the_standard_streams(&fine).is_empty());
    let test = Source::new("src/a.rs", "#[cfg(test)]\nmod tests { fn f() { fs::write(p, t) } }");
    assert!(one_file_creates_files(&test).is_empty());
}
