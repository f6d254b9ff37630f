//! Test programs that list their own tests.

use crate::{Finding, source::Source};

/// Reports `#[test]` in programs with `harness = false`: the compiler removes such a function, so
/// the test would never run.
pub(crate) fn listed_tests_have_no_attribute(files: &[Source]) -> Vec<Finding> {
    let manifest = files.iter().find(|file| file.path == "Cargo.toml");
    let own = manifest.map_or_else(Vec::new, |file| without_harness(&file.text));
    let mut findings = Vec::new();
    for file in files {
        let Some(path) = file.path.strip_prefix("tests/") else { continue };
        let program = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        if !own.contains(&program) {
            continue;
        }
        let lines = file.code.lines().enumerate();
        for (i, _) in lines.filter(|(_, line)| line.trim() == "#[test]") {
            findings.push(file.at(i, "#[test] has no effect in this program; list the test"));
        }
    }
    findings
}

/// Returns the names of the `[[test]]` tables with `harness = false`.
fn without_harness(manifest: &str) -> Vec<&str> {
    let tables = manifest.split("\n[").filter(|table| table.starts_with("[test]]"));
    let own = tables.filter(|table| table.lines().any(|line| line == "harness = false"));
    let names = own.filter_map(|table| table.split_once("name = \"")?.1.split('"').next());
    names.collect()
}

#[test]
fn a_test_attribute_in_a_program_without_the_harness_is_found() {
    let manifest =
        "[package]\n[[test]]\nname = \"live\"\nharness = false\n\n[[test]]\nname = \"a\"\n";
    let test = "//! A test.\n\n#[test]\nfn it_works() {}\n";
    let files = [
        Source::new("Cargo.toml", manifest),
        Source::new("tests/live/part.rs", test),
        Source::new("tests/live.rs", test),
        Source::new("tests/a/part.rs", test),
    ];
    let findings = listed_tests_have_no_attribute(&files);
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].starts_with("tests/live/part.rs:3: "), "{findings:?}");
}
