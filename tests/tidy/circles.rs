//! Imports between files form no circle.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Finding, imports::Crate, source::Source};

/// Reports each set of files that import each other in a circle. A submodule is a part of its
/// module, so its imports from there do not count.
pub(crate) fn imports_form_no_circle(files: &[Source]) -> Vec<Finding> {
    let found = circles(&Crate::read(files).arrows()).into_iter();
    found.map(|circle| {
        format!(
            "{}:1: these files import each other in a circle: {}; move the part that they share to \
             a file below them",
            circle[0],
            circle.join(", ")
        )
    })
    .collect()
}

/// Returns the sets of files that reach each other, each sorted.
fn circles(arrows: &BTreeSet<(&str, &str)>) -> Vec<Vec<String>> {
    let mut targets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in arrows.iter().filter(|(from, to)| !is_within(from, to)) {
        targets.entry(from).or_default().push(to);
    }
    let reach = |from: &str| {
        let (mut seen, mut next) =
            (BTreeSet::new(), targets.get(from).cloned().unwrap_or_default());
        while let Some(file) = next.pop() {
            if seen.insert(file) {
                next.extend(targets.get(file).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        targets.keys().map(|file| (*file, reach(file))).collect();
    let mut circles = BTreeSet::new();
    for (file, others) in &reached {
        let is_back = |other: &&&str| reached.get(**other).is_some_and(|back| back.contains(file));
        let circle: Vec<String> = others.iter().filter(is_back).map(|f| (*f).to_owned()).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// Returns whether a file is a submodule of another one, at any depth.
fn is_within(file: &str, outer: &str) -> bool {
    let folder = outer.strip_suffix(".rs").unwrap_or(outer);
    file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

#[test]
fn a_new_circle_is_found() {
    let files = |b: &str| {
        [
            ("src/lib.rs", "mod a; mod b; mod c;"),
            ("src/a.rs", "mod d; use crate::b::B; pub struct A;"),
            ("src/a/d.rs", "use super::A;"),
            ("src/b.rs", b),
            ("src/c.rs", "use crate::a::A; pub struct C;"),
        ]
        .map(|(path, text)| Source::new(path, text))
    };
    let findings = imports_form_no_circle(&files("pub struct B; fn f() -> crate::c::C { g() }"));
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("src/a.rs, src/b.rs, src/c.rs; "), "{findings:?}");
    assert!(imports_form_no_circle(&files("pub struct B; use crate::a::d;")).is_empty());
    let test = "pub struct B; #[cfg(test)] mod tests { use crate::c::C; }";
    assert!(imports_form_no_circle(&files(test)).is_empty());
}
