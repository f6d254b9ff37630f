//! Measures the cost of an event from its bytes to the aggregate, without a kernel: `cargo bench
//! --bench pipeline`.
//!
//! Records of `sched_switch` are stored consecutively as in a ring; a pass decodes them into
//! batches and dispatches each batch to a script, as a live run does. Each figure is for one event.
//! `benches/live.sh` measures what the ring, merging several rings and wakeups add.

mod host;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use perf_event_open_sys::bindings as abi;
use perilune::base::event::slot::{BATCH, Slot};
use perilune::decode::record_attrs::RecordAttrs;
use perilune::decode::sample::{PlainLayout, RecordLayout};
use perilune::script::host::Host;
use perilune::source::{Batch, Sink as _};

/// Events per pass.
const EVENTS: usize = 10 * BATCH;
/// Tasks that run in turn.
const TASKS: u32 = 53;
/// Nanoseconds between two events.
const STEP: u64 = 1_000;
/// Passes before the first measured one; the traces are compiled by then.
const WARM_UP: u64 = 100;

fn main() {
    divan::main();
}

/// The event's format as in tracefs.
const SCHED_SWITCH: &str = "name: sched_switch
ID: 372
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;
\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;
\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;

print fmt: \"prev_pid=%d\", REC->prev_pid
";

/// Returns the task that runs at event `n`.
fn task(n: u64) -> u32 {
    100 + (n * 7 % u64::from(TASKS)) as u32
}

fn comm(tid: u32) -> [u8; 16] {
    let mut comm = [0; 16];
    let name = format!("worker/{tid}");
    comm[..name.len()].copy_from_slice(name.as_bytes());
    comm
}

/// Returns the sample of event `n`: `PERF_SAMPLE_IDENTIFIER | TID | TIME | RAW`, with the record of
/// a switch.
fn sample(n: u64) -> Vec<u8> {
    let (prev, next) = (task(n), task(n + 1));
    let prio = 120u32.to_ne_bytes();
    let state = 1u64.to_ne_bytes();
    let mut raw = Vec::new();
    raw.extend(372u16.to_ne_bytes());
    raw.extend([0, 0]);
    raw.extend(prev.to_ne_bytes());
    raw.extend(comm(prev));
    raw.extend([prev.to_ne_bytes(), prio].concat());
    raw.extend(state);
    raw.extend(comm(next));
    raw.extend([next.to_ne_bytes(), prio].concat());
    raw.extend([0; 4]); // The size in front and what follows it fill whole words.
    let mut sample = Vec::new();
    sample.extend(abi::PERF_RECORD_SAMPLE.to_ne_bytes());
    sample.extend(2u16.to_ne_bytes());
    sample.extend((36 + raw.len() as u16).to_ne_bytes());
    sample.extend(7u64.to_ne_bytes());
    sample.extend([prev.to_ne_bytes(), prev.to_ne_bytes()].concat());
    sample.extend((n * STEP).to_ne_bytes());
    sample.extend((raw.len() as u32).to_ne_bytes());
    sample.extend(raw);
    sample
}

/// Returns the layout of these samples.
fn layout() -> PlainLayout {
    let sample_type = abi::PERF_SAMPLE_IDENTIFIER
        | abi::PERF_SAMPLE_TID
        | abi::PERF_SAMPLE_TIME
        | abi::PERF_SAMPLE_RAW;
    let shape = RecordAttrs { sample_type: sample_type.into(), ..RecordAttrs::default() };
    RecordLayout::new(shape).plain(None).expect("it is plain")
}

/// Returns the samples of a pass, stored consecutively, and the size of each in bytes.
fn ring() -> (Vec<u8>, usize) {
    let ring: Vec<u8> = (0..EVENTS as u64).flat_map(sample).collect();
    let size = ring.len() / EVENTS;
    assert!(size.is_multiple_of(8) && ring.len() == size * EVENTS);
    (ring, size)
}

/// Shape of a bench's batches.
struct Shape {
    /// Handlers that take turns, one event each, in order.
    handlers: u16,
    /// Events dispatched in a batch of their own before the first pass, as on a machine that was
    /// idle for a long time.
    alone: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { handlers: 1, alone: 0 }
    }
}

/// Decodes a pass into batches and dispatches each of them; event times continue from the last
/// pass.
fn pass(
    ring: &[u8],
    size: usize,
    number: u64,
    shape: &Shape,
    batch: &mut Batch,
    work: &mut dyn FnMut(&mut Batch),
) {
    let start = number * EVENTS as u64 * STEP;
    let (layout, turns) = (layout(), (0..shape.handlers).cycle());
    for (ev, record) in turns.zip(ring.chunks_exact(size)) {
        let Some(sample) = layout.read(record) else { continue };
        batch.push(Slot {
            time: (start + sample.time.unwrap_or(0)) as f64,
            pid: sample.pid,
            tid: sample.tid,
            ev,
            ..Slot::of(sample.raw)
        });
        if batch.is_full(1) {
            work(batch);
            batch.clear();
        }
    }
}

/// The baseline that the other benches include: decoding, and filling batches that no script reads.
#[divan::bench]
fn no_script(bencher: Bencher<'_, '_>) {
    let (ring, size) = ring();
    let mut batch = Batch::new(1);
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        pass(&ring, size, 0, &Shape::default(), &mut batch, &mut |batch| {
            black_box(batch.slots());
        });
    });
}

/// Runs a script whose `init` executes `declared` and whose handler is `body`.
fn run(bencher: Bencher<'_, '_>, declared: &str, body: &str) {
    run_shaped(bencher, &Shape::default(), declared, body);
}

/// Like [`run`], with batches of another shape.
fn run_shaped(bencher: Bencher<'_, '_>, shape: &Shape, declared: &str, body: &str) {
    let handlers = format!("evsel(\"sched:sched_switch\", function(e) {body} end)\n")
        .repeat(shape.handlers as usize);
    let text = format!(
        "local m = monitor {{ summary = \"measured\", order = true }}
        function m.init()
          {declared}
          {handlers}
        end
        return m"
    );
    let (mut host, mut batch) = host::begin(text, SCHED_SWITCH, shape.handlers.into());

    let (ring, size) = ring();
    for n in 0..shape.alone {
        let Some(sample) = layout().read(&ring[..size]) else { continue };
        batch.push(Slot { ev: n as u16 % shape.handlers, ..Slot::of(sample.raw) });
        // SAFETY: the ring outlives the call, and its records are as long as their format requires.
        unsafe { host.dispatch(&mut batch) };
        batch.clear();
    }
    let mut number = 0;
    let mut one = |host: &mut Host| {
        pass(&ring, size, number, shape, &mut batch, &mut |batch| {
            // SAFETY: the slots point into `ring`, which the closure owns and does not change.
            unsafe { host.dispatch(batch) }
        });
        number += 1;
    };
    (0..WARM_UP).for_each(|_| one(&mut host));
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| one(&mut host));
    let seen = host.coverage(None);
    assert_eq!((seen.events, seen.errors), (shape.alone + number * EVENTS as u64, 0));
}

#[divan::bench]
fn empty_handler(bencher: Bencher<'_, '_>) {
    run(bencher, "", "");
}

/// The cost of keeping a history from which no event is requested.
#[divan::bench]
fn empty_handler_and_a_history(bencher: Bencher<'_, '_>) {
    run(bencher, "history()", "");
}

#[divan::bench]
fn count_by_pid(bencher: Bencher<'_, '_>) {
    run(bencher, "local n = kv { 'pid' }", "n:add(e.prev_pid)");
}

/// Runs of one event per handler, which LuaJIT must not compile as a loop with one iteration.
#[divan::bench(args = [2, 8])]
fn count_by_pid_in_turns(bencher: Bencher<'_, '_>, handlers: u16) {
    let shape = Shape { handlers, ..Shape::default() };
    run_shaped(bencher, &shape, "local n = kv { 'pid' }", "n:add(e.prev_pid)");
}

/// The same code after hours with rare events: it must be compiled as well as in a busy run.
#[divan::bench(args = [1, 2])]
fn count_by_pid_after_an_idle_day(bencher: Bencher<'_, '_>, handlers: u16) {
    let shape = Shape { handlers, alone: 300_000 };
    run_shaped(bencher, &shape, "local n = kv { 'pid' }", "n:add(e.prev_pid)");
}

#[divan::bench]
fn count_by_comm(bencher: Bencher<'_, '_>) {
    run(bencher, "local n = kv { 'comm' }", "n:add(e.prev_comm)");
}

/// Two field reads, a Lua table and a histogram, as in `task-state`.
#[divan::bench]
fn two_fields_table_hist(bencher: Bencher<'_, '_>) {
    run(
        bencher,
        "local since, ran = {}, hist.log2 { title = 'off CPU', unit = 'ns' }",
        "local now, next = e._time, e.next_pid
         since[e.prev_pid] = now
         local from = since[next]
         if from then ran:add(now - from) end",
    );
}

/// Each event opens a state and closes another.
const OPEN_AND_CLOSE: &str = "running:open(e.next_pid, e, e.next_prio)
     local s = running:close(e.prev_pid, e)
     if s then ran:add(s.delay, e.prev_pid) end";

/// Adds the kept event and a history: the cost of `--than --detail` for a relation.
#[divan::bench]
fn pending_open_close_and_a_history(bencher: Bencher<'_, '_>) {
    run(
        bencher,
        "history { before = 0 } local ran = latency { 'pid' } local running = pending { 'prio', \
         key = 'tid', keep = true }",
        OPEN_AND_CLOSE,
    );
}

/// Each event opens one call and closes the previous one.
#[divan::bench]
fn pending_open_close(bencher: Bencher<'_, '_>) {
    run(
        bencher,
        "local ran = latency { 'pid' } local running = pending { 'prio', key = 'tid' }",
        OPEN_AND_CLOSE,
    );
}
