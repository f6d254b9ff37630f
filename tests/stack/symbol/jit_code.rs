//! Code that programs generate themselves, and the perf maps that name it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::programs::Program;
use super::stacks::Watched;
use crate::live::live_tests;

live_tests! {
    jit_code_has_the_names_of_its_perf_map_even_after_exit,
    jit_code_has_names_even_if_the_perf_map_is_removed_before_the_report,
    jit_code_in_shared_memory_has_names_even_if_the_perf_map_is_removed_before_the_report,
    jit_code_without_a_trusted_perf_map_has_no_name,
    in_a_container_the_perf_map_has_the_inner_pid_and_the_inner_tmp,
}

/// Creates a function in anonymous memory, writes a perf map if an argument asks for it, and calls
/// the function ten times.
const MAKER: &str = r#"
#ifdef __x86_64__
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xb8, 110, 0, 0, 0, 0x0f, 0x05, 0x90, 0x5d, 0xc3};
#else
static const unsigned int code[] = {0xa9bf7bfd, 0x910003fd, 0xd28015a8, 0xd4000001, 0xa8c17bfd, 0xd65f03c0};
#endif
__attribute__((noinline)) long call(long (*made)(void)) { return made() + 1; }
int main(int n, char **v) {
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, code, sizeof code);
    __builtin___clear_cache(memory, memory + sizeof code);
    if (n > 1) {
        char path[64];
        sprintf(path, "/tmp/perf-%d.map", getpid());
        FILE *map = fopen(path, "w");
        fprintf(map, "%lx %zx older name\n", (long)memory, sizeof code);
        fprintf(map, "%lx %zx made function\n", (long)memory, sizeof code);
        fclose(map);
        if (n > 2) chown(path, atoi(v[2]), -1);
    }
    for (int i = 0; i < 10; i++) call((long (*)(void))memory);
    usleep(n > 3 ? 300000 : 0);
}
"#;

fn remove_maps(watched: &Watched) {
    for pid in watched.printed.lines().filter_map(|line| line.split_whitespace().nth(3)) {
        let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
    }
}

fn jit_code_has_the_names_of_its_perf_map_even_after_exit() {
    let program = Program::c(MAKER, &[]);
    let watched = Watched::run(&[], &[program.path(), "map"]);
    remove_maps(&watched);
    watched.is_only(&["made function", "call", "main"], 10);
    assert_eq!(watched.stacks[0][0].dso, "[anon]");
}

fn jit_code_has_names_even_if_the_perf_map_is_removed_before_the_report() {
    has_names_without_its_map(MAKER);
}

fn jit_code_in_shared_memory_has_names_even_if_the_perf_map_is_removed_before_the_report() {
    const PRIVATE: &str = "MAP_PRIVATE | MAP_ANONYMOUS, -1";
    // The kernel shows it as `/dev/zero (deleted)`, and the file as `/memfd:code (deleted)`.
    has_names_without_its_map(&MAKER.replace(PRIVATE, "MAP_SHARED | MAP_ANONYMOUS, -1"));
    let shared =
        "int shared(void) { int fd = memfd_create(\"code\", 0); ftruncate(fd, 4096); return fd; }";
    let source = MAKER.replace(PRIVATE, "MAP_SHARED, shared()");
    has_names_without_its_map(&source.replace("int main(", &format!("{shared}\nint main(")));
}

fn has_names_without_its_map(source: &str) {
    let program = Program::c(source, &[]);
    let may_end = program.directory().join("may-end");
    let line = format!(
        "{} map 0 stay; for i in $(seq 200); do [ -e {} ] && break; sleep 0.1; done",
        program.path(),
        may_end.display()
    );
    let run = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["top", "-e", "syscalls:sys_enter_getppid", "-k", "_stack", "--json"])
        .args(["--", "sh", "-c", &line])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the built command runs");
    let map = opened_map(run.id());
    std::fs::remove_file(&map).unwrap();
    std::fs::write(&may_end, "").unwrap();
    let run = run.wait_with_output().unwrap();
    let drawn = String::from_utf8_lossy(&run.stdout);
    let made = drawn.lines().find(|line| line.contains("made function"));
    assert!(made.is_some_and(|row| row.contains("\"sys_enter_getppid\":10")), "{drawn}");
}

/// Waits until a process keeps a perf map open, and returns the path of this map.
fn opened_map(pid: u32) -> PathBuf {
    let until = Instant::now() + Duration::from_secs(120);
    while Instant::now() < until {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let targets = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        if let Some(map) = targets.into_iter().find(|path| {
            path.starts_with("/tmp/") && path.extension().is_some_and(|end| end == "map")
        }) {
            return map;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("process {pid} opened no perf map");
}

fn jit_code_without_a_trusted_perf_map_has_no_name() {
    let program = Program::c(MAKER, &[]);
    for arguments in [&[][..], &["map", "65534"], &["map", "65534", "stay"]] {
        let watched = Watched::run(&[], &[&[program.path()], arguments].concat());
        remove_maps(&watched);
        watched.is_only(&["", "call", "main"], 10);
        assert_eq!(watched.stacks[0][0].dso, "[anon]");
    }
}

fn in_a_container_the_perf_map_has_the_inner_pid_and_the_inner_tmp() {
    let program = Program::c(MAKER, &[]);
    let directory = program.directory().join("hidden");
    std::fs::create_dir(&directory).unwrap();
    let line = format!(
        "cp {0} {1} && mount -t tmpfs none /tmp && mkdir -p {2} && cp {1} {0} && {0} map 0 stay",
        program.path(),
        "/dev/shm/perilune-test-maker",
        program.directory().display(),
    );
    let watched = Watched::run(&[], &["unshare", "-m", "-p", "-f", "sh", "-c", &line]);
    let _ = std::fs::remove_file("/dev/shm/perilune-test-maker");
    watched.is_only(&["made function", "call", "main"], 10);
}
