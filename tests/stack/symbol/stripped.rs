//! Programs without symbols, and the places from which their names are read.

use std::path::PathBuf;

use super::CHAIN;
use super::programs::{CHAIN as SOURCE, Program};
use super::stacks::Watched;
use crate::live::live_tests;

live_tests! {
    a_program_without_symbols_has_addresses_and_its_file,
    a_debug_file_is_found_by_build_id,
    a_debug_file_is_found_by_its_link_and_must_have_its_crc,
    a_debug_file_is_searched_if_the_debug_information_cannot_be_unpacked,
    mini_debug_info_names_what_dynsym_does_not,
}

/// A file outside the tests' directories, removed on drop.
struct Placed(PathBuf);

impl Drop for Placed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn a_program_without_symbols_has_addresses_and_its_file() {
    let program = Program::c(SOURCE, &[]);
    program.shell("nm chain > names && strip chain");
    let names = std::fs::read_to_string(program.directory().join("names")).unwrap();
    let begin_of = |function: &str| {
        let line = names.lines().find_map(|line| line.strip_suffix(&format!(" T {function}")));
        u64::from_str_radix(line.expect("it has a symbol"), 16).unwrap()
    };
    let watched = Watched::run(&[], &[program.path()]);
    assert_eq!(watched.stacks.len(), 10);
    for stack in &watched.stacks {
        for (frame, function) in stack.iter().zip(&CHAIN[..4]) {
            let begin = format!("[chain+{:#x}]", begin_of(function));
            assert_eq!((&*frame.symbol, &*frame.dso), (&*begin, program.path()), "{function}");
        }
    }
}

fn a_debug_file_is_found_by_build_id() {
    let program =
        Program::c(SOURCE, &["-g", "-Wl,--build-id=0xfeedc0de00112233445566778899aabbccddeeff"]);
    program.shell("objcopy --only-keep-debug chain chain.debug && strip chain");
    let directory = PathBuf::from("/usr/lib/debug/.build-id/fe");
    std::fs::create_dir_all(&directory).unwrap();
    let placed = Placed(directory.join("edc0de00112233445566778899aabbccddeeff.debug"));
    std::fs::copy(program.directory().join("chain.debug"), &placed.0).unwrap();
    Watched::run(&[], &[program.path()]).is_only(&CHAIN, 10);
    let lines = Watched::run(&["--lines"], &[program.path()]);
    assert!(lines.stacks[0][1].line.contains("chain.c:"), "{}", lines.printed);
    // A file of another build, under the same name.
    let other = Program::c(SOURCE, &["-g", "-Wl,--build-id=0xfeedc0de"]);
    std::fs::copy(other.path(), &placed.0).unwrap();
    assert_eq!(Watched::run(&[], &[program.path()]).count(&CHAIN), 0);
}

fn a_debug_file_is_found_by_its_link_and_must_have_its_crc() {
    let program = Program::c(SOURCE, &["-g", "-Wl,--build-id=none"]);
    program.shell(
        "mkdir .debug && objcopy --only-keep-debug chain .debug/chain.debug && strip chain \
         && objcopy --add-gnu-debuglink=.debug/chain.debug chain",
    );
    Watched::run(&[], &[program.path()]).is_only(&CHAIN, 10);
    program.shell("printf x >> .debug/chain.debug");
    assert_eq!(Watched::run(&[], &[program.path()]).count(&CHAIN), 0);
}

fn a_debug_file_is_searched_if_the_debug_information_cannot_be_unpacked() {
    let program = Program::c(SOURCE, &["-g", "-Wl,--build-id=none"]);
    program.shell(
        "mkdir .debug && objcopy --only-keep-debug chain .debug/chain.debug \
         && objcopy --compress-debug-sections=zlib-gnu chain \
         && readelf -SW chain | grep -q zdebug_info \
         && objcopy --add-gnu-debuglink=.debug/chain.debug chain",
    );
    let watched = Watched::run(&["--lines"], &[program.path()]);
    watched.is_only(&CHAIN, 10);
    assert!(watched.stacks[0][1].line.contains("chain.c:"), "{}", watched.printed);
}

fn mini_debug_info_names_what_dynsym_does_not() {
    let program = Program::c(SOURCE, &[]);
    program.shell(
        "objcopy -S --keep-symbol=one --keep-symbol=two --keep-symbol=three --keep-symbol=main \
           --only-keep-debug chain mini \
         && xz -k mini && strip chain && objcopy --add-section .gnu_debugdata=mini.xz chain",
    );
    Watched::run(&[], &[program.path()]).is_only(&CHAIN, 10);
}
