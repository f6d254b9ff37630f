//! Line lengths, phrases that plain technical English avoids, and names of public types.

use std::collections::HashMap;

use crate::{Finding, source::Source};

/// Maximum number of characters of a line.
const WIDTH: usize = 100;

/// Words to avoid and their replacements. Each is written in two parts, so that this file does not
/// contain it.
const WORDS: &[(&str, &str)] = &[
    (concat!("to", "ld"), "reported, passed, known"),
    (concat!("te", "lls"), "reports, shows, prints"),
    (concat!("te", "ll"), "report, show, print"),
    (concat!("tel", "ling"), "reporting, showing, printing"),
    (concat!("some", "body"), "another process, a user"),
    (concat!("no", "body"), "no process, no user"),
    (concat!("some", "one"), "another process, a user"),
    (concat!("any", "body"), "any process, any user"),
    (concat!("any", "one"), "any process, any user"),
    (concat!("who", "ever"), "each process that, the user who"),
];

/// Phrases to avoid and their replacements.
const PHRASES: &[(&str, &str)] =
    &[(concat!("leave it ", "away"), "omit it"), (concat!("left ", "away"), "omitted")];

/// Reports lines of code, comments and documents that are too long. Literals over several lines,
/// tables and code blocks of documents, and annotations of one type cannot be split.
pub(crate) fn lines_are_short(file: &Source) -> Vec<Finding> {
    if !(file.is("rs") || file.is("lua")) {
        return Vec::new();
    }
    let lines = file.text.lines().zip(file.code.lines().chain(std::iter::repeat("")));
    let long = lines.enumerate().filter(|(_, (line, code))| {
        // A line without code and comment lies within a literal.
        let within_literal =
            file.is("rs") && code.trim().is_empty() && !line.trim_start().starts_with("//");
        let fixed = line.trim_start().starts_with("---@overload") || line.contains("[[");
        let fixed = fixed || line.contains("r#\"") || line.contains("\"#");
        line.chars().count() > WIDTH && !within_literal && !fixed
    });
    long.map(|(i, (line, _))| {
        file.at(i, format!("{} characters, {WIDTH} at most", line.chars().count()))
    })
    .collect()
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") || line.starts_with("--")
}

/// Reports words and phrases that have a plainer replacement.
pub(crate) fn texts_are_plain(file: &Source) -> Vec<Finding> {
    if !["rs", "lua", "md"].iter().any(|extension| file.is(extension)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (i, line) in file.text.lines().enumerate() {
        let lower = line.to_lowercase();
        let mut words = lower.split(|c: char| !c.is_alphanumeric());
        let word = words.find_map(|word| WORDS.iter().find(|(avoid, _)| *avoid == word));
        let phrase = PHRASES.iter().find(|(avoid, _)| lower.contains(avoid));
        if let Some((avoid, instead)) = word.or(phrase) {
            findings.push(file.at(i, format!("`{avoid}`; write: {instead}")));
        }
        if denies(&lower) {
            findings.push(file.at(i, concat!("`is ", "no X`; write: is not a X")));
        }
        if file.is("rs") && is_comment(line) && has_sentence_with_what(line) {
            findings.push(file.at(i, "a sentence begins with `What`; begin with its subject"));
        }
    }
    findings
}

/// Whether a line has "is no" before a noun, other than in "there is no".
fn denies(lower: &str) -> bool {
    const DENIAL: &str = concat!(" is ", "no ");
    lower.match_indices(DENIAL).any(|(at, _)| {
        let (before, after) = (&lower[..at], &lower[at + DENIAL.len()..]);
        let is_count = ["longer", "more", "less", "other"].iter().any(|w| after.starts_with(w));
        !before.ends_with("there") && !is_count
    })
}

/// Whether a sentence of a comment, but not a question, begins with "What".
fn has_sentence_with_what(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!', '-']).trim_start();
    (text.starts_with("What ") || text.contains(". What ")) && !text.contains('?')
}

/// Returns a finding for each public type whose name another public type has.
pub(crate) fn names_of_types_are_unique(files: &[Source]) -> Vec<Finding> {
    let mut places: HashMap<&str, Vec<String>> = HashMap::new();
    let is_test = |path: &str| path.contains("/tests/") || path.ends_with("/tests.rs");
    let types = |file: &&Source| file.is("rs") && file.path.starts_with("src/");
    for file in files.iter().filter(types).filter(|file| !is_test(&file.path)) {
        for (i, line) in file.code.lines().enumerate() {
            if let Some(name) = public_type(line) {
                places.entry(name).or_default().push(format!("{}:{}", file.path, i + 1));
            }
        }
    }
    let mut findings: Vec<Finding> = places
        .iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("{}: several types are named {name}", places.join(", ")))
        .collect();
    findings.sort();
    findings
}

/// Returns the name of the type that a line declares, if other modules can use it.
fn public_type(line: &str) -> Option<&str> {
    let (visibility, rest) = line.trim_start().split_once(' ')?;
    let rest = match visibility {
        "pub(in" => rest.split_once(' ')?.1,
        "pub" | "pub(crate)" | "pub(super)" => rest,
        _ => return None,
    };
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_found() {
        let long = format!("// {}\n", "x".repeat(WIDTH));
        assert_eq!(lines_are_short(&Source::new("src/a.rs", long.as_str())).len(), 1);
        assert_eq!(lines_are_short(&Source::new("a.md", long.as_str())).len(), 0);
        let literal = format!("const A: &str = \"\n{}\n\";\n", "x".repeat(WIDTH + 1));
        assert_eq!(lines_are_short(&Source::new("src/a.rs", literal)).len(), 0);
    }

    #[test]
    fn a_word_or_phrase_to_avoid_is_found() {
        for (avoid, _) in WORDS.iter().chain(PHRASES) {
            assert_eq!(texts_are_plain(&Source::new("a.md", format!("it {avoid} x"))).len(), 1);
        }
        let denial = concat!("this is ", "no file");
        for (text, findings) in [
            (denial, 1),
            (concat!("there is ", "no file"), 0),
            (concat!("it is ", "no longer here"), 0),
            ("/// What it does.", 1),
            ("/// It runs. What it does is clear.", 1),
            ("let text = \"It runs. What it does\";", 0),
            ("// What is it?", 0),
        ] {
            assert_eq!(texts_are_plain(&Source::new("src/a.rs", text)).len(), findings, "{text}");
        }
    }

    #[test]
    fn two_public_types_of_one_name_are_found() {
        let file = |path, text| Source::new(path, text);
        let files = [
            file("src/a.rs", "pub struct Row {\n}\nstruct Own;\npub enum Kind {}"),
            file("src/b.rs", "pub struct Row;\npub(in crate::a) struct Kind;\nstruct Own;"),
            file("src/b/tests.rs", "pub(super) struct Kind;"),
            file("tests/a.rs", "pub struct Kind;"),
        ];
        let findings = names_of_types_are_unique(&files);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("src/a.rs:1, src/b.rs:1"), "{findings:?}");
        assert!(findings[1].contains("src/a.rs:4, src/b.rs:2"), "{findings:?}");
    }
}
