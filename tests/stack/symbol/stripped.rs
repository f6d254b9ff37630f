//! Programs without symbols, and the places from which their names are read.

use std::path::PathBuf;

use super::programs::{CHAIN as SOURCE, Program};
use super::stacks::Watched;
use super::{CHAIN, can_watch};

/// A file outside the tests' directories, removed on drop.
struct Placed(PathBuf);

impl Drop for Placed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_program_without_symbols_has_addresses_and_its_file() {
    if !can_watch("a stripped program") {
        return;
    }
    let program = Program::c(SOURCE, &["-s"]);
    let watched = Watched::run(&[], &[program.path()]);
    assert_eq!(watched.stacks.len(), 10);
    for stack in &watched.stacks {
        assert!(stack[..4].iter().all(|f| f.symbol.is_empty() && f.dso == program.path()));
    }
}

#[test]
fn a_debug_file_is_found_by_build_id() {
    if !can_watch("a debug file by build-id") {
        return;
    }
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

#[test]
fn a_debug_file_is_found_by_its_link_and_must_have_its_crc() {
    if !can_watch("a debug link") {
        return;
    }
    let program = Program::c(SOURCE, &["-g", "-Wl,--build-id=none"]);
    program.shell(
        "mkdir .debug && objcopy --only-keep-debug chain .debug/chain.debug && strip chain \
         && objcopy --add-gnu-debuglink=.debug/chain.debug chain",
    );
    Watched::run(&[], &[program.path()]).is_only(&CHAIN, 10);
    program.shell("printf x >> .debug/chain.debug");
    assert_eq!(Watched::run(&[], &[program.path()]).count(&CHAIN), 0);
}

#[test]
fn mini_debug_info_names_what_dynsym_does_not() {
    if !can_watch("MiniDebugInfo") {
        return;
    }
    let program = Program::c(SOURCE, &[]);
    program.shell(
        "objcopy -S --keep-symbol=one --keep-symbol=two --keep-symbol=three --keep-symbol=main \
           --only-keep-debug chain mini \
         && xz -k mini && strip chain && objcopy --add-section .gnu_debugdata=mini.xz chain",
    );
    Watched::run(&[], &[program.path()]).is_only(&CHAIN, 10);
}
