//! The files of a prompt: a file that it starts with, and its history.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use tempfile::TempDir;

use crate::live::live_tests;
use crate::pty::OnTerminal;

live_tests! {
    root: [
        a_history_writable_by_other_users_is_neither_read_nor_written,
        the_history_is_kept_where_only_root_can_write,
        root_loads_no_file_that_other_users_can_write,
    ],
    any: [
        a_file_is_run_before_the_first_line_and_its_names_stay,
        an_error_in_a_file_is_reported_with_its_line_and_the_session_continues,
        saving_outside_the_current_folder_needs_confirmation_and_system_folders_are_refused,
        unreferenced_tables_are_freed_for_new_ones,
    ]
}

const CTRL_D: &str = "\x04";
const UP: &str = "\x1b[A";
const PLANTED: &str = "#V2\nprint(\"plan\" .. \"ted\")\n";

/// Returns a folder on a path that only root can write, unlike `/tmp`.
fn of_root() -> TempDir {
    tempfile::tempdir_in("/run").expect("root can make a folder there")
}

/// Types Up, Enter and then a line at a prompt that stores its state in this folder; returns the
/// terminal's output.
fn remembered(state: &Path) -> String {
    let state = format!("XDG_STATE_HOME={}", state.display());
    let words = [&state, env!("CARGO_BIN_EXE_perilune"), "repl"];
    let mut prompt = OnTerminal::run("env", 100, 24, &words);
    prompt.wait_for("> ");
    prompt.press(UP);
    prompt.press("\r");
    prompt.press("20 + 22\r");
    prompt.wait_for("\n42\r\n");
    let text = prompt.text();
    prompt.press(CTRL_D);
    assert_eq!(prompt.finish().0.code(), Some(0));
    text
}

fn the_history_is_kept_where_only_root_can_write() {
    let folder = of_root();
    remembered(folder.path());
    let history = folder.path().join("perilune/history");
    assert_eq!(fs::read_to_string(&history).expect("it is there"), "#V2\n20 + 22\n");
    let mode = fs::metadata(&history).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    fs::write(&history, PLANTED).expect("it can be written");
    assert!(remembered(folder.path()).contains("\nplanted\r\n"));
}

fn a_history_writable_by_other_users_is_neither_read_nor_written() {
    const USER: Option<u32> = Some(65534);
    type Spoil = fn(&Path);
    let cases: [(&str, Spoil); 5] = [
        ("its folder is open to all", |state| mode(&state.join("perilune"), 0o777)),
        ("the folder above is open to all", |state| mode(state, 0o777)),
        ("its folder belongs to another user", |state| own(&state.join("perilune"))),
        ("it belongs to another user", |state| own(&state.join("perilune/history"))),
        ("it is a link", |state| {
            let history = state.join("perilune/history");
            fs::rename(&history, state.join("other")).expect("it can be moved");
            symlink(state.join("other"), history).expect("a link can be made");
        }),
    ];
    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("root may do that");
    }
    fn own(path: &Path) {
        chown(path, USER, USER).expect("root may do that");
    }
    for (what, spoil) in cases {
        let folder = of_root();
        let history = folder.path().join("perilune/history");
        fs::create_dir(folder.path().join("perilune")).expect("a folder can be made");
        fs::write(&history, PLANTED).expect("a file can be written");
        spoil(folder.path());
        let text = remembered(folder.path());
        assert!(!text.contains("plan"), "{what}: {text:?}");
        assert_eq!(fs::read_to_string(&history).expect("it is there"), PLANTED, "{what}");
    }
}

/// Returns the output of a prompt over a recording for these lines, after the file: results,
/// messages, and the exit code.
fn begun_with(file: &Path, lines: &str) -> (String, String, Option<i32>) {
    let events = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts/sched.events");
    let mut child = super::prompt()
        .arg("--replay")
        .args([&events, file])
        .spawn()
        .expect("the built command runs");
    let mut input = child.stdin.take().expect("it was piped");
    // A prompt that rejects the file reads no lines.
    let _ = input.write_all(lines.as_bytes());
    drop(input);
    let output = child.wait_with_output().expect("our own child can be waited for");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

fn a_file_is_run_before_the_first_line_and_its_names_stay() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("begin.lua");
    fs::write(
        &file,
        "-- what follows uses these\nhalf = 21\nfunction twice(n)\n  return 2 * n\nend\n",
    )
    .expect("a file can be written");
    let (text, said, code) = begun_with(&file, "twice(half)\nlocal x = = 1\n");
    assert_eq!((text.as_str(), code), ("42\n", Some(1)), "{said}");
    // Lines are counted from the first typed one.
    assert!(said.contains("prompt:2: "), "{said}");
}

fn an_error_in_a_file_is_reported_with_its_line_and_the_session_continues() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("begin.lua");
    fs::write(&file, "a = 1\nb = a.nothing.at_all\nc = 3\n").expect("a file can be written");
    let (text, said, code) = begun_with(&file, "a\nc\n");
    assert_eq!((text.as_str(), code), ("1\n", Some(1)), "{said}");
    assert!(said.contains("begin.lua:2: "), "{said}");
    let (text, said, code) = begun_with(&folder.path().join("absent.lua"), "1\n");
    assert_eq!((text.as_str(), code), ("", Some(1)), "{said}");
    assert!(said.contains("absent.lua"), "{said}");
}

fn saving_outside_the_current_folder_needs_confirmation_and_system_folders_are_refused() {
    let (here, other) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let other = other.path().join("x.lua");
    let lines = format!(
        "probe(\"sched:sched_switch\")\n:save own\n:save {0}\n:save ../y\n:save {0}\n:save \
         /etc/perilune-z\n:save /z\n",
        other.display()
    );
    let events = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts/sched.events");
    let mut command = super::prompt();
    command.args(["--replay".as_ref(), events.as_os_str()]).current_dir(here.path());
    let mut child = command.spawn().expect("the built command runs");
    let mut input = child.stdin.take().expect("it was piped");
    input.write_all(lines.as_bytes()).expect("lines can be sent");
    drop(input);
    let output = child.wait_with_output().expect("our own child can be waited for");
    let (printed, said) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    let printed = String::from_utf8_lossy(&printed).into_owned();
    assert!(printed.starts_with("wrote own.lua"), "{printed}{said}");
    assert_eq!(
        printed.matches("is outside the current folder").count(),
        3,
        "each other file needs confirmation: {printed}"
    );
    assert!(here.path().join("own.lua").exists() && !other.exists(), "{printed}");
    for path in ["/etc/perilune-z.lua", "/z.lua"] {
        assert!(said.contains(&format!("`{path}` is in a system folder")), "{said}");
        assert!(!Path::new(path).exists());
    }
    assert_eq!(output.status.code(), Some(1));
}

fn root_loads_no_file_that_other_users_can_write() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("begin.lua");
    fs::write(&file, "print(\"theirs\")\n").expect("a file can be written");
    fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("root may do that");
    let (text, said, code) = begun_with(&file, "1\n");
    assert_eq!((text.as_str(), code), ("", Some(1)), "{said}");
    assert!(said.contains("root alone can write"), "{said}");
}

fn unreferenced_tables_are_freed_for_new_ones() {
    let events = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts/sched.events");
    let lines = [
        "kept, add, rows = kv { \"a\" }, (latency { \"b\" }).add, nil",
        "do local t = hist.log2 { \"c\" } rows = t.each t:add(7, \"x\") end",
        "kept:add \"x\"",
        // Compiled lines contain the addresses of the tables to which they add.
        "for i = 1, 400 do local t = kv { \"n\" } for j = 1, 200 do t:add(j) end end",
        "for i = 1, 400 do local t = kv { \"n\" } for j = 1, 200 do t:add(j) end end",
        "for i = 1, 400 do local t = kv { \"n\" } for j = 1, 200 do t:add(j) end end",
        "for i = 1, 1500 do last = count(\"sched:sched_switch\", \"prev_comm\", \"1ns\") end",
        "for i = 1, 1000 do kept:add \"x\" end",
        "kept",
        "for key, buckets in rows() do print(key, buckets[#buckets][3]) end",
        "print(pcall(add, nil, 1, \"x\"))",
        "many = {} for i = 1, 2000 do many[i] = kv { \"n\" } end",
    ];
    let mut child =
        super::prompt().arg("--replay").arg(events).spawn().expect("the built command runs");
    let mut input = child.stdin.take().expect("it was piped");
    for line in lines {
        writeln!(input, "{line}").expect("lines can be sent");
    }
    drop(input);
    let output = child.wait_with_output().expect("our own child can be waited for");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let said: Vec<&str> =
        said.lines().filter(|line| !line.contains("recording has ended")).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("at most 1024 tables"), "{said:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.lines().any(|line| line.split_whitespace().eq(["x", "1001"])), "{text}");
    assert!(text.contains("x\t1\n"), "{text}");
    assert!(text.contains("is called with a colon"), "{text}");
}
