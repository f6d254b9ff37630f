//! The full screen on a pseudo terminal: it follows keys and sizes, and the terminal is as before whatever ends the run.
//!
//! A program of its own: handlers that run away here would take the CPU from tests that count events exactly.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long something may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);

const UP: &str = "\x1b[?1049h";
const DOWN: &str = "\x1b[?1049l";
const CTRL_C: &str = "\x03";

/// The command on a terminal of its own.
struct OnTerminal {
    child: Child,
    master: File,
    slave: File,
    seen: Vec<u8>,
    /// How much of it was waited for.
    at: usize,
    before: Settings,
}

/// What has to be as it was.
#[derive(Debug, PartialEq)]
struct Settings {
    modes: [libc::tcflag_t; 4],
    characters: [libc::cc_t; libc::NCCS],
}

#[test]
fn the_screen_sorts_by_keys_and_leaves_a_report_behind() {
    for end in ["q", CTRL_C] {
        if !can_trace("the screen") {
            return;
        }
        let mut top = top(100, 20, &["-i", "200"]);
        top.wait_for(UP);
        top.wait_for("SCHED_SWITCH");
        top.press(">");
        // Blanks that were blank before are not written: words come one by one.
        top.wait_for("[by");
        top.press("\x1b[C");
        top.wait_for("SCHED_SWITCH]");
        top.press("/swap\r");
        top.wait_for("[/swap]");
        top.press(end);
        let (status, after) = top.finish();
        assert_eq!(status.code(), Some(0), "{end:?}: {after}");
        assert!(after.contains("  sample ") && after.contains("COMM"), "{end:?}: {after}");
    }
}

#[test]
fn the_third_interrupt_leaves_the_terminal_as_it_was() {
    if !can_trace("the third interrupt") {
        return;
    }
    // No hook stops a pattern that backtracks.
    let mut stuck = script("local s = ('a'):rep(40) s:find(('a?'):rep(40) .. s)");
    stuck.wait_for(UP);
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..3 {
        stuck.press(CTRL_C);
        std::thread::sleep(Duration::from_millis(100));
    }
    let (status, after) = stuck.finish();
    assert_eq!(status.code(), Some(130), "{after}");
    assert!(after.contains("stopped by the third signal"), "{after}");
}

#[test]
fn a_quit_signal_leaves_the_terminal_as_it_was() {
    if !can_trace("a quit signal") {
        return;
    }
    let mut top = top(100, 20, &["-i", "200"]);
    top.wait_for(UP);
    top.wait_for("SCHED_SWITCH");
    // SAFETY: our own child, which has not been waited for.
    unsafe { libc::kill(top.child.id() as i32, libc::SIGQUIT) };
    let (status, after) = top.finish();
    assert_eq!(status.signal(), Some(libc::SIGQUIT), "{after}");
}

#[test]
fn a_stop_from_elsewhere_finds_the_screen_down() {
    if !can_trace("a stop from elsewhere") {
        return;
    }
    let mut top = top(100, 20, &["-i", "200"]);
    top.wait_for(UP);
    top.wait_for("SCHED_SWITCH");
    // SAFETY: our own child, which has not been waited for. Without a shell that could continue it, it goes on at once.
    unsafe { libc::kill(top.child.id() as i32, libc::SIGTSTP) };
    top.wait_for(DOWN);
    top.wait_for(UP);
    top.press("q");
    let (status, after) = top.finish();
    assert_eq!(status.code(), Some(0), "{after}");
}

#[test]
fn a_run_that_was_stopped_keeps_off_the_terminal_until_it_is_in_front_again() {
    if !can_trace("stopping") {
        return;
    }
    let job = "set -m; \"$@\"; echo stopped $?; bg; read -r line; echo got $line; fg; exit $?";
    let command = env!("CARGO_BIN_EXE_perilune");
    // If the test fails, the shell may leave it behind.
    let bounded = ["--duration", "60s", "-i", "200"];
    let top = [command, "top", "-e", "sched:sched_switch"].into_iter().chain(bounded);
    let words: Vec<&str> = ["-c", job, "sh"].into_iter().chain(top).collect();
    let mut shell = OnTerminal::run("sh", 100, 20, &words);
    shell.wait_for(UP);
    shell.wait_for("SCHED_SWITCH");
    shell.press("\x1a");
    shell.wait_for(DOWN);
    shell.wait_for("stopped ");
    // In the background it prints as text.
    shell.wait_for("  sample ");
    shell.press("a line\r");
    shell.wait_for("got a line");
    shell.wait_for(UP);
    shell.press("q");
    let (status, after) = shell.finish();
    assert_eq!(status.code(), Some(0), "{after}");
}

#[test]
fn a_handler_that_is_stopped_says_so_on_the_screen_and_after_it() {
    if !can_trace("a runaway handler") {
        return;
    }
    let mut runaway = script("while true do end");
    runaway.wait_for(UP);
    runaway.wait_for("it ran for over");
    runaway.press("q");
    let (status, after) = runaway.finish();
    assert_eq!(status.code(), Some(1), "{after}");
    assert!(after.contains("it ran for over"), "{after}");
}

#[test]
fn a_terminal_that_is_too_small_gets_text_and_the_screen_comes_and_goes_with_its_size() {
    if !can_trace("sizes") {
        return;
    }
    let mut top = top(30, 5, &["-i", "200"]);
    top.wait_for("  sample ");
    assert!(!top.text().contains(UP), "{}", top.text());
    top.resize(100, 20);
    top.wait_for(UP);
    top.wait_for("q quit");
    top.resize(20, 4);
    top.wait_for(DOWN);
    top.wait_for("  sample ");
    top.press(CTRL_C);
    let (status, after) = top.finish();
    assert_eq!(status.code(), Some(0), "{after}");
}

#[test]
fn batch_and_json_are_never_a_screen() {
    if !can_trace("no screen") {
        return;
    }
    for (option, sign) in [("--batch", "  sample "), ("--json", "\"coverage\"")] {
        let mut top = top(100, 20, &["-i", "200", option]);
        top.wait_for(sign);
        top.press(CTRL_C);
        let text = top.text();
        let (status, after) = top.finish();
        assert_eq!(status.code(), Some(0), "{after}");
        assert!(!text.contains(UP) && !after.contains(DOWN), "{option}: {text}{after}");
    }
}

/// Whether this machine lets the test trace; says why not. On a build machine it has to.
fn can_trace(test: &str) -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "{test}: cannot run on a build machine: not root");
    #[expect(clippy::print_stderr, reason = "whoever runs the tests has to see what was left out")]
    {
        eprintln!("{test}: skipped: not root");
    }
    false
}

fn top(columns: u16, rows: u16, options: &[&str]) -> OnTerminal {
    let mut words = vec!["top", "-e", "sched:sched_switch"];
    words.extend(options);
    OnTerminal::start(columns, rows, &words)
}

/// A monitor with a screen whose handler does that.
fn script(handler: &str) -> OnTerminal {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("x.lua");
    let text = format!(
        "local m = monitor {{ summary = \"x\", screen = true, every = \"200ms\" }}\n\
         function m.init()\n local t = kv {{ \"comm\" }}\n \
         evsel(\"sched:sched_switch\", function(e) t:add(e.prev_comm) {handler} end)\nend\nreturn m\n"
    );
    std::fs::write(&path, text).expect("a script can be written");
    let mut started = OnTerminal::start(100, 20, &[path.to_str().expect("a path in UTF-8")]);
    // The script has been read by then.
    started.wait_for(UP);
    started.at = 0;
    started
}

impl OnTerminal {
    fn start(columns: u16, rows: u16, words: &[&str]) -> OnTerminal {
        OnTerminal::run(env!("CARGO_BIN_EXE_perilune"), columns, rows, words)
    }

    fn run(program: &str, columns: u16, rows: u16, words: &[&str]) -> OnTerminal {
        let size = libc::winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut master, mut slave) = (-1, -1);
        let null = std::ptr::null_mut();
        // SAFETY: the first two are written to, the name is not asked for, and the size is read.
        let opened = unsafe {
            libc::openpty(&mut master, &mut slave, null, null.cast(), (&raw const size).cast_mut())
        };
        assert_eq!(opened, 0, "a pseudo terminal can be opened");
        // SAFETY: both were just opened and belong to nobody else.
        let (master, slave) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) };
        // SAFETY: sets a flag of an open descriptor.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let end = || Stdio::from(slave.try_clone().expect("a descriptor can be doubled"));
        let mut command = Command::new(program);
        command.args(words).env("TERM", "xterm-256color").env_remove("PERILUNE_PATH");
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: all calls are async-signal-safe; 0 is the slave by then.
        unsafe {
            command.pre_exec(|| {
                let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
                libc::setsid();
                match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let before = settings(&slave);
        let child = command.spawn().expect("the built command runs");
        OnTerminal { child, master, slave, seen: Vec::new(), at: 0, before }
    }

    /// Everything that was printed so far.
    fn text(&mut self) -> String {
        let mut room = [0; 4096];
        while let Ok(n @ 1..) = self.master.read(&mut room) {
            self.seen.extend_from_slice(&room[..n]);
        }
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Waits for text behind what was waited for last.
    fn wait_for(&mut self, wanted: &str) {
        let since = Instant::now();
        loop {
            let text = self.text();
            if let Some(found) = text.get(self.at..).and_then(|text| text.find(wanted)) {
                self.at += found + wanted.len();
                return;
            }
            let last = text.len().saturating_sub(600);
            assert!(since.elapsed() < PATIENCE, "no {wanted:?} in …{:?}", text.get(last..));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("keys can be pressed");
    }

    fn resize(&self, columns: u16, rows: u16) {
        let size = libc::winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: reads the size; the kernel sends SIGWINCH.
        let set =
            unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(set, 0);
    }

    /// Waits for the end: how it ended, and what was printed once no screen was up any more.
    fn finish(mut self) -> (ExitStatus, String) {
        let since = Instant::now();
        let status = loop {
            self.text();
            if let Some(status) = self.child.try_wait().expect("our own child can be waited for") {
                break status;
            }
            assert!(since.elapsed() < PATIENCE, "still running: {:?}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = self.text();
        assert_eq!(text.matches(UP).count(), text.matches(DOWN).count(), "{text:?}");
        assert_eq!(settings(&self.slave), self.before);
        let after = text.rfind(DOWN).map_or(&*text, |at| &text[at..]).to_owned();
        (status, after)
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // After `finish` both say that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn settings(terminal: &File) -> Settings {
    // SAFETY: zeros are a value of termios.
    let mut found: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: writes to a live local.
    let asked = unsafe { libc::tcgetattr(terminal.as_raw_fd(), &raw mut found) };
    assert_eq!(asked, 0, "a terminal has settings");
    Settings {
        modes: [found.c_iflag, found.c_oflag, found.c_cflag, found.c_lflag],
        characters: found.c_cc,
    }
}
