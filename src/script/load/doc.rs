//! Documentation of the script API: the annotations in `stdlib/meta/`, which editors read, as plain
//! text.

use crate::script::load::library::api_files;

/// One function: its call, the lines above it, and the classes of its arguments.
struct FunctionDoc<'a> {
    /// `latency(spec)`, `Evsel:filter(format, ...)`.
    call: &'a str,
    lines: Vec<&'a str>,
}

/// Returns the documentation of a function: `latency`, `hist.log2`, or a method by its last name.
pub fn of(name: &str) -> Option<String> {
    let files = texts();
    let mut texts = Vec::new();
    for function in
        files.iter().flat_map(|file| functions(file)).filter(|function| is_called(function, name))
    {
        let mut text = function.call.to_owned();
        for line in &function.lines {
            text.push_str("\n  ");
            text.push_str(&shown(line));
        }
        for class in classes(&function.lines) {
            for line in fields(&files, class) {
                text.push_str("\n    ");
                text.push_str(&line);
            }
        }
        texts.push(text);
    }
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Returns the last name of each function, and its call.
pub fn calls() -> Vec<(String, String)> {
    let files = texts();
    let call = |function: FunctionDoc<'_>| {
        let name = name_of(&function);
        (name.rsplit(':').next().unwrap_or(name).to_owned(), function.call.to_owned())
    };
    files.iter().flat_map(|file| functions(file)).map(call).collect()
}

/// Returns the texts of the annotated files.
fn texts() -> Vec<String> {
    api_files().into_iter().map(|(_, text)| text).collect()
}

/// Returns all documented names, sorted.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = calls().into_iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    names
}

fn functions(file: &str) -> Vec<FunctionDoc<'_>> {
    let (mut found, mut lines) = (Vec::new(), Vec::new());
    for line in file.lines() {
        if let Some(comment) = line.strip_prefix("---") {
            lines.push(comment.strip_prefix(' ').unwrap_or(comment));
            continue;
        }
        let function = line.strip_prefix("function ").and_then(|f| f.strip_suffix(" end"));
        // `evsel` is a table that can be called.
        let word = line.strip_prefix("local ").and_then(|word| word.strip_suffix("_word = {}"));
        if let Some(call) = function.or(word) {
            found.push(FunctionDoc { call, lines: std::mem::take(&mut lines) });
        }
        lines.clear();
    }
    found
}

fn name_of<'a>(function: &FunctionDoc<'a>) -> &'a str {
    function.call.split('(').next().unwrap_or(function.call)
}

fn is_called(function: &FunctionDoc<'_>, name: &str) -> bool {
    let own = name_of(function);
    own == name || own.rsplit(':').next() == Some(name)
}

/// Formats an annotation: `@param spec T` as `spec: T`, `@return T` as `returns T`.
fn shown(line: &str) -> String {
    if let Some(rest) = line.strip_prefix("@param ") {
        return match rest.split_once(' ') {
            Some((name, rest)) => format!("{name}: {rest}"),
            None => rest.to_owned(),
        };
    }
    match line.strip_prefix("@return ") {
        Some(rest) => format!("returns {rest}"),
        None => line.strip_prefix('@').map_or(line, |_| "").to_owned(),
    }
}

/// Returns the classes of the tables that are passed.
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
    fn a_function_is_shown_with_its_arguments_and_the_fields_of_their_tables() {
        let text = of("latency").expect("the function is documented");
        assert!(text.starts_with("latency(spec)\n  Durations by key"), "{text}");
        assert!(text.contains("\n  spec: perilune.LatencySpec\n"), "{text}");
        assert!(text.contains("\n    percentiles? boolean p50, p95 and p99"), "{text}");
        assert_eq!(of("no such function"), None);
    }

    #[test]
    fn a_method_is_found_by_its_name_alone() {
        let text = of("filter").expect("the function is documented");
        assert!(text.contains(":filter("), "{text}");
        assert!(names().iter().any(|name| name == "matching"));
        assert!(calls().contains(&("hex".to_owned(), "hex(value)".to_owned())));
    }
}
