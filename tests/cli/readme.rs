//! The README, compared with the program: its table of monitors equals that of `perilune monitors`,
//! its scripts load, its commands run.

use std::fs;
use std::path::Path;
use std::process::Command;

fn readme() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    fs::read_to_string(path).expect("README.md is there")
}

/// Returns the text between `<!-- NAME -->` and `<!-- /NAME -->`.
fn part<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, behind) = text.split_once(&format!("<!-- {name} -->\n")).expect("it begins");
    behind.split_once(&format!("<!-- /{name} -->")).expect("it ends").0
}

fn perilune(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    // Only the bundled monitors: the user may have others.
    let output = command.args(words).env_remove("PERILUNE_PATH").env("HOME", "/").output();
    let output = output.expect("the built command runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_table_of_monitors_is_that_of_the_program() {
    let all = perilune(&["monitors"]);
    let bundled = all.lines().filter_map(|line| line.strip_suffix("bundled"));
    let rows = bundled.map(|line| {
        let (name, summary) = line.split_once(' ').expect("a name and a summary");
        format!("| `{name}` | {} |\n", summary.trim())
    });
    let table = format!("| monitor | what it shows |\n|-|-|\n{}", rows.collect::<String>());
    assert_eq!(part(&readme(), "monitors"), table, "insert this into README.md:\n{table}");
}

#[test]
fn every_script_of_the_readme_loads() {
    let text = readme();
    let scripts: Vec<&str> =
        text.split("```lua\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!scripts.is_empty());
    for script in scripts {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("readme.lua");
        fs::write(&path, script).unwrap();
        let help = perilune(&["help", path.to_str().unwrap()]);
        assert!(help.contains("Usage: perilune"), "{help}");
    }
}

/// Programs that its commands start; `/bin/true` replaces them.
const PROGRAMS: [&str; 2] = ["make", "prog"];

/// Message of split-lock on a machine without hardware counters.
const NO_COUNTER: &str = "its hardware counters are not available here";

#[test]
fn every_command_of_the_readme_runs_unchanged() {
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        assert!(std::env::var_os("CI").is_none(), "cannot run on a build machine: not root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_perilune"), folder.path().join("perilune"))
        .unwrap();
    for program in PROGRAMS {
        std::os::unix::fs::symlink("/bin/true", folder.path().join(program)).unwrap();
    }
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let text = readme();
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
        let lacks = [("kprobe:", "this kernel has no PMU 'kprobe'"), ("split-lock", NO_COUNTER)];
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
