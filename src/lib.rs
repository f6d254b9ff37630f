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
//!    An event with stacks has its call chain there, too: as the kernel wrote it, or put together in the batch's own memory
//!    when the stack was copied (`--call-graph=dwarf`) and has to be unwound at once, while mappings are those of its time
//!    ([`unwind`]), or comes as branch records.
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
//! | 2 | [`order`], [`task`] | many streams → one in time order; names and parents of tasks, what they execute from where |
//! | 3 | [`source`] | where records come from: live or replayed |
//! | 3 | [`symbol`] | an address → the functions that it lies in; a function's name → its place |
//! | 4 | [`unwind`] | a copy of a stack → its callers |
//! | 4 | [`stack`] | call chain → small number; number → named frames |
//! | 5 | [`script`] | the Lua side: opens nothing, draws nothing |
//! | 5 | [`output`] | rows → bytes; knows no records and no Lua |
//! | 6 | [`run`] | the loop, of a monitor or of a session at a prompt |
//! | 7 | [`cli`] | the command line |
//!
//! `stdlib/` is Lua that ships with the runtime, `scripts/` the bundled monitors.
//!
//! # Invariants
//!
//! - Decode never does I/O; output never sees Lua.
//! - Counters are read in groups, each led by a dummy that no script sees: any member can be closed
//!   or switched off (`source::groups`).
//! - A run is one thread. The signal handlers set flags, count, or arm the one hook ([`script::guard`]).
//! - A session at a prompt runs Lua and reads rings in one thread. Further threads close events
//!   ([`source::change`]), read lines and, on a terminal, print above them ([`cli::repl`]) and take
//!   signals ([`sys::signal::listener`]). Their events are excluded.
//! - No leaf holds a reference into an aggregate while script code can run: the cursor points to a
//!   slot of the batch, or to a copy that no script can change (`view.lua`). A printer, predicate,
//!   key, draw function or callback cannot yield across the host. `tests/reentry` and `fuzz/` call
//!   random functions from every callback.
//! - A record is read through the view of its own event; reading an `e` after its handler is an
//!   error.
//! - Every queue, cache and table has a limit, and all aggregates share one ([`stat::budget`]);
//!   what a limit drops is counted, and the count is shown once.
//! - Batches never cross a report's or a timer's boundary when events are ordered.
//!
//! # Decisions that look odd, and why
//!
//! - Rings are stamped with `CLOCK_MONOTONIC` (`use_clockid`), not with the default perf clock: the merge can then take
//!   "now, less two milliseconds" as its limit instead of searching each ring for its newest record, stamps
//!   can be compared with a service's own log, and the conversion to wall time needs no calibration by events.
//! - Every CPU has a ring, also with `-C`, since a task may be forked or named on one CPU and run
//!   on another. On a CPU without events the ring is small and holds records of tasks only; records
//!   that are lost there do not count as a hole for events.
//! - The kernel removes the events of a CPU that goes offline, without POLLHUP. The list of online
//!   CPUs is read every second, and the time for which each dummy was enabled every 10 s; a CPU
//!   that comes back gets new events, which write to its old ring ([`source::hotplug`]).
//! - The timer of a clock skips expirations that it is late for, without a record. The number of
//!   samples is therefore compared with the running time of tasks or the busy time of CPUs
//!   ([`source::clocks`]).
//! - With `-p`, when there are not enough file descriptors for an event per thread and CPU, events are opened CPU-wide and
//!   the threads told apart in user space. A kernel filter of thread ids (up to 222 fit) would be cheaper but
//!   cannot be changed once set, so threads born later would be missing without a word.
//! - The merge reads the ring heads in place and holds no record of its own, so `--order-mem` has nothing to bound: the rings do.
//! - After a pause (a stopped process) there is one report over the whole time and one turn of each timer, not all that were
//!   missed. A replay, which has no pauses, plays every turn.
//! - A batch is 1024 slots, 64 KiB, though that is more than the first-level cache holds: what stands around a batch is
//!   interpreted and costs half a microsecond or more, whatever it holds ([`base::slot::BATCH`]).
//! - The first unread record of each merged ring is kept as a finished slot: to be merged its time has to be read, and most of the
//!   rest lies in the same line of the cache. Read twice, an ordered event cost 10 ns more.
//! - `xpcall` stands around the walk of a batch, not around each handler, and ordered events are walked one by one: LuaJIT
//!   cannot compile a handler that returns into xpcall, nor a loop of one turn, and gives up for good after some
//!   attempts. With both, a run was fast or slow (70 or 270 ns an event) by which of its functions became hot first.
//! - Ordered runs drop what is older than their start, the moment when the last ring was enabled: until then only some
//!   CPUs were seen. Received and lost events add up to what was sent from there on. So it is with events that are turned on
//!   together while a run goes on ([`source::live::Live::switch`]).
//! - A hole is told when the merge passes its beginning, before anything that other rings hold of its time ([`source`], `hole`). The
//!   kernel writes a LOST record only when the next record fits, so a ring that was nearly full asks the events' own counts
//!   as soon as it has been read: 1 to 10 us an event, instead of holding its neighbours back until that record comes.
//! - A kernel may count an event, write no record and count no loss. Counts and records are
//!   therefore compared: all rings at the end, and one CPU in turn at each interval ([`source`],
//!   `delivery`). Reading all counts at each interval would wake every idle CPU.
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
//!   It does not help against another session's tasks where those are a group of their own (`sched_autogroup_enabled`): on
//!   6.18, with tasks of one that only wake each other on every CPU, any task of another one waits for up to seconds.
//! - `--realtime` goes in front of those ([`sys::slice::Front`]): of 650 k events a second beside tasks of another group 3 to 75 %
//!   were lost without it, none with it. It is not the default: it changes who waits for a CPU, which is what many a run wants to know.
//! - At a prompt the thread that reads keys goes first, with the lowest real-time priority where it may, for a tenth of a CPU at
//!   most; and so does the session's, for a fifth, once it was kept waiting
//!   ([`sys::slice::Front`]). The thread that prints has it for a twentieth, and the guard's timer
//!   takes it from a script that loops. With 600 k switches a second, all of another session's, the
//!   keys' thread waited for 8 to 12 s of 14, and waits for 1 to 4 ms; the session lost 79 to 97 %
//!   of them, and loses 7 to 16 %, those of the first two seconds. A key's echo takes two turns of
//!   the kernel's own workers (`flush_to_ldisc`), too, which wait as before: 0.7 to 18 ms in the
//!   median, 0.1 to 0.5 s one in a hundred, as with a `cat` of that priority; before that up to 6 s
//!   and more. With the tasks in our own session it is 0.2 ms and 0.3 s, and the session stays
//!   where it is: in front it would make those workers wait for 10 ms. Who is root can write -20 to
//!   `/proc/PID/autogroup`; we do not, since that is the nice value of all that runs in the
//!   session.
//! - At a prompt a separate thread takes the signals, counts them and raises the priority of the
//!   session's thread, since a signal is delivered only when its thread runs. With tasks of another
//!   session on every CPU, stopping a loop took up to 6 Ctrl-C without it, or ended the session;
//!   with it, one. `--unsafe` does without, since programs that the session starts would inherit
//!   its signal mask. Ctrl-C is also a signal while a line is typed
//!   ([`sys::signal::typed_line`]): a key that arrives together with Enter would become input of
//!   the next line, and the line would run on.
//! - Scripts have no C function that may run for long, since the hook fires in Lua code only:
//!   pattern functions call a matcher in Rust that polls the guard ([`base::pattern`]),
//!   `table.sort` is Lua, and `xpcall` calls its handler after the failed function has been
//!   unwound. Otherwise the handler would run inside of the hook that raised the error, where no
//!   hook fires.
//! - LuaJIT's limits on traces are raised ([`script::vm`]). At its default of 1000 traces it
//!   flushes all of them, and handlers are interpreted until they are compiled again.
//! - LuaJIT's profiler samples the interpreted share of a script's time, with `--stats` only, since
//!   it changes the interpreter's dispatch tables for an instruction every 4 ms of CPU time.
//! - Each event gets a view `e` of its own, a table with a serial number, so that a kept `e` is
//!   never read as another event's. LuaJIT allocates it only where a handler keeps it. A struct of
//!   the FFI would do the same, but LuaJIT forgets what it holds at each call of a leaf, and would
//!   allocate it in every handler.
//! - Where an expression's sum of doubles becomes a 64-bit integer, a `floor` stands in between. LuaJIT converts the operands
//!   instead of the sum, and of an operand that is itself a sum of ints it drops the check for overflow ([`event::expr`]).
//! - The full screen takes its keys from the run's own poll and its signals from [`sys::signal`]. crossterm would read keys
//!   with a second poll and a signal handler of its own, and could not put the terminal right from inside a handler;
//!   it only knows how to write cells. With a workload there is no screen: both would write to the terminal,
//!   and nor is there one with `--unsafe`, as a script may then start commands.
//! - In JSON, an event's own field whose name is taken (`comm`, `pid`) gets a `_` at its end, as a field that is a
//!   Lua keyword does in scripts.
//! - That a chain is cut stands in the chain itself, as a marker of our own at its end ([`base::chain`]): a flag beside it would be
//!   lost where chains are interned, kept and compared.
//! - Each process has unwind rules of its own, though framehop lets several share them: it tells their states apart by 16 bits,
//!   and a busy machine starts more processes than that in an hour.
//! - A run with stacks is ordered, also where its monitor asks for no order: an address means what the mappings before it say,
//!   and the record of a mapping may lie on another CPU's ring.
//! - A process gets a new address space ([`base::frame::Space`]) not only by an exec but also when other code is mapped where
//!   chains were taken: they are named when they are drawn, and by then `dlclose` and `dlopen` may have changed what is there.
//! - The file of each new executable mapping is opened as soon as its record is handled, in runs that take stacks: its process may
//!   be gone by the time its addresses are named, and its mount namespace with it. A file is opened once, whoever maps it.
//! - Whether an opened file is the mapped one is asked of a mapping of our own where `stat` tells another device: on overlayfs
//!   and btrfs only a mapping has the numbers that records of mappings have ([`task::objects`]).
//! - Files that processes execute are anybody's: a path is looked at before it is opened (`sys::held`), a file that is cut short
//!   while it is mapped reads as zeros instead of ending the run by SIGBUS (`sys::torn`), and what its tables may make us do is limited.
//! - blazesym is given held files through `/proc/self/fd`, one symbolizer an object, and not processes: what it knows of those it
//!   reads when it is asked, when they may be gone, and its caches last until they are told to go.
//! - An event that a script names with alternatives (`cycles|cpu-clock`) is opened for a moment when it is declared: only the kernel
//!   knows what opens, and the script's columns and sums depend on which it was ([`source::trial`]).
//! - An event about another task than the one that it comes from (a wakeup, the task that a switch brings) is opened for whole CPUs
//!   also with `-p` and a workload, and told apart by the field that names the task: attached to a task it would
//!   be missing. Its threads are watched for a while after their ends, since each is switched out once more.
//! - `states` is not made of `pending` and `latency`: a task that is known moves from one state to the next without its
//!   name being read, and its rows are remembered ([`stat::states`]). From 130 ns per event of the scheduler to 71. A
//!   switch that is missing is seen there, too: who gives a CPU away has to be running, and who gets one must not be.
//! - A history copies every event before its handler runs ([`stat::history`]), though hardly one will be asked for: once something has
//!   taken long, what happened meanwhile is over. Nothing else is done for it then. Predicates, keys and printers read the copy when it
//!   is printed, so that who was on which CPU and what has which key costs the events nothing; and a start that never
//!   finds its end keeps no event alive, its detail says how many are gone.
//! - What a pending state keeps of an event that a history has is where that copy stands, and becomes a copy of its own when the history
//!   forgets it. And a history that is asked for nothing before what is open writes its first blocks again instead of walking through
//!   all of its memory, which no cache holds. With both `--than --detail` went from 149 to 109 ns an event.
//! - A run does not watch itself: an event excludes our threads in the kernel. Not so switches, and what interrupts tell
//!   (`common_flags`), which happen to whoever has the CPU: without those that we had it for, a timer is late by what nobody saw
//!   ([`event::catalog::Event::is_interrupt`]). A timer that our own waiting sets is excluded: its record could wake us to set another.
//! - A stack is a number in scripts ([`stack`]), and no number is ever given to a second one: a script may keep it where nobody
//!   sees it. Which numbers are stacks is not known either, so a sweep keeps every chain whose id some table or state
//!   holds as whatever number.
//! - Stacks of a recording are the lines that were printed, read back ([`base::stack_style`]): each line stands for an address.
//! - With `--flame-graph`, tables of stacks become graphs where they are drawn, and show what else they have; the host takes the
//!   stacks of `emit` into a table like those: no monitor knows of it. A table that a script keeps tells how things stand, so
//!   of its intervals the last is drawn, not their sum. A picture is drawn from stacks cut at the first frame that is too narrow
//!   to be seen, so that it costs what it shows; the folded file has all.
//! - A table joins stacks that read the same: two places of a function, code without symbols (by its file), and the same code in
//!   a process that counts as another one since a record of its mappings was lost.
//! - Frees are taken from all tasks, whoever is watched: the kernel frees behind RCU, in a worker, or with the last of the
//!   processes that share a thing (`everyone` of an evsel).
//! - A line of a prompt is a coroutine, which yields what it wants done: `run "2s"` leaves Lua, and the session carries events with
//!   no Lua on its stack, as a run does ([`run::session`]). Without that, handlers would run inside of the line that waits.
//! - A prompt's events have openings of their own, each with its own filter, though two probes of a tracepoint then cost two
//!   records: so each can be narrowed and closed alone. Events are always in order there, since whoever types relates them sooner or later.
//! - Completions are asked of the session, and come late or never when it is busy: only it may touch Lua.
//! - Functions are watched through the PMUs `kprobe` and `uprobe`, not through events made in tracefs ([`event::function`]): those
//!   would stay when this process is killed, and their names be in others' way. The price is a probe of its own for each CPU, which the
//!   kernel takes some 70 ms each to close, and no memory behind an argument: a text that it points to can be read by an event that
//!   is made in tracefs, which is an ordinary `uprobes:NAME` here.
//! - They are opened for whole CPUs, whoever is watched: a task that forks would make an inherited probe anew, with a pointer to its
//!   file's name that is one of our memory and not of the task's, and its fork would fail ([`source::open`]). So a run that watches
//!   tasks has to be in order of time, for a fork to be known before the calls of the child.
//! - A function's samples have no raw record but registers ([`source`], `decoder`), as the kernel writes one word each, lowest number
//!   first: a format is made for them as if the block were a record, so that nothing else knows of registers.
//! - A command that outlives its run gets SIGTERM, as from perf: it was started to be watched.
//! - Fields that a handler misspells are looked for in its bytecode, not in its source (`prelude/fields.lua`): the function and what it
//!   holds on to are there as they will run. What hangs on anything but the event itself is left to the first event, as a script
//!   may look there whether a field is there. Not in a replay, as a recording has the fields of its lines only.
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
pub mod stack;
pub mod stat;
pub mod symbol;
pub mod sys;
pub mod task;
pub mod unwind;
