//! The parts of samples that a script reads: its handlers and counts decide what is recorded.

use std::rc::Rc;

use perilune::decode::format::Format;
use perilune::event::catalog::Catalog;
use perilune::event::kind::{Event, Tracepoint};
use perilune::script::host::{Host, Rules, Setting};
use perilune::script::load::library::{Library, Script, ScriptOrigin};
use perilune::source::request::SampleParts;

/// Any tracepoint, with a field `prio`.
struct Tracepoints;

impl Catalog for Tracepoints {
    fn describe(&self, name: &str) -> anyhow::Result<Rc<Event>> {
        let format = "name: x\nID: 7\nformat:\n\tfield:int prio;\toffset:8;\tsize:4;\tsigned:1;\n";
        Ok(Rc::new(Event::new(name, Tracepoint { format: Format::parse(format)? })))
    }

    fn names(&self) -> anyhow::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Returns the parts of each event of a script whose `init` is `body`.
fn parts(body: &str, order: Option<bool>) -> Vec<SampleParts> {
    begun("", body, order, |host| host.sample_parts().unwrap())
}

/// Begins a script whose `init` is `body`, with further properties of its monitor.
fn begun<R>(properties: &str, body: &str, order: Option<bool>, then: impl FnOnce(&Host) -> R) -> R {
    let _alone = crate::alone();
    let text = format!(
        "local m = monitor {{ summary = 'x' {properties} }} function m.init()\n\
         local rows = kv {{ 'k', sums = {{ 'n' }} }}\n{body}\nend return m"
    );
    let mut host = Host::new(false).unwrap();
    let origin = ScriptOrigin::Path("/somewhere/t.lua".into());
    host.load(&Script { name: "t".into(), origin, text }, &Library::default(), &[]).unwrap();
    let options = host.lua().create_table().unwrap();
    let rules = Rules { order, ..Rules::default() };
    host.begin(&options, &Setting::of(Rc::new(Tracepoints)), rules).expect(body);
    then(&host)
}

#[test]
fn runs_that_name_tasks_are_ordered() {
    for (order, before, handler, expected) in [
        ("", "", "function(e) rows:add(e.prio, 1) end", false),
        ("", "", "function(e) rows:add(e._tid, 1) end", false),
        ("", "", "function(e) rows:add(e._comm, 1) end", true),
        (", order = false", "", "function(e) rows:add(e._comm, 1) end", true),
        ("", "", "function(e) rows:add(comm(e.prio), 1) end", true),
        ("", "local name = comm", "function(e) rows:add(name(e.prio), 1) end", true),
        ("", "local field = '_comm'", "function(e) rows:add(e[field], 1) end", true),
        ("", "local of = { '_comm' }", "function(e) rows:add(e[of[1]], 1) end", true),
        ("", "", "function(e) emit(e) end", true),
        ("", "", "emit", true),
        (", order = false", "", "emit", false),
    ] {
        let body = format!("{before} evsel('s:one', {handler})");
        assert_eq!(begun(order, &body, None, Host::ordered), expected, "{order} {body}");
    }
    let of_expression = "local ev = evsel('s:one') local f = expr_of('_comm', ev, 'text') \
                         ev:each(function(e) rows:add(f(e), 1) end)";
    assert!(begun("", of_expression, None, Host::ordered));
}

const NONE: SampleParts = SampleParts { time: false, process: false, ..BOTH };
const TIME: SampleParts = SampleParts { process: false, ..BOTH };
const PROCESS: SampleParts = SampleParts { time: false, ..BOTH };
/// Time and process; samples of plain tracepoints need no ID.
const BOTH: SampleParts = SampleParts { id: false, ..SampleParts::ALL };

#[test]
fn only_what_a_handler_reads_of_its_record_is_needed() {
    for (before, handler, expected) in [
        ("", "rows:add(e.prio, 1)", NONE),
        ("", "rows:add(e['prio'], 1)", NONE),
        ("", "rows:add(e._tid, e._cpu)", NONE),
        ("", "rows:add(e._time, 1)", TIME),
        ("", "if e.prio > 3 then rows:add(e._pid, 1) end", PROCESS),
        ("", "rows:add(e._pid, e._time)", BOTH),
        ("", "rows:add(math.floor(e.prio / 2), tostring(1) == '1' and 1 or 2)", NONE),
        ("", "rows:add(('%d'):format(e.prio), 1)", NONE),
        ("local f = math.max", "rows:add(f(e.prio, 2), 1)", NONE),
        ("local seen = { n = 0 }", "seen.n = seen.n + 1 rows:add(e.prio, seen.n)", NONE),
        ("local function add(k) rows:add(k, 1) end", "add(e.prio)", NONE),
        // A name is that of the time of the event.
        ("", "rows:add(e._comm, 1)", TIME),
        // These may need a time.
        ("", "rows:add(now(), 1)", BOTH),
        ("local function add(k) rows:add(k, now()) end", "add(e.prio)", BOTH),
        ("local lib = { f = function() return now() end }", "rows:add(lib.f(), e.prio)", BOTH),
        ("", "emit { prio = e.prio }", BOTH),
        ("", "print(e.prio)", BOTH),
        ("local clock = now", "rows:add(clock(), 1)", BOTH),
        // Reads of the record that are not seen.
        ("", "emit(e)", BOTH),
        ("", "local x = e rows:add(x.prio, 1)", BOTH),
        ("local k = 'prio'", "rows:add(e[k], 1)", BOTH),
        ("local function add(x) rows:add(x.prio, 1) end", "add(e)", BOTH),
        ("local kept = {}", "kept.e = e", BOTH),
        ("", "rows:add((function() return e.prio end)(), 1)", BOTH),
        ("", "rows:add(e._text, 1)", BOTH),
        ("local f = expr_of('key + 1', 'key')", "rows:add(f(e.prio), 1)", BOTH),
    ] {
        let body = format!("{before} evsel('s:one', function(e) {handler} end)");
        assert_eq!(parts(&body, None), [expected], "{body}");
    }
}

#[test]
fn the_expressions_of_a_count_decide_for_its_event() {
    for (count, expected) in [
        ("{ key = 'prio' }", NONE),
        ("{ key = '_tid' }", NONE),
        ("{ key = '_pid' }", PROCESS),
        ("{ key = '_time / 1000' }", TIME),
        ("{ key = '_comm' }", TIME),
        ("{ key = 'prio', sums = { '_pid' } }", PROCESS),
    ] {
        let sums = if count.contains("sums") { "sums = { 'n' }" } else { "" };
        let body = format!("local t = kv {{ 'k', {sums} }} t:count(evsel 's:one', {count})");
        assert_eq!(parts(&body, None), [expected], "{body}");
    }
}

#[test]
fn ordered_events_have_times_and_those_with_a_predicate_all_parts() {
    let two = "evsel('s:one', function(e) rows:add(e.prio, 1) end)\n\
               evsel('s:two', function(e) rows:add(e.prio, e._pid) end)";
    assert_eq!(parts(two, None), [TIME, BOTH]);
    assert_eq!(parts(two, Some(false)), [NONE, PROCESS]);
    let filtered = "evsel('s:one', { filter = 'prio * 2 > 3' }, function(e) rows:add(1, 1) end)";
    assert_eq!(parts(filtered, None), [SampleParts::ALL]);
}
