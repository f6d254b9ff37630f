//! perilune watches a Linux machine live through `perf_event_open`. Every monitor, the bundled ones
//! included, is a Lua script. This page is the map of the source.
//!
//! # Flow
//!
//! ```text
//! kernel → sys::ring → decode → order → script::dispatch → handler (Lua) → stat → output
//!          (bytes)    (records) (when    (batches of        JIT-compiled    (Rust) (text, JSON, …)
//!                               related)  slots)
//! ```
//!
//! The *control plane* (argv → options → selectors → attributes → open) fails with an error that
//! names the fix. The *data plane* (drain → decode → order → dispatch → aggregate) does not
//! allocate per event in steady state, does not print and does not block; its failures are counted
//! in [`base::report::coverage`] and shown with each report.
//!
//! 1. The kernel writes a record into the ring of its CPU. The ring belongs to a `dummy` event,
//!    which carries the side-band records of tasks; every other event of the CPU is redirected into
//!    it ([`source::open`]).
//! 2. [`source::live`] wakes by watermark or timer, reads the record in place, finds its decoder by
//!    id, and fills a [`base::event::slot::Slot`]: plain memory, with a pointer into the ring. The
//!    call chain of an event is there as the kernel wrote it, or unwound from a copy of the stack
//!    (`--call-graph=dwarf`, [`unwind`]), or built from branch records.
//! 3. A batch of slots goes to the script in one call. A driver loop in Lua, one per event, walks
//!    the slots and calls the handler; LuaJIT compiles loop, field loads and handler into one trace
//!    (`script::dispatch`, `driver.lua`).
//! 4. The handler adds to aggregates through leaves: `extern "C"` functions called through the FFI
//!    ([`stat`]).
//! 5. After the batch, the tail of the ring moves. At the end of the interval the aggregates become
//!    rows ([`base::report::draw`]), and [`output`] draws them.
//!
//! A count by key that needs no handler skips these steps where the kernel can do it: a BPF program
//! at the tracepoint adds to a table, whose rows are added to the script's at each report
//! ([`source::counting`], [`bpf::count`]).
//!
//! # Layers
//!
//! Imports point down only; `tests/tidy` enforces it.
//!
//! | | | |
//! |-|-|-|
//! | 0 | [`base`] | slots, values, rows, units: no kernel, no Lua |
//! | 1 | [`sys`] | every system call, most of the `unsafe` |
//! | 1 | [`bpf`] | BPF programs as plain data: an assembler, expressions; loads nothing |
//! | 1 | [`decode`] | bytes → values; total: bad input is an `Err`, never a panic; no I/O |
//! | 1 | [`stat`] | aggregates and state, with leaves for LuaJIT and a safe API for Rust |
//! | 2 | [`event`] | what to watch: selectors, filters, catalogs, plans |
//! | 2 | [`order`], [`task`] | the merge by time; names, parents and mappings of tasks |
//! | 3 | [`source`] | where records come from: live or replayed |
//! | 3 | [`symbol`] | address → functions; name of a function → address |
//! | 4 | [`unwind`] | copy of a stack → call chain |
//! | 4 | [`stack`] | call chain → small number → named frames |
//! | 5 | [`script`] | the Lua side: opens nothing, draws nothing |
//! | 5 | [`output`] | rows → bytes; knows no Lua, and of records only fields with fixed places |
//! | 6 | [`run`] | the loop of a monitor, and that of a session at a prompt |
//! | 7 | [`cli`] | the command line |
//!
//! `stdlib/` is Lua that ships with the runtime, `scripts/` has the bundled monitors.
//!
//! # Invariants
//!
//! - Decode does no I/O; output does not know Lua.
//! - A run is one thread. The signal handlers set flags, count, or arm the one hook
//!   ([`script::vm::guard`]). A session at a prompt runs Lua and reads rings in one thread; further
//!   threads close events ([`source::live::change`]), read lines and print ([`cli::repl`]) and take
//!   signals ([`sys::signal::listener`]). With `--prometheus` and `--otlp`, a thread each owns the
//!   series; it takes whole intervals from a queue with a limit, and the run never waits for it
//!   (`run::metrics`, `run::otlp`).
//! - No leaf holds a reference into an aggregate while script code can run: the cursor points to a
//!   slot of the batch, or to a copy that no script can change (`view.lua`). A printer, predicate,
//!   key, draw function or callback cannot yield across the host. `tests/handlers/reentry` and
//!   `fuzz/` call random functions from every callback.
//! - A record is read through the view of its own event; reading an `e` after its handler is an
//!   error.
//! - Every queue, cache and table has a limit, and all aggregates share one ([`stat::budget`]);
//!   what a limit drops is counted, and the count is shown once.
//! - The handlers of a source, a monitor whose events another one takes, run before all others;
//!   what they emit takes the place of their events in the batch (`script::host::sources`).
//! - Batches never cross the boundary of a report or timer when events are ordered.
//! - Counters are read in groups, each led by a dummy event that scripts do not see: any member can
//!   be closed or switched off (`source::open::groups`).
//!
//! Decisions that look odd, with their reasons and figures, are in `docs/decisions.md`.

pub mod base;
pub mod bpf;
pub mod cli;
pub mod decode;
pub mod event;
pub mod order;
pub mod output;
pub mod run;
pub mod script;
pub mod source;
pub mod stack;
pub mod stat;
pub mod symbol;
pub mod sys;
pub mod task;
pub mod unwind;
