//! The command as a user sees it on a terminal: the prompt, and the full screen.

mod pty;
mod repl;
mod screen;
