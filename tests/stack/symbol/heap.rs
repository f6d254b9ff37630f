//! `perilune --symbols`, called by gperftools' heap checker and by itself.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::programs::Program;
use crate::live::{live_tests, skip};

live_tests! {
    root: [],
    any: [
        the_heap_checker_names_the_leaking_function,
        symbols_are_printed_in_the_order_of_the_addresses,
        without_mappings_addresses_are_file_addresses,
    ]
}

const LEAK: &str = r"
__attribute__((noinline)) void *the_leaking_function(void) { char *p = malloc(12345); memset(p, 1, 12345); return p; }
__attribute__((noinline)) void its_caller(void) { the_leaking_function(); }
int main(void) { its_caller(); }
";

/// Paths of the library in distributions.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4",
    "/usr/lib/aarch64-linux-gnu/libtcmalloc.so.4",
    "/usr/lib64/libtcmalloc.so.4",
];

fn the_heap_checker_names_the_leaking_function() {
    let Some(library) = LIBRARIES.into_iter().find(|path| std::path::Path::new(path).exists())
    else {
        skip("no libtcmalloc.so.4; install libgoogle-perftools-dev");
    };
    let program = Program::c(LEAK, &[]);
    let folder = std::path::Path::new(program.path()).parent().unwrap();
    let output = Command::new(program.path())
        .env("LD_PRELOAD", library)
        .env("HEAPCHECK", "draconian")
        // Its profile is removed together with the program.
        .env("HEAP_CHECK_DUMP_DIRECTORY", folder)
        .env("PPROF_PATH", env!("CARGO_BIN_EXE_perilune"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let mut lines = said.lines().skip_while(|line| !line.starts_with("Leak of 12345 bytes"));
    assert_eq!(lines.next(), Some("Leak of 12345 bytes in 1 objects allocated from:"), "{said}");
    let names: Vec<_> = lines.take(3).filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(names, ["the_leaking_function", "its_caller", "main"], "{said}");
}

fn symbols_are_printed_in_the_order_of_the_addresses() {
    let program = Program::c(LEAK, &["-no-pie"]);
    let symbols = program.tool("nm").arg("chain").output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let address = |name: &str| {
        let line = symbols.lines().find(|line| line.ends_with(&format!(" T {name}"))).unwrap();
        u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
    };
    // As written by gperftools: the device number is 00:00.
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(program.path()).unwrap());
    let base = address("main") & !0xfff;
    let maps = format!(
        "{base:x}-{:x} r-xp {:08x} 00:00 {inode}    {}\n",
        base + 0x1000,
        base - 0x400000,
        program.path()
    );
    let asked = format!(
        "{maps}7ffe000-7fff000 rw-p 0 00:00 0   [stack]\n0x{:016x}\n0x{:x}\n0x1\n0x{:X}\n",
        address("main") + 1,
        address("the_leaking_function"),
        address("its_caller"),
    );
    let answers = answers(program.path(), &asked);
    assert_eq!(answers, "main\nthe_leaking_function\n??\nits_caller\n");
}

fn without_mappings_addresses_are_file_addresses() {
    for how in ["-no-pie", "-pie"] {
        let program = Program::c(LEAK, &[how]);
        let symbols = program.tool("nm").arg("chain").output().unwrap();
        let symbols = String::from_utf8(symbols.stdout).unwrap();
        let address = |name: &str| {
            let line = symbols.lines().find(|line| line.ends_with(&format!(" T {name}"))).unwrap();
            line.split(' ').next().unwrap()
        };
        let (caller, main) = (address("its_caller"), address("main"));
        let asked = format!("0x{caller}\n0xffffffffffff\nno address\n{main}\n#1 0x{main} 0x1\n");
        assert_eq!(answers(program.path(), &asked), "its_caller\n??\nmain\nmain\n");
    }
}

fn answers(program: &str, asked: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["--symbols", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(asked.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}
