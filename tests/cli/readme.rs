//! The README, compared with the program: its table of monitors equals that of `perilune monitors`,
//! and its scripts load. `tests/kernel` runs its commands.

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
    let row = |line: &str| match line.trim().strip_suffix("bundled") {
        Some(line) => {
            let (name, summary) = line.split_once(' ').expect("a name and a summary");
            format!("| [`{name}`](docs/monitors/{name}.md) | {} |\n", summary.trim())
        }
        None => format!("| **{line}** | |\n"),
    };
    let rows: String = all.lines().map(row).collect();
    let table = format!("| monitor | what it shows |\n|-|-|\n{rows}");
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
