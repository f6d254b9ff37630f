//! Symbol tables of objects, queried directly.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use perilune::decode::elf::{EXECUTABLE, Elf, LOAD};
use perilune::symbol::ObjectSymbols;
use perilune::sys::mapped_file;
use perilune::task::objects::Object;

use super::programs::{CHAIN, Program};
use crate::live::live_tests;

live_tests! {
    root: [],
    any: [
        the_vdso_has_names,
        a_thousand_addresses_of_a_large_program_are_named,
        a_part_of_a_function_keeps_its_own_name_when_lines_are_shown,
        a_file_that_other_users_can_write_has_the_names_that_it_had_when_it_was_opened,
        a_malformed_object_does_not_end_the_run,
    ]
}

fn names(object: &Rc<Object>, path: &Path, lines: bool, offsets: &[u64]) -> Vec<String> {
    let tables = ObjectSymbols::of(object, path, &[PathBuf::from("/")], lines);
    let mut frames = Vec::new();
    for offset in offsets {
        tables.frames(*offset, *offset, 0, &mut frames);
    }
    frames.into_iter().filter_map(|frame| Some(frame.symbol?.to_string())).collect()
}

/// Returns file offsets of code, `step` bytes apart.
fn code(object: &Object, step: usize) -> Vec<u64> {
    let elf = Elf::new(object.bytes()).unwrap();
    let code = elf.segments().filter(|s| s.kind == LOAD && s.flags & EXECUTABLE != 0);
    code.flat_map(|s| (s.offset..s.offset + s.file_size).step_by(step)).collect()
}

fn the_vdso_has_names() {
    let bytes = mapped_file::vdso().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vdso");
    std::fs::write(&path, bytes).unwrap();
    let object = Rc::new(Object::open(&path, 1).unwrap());
    let names = names(&object, &path, false, &code(&object, 4));
    assert!(names.iter().any(|name| name.contains("clock_gettime")), "{names:?}");
}

fn a_thousand_addresses_of_a_large_program_are_named() {
    let path = Path::new(env!("CARGO_BIN_EXE_perilune"));
    let object = Rc::new(Object::open(path, 1).unwrap());
    let text = Elf::new(object.bytes()).unwrap().section(".text").unwrap();
    let first = text.bytes.unwrap().as_ptr() as u64 - object.bytes().as_ptr() as u64;
    let offsets: Vec<u64> = (0..1000).map(|i| first + i * (text.size / 1000)).collect();
    let named = names(&object, path, false, &offsets).len();
    // There is padding between functions.
    assert!(named > 950, "{named}");
}

fn a_part_of_a_function_keeps_its_own_name_when_lines_are_shown() {
    let source = r#"
int odd;
__attribute__((cold, noinline)) void complain(int n) { odd = n; }
__attribute__((noinline)) long work(int n) {
    if (n > 1000) { complain(n); complain(n + 1); return 0; }
    return n + odd;
}
int main(int count, char **words) { return work(count) > 3; }
"#;
    let program = Program::c(source, &["-O2", "-g"]);
    let symbols = program.tool("nm").arg("chain").output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let path = Path::new(program.path());
    let object = Rc::new(Object::open(path, 1).unwrap());
    for name in ["work.cold", "work"] {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
        let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap() + 4;
        let [plain, with_lines] = [false, true].map(|lines| {
            let mut frames = Vec::new();
            ObjectSymbols::of(&object, path, &[], lines).frames_at(
                address,
                address,
                0,
                &mut frames,
            );
            frames.pop().unwrap()
        });
        for frame in [&plain, &with_lines] {
            assert_eq!((frame.symbol.as_deref(), frame.offset), (Some(name), 4));
        }
        assert!(plain.line.is_none() && with_lines.line.unwrap().0.ends_with("chain.c"), "{name}");
    }
}

fn a_file_that_other_users_can_write_has_the_names_that_it_had_when_it_was_opened() {
    use std::os::unix::fs::PermissionsExt as _;
    let program = Program::c(CHAIN, &[]);
    let path = Path::new(program.path());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    let object = Rc::new(Object::open(path, 1).unwrap());
    let offsets = code(&object, 16);
    let before = names(&object, path, false, &offsets);
    assert!(before.contains(&"three".to_owned()), "{before:?}");
    std::fs::write(path, vec![0; object.bytes().len()]).unwrap();
    assert_eq!(names(&object, path, false, &offsets), before);
}

fn a_malformed_object_does_not_end_the_run() {
    let program = Program::c(CHAIN, &["-g"]);
    let good = std::fs::read(program.path()).unwrap();
    let object = Rc::new(Object::open(Path::new(program.path()), 1).unwrap());
    let offsets = code(&object, 16);
    assert!(
        names(&object, Path::new(program.path()), true, &offsets).contains(&"three".to_owned())
    );
    let path = program.directory().join("bad");
    // xorshift: the same files in every run.
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for round in 0..400 {
        let mut bad = good.clone();
        for _ in 0..1 + random(64) {
            let at = random(bad.len());
            bad[at] = random(256) as u8;
        }
        if round % 4 == 0 {
            bad.truncate(64 + random(good.len() - 64));
        }
        std::fs::write(&path, bad).unwrap();
        if let Some(object) = Object::open(&path, 1) {
            let object = Rc::new(object);
            for lines in [false, true] {
                names(&object, &path, lines, &offsets[..offsets.len().min(20)]);
            }
        }
    }
}
