//! The error for a file that is neither a program nor a library.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::anyhow;

/// Returns the error; that for a script names its interpreter.
pub(super) fn not_elf(path: &Path, file: &File) -> anyhow::Error {
    let mut first = [0; 128];
    let read = file.read_at(&mut first, 0).unwrap_or(0);
    let shown = path.display();
    let script = first[..read].strip_prefix(b"#!").and_then(|line| {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Some(std::str::from_utf8(line).ok()?.split_whitespace().next()?.to_owned())
    });
    match script {
        Some(interpreter) => anyhow!(
            "{shown} is a script, whose functions cannot be watched; those of its interpreter are \
             in {}",
            interpreter.escape_debug()
        ),
        None => anyhow!("{shown} is not a program or library (ELF); name one"),
    }
}
