//! A command on a separate pseudo terminal: types keys and reads the output.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Timeout on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) const UP: &str = "\x1b[?1049h";
pub(crate) const DOWN: &str = "\x1b[?1049l";
pub(crate) const CTRL_C: &str = "\x03";

/// The command on a separate terminal.
pub(crate) struct OnTerminal {
    pub(crate) child: Child,
    master: File,
    slave: File,
    seen: Vec<u8>,
    /// Offset in `seen` up to which the output was waited for.
    pub(crate) at: usize,
    before: Settings,
}

/// Settings of a terminal, which a run must restore.
#[derive(Debug, PartialEq)]
struct Settings {
    modes: [libc::tcflag_t; 4],
    characters: [libc::cc_t; libc::NCCS],
}

impl OnTerminal {
    pub(crate) fn start(columns: u16, rows: u16, words: &[&str]) -> OnTerminal {
        OnTerminal::run(env!("CARGO_BIN_EXE_perilune"), columns, rows, words)
    }

    pub(crate) fn run(program: &str, columns: u16, rows: u16, words: &[&str]) -> OnTerminal {
        let size = libc::winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        let (mut master, mut slave) = (-1, -1);
        let null = std::ptr::null_mut();
        // SAFETY: the first two pointers are written to, the name is null, and the size is read.
        let opened = unsafe {
            libc::openpty(&mut master, &mut slave, null, null.cast(), (&raw const size).cast_mut())
        };
        assert_eq!(opened, 0, "a pseudo terminal can be opened");
        // SAFETY: both were just opened and have no other owner.
        let (master, slave) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) };
        // SAFETY: sets a flag of an open descriptor.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        let end = || Stdio::from(slave.try_clone().expect("a descriptor can be doubled"));
        let mut command = Command::new(program);
        command.args(words).env("TERM", "xterm-256color").env_remove("PERILUNE_PATH");
        // The prompt must not store the test's lines in a history.
        command.env_remove("XDG_STATE_HOME").env_remove("HOME");
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: all calls are async-signal-safe; 0 is the slave by then.
        unsafe {
            command.pre_exec(|| {
                let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
                // The tests may have been started in the background of a shell, or by nohup, which
                // ignore them.
                for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
                    libc::signal(signal, libc::SIG_DFL);
                }
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

    /// Returns everything that was printed so far.
    pub(crate) fn text(&mut self) -> String {
        let mut room = [0; 4096];
        while let Ok(n @ 1..) = self.master.read(&mut room) {
            self.seen.extend_from_slice(&room[..n]);
        }
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Waits for text behind the text that was waited for last.
    pub(crate) fn wait_for(&mut self, wanted: &str) {
        if !self.appears(wanted, PATIENCE) {
            let text = self.text();
            panic!("no {wanted:?} in …{:?}", text.get(text.len().saturating_sub(600)..));
        }
    }

    /// Presses keys until their answer appears: an earlier Ctrl-C may still discard typed keys.
    pub(crate) fn press_until(&mut self, keys: &str, wanted: &str) {
        let since = Instant::now();
        loop {
            self.press(keys);
            if self.appears(wanted, Duration::from_secs(2)) {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "no {wanted:?} in …{:?}", self.text());
        }
    }

    fn appears(&mut self, wanted: &str, patience: Duration) -> bool {
        let since = Instant::now();
        loop {
            let text = self.text();
            if let Some(found) = text.get(self.at..).and_then(|text| text.find(wanted)) {
                self.at += found + wanted.len();
                return true;
            }
            if since.elapsed() >= patience {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the command has used 200 ms of CPU time from now on: it spins.
    pub(crate) fn wait_until_it_spins(&self) {
        let stat = format!("/proc/{}/stat", self.child.id());
        // In ticks of 10 ms: fields 14 and 15, see proc_pid_stat(5).
        let used = || -> u64 {
            let stat = std::fs::read_to_string(&stat).expect("it runs");
            let fields = stat.rsplit(')').next().into_iter().flat_map(str::split_whitespace);
            fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
        };
        let (since, before) = (Instant::now(), used());
        while used() < before + 20 {
            assert!(since.elapsed() < PATIENCE, "it does not spin");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("keys can be pressed");
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let size = libc::winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: reads the size; the kernel sends SIGWINCH.
        let set =
            unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(set, 0);
    }

    /// Waits for the end. Returns the exit status, and what was printed after the screen was
    /// closed.
    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
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
        // Both calls fail after `finish`, because the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn settings(terminal: &File) -> Settings {
    // SAFETY: zeros are a valid termios.
    let mut found: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: writes to a live local.
    let asked = unsafe { libc::tcgetattr(terminal.as_raw_fd(), &raw mut found) };
    assert_eq!(asked, 0, "a terminal has settings");
    Settings {
        modes: [found.c_iflag, found.c_oflag, found.c_cflag, found.c_lflag],
        characters: found.c_cc,
    }
}
