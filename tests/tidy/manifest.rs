//! Rules for `Cargo.toml`.

use crate::{Finding, source::Source};

/// Reports dependencies without their reason in the comment line above.
pub(crate) fn each_dependency_has_its_reason(file: &Source) -> Vec<Finding> {
    if file.path.rsplit('/').next() != Some("Cargo.toml") {
        return Vec::new();
    }
    let (mut findings, mut inside, mut above) = (Vec::new(), false, "");
    for (i, line) in file.text.lines().enumerate() {
        if let Some(table) = line.strip_prefix('[') {
            inside = table.trim_end_matches(']').ends_with("dependencies");
            // `[dependencies.name]` is one dependency.
            if let Some((_, name)) = table.trim_end_matches(']').split_once("dependencies.") {
                check(file, i, name, above, &mut findings);
            }
        } else if let Some((name, _)) = line.split_once('=').filter(|_| inside)
            && line.starts_with(|c: char| c.is_ascii_alphabetic())
        {
            check(file, i, name.trim(), above, &mut findings);
        }
        above = line;
    }
    findings
}

fn check(file: &Source, line: usize, name: &str, above: &str, findings: &mut Vec<Finding>) {
    if !above.starts_with("# ") {
        let what = format!("no reason above the dependency `{name}`; state what it saves");
        findings.push(file.at(line, what));
    }
}

#[test]
fn a_dependency_without_its_reason_is_found() {
    let text = "[package]\nname = \"a\"\n[dependencies]\n# Text.\nb = \"1\"\nc = \"1\"\n\
                [target.'cfg(unix)'.dev-dependencies]\nd = \"1\"\n[dependencies.e]\nversion \
                = \"1\"\n";
    let findings = each_dependency_has_its_reason(&Source::new("Cargo.toml", text));
    assert_eq!(findings.len(), 3, "{findings:?}");
    assert!(findings[0].starts_with("Cargo.toml:6: "), "{findings:?}");
    assert!(each_dependency_has_its_reason(&Source::new("fuzz/a.toml", text)).is_empty());
}
