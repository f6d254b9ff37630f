//! State between events: pending, rate, per_cpu.

use super::Host;
use mlua::LightUserData;
use perilune::base::event::slot::Slot;

#[test]
fn pending_closes_an_opened_state() {
    let host = Host::new();
    host.run::<()>(
        r#"
        local p = pending { "state", "comm", "io" }
        p:open(7, { _time = 1000 }, 2, "nginx", true)
        p:open("key", { _time = 1 }, 1, "x", false)
        assert(p:len() == 2 and p:close(8, { _time = 0 }) == nil)
        local s = p:close(7, { _time = 1500 })
        assert(s.delay == 500 and s.time == 1000 and s.state == 2 and s.comm == "nginx" and s.io == true)
        p:open(7, { _time = 9000 }, 3, "redis", false)
        assert(s.comm == "nginx", "what close returned stays until the next close")
        local again = p:close(7, { _time = 9001 })
        assert(again.comm == "redis" and again.io == false and again.delay == 1)
        assert(p:close("key", { _time = 2 }).delay == 1 and p:len() == 0)"#,
    )
    .unwrap();
    assert!(host.aggregates.counts().is_perfect());
    assert_eq!(host.draw(), []);
}

#[test]
fn pending_state_can_be_read_and_written_while_open() {
    let host = Host::new();
    host.run::<()>(
        r#"
        local p = pending { "fs", "dev", key = "tid" }
        p:open(1, { _time = 5 }, "?", 0) p:open("two", { _time = 6 }, "?", 0)
        assert(p:get(9) == nil)
        local s = p:get(1)
        s.fs, s.dev = "ext4", 81
        assert(s.fs == "ext4" and p:get(1).dev == 81)
        local seen = {}
        for key, state in p:each() do seen[#seen + 1] = tostring(key) .. "=" .. state.fs end
        assert(table.concat(seen, " ") == "1=ext4 two=?", table.concat(seen, " "))
        s = p:get(1)
        assert(p:close(1, { _time = 7 }).fs == "ext4")
        local ok, why = pcall(function() s.fs = "xfs" end)
        assert(not ok and why:find "this state was closed or replaced", why)"#,
    )
    .unwrap();
}

#[test]
fn replaced_lost_and_exited_states_are_counted() {
    let host = Host::new();
    host.run::<()>(
        r#"
        p, kept = pending { key = "tid" }, pending { key = "tid", lost = "keep" }
        for tid = 1, 6 do p:open(tid, { _time = tid * 100 }) kept:open(tid, { _time = tid }) end
        p:open(6, { _time = 700 })"#,
    )
    .unwrap();
    host.aggregates.drop_before(300.0);
    host.aggregates.drop_task(4);
    let counts = host.aggregates.counts();
    assert_eq!((counts.unmatched, counts.unsafe_, counts.exited, counts.evicted), (1, 3, 2, 0));
    assert_eq!(host.run::<(u32, u32)>("return p:len(), kept:len()").unwrap(), (2, 5));
}

#[test]
fn opening_a_state_returns_whether_it_is_stored() {
    let host = Host::new();
    host.run::<()>("p = pending { key = 'tid' }").unwrap();
    host.aggregates.drop_before(300.0);
    host.run::<()>(
        "assert(not p:open(1, { _time = 300 }) and p:open(1, { _time = 301 }))
        assert(p:open(1, { _time = 302 }) and not p:open_once(1, { _time = 303 }))
        assert(p:open_once(2, { _time = 304 }) and p:len() == 2)",
    )
    .unwrap();
}

#[test]
fn a_kept_event_is_copied_and_found_by_trusted_code() {
    let host = Host::new();
    let mut raw = *b"the first record";
    let slot = Box::new(Slot { tid: 42, ..Slot::of(&raw) });
    let address = std::ptr::from_ref(&*slot).cast_mut().cast();
    host.lua.globals().set("SLOT", LightUserData(address)).unwrap();
    host.lua.globals().set("trusted", host.aggregates.trusted()).unwrap();
    host.run::<()>(
        r#"
        local ffi = require "ffi"
        ffi.cdef "typedef struct { double time; const char *raw; } kept_slot;"
        slot_text = function(e) return ffi.string(ffi.cast("kept_slot *", trusted.slot_of(e)).raw, 16) end
        trusted.hooks.slot_of = function(e) return ffi.cast("const void *", e.slot) end
        trusted.hooks.kept = function(pointer, name) return name .. " of " .. ffi.string(ffi.cast("kept_slot *", pointer).raw, 16) end
        p = pending { keep = 5 }
        p:open(1, { _time = 1, slot = SLOT })"#,
    )
    .unwrap();
    raw.copy_from_slice(b"it is overwritte");
    std::hint::black_box(&raw);
    host.run::<()>(
        r#"
        local live = p:get(1).event
        assert(slot_text(live) == "the first record")
        local s = p:close(1, { _time = 2 })
        assert(slot_text(s.event) == "the first record" and s.event.comm == "comm of the first record")
        assert(trusted.slot_of(live) == nil, "the slot was closed")
        assert(trusted.slot_of({}) == nil and trusted.slot_of(p) == nil)"#,
    )
    .unwrap();
}

#[test]
fn the_state_struct_is_the_one_that_lua_declares() {
    let host = Host::new();
    let size: usize = host.aggregates.trusted().get("state_size").unwrap();
    assert_eq!(size, size_of::<perilune::stat::pending::PendingState>());
}

#[test]
fn rate_counts_in_a_sliding_window() {
    let host = Host::new();
    let counts: Vec<u32> = host
        .run(
            r#"
            local r, counts = rate { window = "100ns" }, {}
            for _, time in ipairs { 0, 50, 99, 100, 149, 400 } do counts[#counts + 1] = r:add("cpu", time) end
            counts[#counts + 1] = r:add(0, 400)
            return counts"#,
        )
        .unwrap();
    assert_eq!(counts, [1, 2, 3, 3, 4, 1, 1]);
}

#[test]
fn per_cpu_has_a_value_for_every_cpu() {
    let host = Host::new();
    host.run::<()>(
        r#"
        local a = per_cpu(-math.huge)
        a[2] = 5
        assert(a[0] == -math.huge and a[2] == 5 and a[3] == -math.huge and a[1000] == -math.huge)
        assert(rawget(a, 3) and not rawget(a, 4))"#,
    )
    .unwrap();
}
