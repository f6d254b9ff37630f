//! Measures the cost of one `add`, or one pair of `open` and `close`, in a compiled handler, as
//! loops of 1024 calls.
//!
//! Read `items/s`, or divide the time by 1024.

use divan::{Bencher, counter::ItemsCount};
use mlua::{Function, LightUserData, Lua};
use perilune::{
    base::event::slot::Slot,
    script::aggregate::{AggregateSettings, Aggregates},
};

const CALLS: usize = 1024;

fn main() {
    divan::main();
}

/// Runs `declare`, then `body` in a loop with `i` and the batch's `comm[i]` and `pid[i]` (53
/// tasks).
fn run(bencher: Bencher<'_, '_>, declare: &str, body: &str) {
    // SAFETY: the bench's own scripts may use the ffi.
    let lua = unsafe { Lua::unsafe_new() };
    let _aggregates = Aggregates::register(
        &lua,
        &lua.globals(),
        AggregateSettings { cpus: 2, ..AggregateSettings::default() },
    )
    .unwrap();
    let slot = Box::new(Slot::of(&[0; 72]));
    lua.globals().set("SLOT", LightUserData(std::ptr::from_ref(&*slot).cast_mut().cast())).unwrap();
    lua.globals().set("trusted", _aggregates.trusted()).unwrap();
    let source = format!(
        r#"
        local ffi = require "ffi"
        local slot = ffi.cast("const void *", SLOT)
        trusted.hooks.slot_of = function() return slot end
        local comm, pid, e = {{}}, {{}}, {{ _time = 0 }}
        for i = 0, {CALLS} - 1 do pid[i] = 100 + i * 7 % 53 comm[i] = "worker/" .. i * 7 % 53 end
        local now = 0
        {declare}
        return function()
          for i = 0, {CALLS} - 1 do
            now = now + 100
            e._time = now
            {body}
          end
        end"#
    );
    let batch: Function = lua.load(source).eval().unwrap();
    (0..200).for_each(|_| batch.call::<()>(()).unwrap());
    bencher.counter(ItemsCount::new(CALLS)).bench_local(|| batch.call::<()>(()).unwrap());
}

#[divan::bench]
fn nothing(bencher: Bencher<'_, '_>) {
    run(bencher, "", "");
}

#[divan::bench]
fn kv_add_pid(bencher: Bencher<'_, '_>) {
    run(bencher, "local k = kv { 'pid' }", "k:add(pid[i])");
}

#[divan::bench]
fn kv_add_comm_pid_bytes(bencher: Bencher<'_, '_>) {
    run(bencher, "local k = kv { 'comm', 'pid', sums = { 'bytes' } }", "k:add(comm[i], pid[i], i)");
}

#[divan::bench]
fn top_adding(bencher: Bencher<'_, '_>) {
    let declare = "local k = kv { 'pid', sums = { 'a', 'b' }, name = { 'comm' } }
        local add = k:adding(2, 1)";
    run(bencher, declare, "if add(pid[i], 1) then k:name(pid[i], comm[i]) end");
}

#[divan::bench]
fn latency_add_comm(bencher: Bencher<'_, '_>) {
    run(bencher, "local l = latency { perins(), 'comm' }", "l:add(i * 1000, 0, comm[i])");
}

#[divan::bench]
fn latency_add_comm_pid(bencher: Bencher<'_, '_>) {
    run(bencher, "local l = latency { 'comm', 'pid' }", "l:add(i * 1000, comm[i], pid[i])");
}

#[divan::bench]
fn hist_log2_add(bencher: Bencher<'_, '_>) {
    run(bencher, "local h = hist.log2 {}", "h:add(i * 1000)");
}

#[divan::bench]
fn pending_open_close(bencher: Bencher<'_, '_>) {
    let body =
        "p:open(pid[i], e, i) local s = p:close(pid[i], e) if s and s.delay > 0 then error 'x' end";
    run(bencher, "local p = pending { 'id', key = 'tid' }", body);
}

#[divan::bench]
fn pending_open_close_with_comm(bencher: Bencher<'_, '_>) {
    let body = "p:open(pid[i], e, i, comm[i]) local s = p:close(pid[i], e) if s.comm ~= comm[i] \
                then error 'x' end";
    run(bencher, "local p = pending { 'id', 'comm' }", body);
}

#[divan::bench]
fn pending_open_close_keeping_the_event(bencher: Bencher<'_, '_>) {
    run(
        bencher,
        "local p = pending { 'id', keep = true }",
        "p:open(pid[i], e, i) local s = p:close(pid[i], e)",
    );
}

#[divan::bench]
fn rate_add(bencher: Bencher<'_, '_>) {
    run(
        bencher,
        "local r = rate { window = '10us' }",
        "if r:add(pid[i], now) > 1000 then error 'x' end",
    );
}

#[divan::bench]
fn plain_lua_table(bencher: Bencher<'_, '_>) {
    run(bencher, "local t = {}", "local k = pid[i] t[k] = (t[k] or 0) + 1");
}
