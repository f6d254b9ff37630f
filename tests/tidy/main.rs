//! House rules that a machine can check, over every file of the tree.
//!
//! A rule is a function from a file to its findings, each `path:line: what; what to do`. Each rule
//! has a test on a sample that breaks it, so a rule that no longer detects anything fails as well.
//! Rules do not repeat checks of the compiler or clippy.

mod circles;
mod errors;
mod functions;
mod harness;
mod imports;
mod language;
mod layers;
mod licences;
mod lines;
mod manifest;
mod source;
mod streams;
mod unsafety;

use source::Source;

/// One broken rule: `path:line: what; what to do`.
type Finding = String;

/// Every rule, in the order in which findings are printed.
const RULES: &[fn(&Source) -> Vec<Finding>] = &[
    layers::imports_point_down,
    unsafety::unsafe_is_in_few_files,
    unsafety::every_unsafe_has_a_safety_comment,
    unsafety::each_safety_comment_has_its_own_reason,
    lines::files_are_short,
    functions::functions_are_short,
    lines::rust_opens_with_a_sentence,
    lines::lua_opens_with_a_sentence,
    lines::file_names_describe_their_content,
    lines::nothing_is_left_for_later,
    lines::rust_has_no_stray_blanks,
    lines::a_monitor_fits_a_screen,
    lines::no_path_of_one_machine,
    streams::one_file_opens_the_standard_streams,
    streams::one_file_creates_files,
    manifest::each_dependency_has_its_reason,
    language::lines_are_short,
    language::texts_are_plain,
    errors::public_fallible_functions_state_their_errors,
];

#[test]
fn the_tree_keeps_the_house_rules() {
    let files = source::tree(env!("CARGO_MANIFEST_DIR").as_ref());
    for expected in ["Cargo.toml", "src/lib.rs", "tests/tidy/main.rs"] {
        assert!(files.iter().any(|f| f.path == expected), "the walk did not reach {expected}");
    }
    let mut findings: Vec<Finding> =
        files.iter().flat_map(|f| RULES.iter().flat_map(|r| r(f))).collect();
    findings.extend(circles::imports_form_no_circle(&files));
    findings.extend(harness::listed_tests_have_no_attribute(&files));
    findings.extend(language::names_of_types_are_unique(&files));
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}
