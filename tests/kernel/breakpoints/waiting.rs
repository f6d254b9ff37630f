//! A command that executes the watched program late, or never: perilune holds it by ptrace until
//! the addresses of the program are known.

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::hits::needs_each_hit;
use super::{at, built};
use crate::functions::Program;
use crate::live::{live_tests, skip_anywhere};

live_tests! {
    the_duration_bounds_the_wait_for_a_program_that_is_never_executed,
    an_interrupt_ends_the_wait_and_the_command,
    a_program_that_is_executed_late_is_watched_and_a_note_says_what_is_awaited,
    system_calls_before_the_program_do_not_stop_the_command,
    a_signal_during_the_wait_keeps_its_sender_and_value,
    a_command_that_is_stopped_during_the_wait_runs_on_at_sigcont,
    a_set_user_id_program_without_its_privileges_is_noted,
}

/// Longer than any run here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// `wrap HOW FILE ARGUMENT…`: executes FILE after 5000 system calls (`calls`), or after a signal of
/// its own has arrived with its value (`signal`). `wrap switches` prints how often the process,
/// which was another program before, has waited.
const WRAPPER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
volatile long counter;
static volatile int arrived;
static void take(int n, siginfo_t *info, void *c) {
    int is_ours = info->si_code == SI_QUEUE && info->si_pid == getpid();
    arrived = is_ours && info->si_value.sival_int == 42;
}
int main(int argc, char **argv) {
    if (!strcmp(argv[1], "switches")) {
        char line[256];
        FILE *status = fopen("/proc/self/status", "r");
        for (int i = 0; i < 10; i++) counter = i;
        while (fgets(line, sizeof line, status))
            if (!strncmp(line, "voluntary", 9)) fputs(line, stderr);
        return 0;
    }
    if (!strcmp(argv[1], "calls")) {
        for (int i = 0; i < 5000; i++) syscall(SYS_getppid);
    } else {
        struct sigaction action = { .sa_sigaction = take, .sa_flags = SA_SIGINFO };
        sigaction(SIGUSR1, &action, 0);
        sigqueue(getpid(), SIGUSR1, (union sigval){ .sival_int = 42 });
        if (!arrived) return 9;
    }
    execv(argv[2], argv + 2);
    return 8;
}
"#;

fn perilune(event: &str, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perilune"));
    command.args(["trace", "--json", "-e", event]).args(options).arg("--").stdin(Stdio::null());
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn events(output: &Output) -> usize {
    String::from_utf8_lossy(&output.stdout).matches("\"type\":\"event\"").count()
}

/// A command that writes its process id to a file and sleeps, and whether it still does.
struct Sleeper(tempfile::TempDir);

impl Sleeper {
    fn new() -> Sleeper {
        Sleeper(tempfile::tempdir().expect("a folder"))
    }

    fn script(&self) -> String {
        format!("echo $$ > {0}/new; mv {0}/new {0}/pid; exec sleep 50", self.0.path().display())
    }

    fn wait(&self) {
        let since = Instant::now();
        while self.pid().is_none() {
            assert!(since.elapsed() < PATIENCE, "it has not begun");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn pid(&self) -> Option<String> {
        let pid = std::fs::read_to_string(self.0.path().join("pid")).ok()?;
        Some(pid.trim().to_owned())
    }

    /// Asserts that it began and ends.
    fn assert_ended(&self) {
        let stat = format!("/proc/{}/stat", self.pid().expect("it began"));
        let since = Instant::now();
        while std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains("(sleep) ")) {
            assert!(since.elapsed() < Duration::from_secs(10), "it still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn the_duration_bounds_the_wait_for_a_program_that_is_never_executed() {
    let (program, sleeper) = (super::program(&[]), Sleeper::new());
    let began = Instant::now();
    let output = perilune(&at(&program, "counter:w"), &["--duration", "1s"])
        .args(["sh", "-c", &sleeper.script()])
        .output()
        .expect("it runs");
    let said = stderr(&output);
    assert!(began.elapsed() >= Duration::from_secs(1), "{said}");
    assert!(began.elapsed() < Duration::from_secs(40), "{said}");
    assert!(said.contains("the run ended before the command had mapped this file"), "{said}");
    assert_eq!(output.status.code(), Some(125), "{said}");
    sleeper.assert_ended();
    // One that ends by itself was executed, too.
    let output = perilune(&at(&program, "counter:w"), &[]).arg("true").output().expect("it runs");
    let said = stderr(&output);
    assert!(said.contains("the command ended and its process has not mapped this file"), "{said}");
    assert_eq!(output.status.code(), Some(125), "{said}");
    let absent = perilune(&at(&program, "counter:w"), &[]).arg("/no/such").output();
    assert_eq!(absent.expect("it runs").status.code(), Some(127));
}

fn an_interrupt_ends_the_wait_and_the_command() {
    let (program, sleeper) = (super::program(&[]), Sleeper::new());
    let mut run = perilune(&at(&program, "counter:w"), &[]);
    run.args(["sh", "-c", &sleeper.script()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = run.spawn().expect("it runs");
    sleeper.wait();
    // SAFETY: it takes no pointer; the child is not reaped before it is waited for.
    assert_eq!(unsafe { libc::kill(run.id().cast_signed(), libc::SIGINT) }, 0);
    let output = run.wait_with_output().expect("our own child");
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    sleeper.assert_ended();
}

fn a_program_that_is_executed_late_is_watched_and_a_note_says_what_is_awaited() {
    let program = built(&[]);
    let script = format!("sleep 3; exec {} -50 0", program.path());
    let output = perilune(&at(&program, "counter:w"), &["--duration", "50s"])
        .args(["sh", "-c", &script])
        .output()
        .expect("it runs");
    assert_eq!((output.status.code(), events(&output)), (Some(0), 50), "{}", stderr(&output));
    assert!(stderr(&output).contains("waiting until the command executes"), "{}", stderr(&output));
}

fn system_calls_before_the_program_do_not_stop_the_command() {
    needs_each_hit();
    let program = Program::of(WRAPPER, &["-pie", "-fPIE"]);
    program.run(Command::new("cp").args(["chain", "wrap"]));
    let wrapper = program.path().replace("/chain", "/wrap");
    let output = perilune(&at(&program, "counter:w"), &[])
        .args([&wrapper, "calls", &program.path(), "switches"])
        .output()
        .expect("it runs");
    let said = stderr(&output);
    assert_eq!((output.status.code(), events(&output)), (Some(0), 10), "{said}");
    let waited = said.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let waited: u32 =
        waited.and_then(|n| n.trim().parse().ok()).unwrap_or_else(|| panic!("{said}"));
    assert!(waited < 500, "{waited} of 5000 system calls: {said}");
}

fn a_signal_during_the_wait_keeps_its_sender_and_value() {
    needs_each_hit();
    let program = Program::of(WRAPPER, &[]);
    program.run(Command::new("cp").args(["chain", "wrap"]));
    let wrapper = program.path().replace("/chain", "/wrap");
    let output = perilune(&at(&program, "counter:w"), &[])
        .args([&wrapper, "signal", &program.path(), "switches"])
        .output()
        .expect("it runs");
    assert_eq!((output.status.code(), events(&output)), (Some(0), 10), "{}", stderr(&output));
}

fn a_command_that_is_stopped_during_the_wait_runs_on_at_sigcont() {
    let (program, marks) = (built(&[]), Sleeper::new());
    let folder = marks.0.path().display();
    let begin = format!("echo $$ > {folder}/new; mv {folder}/new {folder}/pid; kill -STOP $$");
    let script = format!("{begin}; touch {folder}/on; exec {} -50 0", program.path());
    let mut run = perilune(&at(&program, "counter:w"), &[]);
    run.args(["sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = run.spawn().expect("it runs");
    marks.wait();
    let pid: i32 = marks.pid().expect("it began").parse().expect("a number");
    std::thread::sleep(Duration::from_millis(500));
    let runs_on = marks.0.path().join("on").exists();
    // SAFETY: it takes no pointer; perilune waits for the command, so the number is not reused.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGCONT) }, 0);
    let output = run.wait_with_output().expect("our own child");
    assert!(!runs_on, "SIGSTOP has not stopped it");
    assert_eq!((output.status.code(), events(&output)), (Some(0), 50), "{}", stderr(&output));
}

fn a_set_user_id_program_without_its_privileges_is_noted() {
    let program = built(&[]);
    let folder = program.path().replace("/chain", "");
    let mode = |path: &str, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    mode(&folder, 0o755);
    std::os::unix::fs::chown(program.path(), Some(65533), None).expect("this is root");
    let run = |bits| {
        mode(&program.path(), bits);
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
            .arg(env!("CARGO_BIN_EXE_perilune"))
            .args(["trace", "--json", "-e", &at(&program, "counter:w"), "--"])
            .args([&program.path(), "10", "0"])
            .output()
            .expect("setpriv runs");
        if stderr(&output).contains("perf_event_paranoid") {
            skip_anywhere("this machine denies events to ordinary users");
        }
        assert_eq!(events(&output), 30, "{}", stderr(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(&output);
        text.matches("it runs without the privileges of its owner (set-user-ID)").count()
    };
    assert_eq!((run(0o755), run(0o4755)), (0, 1));
}
