//! perilune watches a Linux machine live through `perf_event_open`; every monitor, the bundled ones included, is
//! a Lua script. This page is the map.
//!
//! # The flow
//!
//! ```text
//! kernel → sys::ring → decode → order → script::dispatch → handler (Lua) → stat → output
//!          (bytes)    (records) (when    (batches of        JIT-compiled    (Rust)  (text, JSON, …)
//!                               related)  slots)
//! ```
//!
//! Two planes. The *control plane* (argv → options → selectors → attributes → open) fails loudly and says what to do.
//! The *data plane* (drain → decode → order → dispatch → aggregate) allocates nothing per event in steady state, prints
//! nothing, blocks on nothing; what goes wrong there is counted in [`base::coverage`] and shown with each report.
//!
//! # One event's way
//!
//! 1. The kernel writes a record into the ring of its CPU. The ring belongs to a `dummy` event, which carries the
//!    records of tasks; every other event of the CPU is directed into it ([`source::open`]).
//! 2. [`source::live`] wakes by watermark or by a timer, reads the record in place, finds its decoder by id, and
//!    fills a [`base::slot::Slot`]: plain memory, with a pointer into the ring.
//! 3. A batch of slots goes to the script in one call. A driver loop in Lua, one per event, walks the slots and calls
//!    the handler; LuaJIT compiles loop, field loads and handler into one trace (`script::dispatch`, `driver.lua`).
//! 4. The handler adds to aggregates through leaves: `extern "C"` functions called through the FFI ([`stat`]).
//! 5. The batch is done; the ring's tail moves. At the interval's end the aggregates become rows
//!    ([`base::draw`]), and [`output`] draws them.
//!
//! # Layers
//!
//! Imports point down only; `tests/tidy/` enforces it.
//!
//! | | | |
//! |-|-|-|
//! | 0 | [`base`] | slots, values, rows, units: no kernel, no Lua |
//! | 1 | [`sys`] | every system call, most of the `unsafe` |
//! | 1 | [`decode`] | bytes → values; total: bad input is an `Err`, never a panic; no I/O |
//! | 1 | [`stat`] | aggregates and state, with leaves for LuaJIT and a safe API for Rust |
//! | 2 | [`event`] | what to watch: selectors, filters, catalogs, plans |
//! | 2 | [`order`], [`task`] | many streams → one in time order; names and parents of tasks |
//! | 3 | [`source`] | where records come from: live or replayed |
//! | 3 | [`symbol`] | an address → its name |
//! | 5 | [`script`] | the Lua side: opens nothing, draws nothing |
//! | 5 | [`output`] | rows → bytes; knows no records and no Lua |
//! | 6 | [`run`] | the loop |
//! | 7 | [`cli`] | the command line |
//!
//! `stdlib/` is Lua that ships with the runtime, `scripts/` the bundled monitors.
//!
//! # Invariants
//!
//! - Decode never does I/O; output never sees Lua; scripts never see an address.
//! - A run is one thread. The signal handlers set flags, count, or arm the one hook ([`script::guard`]).
//! - Every queue, cache and table has a bound; what a bound drops is counted, and the count is shown once.
//! - Batches never cross a report's or a timer's boundary when events are ordered.
//!
//! # Decisions that look odd, and why
//!
//! - Rings are stamped with `CLOCK_MONOTONIC` (`use_clockid`), not with the default perf clock: the merge can then take
//!   "now, less two milliseconds" as its limit instead of searching each ring for its newest record, stamps
//!   can be compared with a service's own log, and the conversion to wall time needs no calibration by events.
//! - With `-p`, when there are not enough file descriptors for an event per thread and CPU, events are opened CPU-wide and
//!   the threads told apart in user space. A kernel filter of thread ids (up to 222 fit) would be cheaper but
//!   cannot be changed once set, so threads born later would be missing without a word.
//! - The merge reads the ring heads in place and holds no record of its own, so `--order-mem` has nothing to bound: the rings do.
//! - After a pause (a stopped process) there is one report over the whole time and one turn of each timer, not all that were
//!   missed. A replay, which has no pauses, plays every turn.
//! - A batch is 1024 slots, 64 KiB, more than the first-level cache: a batch costs a microsecond whatever it holds, and the
//!   records that its slots lead to would push smaller ones out of that cache as well.
//! - `xpcall` stands around the walk of a batch, not around each handler, and ordered events are walked one by one: LuaJIT
//!   cannot compile a handler that returns into xpcall, nor a loop of one turn, and gives up for good after some
//!   attempts. With both, a run was fast or slow (70 or 270 ns an event) by which of its functions became hot first.
//! - Ordered runs drop what is older than their start, the moment when the last ring was enabled: until then only some
//!   CPUs were seen. Received and lost events add up to what was sent from there on.
//! - A loss drops the open states when its record is reached. Pairs that were closed on another ring between the hole
//!   and that record are still made; the window in front of a LOST record is not held back yet.
//! - The hot keys of a table stand in a small direct-mapped cache before its hash table ([`stat::keys`]): three loads
//!   that wait for each other become one.
//! - A named row of a table keeps its key and name for one more interval: the next event may not know the name.
//! - Text prints an event as its print format has it ([`decode::print`]), JSON its fields: a program would have to take
//!   the text apart again. `%p` is the address, not the kernel's hash of it: whoever may trace may see it, and it can be
//!   compared with a field. A format that cannot be evaluated prints `name=value`, as every event of a replay does.
//! - Names that a print format leaves to the kernel's headers are looked up in its BTF. Nothing else needs BTF, and
//!   without it those formats print `name=value`.
//! - Of a filter `a && b`, the kernel gets the conditions that it takes, and the rest becomes a predicate in front of the
//!   handler, never one in the source: a source knows no names of tasks and calls no Lua. A condition in the
//!   kernel's language means there what it means in the kernel (a number is cut to its field, `!` in front of a glob negates it),
//!   also next to C expressions, so that it does not matter where it ends up ([`event::filter::split`]).
//! - What predicates keep back is `filtered` in the coverage, and no event of the handlers: `-N`, rates and `events` do
//!   not know of it, but the cost per event is that of all that were received.
//! - A live run asks the scheduler for short turns ([`sys::slice`]): with busy tasks on every CPU, at 2.6 M events a second,
//!   two runs of three lost records (up to 0.03 %), and one of five with it (0.015 %), at the same cost.
//! - Where an expression's sum of doubles becomes a 64-bit integer, a `floor` stands in between. LuaJIT converts the operands
//!   instead of the sum, and of an operand that is itself a sum of ints it drops the check for overflow ([`event::expr`]).
//! - The full screen takes its keys from the run's own poll and its signals from [`sys::signal`]. crossterm would read keys
//!   with a second poll and a signal handler of its own, and could not put the terminal right from inside a handler;
//!   it only knows how to write cells. With a workload there is no screen: both would write to the terminal,
//!   and nor is there one with `--unsafe`, as a script may then start commands.
//! - In JSON, an event's own field whose name is taken (`comm`, `pid`) gets a `_` at its end, as a field that is a
//!   Lua keyword does in scripts.
//! - `ev:filter(text)` without further arguments takes the text as it is; with arguments, `%s` and `%d` are filled in.

pub mod base;
pub mod cli;
pub mod decode;
pub mod event;
pub mod order;
pub mod output;
pub mod run;
pub mod script;
pub mod source;
pub mod stat;
pub mod symbol;
pub mod sys;
pub mod task;
