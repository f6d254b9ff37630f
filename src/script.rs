//! Lua side of the runtime: loads scripts, guards them and passes events to their handlers. Opens
//! no events and draws nothing.
//!
//! Imports point up this table only:
//!
//! | | |
//! |-|-|
//! | [`option`] | options of a monitor and of the command line, as data |
//! | [`load`] | where scripts are found, which are trusted, the monitor that a file returns |
//! | [`vm`] | LuaJIT: the sandbox, the guard that stops a call, errors |
//! | [`evsel`] | the events that a script declares, resolved to roles |
//! | [`aggregate`] | `latency`, `kv`, `hist`, `pending` …: constructors, rows, drawing |
//! | [`context`] | the state that functions and leaves reach: tasks, clock, output, timers |
//! | `dispatch` | views, drivers and predicates: a batch goes to its handlers |
//! | [`api`] | the other functions that scripts call, one file per area |
//! | [`host`] | one script and its run, of all the above |
//! | [`prompt`] | a host with typed lines and several monitors |
//! | [`served`] | a host with several monitors of one run |
//!
//! `prelude/` is the Lua half of these: chunks with every library, whose Rust half is a table of
//! functions and addresses, `native`.

pub mod aggregate;
pub mod api;
pub mod context;
mod dispatch;
pub mod evsel;
pub mod host;
pub mod load;
pub mod option;
pub mod prompt;
pub mod served;
pub mod vm;
