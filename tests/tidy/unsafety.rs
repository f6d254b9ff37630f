//! Places in which `unsafe` is allowed, and its required comments.

use crate::{Finding, source::Source};

/// Files of the crate that may contain `unsafe`, besides `src/sys/` and each `leaf.rs` below
/// `src/stat/`: code that gives Lua access to raw memory or passes records to it.
const ALLOWED: &[&str] = &[
    "src/run/replayed.rs",
    "src/script/api/emit.rs",
    "src/script/context/leaf.rs",
    "src/script/context/record.rs",
    "src/script/context/shared.rs",
    "src/script/dispatch/failing.rs",
    "src/script/dispatch/view.rs",
    "src/script/host/sink.rs",
    "src/script/prompt/sink.rs",
    "src/script/served/sink.rs",
    "src/script/vm.rs",
    "src/script/vm/guard.rs",
    "src/script/vm/guard/hook.rs",
    "src/script/vm/guard/hook_check.rs",
    "src/script/vm/patterns.rs",
    "src/script/vm/sampler.rs",
    "src/source/live/drain.rs",
    "src/source/ring/chains/tests.rs",
    "src/source/sink.rs",
];

/// Reports `unsafe` outside the few allowed files, which keeps the code that must be audited small.
pub(crate) fn unsafe_is_in_few_files(file: &Source) -> Vec<Finding> {
    let path = file.path.as_str();
    let allowed = !path.starts_with("src/")
        || path.starts_with("src/sys/")
        || path.starts_with("src/stat/") && path.ends_with("/leaf.rs")
        || ALLOWED.contains(&path);
    if allowed {
        return Vec::new();
    }
    let what = "`unsafe` outside the allowed files; put a safe function into src/sys/ and call it";
    uses(file).map(|(line, _)| file.at(line, what)).collect()
}

/// Reports an `unsafe` without `SAFETY:` in the comment above, or a public unsafe function without
/// `# Safety` in its docs. A private function may leave this to the blocks inside, for which the
/// compiler requires them.
pub(crate) fn every_unsafe_has_a_safety_comment(file: &Source) -> Vec<Finding> {
    let what = "`unsafe` without `SAFETY:` above; state why it is sound";
    uses(file)
        .filter(|(line, after)| !is_pointer_type(after) && !is_private_function(file, *line, after))
        .filter(|(line, _)| !explained(file, *line))
        .map(|(line, _)| file.at(line, what))
        .collect()
}

/// Beginnings of a reason that stands elsewhere.
const REFERENCES: &[&str] =
    &["as above", "as in ", "likewise", "see above", "the caller's promise"];

/// Reports `SAFETY:` comments that only refer to another one: it moves or changes, and nothing
/// checks that the reason holds for both.
pub(crate) fn each_safety_comment_has_its_own_reason(file: &Source) -> Vec<Finding> {
    let refers = |line: &str| {
        let comment = line.trim_start().strip_prefix("// SAFETY: ")?;
        REFERENCES.iter().find(|reference| comment.starts_with(**reference))
    };
    let lines = file.text.lines().enumerate().filter(|_| file.is("rs"));
    let found = lines.filter_map(|(line, text)| Some((line, refers(text)?)));
    found.map(|(line, what)| file.at(line, format!("`{what}`; state the reason itself"))).collect()
}

/// Returns each `unsafe` of the code: its line, and the text that follows it there.
fn uses(file: &Source) -> impl Iterator<Item = (usize, &str)> {
    file.code.lines().enumerate().flat_map(|(line, code)| {
        code.match_indices("unsafe").filter_map(move |(at, word)| {
            let (before, after) = (&code[..at], &code[at + word.len()..]);
            let part = |c: char| c.is_alphanumeric() || c == '_';
            let whole = !before.ends_with(part) && !after.starts_with(part);
            whole.then_some((line, after))
        })
    })
}

/// Returns whether this is `unsafe extern "C" fn(…)` as a type, which makes no promise.
fn is_pointer_type(after: &str) -> bool {
    let head = after.split('(').next().unwrap_or_default().trim_end();
    after.contains('(') && (head.ends_with(" fn") || head == "fn")
}

fn is_private_function(file: &Source, line: usize, after: &str) -> bool {
    let public = file.code.lines().nth(line).is_some_and(|l| l.trim_start().starts_with("pub"));
    let after = after.trim_start();
    // The ABI is a literal, so it is blank here.
    !public && after.strip_prefix("extern").unwrap_or(after).trim_start().starts_with("fn ")
}

/// Returns whether the line, or the comments above its statement, contain an explanation.
fn explained(file: &Source, line: usize) -> bool {
    let text: Vec<&str> = file.text.lines().collect();
    let code: Vec<&str> = file.code.lines().collect();
    let says = |i: usize| text[i].contains("SAFETY:") || text[i].contains("# Safety");
    if says(line) {
        return true;
    }
    for above in (0..line).rev() {
        let comment = text[above].trim_start().starts_with("//");
        if comment && says(above) {
            return true;
        }
        let ends = code[above].trim_end();
        if !comment && (ends.is_empty() || ends.ends_with([';', '{', '}', ','])) {
            return false;
        }
    }
    false
}

#[test]
fn unsafe_in_a_layer_without_it_is_found() {
    let text = "// SAFETY: no\nfn f() { unsafe { g() } }";
    assert_eq!(unsafe_is_in_few_files(&Source::new("src/decode/record.rs", text)).len(), 1);
    for path in ["src/sys/ring.rs", "src/stat/states/leaf.rs", "src/script/vm.rs"] {
        assert!(unsafe_is_in_few_files(&Source::new(path, text)).is_empty(), "{path}");
    }
    let text = "//! unsafe\nfn unsafe_window() { \"unsafe\" }";
    assert!(unsafe_is_in_few_files(&Source::new("src/run.rs", text)).is_empty());
}

#[test]
fn an_unsafe_without_its_reason_is_found() {
    for text in [
        "fn f() {\n    unsafe { g() }\n}",
        "// SAFETY: the first only\nlet a = unsafe { g() };\nlet b = unsafe { g() };",
        "unsafe impl Send for A {}",
        "/// Does it.\npub unsafe fn f() {}",
        "unsafe extern \"C\" {\n    fn f();\n}",
    ] {
        let file = Source::new("src/sys/a.rs", text);
        assert_eq!(every_unsafe_has_a_safety_comment(&file).len(), 1, "{text}");
    }
}

#[test]
fn an_unsafe_with_its_reason_is_fine() {
    for text in [
        "fn f() {\n    // SAFETY: g has no conditions\n    // at all\n    unsafe { g() }\n}",
        "// SAFETY: no conditions\nlet a =\n    unsafe { g() };",
        "/// # Safety\n/// None.\n#[inline]\npub unsafe fn f() {}",
        "unsafe extern \"C\" fn f<T>(t: T) {\n",
        "type Leaf = unsafe extern \"C\" fn(f64);",
    ] {
        let findings = every_unsafe_has_a_safety_comment(&Source::new("src/sys/a.rs", text));
        assert!(findings.is_empty(), "{findings:?}");
    }
}

#[test]
fn a_reference_in_place_of_a_reason_is_found() {
    for (text, findings) in [
        ("    // SAFETY: likewise.\n", 1),
        ("// SAFETY: as above; the slot is valid.\n", 1),
        ("// SAFETY: the slot is valid.\n", 0),
        ("let text = \"// SAFETY: as above\";\n", 0),
    ] {
        let file = Source::new("src/sys/a.rs", text);
        assert_eq!(each_safety_comment_has_its_own_reason(&file).len(), findings, "{text}");
    }
}
