//! A file of the tree: its text, and its code without comments and literals.

use std::path::Path;

/// A text file of the tree.
pub(crate) struct Source {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    /// The contents on disk.
    pub(crate) text: String,
    /// For a Rust file: `text` with comments and the contents of literals blanked, so that lines
    /// and columns stay the same. Otherwise empty.
    pub(crate) code: String,
}

impl Source {
    /// Creates a file from its path and text.
    pub(crate) fn new(path: impl Into<String>, text: impl Into<String>) -> Source {
        let (path, text) = (path.into(), text.into());
        let code = if path.ends_with(".rs") { blank(&text) } else { String::new() };
        Source { path, text, code }
    }

    /// Returns whether the name ends in `.` and this extension.
    pub(crate) fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, e)| e == extension)
    }

    /// Returns a finding at a line, counted from 0.
    pub(crate) fn at(&self, line: usize, what: impl std::fmt::Display) -> String {
        format!("{}:{}: {what}", self.path, line + 1)
    }
}

/// Returns every text file below `root`, except for build output, downloads and files that git
/// ignores. Sorted by path.
pub(crate) fn tree(root: &Path) -> Vec<Source> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the tree can be read") {
            let path = entry.expect("an entry of the tree can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !matches!(name.as_str(), ".git" | "target" | "corpus" | "artifacts") {
                    folders.push(path);
                }
            } else if name != ".git"
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                let below = path.strip_prefix(root).expect("the walk stays below its root");
                files.push(Source::new(below.to_string_lossy(), text));
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Returns Rust code with each byte of comments and of the contents of literals replaced by a
/// blank; newlines stay.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = if is_word(at.checked_sub(1).and_then(|i| bytes.get(i))) {
            at + 1
        } else {
            literal_end(bytes, at)
        };
        if end > at + 1 {
            for byte in &mut out[at..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
        }
        at = end;
    }
    String::from_utf8(out).expect("whole literals were blanked")
}

/// Returns where the comment or literal that begins at `at` ends; `at + 1` if none begins there.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let found = |needle: &[u8], from: usize| {
        rest[from.min(rest.len())..]
            .windows(needle.len())
            .position(|w| w == needle)
            .map_or(bytes.len(), |i| at + from + i + needle.len())
    };
    match rest {
        [b'/', b'/', ..] => found(b"\n", 2) - usize::from(found(b"\n", 2) < bytes.len()),
        [b'/', b'*', ..] => block_end(bytes, at),
        [b'"', ..] => quote_end(bytes, at),
        [b'b' | b'c', b'"', ..] => quote_end(bytes, at + 1),
        [b'r', b'"' | b'#', ..] | [b'b' | b'c', b'r', b'"' | b'#', ..] => {
            let from = rest.iter().position(|b| *b == b'r').unwrap_or(0) + 1;
            let hashes = rest[from..].iter().take_while(|b| **b == b'#').count();
            if rest.get(from + hashes) != Some(&b'"') {
                return at + 1; // `r#name`
            }
            found(&[&b"\""[..], &b"#".repeat(hashes)].concat(), from + hashes + 1)
        }
        [b'\'', b'\\', ..] => found(b"'", 3),
        [b'b', b'\'', b'\\', ..] => found(b"'", 4),
        [b'b', b'\'', _, b'\'', ..] => at + 4,
        // A lifetime has no quote after its first character.
        [b'\'', ..] => {
            let next = std::str::from_utf8(&rest[1..rest.len().min(5)]);
            let width = match next {
                Ok(s) => s.chars().next(),
                Err(e) => std::str::from_utf8(&rest[1..1 + e.valid_up_to()])
                    .ok()
                    .and_then(|s| s.chars().next()),
            };
            match width.map(char::len_utf8) {
                Some(w) if rest.get(1 + w) == Some(&b'\'') => at + w + 2,
                _ => at + 1,
            }
        }
        _ => at + 1,
    }
}

/// Returns the end of a `/* */` comment; they nest.
fn block_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i + 1 < bytes.len() {
        match &bytes[i..i + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                i += 1;
                continue;
            }
        }
        i += 2;
        if depth == 0 {
            return i;
        }
    }
    bytes.len()
}

/// Returns the end of a `"` literal.
fn quote_end(bytes: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' => i += 2,
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    bytes.len()
}

fn is_word(byte: Option<&u8>) -> bool {
    byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

#[test]
fn only_code_is_left_of_a_rust_file() {
    let text = "a(\"unsafe \\\" x\"); // unsafe\nb(r#\"unsafe \" y\"#, 'u', '\\'', 'é', b'\"', b'\\''); \
                /* unsafe /* x */ */ c::<'l>();";
    let code = Source::new("a.rs", text).code;
    assert!(!code.contains("unsafe"), "{code}");
    assert_eq!(code.split_whitespace().collect::<String>(), "a();b(,,,,,);c::<'l>();");
    assert_eq!(code.lines().count(), text.lines().count());
}
