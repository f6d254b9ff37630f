//! Fields of samples that are recorded on request: how a script reads them from a record's tail,
//! and which events they are requested for.

use std::rc::Rc;

use perilune::base::event::slot::Slot;
use perilune::base::report::draw::{Draw, Level, Stamp};
use perilune::decode::cursor::Words;
use perilune::decode::format::Format;
use perilune::decode::sample_extra::{BranchStack, SampleExtra, SampledRegisters};
use perilune::event::catalog::Catalog;
use perilune::event::kind::{Counter, Event, Tracepoint};
use perilune::event::sample_field::{tail_lists, tail_words};
use perilune::event::sampling::Sampling;
use perilune::script::host::{Host, Rules, Setting};
use perilune::script::load::library::{Library, Script, ScriptOrigin};
use perilune::source::open::try_open::OpenableEvent;
use perilune::source::{Batch, Sink as _};

/// `x:named` has the field `_weight` itself, as an event of a recording; others are counters.
struct Events;

impl Catalog for Events {
    fn describe(&self, name: &str) -> anyhow::Result<Rc<Event>> {
        let format = "name: x\nID: 7\nfield:u64 _weight; offset:8; size:8; signed:0;\n";
        Ok(Rc::new(match name {
            "x:named" => Event::new(name, Tracepoint { format: Format::parse(format)? }),
            _ => Event::new(name, Counter::default()),
        }))
    }

    fn names(&self) -> anyhow::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// An output that fails the test on an error.
struct NoErrors;

impl Draw for NoErrors {
    fn note(&mut self, _: Stamp, level: Level, text: &str) {
        assert_ne!(level, Level::Error, "{text}");
    }
}

/// Starts a script whose `init` is `body`; `live` as on a machine, else as over a recording.
fn begin(body: &str, live: bool) -> anyhow::Result<Host> {
    let text =
        format!("local m = monitor {{ summary = 'x' }} function m.init()\n{body}\nend return m");
    let mut host = Host::new(false)?;
    let script =
        Script { name: "t".into(), origin: ScriptOrigin::Path("/somewhere/t.lua".into()), text };
    host.load(&script, &Library::default(), &[])?;
    let mut setting = Setting::of(Rc::new(Events));
    if live {
        let opens = |event: &Rc<Event>, _: &Sampling| {
            Ok(OpenableEvent { event: event.clone(), in_user_mode: false })
        };
        setting.trial = Some(Rc::new(opens));
    }
    let options = host.lua().create_table()?;
    host.begin(&options, &setting, Rules::default())?;
    host.context().set_output(Box::new(NoErrors));
    Ok(host)
}

/// Passes one event with these fields to the handlers of a script; returns how many failed.
fn handle(body: &str, extra: &SampleExtra<'_>) -> u64 {
    let _alone = crate::alone();
    let mut host = begin(body, true).unwrap();
    let mut batch = Batch::new(host.roles().len());
    host.attach(batch.addresses()).unwrap();
    let words = tail_lists(extra).into_iter().flat_map(|list| list.iter()).chain(tail_words(extra));
    let record: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    assert!(batch.push(Slot { time: 1.0, ..Slot::of(&record) }));
    // SAFETY: the slot points to the record, which lives until the end of this function.
    unsafe { host.dispatch(&mut batch) };
    host.errors()
}

fn requested(body: &str) -> Vec<String> {
    let _alone = crate::alone();
    let host = begin(body, true).unwrap();
    host.roles().iter().map(|role| role.sampling.extra.names()).collect()
}

fn refused(body: &str, live: bool) -> String {
    let _alone = crate::alone();
    match begin(body, live) {
        Ok(_) => panic!("accepted: {body}"),
        Err(why) => format!("{why:#}"),
    }
}

#[test]
fn a_script_reads_each_field_by_name() {
    let registers: Vec<u8> = (0..perilune::sys::registers::NAMES.len() as u64)
        .flat_map(|n| (n + 50).to_ne_bytes())
        .collect();
    let words: [u64; 6] = [0x1000, 0x2000, 0b1 | 77 << 4, 0xffff_ffff_8100_0000, 0x3000, 0b10];
    let branches: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let extra = SampleExtra {
        weight: 250,
        // Load, L3 hit, snoop hit modified, locked.
        data_src: 0b10 | 0b10 << 5 | 1 << 23 | 1 << 25 | 3 << 33,
        phys_addr: 0x1_0000_2000,
        code_page_size: 4096,
        data_page_size: 2 << 20,
        regs_intr: SampledRegisters {
            abi: 2,
            mask: perilune::sys::registers::ALL,
            values: Words::new(&registers),
        },
        branch_stack: BranchStack { entries: Words::new(&branches), ..BranchStack::default() },
        ..SampleExtra::default()
    };
    let checks = r#"
        assert(e._weight == 250 and e._transaction == 0)
        assert(e._data_op == "load" and e._data_level == "L3 hit", e._data_level)
        assert(e._data_snoop == "hit modified" and e._data_lock == "locked" and e._data_tlb == "n/a")
        assert(e._phys_addr == 0x100002000 and e._code_page_size == 4096)
        assert(e._data_page_size == 2097152)
        assert(e._regs.REG0 == 50 and e._regs.ip == 50 + AT and e._user_regs.ip == nil)
        assert(#e._branches == 2)
        assert(e._branches[0].from == 0x1000 and e._branches[0].to == 0x2000)
        assert(e._branches[0].mispredicted and not e._branches[0].predicted)
        assert(e._branches[0].cycles == 77 and e._branches[1].cycles == 0)
        assert(e._branches[1].from == -0x7f000000 and e._branches[1].predicted)
        local seen = {}
        for i, branch in pairs(e._branches) do seen[#seen + 1] = i .. ":" .. branch.to end
        assert(table.concat(seen, " ") == "0:8192 1:12288", table.concat(seen, " "))
    "#;
    // The kernel writes registers by number.
    let mut names = perilune::sys::registers::NAMES.to_vec();
    names.sort_by_key(|(_, number)| *number);
    let at = names.iter().position(|(name, _)| *name == "ip").unwrap().to_string();
    let checks = checks.replace("REG0", names[0].0).replace("AT", &at);
    let body = format!("evsel('clock', function(e) {checks} end)");
    assert_eq!(handle(&body, &extra), 0);
    // The test can fail.
    assert_eq!(handle(&body, &SampleExtra::default()), 1);
    let kept = format!(
        "local p = pending {{ 'x', keep = true }}
         evsel('clock', function(e) p:open(1, e, 1) local s = p:get(1) e = s.event {checks}
           e = {{ _weight = 1, _branches = e._branches }} assert(e._branches[1].to == 0x3000) end)"
    );
    assert_eq!(handle(&kept, &extra), 0, "of a kept event");
}

#[test]
fn expressions_read_the_same_fields() {
    let extra = SampleExtra { weight: 250, data_src: 0b10, ..SampleExtra::default() };
    let body = r#"
        local ev local number, text, both
        ev = evsel("clock", function(e)
          assert(number(e) == 251 and text(e) == "load" and both(e) == 1)
        end)
        number = expr_of("_weight + 1", ev)
        text = expr_of("_data_op", ev)
        both = expr_of('_data_op ~ "lo*" && _cgroup_id == 0', ev)
    "#;
    assert_eq!(handle(body, &extra), 0);
    assert_eq!(requested(body), ["`_weight`, `_data_op`, `_cgroup_id`"]);
    let why = refused("expr_of('_regs', evsel('clock', function() end))", true);
    assert!(why.contains("`_regs` has several values"), "{why}");
}

#[test]
fn a_count_without_keys_or_with_a_wrong_list_is_refused() {
    let why = |keys: &str, of: &str| {
        refused(&format!("kv {{ {keys} }}:count(evsel('clock'), {{ {of} }})"), false)
    };
    let missing = why("'x'", "key = {}");
    assert!(missing.contains("this kv has 1 key columns, the count has 0"), "{missing}");
    let none = why("count = 'n'", "key = {}");
    assert!(none.contains("count needs at least one key"), "{none}");
    let sums = why("'x', sums = { 'y' }", "key = '_pid', sums = '_cpu'");
    assert!(sums.contains("'sums' takes a list of expressions"), "{sums}");
}

#[test]
fn a_field_is_requested_only_for_the_events_whose_handlers_name_it() {
    let body = r#"
        local function helper(e) return e._cgroup end
        local library = { deep = { read = function(e) return e._weight end } }
        evsel("a", function(e) return e._ip end)
        evsel("b", function(e) return helper(e) end)
        evsel("c", function(e) return library.deep.read(e) end)
        evsel("d", function(e) return function() return e._regs end end)
        evsel("e", { fields = "_phys_addr, _weight" }, function(e) end)
        evsel("x:named", function(e) return e._weight end)
    "#;
    assert_eq!(
        requested(body),
        ["", "`_cgroup`", "`_weight`", "`_regs`", "`_weight`, `_phys_addr`", ""]
    );
}

#[test]
fn a_field_that_was_not_recorded_is_an_error_that_names_the_remedy() {
    let body = "evsel('clock', function(e) local k = '_wei' .. 'ght' local ok, why = \
                pcall(function() return e[k] end) assert(not ok and \
                why:find('add fields = \"_weight\" to the evsel', 1, true), why) end)";
    assert_eq!(handle(body, &SampleExtra::default()), 0);
    let why = refused("evsel('clock', { fields = '_wieght' }, function() end)", true);
    assert!(why.contains("samples have no '_wieght'; did you mean '_weight'?"), "{why}");
    let why = refused("expr_of('_weight', evsel('clock', function() end))", false);
    assert!(why.contains("clock: the recording does not contain `_weight`"), "{why}");
}

#[test]
fn a_register_that_does_not_exist_is_an_error() {
    let body = "evsel('clock', function(e) local ok, why = pcall(function() return e._regs.rip \
                end) assert(not ok and why:find(\"no register 'rip'\", 1, true), why) end)";
    assert_eq!(handle(body, &SampleExtra::default()), 0);
}
