//! `perilune new` and `perilune test`: template monitors, and cases that state what a monitor must
//! print.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns the exit code, stdout and stderr of `perilune WORDS…` in a folder.
fn perilune(folder: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(words)
        .current_dir(folder)
        .output()
        .expect("the built command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Returns a folder with `t.lua`, which prints the time of each event, and a case for it.
fn folder(order: &str, events: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "local m = monitor {{ summary = 'times', {order} }}\n\
         function m.init() evsel('s:x', function(e) emit {{ ms = e._time / 1e6, n = e.n }} end) \
         end\n\
         function m.on_exit(r) emit {{ ended = r.tid }} end\nreturn m\n"
    );
    fs::write(folder.path().join("t.lua"), script).unwrap();
    fs::write(folder.path().join("t.events"), events).unwrap();
    folder
}

fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap()
}

#[test]
fn a_case_fails_until_it_is_blessed_and_again_when_something_else_is_printed() {
    let here = folder("order = true", "0.001 0 7 a s:x: n=1\n0.002 0 7 a s:x: n=2\n");
    let path = here.path();
    let (code, out, _) = perilune(path, &["test"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("FAILED   ./t.events") && out.ends_with("1 case, 1 failed\n"), "{out}");
    assert!(!path.join("t.out").exists());
    let (code, out, _) = perilune(path, &["test", "--bless", "t.lua"]);
    assert_eq!((code, out.as_str()), (Some(0), "blessed  ./t.events\n1 case, all as expected\n"));
    let (code, out, _) = perilune(path, &["test", "t.events"]);
    assert_eq!((code, out.as_str()), (Some(0), "ok       t.events\n1 case, all as expected\n"));

    let events = read(path, "t.events").replace("n=2", "n=3");
    fs::write(path.join("t.events"), events).unwrap();
    let (code, out, _) = perilune(path, &["test"]);
    assert_eq!(code, Some(1));
    let of = |mark: &str| out.lines().filter(|l| l.starts_with(&format!("    {mark}"))).count();
    assert_eq!((of("-"), of("+")), (2, 2), "the heads and one line each: {out}");
    assert!(out.contains("n=3"), "{out}");
}

#[test]
fn a_case_declares_its_runs_and_its_expected_failure() {
    let events = "# run t.lua -N 1\n# run perilune t.lua --duration 1ms\n0.001 0 7 a s:x: \
                  n=1\n0.002 0 7 a s:x: n=text\n";
    let here = folder("order = true", events);
    fs::rename(here.path().join("t.events"), here.path().join("t-two.events")).unwrap();
    assert_eq!(perilune(here.path(), &["test", "--bless", "t.lua"]).0, Some(0));
    let out = read(here.path(), "t-two.out");
    let (first, second) = out.split_once("$ perilune t.lua --duration 1ms\n").unwrap();
    assert!(first.starts_with("$ perilune t.lua -N 1\n") && first.contains("n=1"), "{out}");
    assert!(!first.contains("n=2"), "{out}");
    assert!(second.contains("n=1"), "{out}");
}

#[test]
fn a_run_that_did_not_start_is_not_blessed() {
    for (run, why) in [
        ("t.lua --than 3", "no option '--than'"),
        ("nothing.lua", "nothing.lua"),
        ("top -e s:y", "the recording has no event `s:y`"),
    ] {
        let events = format!("# run t.lua\n# run {run}\n0.001 0 7 a s:x: n=1\n");
        let here = folder("order = true", &events);
        let (code, out, err) = perilune(here.path(), &["test", "--bless"]);
        assert_eq!(code, Some(1), "{run}: {out}{err}");
        let expected = format!("not blessed: a run did not start:\n    $ perilune {run}\n");
        assert!(out.contains(&expected) && out.contains(why), "{run}: {out}");
        assert!(!here.path().join("t.out").exists(), "{run}");
    }
}

#[test]
fn a_wrong_value_is_shown_with_the_line_of_the_case() {
    let script = "local m = monitor { summary = 'sums', order = true }\n\
        function m.init() evsel('s:x', function(e) emit { n = e.n + 1 } end) end\nreturn m\n";
    for (line, expected) in [
        ("n=0xzz", "t.events:3: `0xzz` is not a hexadecimal number of at most 64 bits"),
        ("n=[1,a]", "t.events:3: `[1,a]` is not a list of whole numbers"),
        ("n=hex:0", "t.events:3: `hex:0` is not a sequence of pairs of hexadecimal digits"),
        ("n=12x", "t.events:3: the script failed at this line"),
    ] {
        let here =
            folder("", &format!("# a case\n0.001 0 7 a s:x: n=1\n0.002 0 7 a s:x: {line}\n"));
        fs::write(here.path().join("t.lua"), script).unwrap();
        let (code, out, _) = perilune(here.path(), &["test"]);
        assert_eq!(code, Some(1), "{line}: {out}");
        assert!(out.contains(expected), "{line}: {out}");
    }
    let events = "# event s:x: n=s64\n0.001 0 7 a s:x: n=1\n0.002 0 7 a s:x: n=12x\n";
    let (_, out, _) = perilune(folder("", events).path(), &["test"]);
    assert!(
        out.contains("t.events:3: `12x` is not s64, the type that the header gives `n`"),
        "{out}"
    );
}

#[test]
fn loss_disorder_and_exits_can_be_declared_in_a_case() {
    let events = "0.001@0.004 0 7 a s:x: n=1\n0.002 0 7 a s:x: n=2\n0.003 0 8 b EXIT:\n0.005 1 0 - \
                  LOST: n=3\n";
    let words = |order: &str| {
        let here = folder(order, events);
        assert_eq!(perilune(here.path(), &["test", "--bless"]).0, Some(0));
        let out = read(here.path(), "t.out");
        let mut found: Vec<(usize, &str)> = ["n=1", "n=2", "ended=8", "3 lost"]
            .into_iter()
            .map(|word| (out.find(word).unwrap_or_else(|| panic!("no {word} in {out}")), word))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, word)| word).collect::<Vec<_>>()
    };
    assert_eq!(words("order = true"), ["n=1", "n=2", "ended=8", "3 lost"]);
    assert_eq!(words("order = false"), ["n=2", "ended=8", "n=1", "3 lost"]);
}

#[test]
fn a_file_that_is_not_a_case_is_refused() {
    let here = folder("order = true", "0.001 0 7 a s:x: n=1\n");
    for (words, why) in [
        (["test", "none.events"], "failed to read `none.events`"),
        (["test", "none.lua"], "no file 'none.lua'; check the path"),
        (["test", "none"], "'none' is not a FILE.events, FILE.lua or folder"),
        (["test", "--fast"], "test: no option '--fast'"),
    ] {
        let (code, out, err) = perilune(here.path(), &words);
        assert!(code != Some(0) && out.is_empty() && err.contains(why), "{words:?}: {err}");
    }
    fs::remove_file(here.path().join("t.lua")).unwrap();
    let (code, _, err) = perilune(here.path(), &["test"]);
    assert!(code == Some(1) && err.contains("names no monitor; begin it with `# run"), "{err}");
}

#[test]
fn a_monitor_without_a_case_is_loaded_and_checked() {
    let here = tempfile::tempdir().unwrap();
    let test = |handler: &str| {
        let script = format!(
            "local m = monitor {{ summary = 'x' }}\nfunction m.init()\n  evsel('page-faults', \
             {handler})\nend\nreturn m\n"
        );
        fs::write(here.path().join("t.lua"), script).unwrap();
        perilune(here.path(), &["test", "t.lua"])
    };
    let (code, out, err) = test("function(e) error 'it does not run' end");
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.starts_with("loads    t.lua; ") && out.contains("there is no case"), "{out}");
    assert_eq!(out.lines().count(), 1, "{out}");
    let (code, out, err) = test("function(e) end end");
    assert_eq!((code, err.as_str()), (Some(1), ""), "{out}");
    assert!(
        out.starts_with("FAILED   t.lua\n    t.lua:3: ") && out.contains("near 'end'"),
        "{out}"
    );
}

#[test]
fn an_invalid_new_monitor_is_refused_in_one_line_and_nothing_is_written() {
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("there.out"), "").unwrap();
    for (words, code, why) in [
        (&["new", "x"][..], 2, "new: it needs an event (perilune list shows them)"),
        (&["new", "-e", "page-faults"], 2, "new: it needs a name"),
        (&["new", "x", "-e", ""], 2, "new: -e needs an event (perilune list shows them)"),
        (&["new", "x/", "-e", "page-faults"], 2, "new: 'x/' is not a valid name"),
        (&["new", "x y", "-e", "page-faults"], 2, "new: 'x y' is not a valid name"),
        (&["new", "there", "-e", "page-faults"], 2, "new: 'there.out' already exists"),
        (&["new", "none/x", "-e", "page-faults"], 1, "failed to create `none/x.lua`: No such file"),
        (&["new", "/proc/x", "-e", "page-faults"], 1, "failed to create `/proc/x.lua`: "),
        (
            &["new", "x", "-e", "page-fault"],
            1,
            "no event 'page-fault'; did you mean 'page-faults'?",
        ),
    ] {
        let (got, out, err) = perilune(here.path(), words);
        assert_eq!((got, out.as_str()), (Some(code), ""), "{words:?}: {err}");
        assert!(err.starts_with(&format!("perilune: {why}")), "{words:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 1);
}
