//! The command as a user sees it on a terminal: the prompt, and the full screen.

#[path = "../kernel/cgroup.rs"]
mod cgroup;
#[path = "../kernel/live.rs"]
mod live;
mod pty;
mod repl;
mod screen;
#[path = "../kernel/user.rs"]
mod user;

use std::process::ExitCode;

fn main() -> ExitCode {
    live::run([
        screen::tests(),
        repl::cgroups::tests(),
        repl::counts::tests(),
        repl::files::tests(),
        repl::live::tests(),
        repl::mistakes::tests(),
        repl::sessions::tests(),
        repl::typed::tests(),
        repl::user::tests(),
    ])
}
