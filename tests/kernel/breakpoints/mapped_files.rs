//! Breakpoints on variables of a file are set where a process has mapped the code of that file.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use super::hits::needs_each_hit;
use super::{N, at, events, traced};
use crate::functions::Program;
use crate::live::live_tests;
use crate::tool::Tool;

live_tests! {
    a_variable_of_a_library_is_found_when_the_command_has_mapped_it,
    a_file_is_watched_where_its_code_is_mapped_and_only_that_file,
}

fn a_variable_of_a_library_is_found_when_the_command_has_mapped_it() {
    needs_each_hit();
    let program = Program::of(
        "#include <stdlib.h>\nvoid bump(long); int main(int c, char **v) { for (long i = 0; i < \
        atol(v[1]); i++) bump(i); }",
        &["-c"],
    );
    let folder = program.path().replace("/chain", "");
    std::fs::write(
        format!("{folder}/lib.c"),
        "static volatile long in_library = 7; \
        void bump(long i) { in_library = i; }",
    )
    .expect("it can be written");
    program.run(Command::new("gcc").args(["-shared", "-fPIC", "-o", "libbump.so", "lib.c"]));
    program.run(Command::new("mv").args(["chain", "chain.o"]));
    let linked = ["-o", "chain", "chain.o", "-L.", "-lbump", "-Wl,-rpath,$ORIGIN"];
    program.run(Command::new("gcc").args(linked));
    let run = traced(&program, &format!("mem:{folder}/libbump.so:in_library:w"));
    assert_eq!(events(&run), N, "{}", run.stderr);
}

/// Maps its own file as data first, then calls `store` at each line.
const MAPPED_TWICE: &str = r#"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
volatile long counter;
int main(void) {
    char c;
    int own = open("/proc/self/exe", O_RDONLY);
    if (mmap((void *)0x10000000, 65536, PROT_READ, MAP_PRIVATE, own, 0) == MAP_FAILED) return 1;
    write(1, "mapped\n", 7);
    while (read(0, &c, 1) == 1) if (c == '\n') for (long i = 0; i < 20; i++) counter = i;
}
"#;

fn a_file_is_watched_where_its_code_is_mapped_and_only_that_file() {
    needs_each_hit();
    let program = Program::of(MAPPED_TWICE, &[]);
    let mut child = Command::new(program.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut line = [0; 7];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("it is mapped");
    let (pid, event) = (child.id().to_string(), at(&program, "counter:w"));
    let tool = Tool::attach(&["trace", "-e", &event, "-p", &pid]);
    child.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
    assert_eq!(events(&tool.finish()), 20);

    // The same path has another file by now.
    let mut old = Command::new(program.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    old.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("it is mapped");
    let copy = format!("{}.new", program.path());
    std::fs::copy(program.path(), &copy).expect("it can be copied");
    std::fs::rename(&copy, program.path()).expect("it can be replaced");
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.args(["trace", "-e", &event, "-p", &old.id().to_string(), "--duration", "1s"]);
    let output = command.output().expect("it runs");
    old.kill().and_then(|()| old.wait()).expect("it is a child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("has not mapped"), "{said}");
}
