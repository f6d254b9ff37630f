//! What is written about a word: the annotations of `stdlib/meta/`, which editors read, as text for people.

use super::bundle::described;

/// One word: its call, the lines above it, and the classes of its arguments.
struct Described<'a> {
    /// `latency(spec)`, `Evsel:filter(format, ...)`.
    call: &'a str,
    lines: Vec<&'a str>,
}

/// What is written about a word: `latency`, `hist.log2`, or a method by its last name.
pub fn of(name: &str) -> Option<String> {
    let files = described();
    let mut texts = Vec::new();
    for word in files.iter().flat_map(|file| words(file)).filter(|word| is_called(word, name)) {
        let mut text = word.call.to_owned();
        for line in &word.lines {
            text.push_str("\n  ");
            text.push_str(&shown(line));
        }
        for class in classes(&word.lines) {
            for line in fields(&files, class) {
                text.push_str("\n    ");
                text.push_str(&line);
            }
        }
        texts.push(text);
    }
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// The last name of each word, and how it is called.
pub fn calls() -> Vec<(String, String)> {
    let files = described();
    let call = |word: Described<'_>| {
        let name = name_of(&word);
        (name.rsplit(':').next().unwrap_or(name).to_owned(), word.call.to_owned())
    };
    files.iter().flat_map(|file| words(file)).map(call).collect()
}

/// Everything that something is written about.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = calls().into_iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    names
}

fn words(file: &str) -> Vec<Described<'_>> {
    let (mut found, mut lines) = (Vec::new(), Vec::new());
    for line in file.lines() {
        if let Some(comment) = line.strip_prefix("---") {
            lines.push(comment.strip_prefix(' ').unwrap_or(comment));
            continue;
        }
        if let Some(call) = line.strip_prefix("function ").and_then(|f| f.strip_suffix(" end")) {
            found.push(Described { call, lines: std::mem::take(&mut lines) });
        }
        lines.clear();
    }
    found
}

fn name_of<'a>(word: &Described<'a>) -> &'a str {
    word.call.split('(').next().unwrap_or(word.call)
}

fn is_called(word: &Described<'_>, name: &str) -> bool {
    let own = name_of(word);
    own == name || own.rsplit(':').next() == Some(name)
}

/// `@param spec T` reads `spec: T`; `@return T` reads `gives T`.
fn shown(line: &str) -> String {
    if let Some(rest) = line.strip_prefix("@param ") {
        return match rest.split_once(' ') {
            Some((name, rest)) => format!("{name}: {rest}"),
            None => rest.to_owned(),
        };
    }
    match line.strip_prefix("@return ") {
        Some(rest) => format!("gives {rest}"),
        None => line.strip_prefix('@').map_or(line, |_| "").to_owned(),
    }
}

/// The classes of tables that are passed.
fn classes<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let params = lines.iter().filter_map(|line| line.strip_prefix("@param "));
    let class = |param: &'a str| {
        param.split([' ', '|', '?']).find(|t| t.starts_with("perilune.") && t.ends_with("Spec"))
    };
    params.filter_map(class).collect()
}

fn fields(files: &[String], class: &str) -> Vec<String> {
    let head = format!("---@class {class}");
    for file in files {
        let mut lines = file.lines().skip_while(|line| *line != head).skip(1).peekable();
        if lines.peek().is_some() {
            let field = |line: &str| line.strip_prefix("---@field ").map(str::to_owned);
            return lines.map_while(field).collect();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_told_with_its_arguments_and_what_their_tables_hold() {
        let text = of("latency").expect("it is described");
        assert!(text.starts_with("latency(spec)\n  Durations by key"), "{text}");
        assert!(text.contains("\n  spec: perilune.LatencySpec\n"), "{text}");
        assert!(text.contains("\n    percentiles? boolean p50, p95 and p99"), "{text}");
        assert_eq!(of("no such word"), None);
    }

    #[test]
    fn a_method_is_found_by_its_own_name() {
        let text = of("filter").expect("it is described");
        assert!(text.contains(":filter("), "{text}");
        assert!(names().iter().any(|name| name == "matching"));
        assert!(calls().contains(&("hex".to_owned(), "hex(value)".to_owned())));
    }
}
