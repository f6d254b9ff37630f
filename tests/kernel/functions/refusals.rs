//! Functions of programs that cannot be watched, and the reported reason.

use std::process::Command;

use super::Program;
use crate::live::live_tests;

live_tests! {
    functions_that_cannot_be_watched_are_refused_with_the_reason,
}

fn functions_that_cannot_be_watched_are_refused_with_the_reason() {
    let program = Program::built(&[]);
    let folder = program.folder.path();
    std::fs::write(folder.join("script"), "#!/bin/sh -e\n").expect("it can be written");
    std::fs::write(folder.join("empty"), "").expect("it can be written");
    program.run(Command::new("mkfifo").arg("pipe"));
    program.run(Command::new("gcc").args(["-c", "-o", "part.o", "chain.c"]));
    program.run(Command::new("objcopy").args(["--only-keep-debug", "chain", "debug"]));
    let twice = "static long twice(void) { return 2; } long (*other)(void) = twice;";
    let chosen = "static long one_a(void) { return 1; } \
                  static void *choose(void) { return one_a; } \
                  long one(void) __attribute__((ifunc(\"choose\")));";
    std::fs::write(folder.join("more.c"), format!("{twice}\n{chosen}")).expect("it can be written");
    program.run(Command::new("gcc").args(["-o", "more", "chain.c", "more.c"]));
    for (selector, why) in [
        ("uprobe:FOLDER/chain:wrok", "has no function 'wrok'; did you mean 'work'?"),
        ("uprobe:FOLDER/chain:environ", "has no function 'environ'"),
        ("uprobe:FOLDER/nothing:f", "there is no file FOLDER/nothing"),
        ("uprobe:FOLDER/script:f", "is a script, whose functions"),
        ("uprobe:FOLDER/empty:f", "is not a program or library (ELF)"),
        ("uprobe:FOLDER/pipe:f", "is not a regular file"),
        ("uprobe:FOLDER:f", "is not a regular file"),
        ("uprobe:FOLDER/chain.c:f", "is not a program or library (ELF)"),
        ("uprobe:FOLDER/part.o:work", "is neither a program nor a library"),
        ("uprobe:FOLDER/debug:work", "has symbols but no code"),
        ("uprobe:FOLDER/more:twice", "has 2 functions of this name"),
        ("uprobe:FOLDER/more:one", "selects one of several functions for this name"),
        ("uprobe:no-such-program:f", "there is no program 'no-such-program' in $PATH"),
        ("uprobe:FOLDER/chain:0x99999999", "has no code at this address"),
        ("uprobe:./no-such-file:f", "there is no file ./no-such-file; use a path that exists"),
        ("uprobe:./no-such-file:f", "or /proc/PID/root/PATH for a container"),
        ("uprobe:FOLDER/chain", "the function is missing here: uprobe:FILE:FUNCTION"),
        ("uprobe:FOLDER/chain:nothing_*", "no function matches"),
    ] {
        let at = folder.to_string_lossy();
        let selector = selector.replace("FOLDER", &at);
        let run = program.watched(&["trace", "-e", &selector], 1, 0);
        assert!(run.stderr.contains(&why.replace("FOLDER", &at)), "{selector}: {}", run.stderr);
        assert!(run.code.is_some_and(|code| code != 0) && run.objects.is_empty(), "{selector}");
    }
    // The same program for another machine, according to its header.
    for (name, at, byte, why) in
        [("narrow", 4, 1, "is a 32-bit program"), ("other", 18, 2, "is for another architecture")]
    {
        let mut bytes = std::fs::read(program.path()).expect("it was built");
        bytes[at] = byte;
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("it can be written");
        let run =
            program.watched(&["trace", "-e", &format!("uprobe:{}:work", path.display())], 1, 0);
        assert!(run.stderr.contains(why), "{}", run.stderr);
    }
    let counts = r#"local m = monitor { summary = "x" } function m.init() evsel(SELECTOR, { count = true }) end return m"#;
    let selector = format!("{:?}", program.function("uprobe", "work"));
    std::fs::write(folder.join("counts.lua"), counts.replace("SELECTOR", &selector))
        .expect("it can be written");
    let run = program.watched(&[&folder.join("counts.lua").to_string_lossy()], 1, 0);
    assert!(
        run.stderr.contains("for whole CPUs, not for single tasks; count them in a handler"),
        "{}",
        run.stderr
    );
}
