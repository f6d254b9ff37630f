//! `perilune --symbols FILE`: names for addresses of a process, with the interface of
//! `pprof --symbols`.
//!
//! gperftools' heap checker uses it through `$PPROF_PATH`: stdin has the text of the process's
//! `/proc/self/maps`, in which it writes the device as `00:00`, and then one address per line,
//! `0x…`. The answer is one name per line, in the order of the addresses, and `??` for unknown
//! ones. Function parameters are omitted, as in pprof.
//!
//! As with pprof, any line with a word `0x…` asks for the first of them, and gets one answer. A
//! line of only hexadecimal digits asks, too. Other lines that are not mappings get no answer.
//! Without any mapping, addresses are those of the file itself, as shown by `nm`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, BufRead, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::base::report::frame::Frame;
use crate::symbol::ObjectSymbols;
use crate::sys::maps::{ProcMapping, row};
use crate::task::objects::Object;

/// Bytes of a line that are read: longer than any path.
const LINE_MAX: u64 = 1 << 16;

/// Answers the `questions`. `program` replaces a mapped file of the same name that cannot be
/// opened.
///
/// # Errors
/// The questions cannot be read, or the answers cannot be written.
pub fn answer(program: &Path, questions: impl BufRead, out: &mut dyn Write) -> io::Result<()> {
    let mut questions = questions;
    let (mut line, mut maps, mut tables) = (Vec::new(), Vec::<ProcMapping>::new(), Known::new());
    while io::Read::take(&mut questions, LINE_MAX).read_until(b'\n', &mut line)? > 0 {
        match (row(&line), queried_address(&line)) {
            (Some(row), _) => maps.push(row),
            (None, Some(address)) => {
                let name = address.and_then(|address| match maps.is_empty() {
                    true => own_name(program, &mut tables, address),
                    false => name(program, &maps, &mut tables, address),
                });
                writeln!(out, "{}", printable(name.as_deref().map_or("??", short)))?;
            }
            (None, None) => {}
        }
        line.clear();
    }
    Ok(())
}

/// Returns the address that a line asks for. The inner `None` is a number that is too long for an
/// address, which still gets an answer.
fn queried_address(line: &[u8]) -> Option<Option<u64>> {
    let line = String::from_utf8_lossy(line);
    let is_number =
        |digits: &&str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let digits = words.find_map(|word| {
        let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"))?;
        Some(digits).filter(is_number)
    });
    let digits = digits.or_else(|| Some(line.trim()).filter(is_number))?;
    Some(u64::from_str_radix(digits, 16).ok())
}

type Known = HashMap<Vec<u8>, Option<ObjectSymbols>>;

fn name(program: &Path, maps: &[ProcMapping], tables: &mut Known, address: u64) -> Option<Rc<str>> {
    let row = maps.iter().find(|row| row.start <= address && address < row.end())?;
    let table = tables.entry(row.path.clone()).or_insert_with(|| {
        let path = Path::new(OsStr::from_bytes(&row.path));
        let object = Object::open(path, 0);
        // The path of the program may not exist here, for example a relative one.
        let same = path.file_name() == program.file_name();
        let object = object.or_else(|| same.then(|| Object::open(program, 0)).flatten())?;
        let is_that = object.inode().is_some_and(|inode| inode == row.inode || row.inode == 0);
        is_that.then(|| tables_of(object, path))
    });
    let mut frames: Vec<Frame> = Vec::new();
    let offset = (address - row.start).checked_add(row.offset)?;
    let intact = table.as_ref().filter(|table| table.is_intact())?;
    intact.frames(offset, address, 0, &mut frames);
    frames.pop()?.symbol
}

/// Returns the name of an address of the file itself.
fn own_name(program: &Path, tables: &mut Known, address: u64) -> Option<Rc<str>> {
    // The NUL distinguishes the key from mapping paths, whose tables must pass an inode check.
    let key = [b"\0", program.as_os_str().as_bytes()].concat();
    let open = || Some(tables_of(Object::open(program, 0)?, program));
    let mut frames: Vec<Frame> = Vec::new();
    let table = tables.entry(key).or_insert_with(open).as_ref();
    table.filter(|table| table.is_intact())?.frames_at(address, address, 0, &mut frames);
    frames.pop()?.symbol
}

fn tables_of(object: Object, path: &Path) -> ObjectSymbols {
    ObjectSymbols::of(&Rc::new(object), path, &[PathBuf::from("/")], false)
}

/// Escapes line ends and terminal sequences in a name, which comes from an untrusted file.
fn printable(name: &str) -> Cow<'_, str> {
    if !name.contains(char::is_control) {
        return name.into();
    }
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.into() };
    name.chars().map(shown).collect::<String>().into()
}

/// Returns a name without its parameters.
fn short(name: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in name.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            // `(anonymous namespace)::f` and `operator()` are names.
            '(' if depth == 0 && !name[at..].starts_with("(anonymous") => {
                let behind = &name[at..];
                let is_operator = name[..at].ends_with("operator") && behind.starts_with("()");
                if at > 0 && !is_operator {
                    return &name[..at];
                }
            }
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_shown_without_its_parameters() {
        for (name, shown) in [
            ("main", "main"),
            ("f(int, char const*) const", "f"),
            ("a::g<b(c)>::h(int)", "a::g<b(c)>::h"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("a::operator()(int)", "a::operator()"),
            ("core::ops::function::FnOnce::call_once", "core::ops::function::FnOnce::call_once"),
        ] {
            assert_eq!(short(name), shown);
        }
    }

    #[test]
    fn an_answer_is_always_one_line() {
        assert_eq!(printable("f\ng\x1b[2J"), "f\\ng\\u{1b}[2J");
        assert_eq!(printable("größe"), "größe");
    }

    #[test]
    fn addresses_of_this_process_are_named_in_order() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let program = std::env::current_exe().unwrap();
        let (one, other) = (answer_nothing as *const () as u64, answer_more as *const () as u64);
        let questions = format!("{maps}{one:#x}\n0x1\n{other:#x}\n");
        let mut answers = Vec::new();
        answer(&program, questions.as_bytes(), &mut answers).unwrap();
        let answers = String::from_utf8(answers).unwrap();
        let lines: Vec<&str> = answers.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].ends_with("::answer_nothing"), "{lines:?}");
        assert_eq!(lines[1], "??");
        assert!(lines[2].ends_with("::answer_more"), "{lines:?}");
        // A mapping as gperftools writes it, of another file.
        let other_file =
            format!("{:x}-{:x} r-xp 0 00:00 1 {}\n{one:#x}\n", one - 1, one + 1, program.display());
        let mut answers = Vec::new();
        answer(&program, other_file.as_bytes(), &mut answers).unwrap();
        assert_eq!(answers, b"??\n");
    }

    #[test]
    fn a_line_is_a_query_if_it_has_a_0x_number_or_is_only_hexadecimal() {
        for (line, asks) in [
            ("0x10\n", Some(Some(0x10))),
            ("  0X10 0x20\r\n", Some(Some(0x10))),
            ("#1 0x1f in main", Some(Some(0x1f))),
            ("7fff0010\n", Some(Some(0x7fff_0010))),
            ("0x11112222333344445\n", Some(None)),
            ("0xzz", None),
            ("x0x10", None),
            ("dead beef", None),
            ("", None),
        ] {
            assert_eq!(queried_address(line.as_bytes()), asks, "{line}");
        }
    }

    #[inline(never)]
    fn answer_nothing() -> u32 {
        std::hint::black_box(1)
    }

    #[inline(never)]
    fn answer_more() -> u32 {
        std::hint::black_box(2)
    }
}
