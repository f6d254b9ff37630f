//! Programs with known call chains, built in a temporary directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// `main` calls `one`, which calls `two`, which calls `three`, which calls getppid: ten times.
pub(crate) const CHAIN: &str = r"
__attribute__((noinline)) long three(void) { return ask() + 1; }
__attribute__((noinline)) long two(void) { return three() + 1; }
__attribute__((noinline)) long one(void) { return two() + 1; }
int main(void) {
    for (int i = 0; i < 10; i++) one();
    return 0;
}
";

/// getppid without libc, whose own function keeps no frame pointer.
const ASK: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#ifdef __x86_64__
#define ask() ({ long r; __asm__ volatile("syscall" : "=a"(r) : "a"(110L) : "rcx", "r11", "memory"); r; })
#else
#define ask() ({ register long r __asm__("x0"); register long n __asm__("x8") = 173; \
    __asm__ volatile("svc 0" : "=r"(r) : "r"(n) : "memory"); r; })
#endif
"#;

/// Every function has a frame, including leaf functions.
const FRAMES: &[&str] = &["-O0", "-fno-omit-frame-pointer"];

/// A compiled program.
pub(crate) struct Program {
    directory: TempDir,
    path: PathBuf,
}

impl Program {
    /// Compiles C, with `ask` in front of it.
    pub(crate) fn c(source: &str, flags: &[&str]) -> Program {
        Program::compiled("gcc", "c", &format!("{ASK}{source}"), flags)
    }

    /// Compiles C++, with `ask` in front of it.
    pub(crate) fn cpp(source: &str, flags: &[&str]) -> Program {
        Program::compiled("g++", "cc", &format!("{ASK}{source}"), flags)
    }

    /// Compiles Rust.
    pub(crate) fn rust(source: &str, flags: &[&str]) -> Program {
        let program = Program::empty("rs", source);
        let given = ["-Copt-level=1", "-Cforce-frame-pointers=yes", "-Cdebuginfo=0", "-o"];
        let mut built = program.tool("rustc");
        run(built.args(given).arg(&program.path).args(flags).arg("chain.rs"));
        program
    }

    fn compiled(compiler: &str, extension: &str, source: &str, flags: &[&str]) -> Program {
        let program = Program::empty(extension, source);
        let mut built = program.tool(compiler);
        let source = format!("chain.{extension}");
        run(built.args(FRAMES).arg("-o").arg(&program.path).arg(source).args(flags));
        program
    }

    fn empty(extension: &str, source: &str) -> Program {
        let directory = tempfile::tempdir().expect("there is room for a program");
        let path = directory.path().join("chain");
        std::fs::write(path.with_extension(extension), source).expect("a source can be written");
        Program { directory, path }
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &str {
        self.path.to_str().expect("the directory's name is UTF-8")
    }

    /// Returns its directory.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a command that runs in its directory.
    pub(crate) fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.current_dir(self.directory());
        command
    }

    /// Runs a shell command in its directory.
    pub(crate) fn shell(&self, line: &str) {
        run(self.tool("sh").args(["-ec", line]));
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
