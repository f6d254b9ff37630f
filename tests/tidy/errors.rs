//! Documented errors of public functions.

use crate::{Finding, source::Source};

/// Maximum number of lines of a signature.
const SIGNATURE_LINES: usize = 20;

/// Reports public functions that return a `Result` and whose documentation has no section
/// `# Errors`. Clippy checks only those that other crates can call.
pub(crate) fn public_fallible_functions_state_their_errors(file: &Source) -> Vec<Finding> {
    if !file.is("rs") || !file.path.starts_with("src/") {
        return Vec::new();
    }
    let (code, text): (Vec<_>, Vec<_>) = (file.code.lines().collect(), file.text.lines().collect());
    let mut findings = Vec::new();
    for (line, _) in code.iter().enumerate().filter(|(_, code)| is_public_function(code)) {
        let above = text[..line].iter().rev();
        let mut docs = above.map(|l| l.trim_start()).take_while(|l| l.starts_with(['/', '#']));
        if is_fallible(&code[line..]) && !docs.any(|doc| doc == "/// # Errors") {
            findings.push(file.at(line, "no section `# Errors`; state what makes it fail"));
        }
    }
    findings
}

fn is_public_function(line: &str) -> bool {
    let words = line.split_whitespace().take_while(|word| *word != "fn");
    let mut words = words.peekable();
    words.next_if_eq(&"pub").is_some()
        && line.contains(" fn ")
        && words.all(|word| ["const", "unsafe", "extern"].contains(&word))
}

/// Returns whether the function whose signature begins here returns a `Result`.
fn is_fallible(code: &[&str]) -> bool {
    let ends = |line: &&str| line.trim_end().ends_with(['{', ';', '}']);
    let last = code.iter().take(SIGNATURE_LINES).position(ends).unwrap_or(0);
    let signature = code[..=last].join(" ");
    let returned = signature.split_once("-> ").map_or("", |(_, returned)| returned);
    let name = returned.split(['<', ' ', '{']).next().unwrap_or_default();
    name.rsplit("::").next() == Some("Result")
}

#[test]
fn a_fallible_function_without_its_errors_is_found() {
    let count = |text: &str| {
        public_fallible_functions_state_their_errors(&Source::new("src/a.rs", text)).len()
    };
    assert_eq!(count("/// Reads.\npub fn read() -> io::Result<u8> {\n}\n"), 1);
    assert_eq!(count("pub const fn read(\n    a: u8,\n) -> Result<u8, Fault>\nwhere A: B {\n"), 1);
    let documented = "/// Reads.\n///\n/// # Errors\n/// It fails.\n#[inline]\n";
    assert_eq!(count(&format!("{documented}pub fn read() -> Result<u8> {{\n")), 0);
    for text in [
        "pub fn read() -> Option<Result<u8>> {\n",
        "pub fn read(f: fn() -> u8) {\n",
        "fn read() -> Result<u8> {\n",
        "pub(crate) fn read() -> Result<u8> {\n",
    ] {
        assert_eq!(count(text), 0, "{text}");
    }
}
