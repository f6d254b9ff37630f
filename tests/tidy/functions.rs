//! Functions are short.

use crate::{Finding, source::Source};

/// Maximum number of lines of a function, from its signature to its closing brace.
const LONGEST: usize = 80;

/// Reports functions that are too long: a step of their own belongs into a function of its own.
pub(crate) fn functions_are_short(file: &Source) -> Vec<Finding> {
    if !file.is("rs") {
        return Vec::new();
    }
    let long = functions(&file.code).into_iter().filter(|(_, _, lines)| *lines > LONGEST);
    long.map(|(line, name, lines)| {
        file.at(line, format!("`{name}` has {lines} lines, {LONGEST} at most; split it by steps"))
    })
    .collect()
}

/// Returns each function with a body: the index of its first line, its name, and its length.
/// rustfmt aligns the closing brace with the first line.
fn functions(code: &str) -> Vec<(usize, &str, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut found = Vec::new();
    for (first, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let own = indent(line);
        // A line without a body ends at this depth with `;`, or in this line.
        let rest = lines[first..].iter().position(|l| {
            let ends = l.trim_end();
            indent(l) == own
                && (ends.trim_start() == "}" || ends.ends_with(';') || ends.ends_with('}'))
        });
        if let Some(last) = rest {
            found.push((first, name, last + 1));
        }
    }
    found
}

/// Returns the name of the function that a line begins.
fn function_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let before = match before.trim_start().strip_prefix("pub") {
        Some(after) => {
            after.strip_prefix('(').and_then(|to| to.split_once(')')).map_or(after, |x| x.1)
        }
        None => before,
    };
    let modifier = |word: &str| ["const", "async", "unsafe", "extern"].contains(&word);
    let name = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
    (before.split_whitespace().all(modifier) && !name.is_empty()).then_some(name)
}

#[test]
fn a_long_function_is_found() {
    let body = "    x();\n".repeat(LONGEST - 1);
    for head in [
        "fn f() {",
        "pub(in crate::x) fn f() {",
        "pub(crate) unsafe extern \"C\" fn f<T>(\n    a: T,\n) {",
    ] {
        let text = format!("{head}\n{body}}}\nfn g() {{}}\n");
        assert_eq!(functions_are_short(&Source::new("src/a.rs", text)).len(), 1, "{head}");
    }
    let short =
        format!("trait T {{\n    fn f(\n        &self);\n}}\nfn g() {{\n{}}}\n", &body[9..]);
    assert!(functions_are_short(&Source::new("src/a.rs", short)).is_empty());
}
