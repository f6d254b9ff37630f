//! Licences of the dependencies: which are allowed, and which need a notice.

use std::process::Command;

use serde_json::Value;

/// Licences that a distributed binary may contain without a further condition than their text.
const ALLOWED: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates with another licence, which `NOTICE` names with what it asks for.
const NOTICED: &[(&str, &str)] = &[("inferno", "CDDL-1.0"), ("tiny-keccak", "CC0-1.0")];

/// Returns whether an SPDX expression can be met by allowed licences alone. Older crates write `/`
/// for `OR`.
fn is_allowed(licence: &str) -> bool {
    let text = licence.replace('/', " OR ").replace(['(', ')'], " ");
    let met = |one: &str| {
        let name = one.split(" WITH ").next().unwrap_or_default().trim();
        ALLOWED.contains(&name)
    };
    text.split(" AND ").all(|part| part.split(" OR ").any(met))
}

#[test]
fn each_dependency_has_an_allowed_licence_or_a_notice() {
    let root = env!("CARGO_MANIFEST_DIR");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata failed: {errors}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    assert!(packages.len() > 50, "only {} packages", packages.len());
    let notice = std::fs::read_to_string(format!("{root}/NOTICE")).expect("NOTICE can be read");
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().unwrap_or_default();
        let noticed = NOTICED.contains(&(name, licence)) && notice.contains(name);
        assert!(noticed || is_allowed(licence), "{name}: licence `{licence}` is not allowed");
    }
}

#[test]
fn a_licence_with_a_choice_is_allowed_by_one_of_them() {
    for (licence, allowed) in [
        ("MIT OR Apache-2.0", true),
        ("MIT/GPL-3.0", true),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("MIT AND GPL-3.0", false),
        ("CDDL-1.0", false),
        ("", false),
    ] {
        assert_eq!(is_allowed(licence), allowed, "{licence}");
    }
}
