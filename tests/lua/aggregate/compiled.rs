//! Every aggregate function that handlers call compiles: a loop over it becomes a trace without
//! aborts.

use super::Host;

#[test]
fn every_function_of_the_hot_path_compiles() {
    let host = Host::new();
    host.run::<()>(
        r#"
        stops, aborts = 0, 0
        jit.attach(function(what)
          if what == "stop" then stops = stops + 1 elseif what == "abort" then aborts = aborts + 1 end
        end, "trace")
        pid, comm = {}, {}
        for i = 0, 1023 do pid[i], comm[i] = 100 + i % 53, "worker/" .. i % 53 end
        e = { _time = 0 }"#,
    )
    .unwrap();
    let bodies = [
        ("local k = kv { 'comm', 'pid', sums = { 'bytes' } }", "k:add(comm[i], pid[i], i)"),
        (
            "local k = kv { 'pid', sums = { 'a', 'b' } } local add = k:adding(2, 1)",
            "add(pid[i], 1)",
        ),
        ("local l = latency { perins(), 'comm' }", "l:add(i, i, comm[i])"),
        ("local h = hist.log2 {}", "h:add(i)"),
        ("local r = rate { window = '1us' }", "if r:add(pid[i], i) > 9e9 then error 'x' end"),
        (
            "local p = pending { 'id', 'comm' }",
            "p:open(pid[i], e, i, comm[i]) if p:close(pid[i], e).comm ~= comm[i] then error 'x' \
             end",
        ),
        ("local p = pending { 'fs' } p:open(1, e, '?')", "local s = p:get(1) s.fs = i"),
    ];
    for (declare, body) in bodies {
        let source = format!(
            "{declare} stops, aborts = 0, 0 for n = 1, 100 do for i = 0, 1023 do {body} end end \
             return stops, aborts"
        );
        let (stops, aborts): (u32, u32) = host.run(&source).unwrap();
        assert!(stops > 0 && aborts == 0, "{body}: {stops} traces, {aborts} aborts");
    }
}
