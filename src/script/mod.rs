//! The Lua side: loads scripts, guards them, and carries events to their handlers. Opens nothing, draws nothing.

pub mod aggregate;
pub mod bundle;
mod call;
pub mod context;
mod control;
mod dispatch;
pub mod evsel;
mod expression;
pub mod fault;
pub mod guard;
pub mod host;
pub mod leaf;
mod memory;
pub mod monitor;
pub mod opt;
pub mod option;
pub mod printer;
mod sink;
pub mod state;
mod table;
pub mod texts;
pub mod trust;
mod view;
pub mod vm;
pub mod words;
mod words_of_run;
