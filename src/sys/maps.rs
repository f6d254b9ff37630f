//! Memory mappings of a process, from `/proc/PID/maps`.

use std::io::{self, BufRead as _, BufReader};

/// Maximum number of rows: the kernel's default limit of mappings per process (`vm.max_map_count`).
const ROWS_MAX: usize = 65_530;

/// A mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcMapping {
    /// Start address.
    pub start: u64,
    /// Length in bytes.
    pub length: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Major number of the file's device; 0 without a file.
    pub major: u32,
    /// Minor number of the file's device.
    pub minor: u32,
    /// Inode number of the file; 0 without a file.
    pub inode: u64,
    /// Path of the file as the process sees it, or a name in brackets; empty for anonymous memory.
    /// A deleted file keeps its former path.
    pub path: Vec<u8>,
}

impl ProcMapping {
    /// Returns the first address after the mapping.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }
}

/// Returns the executable mappings of a process, given one of its threads, by address; none for a
/// zombie or a kernel thread.
///
/// # Errors
/// There is no such process, or this user may not read its mappings.
pub fn executable(pid: u32) -> io::Result<Vec<ProcMapping>> {
    rows(&format!("/proc/{pid}/maps"), |permissions| permissions.contains(&b'x'))
}

/// Returns all mappings of a process, given one of its threads, by address; none for a zombie or a
/// kernel thread.
///
/// # Errors
/// There is no such process, or this user may not read its mappings.
pub fn all(pid: u32) -> io::Result<Vec<ProcMapping>> {
    rows(&format!("/proc/{pid}/maps"), |_| true)
}

/// Returns all mappings of this process.
///
/// # Errors
/// /proc is not mounted.
pub(super) fn own() -> io::Result<Vec<ProcMapping>> {
    rows("/proc/self/maps", |_| true)
}

/// Parses a line of `/proc/PID/maps`, with any permissions.
pub fn row(line: &[u8]) -> Option<ProcMapping> {
    parse(line.trim_ascii_end(), |_| true)
}

fn rows(path: &str, wanted: impl Fn(&[u8]) -> bool) -> io::Result<Vec<ProcMapping>> {
    let mut reader = BufReader::with_capacity(1 << 16, std::fs::File::open(path)?);
    let (mut rows, mut line) = (Vec::new(), Vec::new());
    while rows.len() < ROWS_MAX && reader.read_until(b'\n', &mut line)? > 0 {
        rows.extend(parse(line.trim_ascii_end(), &wanted));
        line.clear();
    }
    Ok(rows)
}

/// Parses `START-END PERM OFFSET MAJOR:MINOR INODE PATH`; see proc_pid_maps(5).
fn parse(line: &[u8], wanted: impl Fn(&[u8]) -> bool) -> Option<ProcMapping> {
    let mut rest = line;
    let mut field = || {
        let from = rest.iter().position(|b| *b != b' ')?;
        let length = rest[from..].iter().position(|b| *b == b' ').unwrap_or(rest.len() - from);
        let (field, behind) = rest[from..].split_at(length);
        rest = behind;
        Some(field)
    };
    let (range, permissions) = (field()?, field()?);
    if !wanted(permissions) {
        return None;
    }
    let (start, end) = split(range, b'-')?;
    let (start, end) = (hex(start)?, hex(end)?);
    let offset = hex(field()?)?;
    let (major, minor) = split(field()?, b':')?;
    let inode = std::str::from_utf8(field()?).ok()?.parse().ok()?;
    Some(ProcMapping {
        start,
        length: end.checked_sub(start)?,
        offset,
        major: hex(major)?.try_into().ok()?,
        minor: hex(minor)?.try_into().ok()?,
        inode,
        path: plain(rest.trim_ascii_start()),
    })
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|b| *b == at)?;
    Some((&text[..at], &text[at + 1..]))
}

fn hex(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// Decodes a path: the kernel writes a newline as `\012`, and a suffix after the path of a deleted
/// file.
fn plain(path: &[u8]) -> Vec<u8> {
    let mut rest = path.strip_suffix(b" (deleted)").unwrap_or(path);
    let mut plain = Vec::with_capacity(rest.len());
    while let [first, behind @ ..] = rest {
        rest = match rest.strip_prefix(b"\\012") {
            Some(behind) => {
                plain.push(b'\n');
                behind
            }
            None => {
                plain.push(*first);
                behind
            }
        };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_lines_are_rows() {
        let executable = |line: &str| parse(line.as_bytes(), |p| p.contains(&b'x'));
        let row = |start, length, offset, major, minor, inode, path: &str| {
            Some(ProcMapping { start, length, offset, major, minor, inode, path: path.into() })
        };
        let line = "7f10-7f30 r-xp 00002000 fd:1f 4711    /usr/lib/a b\\012c.so (deleted)";
        assert_eq!(
            executable(line),
            row(0x7f10, 0x20, 0x2000, 0xfd, 0x1f, 4711, "/usr/lib/a b\nc.so")
        );
        assert_eq!(executable("10-20 rwxp 0 00:00 0 "), row(0x10, 0x10, 0, 0, 0, 0, ""));
        for other in ["10-20 rw-p 0 00:00 0 [heap]", "20-10 r-xp 0 00:00 0", "nonsense", ""] {
            assert_eq!(executable(other), None, "{other}");
        }
    }

    #[test]
    fn this_process_executes_its_own_program() {
        let rows = executable(std::process::id()).unwrap();
        let here = this_process_executes_its_own_program as *const () as u64;
        let row = rows.iter().find(|r| (r.start..r.start + r.length).contains(&here)).unwrap();
        let program = std::env::current_exe().unwrap();
        assert_eq!(row.path, program.as_os_str().as_encoded_bytes());
        assert!(rows.iter().any(|row| row.path == b"[vdso]"));
    }
}
