//! The prompt: sessions over recordings, over the kernel, and on a terminal.

#[path = "../terminal/mod.rs"]
mod terminal;

mod files;
mod live;
mod sessions;
mod typed;
mod user;
