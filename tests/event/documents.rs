//! The commands of the README and its pages, and the live lines of `docs/one-liners.md`, run on
//! this machine.

use std::path::Path;
use std::process::Command;

use crate::live::live_tests;
use crate::one_liner::{one_liners, run, text};

live_tests! {
    every_command_of_the_readme_and_its_pages_runs_unchanged,
    each_live_one_liner_counts_its_command,
}

/// Programs that its commands start; `/bin/true` replaces them.
const PROGRAMS: [&str; 2] = ["make", "prog"];

const PAGES: [&str; 3] = ["README.md", "docs/events.md", "docs/running.md"];

/// Returns the text of a file of the repository.
fn page(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(file).expect("the page is there")
}

/// Message of split-lock on a machine without hardware counters.
const NO_COUNTER: &str = "its hardware counters are not available here";

/// Message of watchdog on a machine that was started with `nowatchdog`.
const NO_DETECTOR: &str = "the kernel's lockup detector is off";

fn every_command_of_the_readme_and_its_pages_runs_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_perilune"), folder.path().join("perilune"))
        .unwrap();
    for program in PROGRAMS {
        std::os::unix::fs::symlink("/bin/true", folder.path().join(program)).unwrap();
    }
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let text: String = PAGES.map(page).concat();
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
    let commands = lines.iter().filter_map(|line| line.strip_prefix("perilune "));
    let mut ran = 0;
    for command in commands {
        let (monitor, rest) = command.split_once(' ').expect("a monitor, and what it is to do");
        // The pid of this test, which exists.
        let rest = rest.replace("-p 1234", &format!("-p {}", std::process::id()));
        let line = format!("perilune {monitor} -q --duration 100ms {rest}");
        let output = Command::new("sh")
            .args(["-c", &line])
            .env("PATH", &path)
            .env_remove("PERILUNE_PATH")
            .current_dir(folder.path())
            .output()
            .expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        let lacks = [
            ("kprobe:", "this kernel has no PMU 'kprobe'"),
            ("split-lock", NO_COUNTER),
            ("watchdog", NO_DETECTOR),
        ];
        if lacks.iter().any(|(part, why)| line.contains(part) && said.contains(why)) {
            continue;
        }
        assert!(output.status.success() && said.is_empty(), "{line}\n{said}");
        ran += 1;
    }
    assert!(ran >= 20, "{ran} commands were found");
    for file in ["cpu.folded", "cpu.svg", "disk.lat", "disk.svg"] {
        assert!(folder.path().join(file).exists(), "{file}");
    }
}

/// A part of a line, and a check of the line's output.
type Check = (&'static str, fn(&str) -> bool);

/// Checks of the live lines' output, by a part of the line. The programs of
/// [`each_live_one_liner_counts_its_command`] are three times `/bin/true`, and the shell that
/// starts them.
const LIVE: [Check; 9] = [
    ("emit { pid = e._pid, file", |text| text.matches("file=/bin/true").count() == 3),
    ("by:add(e.filename)", |text| has_row(text, &["/bin/true", "3"])),
    ("uprobe:bash:shell_execve", |text| has_row(text, &["bash", "3"])),
    ("uretprobe:bash:make_child", |text| {
        text.lines().any(|line| line.split_whitespace().take(2).eq(["bash", "3"]))
    }),
    ("by:add(e.parent_comm)", |text| has_row(text, &["sh", "3"])),
    ("'probe \"sched:sched_process_exec\"'", |text| {
        text.matches("filename=/bin/true").count() == 3
    }),
    ("raw_syscalls:sys_enter", |text| has_row(text, &["execve", "3"])),
    ("sys_enter_openat", |text| text.lines().any(|line| line.trim_start().starts_with("true "))),
    ("\"page-faults\"", |text| text.lines().any(|line| line.trim_start().starts_with("true "))),
];

fn each_live_one_liner_counts_its_command() {
    let live = one_liners().into_iter().filter(|one| one.from.starts_with("with:"));
    let mut seen = 0;
    for one in live {
        let command = one.from.trim_start_matches("with:");
        let output = run(&one.line, &format!("-- {command}"));
        let (_, holds) =
            LIVE.iter().find(|(part, _)| one.line.contains(part)).expect("it has a check comment");
        let text = text(&output);
        assert!(output.status.success() && holds(&text), "{}:\n{text}", one.line);
        seen += 1;
    }
    assert_eq!(seen, LIVE.len());
}

/// Returns whether a line consists of exactly these words.
fn has_row(text: &str, words: &[&str]) -> bool {
    text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == words)
}
