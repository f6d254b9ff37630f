//! The prompt of an ordinary user: everything without events works, and so do events of the user's
//! own processes.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use crate::live::live_tests;
use crate::user::{USER, command_of_user, require_paranoid_2};

live_tests! {
    a_user_without_privileges_can_do_everything_that_needs_no_event,
    a_user_watches_an_own_process_and_the_excluded_part_is_noted,
}

/// Returns the output of a prompt of an unprivileged user for these lines: results and messages.
fn answers(words: &[&str], lines: &str) -> (String, String) {
    let (_folder, command) = command_of_user();
    let mut child = super::piped(command).args(words).spawn().expect("the command runs");
    let mut input = child.stdin.take().expect("it was piped");
    input.write_all(lines.as_bytes()).expect("lines can be sent");
    drop(input);
    let output = child.wait_with_output().expect("our own child can be waited for");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}

/// A process of an unprivileged user that only uses its CPU.
struct Spinning(Child);

impl Spinning {
    fn begin() -> Spinning {
        let spin = ["-c", "while :; do :; done"];
        let spinning =
            Spinning(Command::new("sh").args(spin).uid(USER).gid(USER).spawn().expect("sh runs"));
        // Until its exec, it still belongs to root in part.
        let comm = format!("/proc/{}/comm", spinning.0.id());
        while std::fs::read_to_string(&comm).is_ok_and(|name| name != "sh\n") {
            std::thread::yield_now();
        }
        spinning
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        // It runs until it is killed here.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn a_user_without_privileges_can_do_everything_that_needs_no_event() {
    require_paranoid_2();
    let lines = "20 + 22\nfields \"page-faults\"\n:jobs\nprobe(\"page-faults\")\n\
                 every(\"50ms\", function() print(\"tick\") end)\nrun \"1s\"\n:lost\n";
    let since = std::time::Instant::now();
    let (text, said) = answers(&[], lines);
    // On a busy machine the second ends late.
    let most = since.elapsed().as_millis() / 50;
    let ticks = text.matches("tick\n").count();
    assert!(ticks >= 2 && ticks as u128 <= most, "{ticks} times 50 ms, not 2 to {most}");
    let wanted = "42\na counter: _period, _ip, _addr\nno monitor runs; run(\"NAME\") starts one\n\
                  0 events: nothing lost\n";
    assert_eq!(text.replace("tick\n", ""), wanted, "{said}");
    let why = "permission denied; perf_event_paranoid is 2: run as root, or set it to 0, or watch \
               your own process: perilune repl -p PID";
    let wanted = format!(
        "perilune: warning: events: {why}; at this prompt, only functions that need no event work\n\
         perilune: page-faults: {why}\n"
    );
    assert_eq!(said, wanted);
    let (_, said) = answers(&["-p", "1"], "probe(\"page-faults:u\")\n");
    let wanted = "page-faults:u: permission denied; task 1 belongs to another user: run as root, \
                  or with CAP_PERFMON\n";
    assert!(said.ends_with(wanted), "{said}");
}

fn a_user_watches_an_own_process_and_the_excluded_part_is_noted() {
    require_paranoid_2();
    let spinning = Spinning::begin();
    let pid = spinning.0.id().to_string();
    let lines = format!(
        "own, others = 0, 0\n\
         p = probe(\"cpu-clock\", {{ freq = 997 }}, function(e)\n\
         if e._pid == {pid} then own = own + 1 else others = others + 1 end\n\
         end)\n\
         run \"1s\"\n\
         print(own > 10, own < 1100, others)\n"
    );
    let (text, said) = answers(&["-p", &pid], &lines);
    assert_eq!(text, "true\ttrue\t0\n", "{said}");
    let remark = "cpu-clock:u: this user may not watch the kernel, so only user mode is sampled";
    assert!(said.contains(remark), "{said}");
}
