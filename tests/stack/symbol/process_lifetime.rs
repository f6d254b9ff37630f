//! Programs that have ended, or are in another namespace, when their addresses are resolved.

use super::CHAIN;
use super::programs::{CHAIN as SOURCE, Program};
use super::stacks::Watched;
use crate::live::live_tests;

live_tests! {
    a_program_started_before_the_run_has_symbols,
    a_deleted_running_program_has_symbols,
    a_program_in_a_file_system_of_its_own_is_named_by_its_path_there,
    a_file_of_the_same_path_in_another_namespace_gives_no_symbols,
    thousands_of_programs_that_exit_at_once_are_named,
    a_child_without_exec_has_its_parents_symbols,
    a_process_whose_first_thread_has_ended_has_symbols,
    a_library_loaded_later_and_its_replacement_are_distinguished,
}

fn a_program_started_before_the_run_has_symbols() {
    let source = SOURCE.replace("int main(void) {", "int main(void) { sleep(2);");
    let program = Program::c(&source, &[]);
    let mut child = program.tool(program.path()).spawn().unwrap();
    let pid = child.id().to_string();
    // The run ends when the process is gone, for which it must be reaped.
    let reaped = std::thread::spawn(move || child.wait());
    Watched::run(&["-p", &pid], &[]).is_only(&CHAIN, 10);
    assert!(reaped.join().unwrap().unwrap().success());
}

fn a_deleted_running_program_has_symbols() {
    let source = SOURCE.replace("int main(void) {", "int main(int n, char **v) { unlink(v[0]);");
    let source = source.replace("return 0;", "usleep(300000); return 0;");
    let program = Program::c(&source, &[]);
    Watched::run(&[], &[program.path()]).is_only(&CHAIN, 10);
    assert!(!std::path::Path::new(program.path()).exists());
}

fn a_program_in_a_file_system_of_its_own_is_named_by_its_path_there() {
    let program = Program::c(SOURCE, &[]);
    let hidden = program.directory().join("hidden");
    std::fs::create_dir(&hidden).unwrap();
    let inside = hidden.join("inner").display().to_string();
    let line = format!(
        "mount -t tmpfs none {0} && cp {1} {0}/inner && {0}/inner; {0}/inner; sleep 0.3",
        hidden.display(),
        program.path()
    );
    // Its shell keeps the namespace alive, but the program ends immediately.
    let watched = Watched::run(&[], &["unshare", "-m", "sh", "-c", &line]);
    watched.is_only(&CHAIN, 20);
    assert_eq!(watched.stacks[0][0].dso, inside);
    assert!(!std::path::Path::new(&inside).exists());
}

fn a_file_of_the_same_path_in_another_namespace_gives_no_symbols() {
    let program = Program::c(SOURCE, &[]);
    let wrong = Program::c(&SOURCE.replace("three", "wrong_a").replace("two", "wrong_b"), &[]);
    let line = format!("mount --bind {} {} && exec {1}", program.path(), wrong.path());
    let watched = Watched::run(&[], &["unshare", "-m", "sh", "-c", &line]);
    assert!(!watched.printed.contains("wrong_"), "{}", watched.printed);
    assert_eq!(watched.stacks.len(), 10);
}

fn thousands_of_programs_that_exit_at_once_are_named() {
    let program = Program::c(&SOURCE.replace("i < 10", "i < 1"), &[]);
    let spawner = r"
int main(int n, char **v) {
    for (int i = 0; i < 2000; i++) {
        pid_t child = vfork();
        if (child == 0) { execl(v[1], v[1], NULL); _exit(1); }
        waitpid(child, NULL, 0);
    }
}
";
    let spawner = Program::c(spawner, &[]);
    Watched::run(&["-m", "2048"], &[spawner.path(), program.path()]).is_only(&CHAIN, 2000);
}

fn a_child_without_exec_has_its_parents_symbols() {
    let source = SOURCE.replace(
        "for (int i = 0; i < 10; i++) one();",
        "for (int i = 0; i < 10; i++) { if (fork() == 0) { one(); _exit(0); } wait(NULL); }",
    );
    let program = Program::c(&source, &[]);
    Watched::run(&[], &[program.path()]).is_only(&CHAIN, 10);
}

fn a_process_whose_first_thread_has_ended_has_symbols() {
    let call = "for (int i = 0; i < 10; i++) one();";
    let source = format!("#include <pthread.h>\n#include <time.h>\n{SOURCE}");
    let thread = format!("void *work(void *given) {{ sleep(3); {call} return NULL; }}");
    let source = source.replace("int main(void) {", &format!("{thread}\nint main(void) {{"));
    let started = "pthread_t other; pthread_create(&other, NULL, work, NULL); pthread_exit(NULL);";
    let (before_main, main) = source.split_once("int main").unwrap();
    let source = format!("{before_main}int main{}", main.replace(call, started));
    let program = Program::c(&source, &["-pthread"]);
    let is_named = |watched: &Watched| {
        assert_eq!(watched.stacks.len(), 10, "{}", watched.printed);
        for stack in &watched.stacks {
            let names: Vec<&str> = stack.iter().take(4).map(|frame| &*frame.symbol).collect();
            assert_eq!(names, ["three", "two", "one", "work"], "{}", watched.printed);
        }
    };
    // Its mappings are known from records; or it began before the run and can only be read.
    is_named(&Watched::run(&[], &[program.path()]));
    let mut child = program.tool(program.path()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let pid = child.id().to_string();
    let reaped = std::thread::spawn(move || child.wait());
    is_named(&Watched::run(&["-p", &pid], &[]));
    assert!(reaped.join().unwrap().unwrap().success());
}

fn a_library_loaded_later_and_its_replacement_are_distinguished() {
    let source = r#"
#include <dlfcn.h>
int main(int n, char **v) {
    for (int i = 1; i < n; i++) {
        void *library = dlopen(v[i], RTLD_NOW);
        ((long (*)(void))dlsym(library, i == 1 ? "first" : "second"))();
        dlclose(library);
    }
}
"#;
    let program = Program::c(source, &["-ldl"]);
    let library = |name: &str| {
        let source = format!("__attribute__((noinline)) long {name}(void) {{ return ask() + 1; }}");
        Program::c(&source, &["-shared", "-fPIC"])
    };
    let (first, second) = (library("first"), library("second"));
    let watched = Watched::run(&[], &[program.path(), first.path(), second.path()]);
    assert_eq!(watched.names(), [["first", "main"], ["second", "main"]], "{}", watched.printed);
}
