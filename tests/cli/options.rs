//! The meaning of the arguments of a correct command line.

use perilune::{
    event::sampling::{CallGraph, ChainPart, StackSampling},
    output::ColourChoice,
    output::format::OutputFormat,
    script::option::value::{OptionValue, to_lua, unparsed},
};

use crate::bench::{Bench, call_on, refused, request};

#[test]
fn a_suffix_wins_and_a_bare_number_has_the_options_unit() {
    const MS: u64 = 1_000_000;
    for (option, typed, ns) in [
        ("--ms", "100", 100 * MS),
        ("--ms", "100us", 100_000),
        ("--ms", "2s", 2000 * MS),
        ("--us", "1000", MS),
        ("--us", "20ms", 20 * MS),
        ("--us", "7ns", 7),
        ("--ns", "600", 600),
        ("--ns", "600us", 600_000),
        ("--ns", "0.5ms", 500_000),
    ] {
        let request = request(&["units", option, typed]);
        let value = &request.values[option.trim_start_matches('-')];
        assert_eq!(*value, OptionValue::DurationNs(ns), "{option} {typed}");
    }
    for (typed, ns) in
        [("1000", 1000 * MS), ("1s", 1000 * MS), ("1ms", MS), ("1", MS), ("2500us", 2_500_000)]
    {
        assert_eq!(request(&["units", "-i", typed]).options.interval_ns, Some(ns), "-i {typed}");
    }
}

#[test]
fn a_percentage_takes_its_sign_and_is_refused_as_a_duration() {
    for typed in ["30", "30%"] {
        let request = request(&["units", "--share", typed]);
        assert_eq!(request.values["share"], OptionValue::Percent(30.0));
    }
    let line = refused(&["units", "--ms", "30%"]);
    assert!(line.starts_with("perilune: units: --ms: `30%` is a percentage, not a duration"));
    let line = refused(&["units", "--share", "30ms"]);
    let expected = "perilune: units: --share: `30ms` is not a percentage: unknown unit `ms`";
    assert!(line.starts_with(expected), "{line}");
}

#[test]
fn defaults_are_the_documented_ones() {
    let request = request(&["units"]);
    assert_eq!(request.values["us"], OptionValue::DurationNs(20_000_000));
    assert_eq!(request.values["impl"], OptionValue::Choice("delay".into()));
    assert_eq!(request.values["freq"], OptionValue::Number(100.0));
    assert_eq!(request.values["ms"], OptionValue::Absent);
    let host = &request.options;
    assert_eq!((host.watermark, host.lua_mem, host.color), (50, 256 << 20, ColourChoice::Auto));
    assert_eq!((host.interval_ns, host.mmap_pages, host.order), (None, None, None));
    assert_eq!(request.monitor.every_ns, Some(1_000_000_000));
    assert_eq!((request.monitor.order, request.monitor.pages), (Some(true), Some(4)));
}

#[test]
fn the_hosts_options_are_parsed() {
    let words = "units -C 0-2,5 -C 7 -p 10,11 -p 10 -t 12 -N 5 --duration 2 -m 64 --watermark 0 \
                 --order --json -o out.json -vv -q --stats --self --total -b \
                 --lua-mem 1GB --unsafe --no-color";
    let host = request(&words.split_whitespace().collect::<Vec<_>>()).options;
    assert_eq!(host.cpus, Some(vec![0, 1, 2, 5, 7]));
    assert_eq!((host.pids, host.tids), (vec![10, 11], vec![12]));
    assert_eq!((host.exit_after, host.duration_ns), (Some(5), Some(2_000_000_000)));
    assert_eq!((host.mmap_pages, host.watermark), (Some(64), 0));
    assert_eq!(host.order, Some(true));
    assert_eq!((host.verbose, host.quiet, host.format), (2, true, OutputFormat::Json));
    assert_eq!(host.output.as_deref(), Some("out.json".as_ref()));
    assert!(host.stats && host.watch_self && host.total && host.allow_unsafe && host.batch);
    assert_eq!((host.lua_mem, host.color), (1 << 30, ColourChoice::Never));
    assert_eq!(request(&["units", "--no-order"]).options.order, Some(false));
    assert_eq!(request(&["units", "--color", "always"]).options.color, ColourChoice::Always);
}

#[test]
fn pages_are_rounded_up_to_a_power_of_two_with_a_note() {
    let request_3 = request(&["units", "-m", "3"]);
    assert_eq!(request_3.options.mmap_pages, Some(4));
    assert_eq!(request_3.notes, ["-m 3: the pages of a ring must be a power of two; using 4"]);
    assert!(request(&["units", "-m", "8"]).notes.is_empty());
}

#[test]
fn stacks_use_frame_pointers_unless_the_next_argument_is_another_method() {
    let call_graph = |words: &[&str]| match &request(words).values["call-graph"] {
        OptionValue::Choice(how) => how.clone(),
        other => format!("{other:?}"),
    };
    assert_eq!(call_graph(&["signal"]), "Absent");
    assert_eq!(call_graph(&["signal", "-g"]), "fp");
    assert_eq!(call_graph(&["signal", "--call-graph"]), "fp");
    assert_eq!(call_graph(&["signal", "--call-graph=dwarf"]), "dwarf");
    assert_eq!(call_graph(&["signal", "--call-graph=dwarf,16384"]), "dwarf,16384");
    assert_eq!(call_graph(&["signal", "--call-graph", "lbr"]), "lbr");
    assert_eq!(call_graph(&["signal", "-g", "dwarf"]), "dwarf");
    assert_eq!(call_graph(&["signal", "-g", "--filter", "dwarf"]), "fp");
    assert_eq!(call_graph(&["trace", "-Sg", "dwarf", "-e", "a:b"]), "dwarf");
    let trace = request(&["trace", "-Sg", "dwarf", "-e", "a:b"]);
    assert_eq!(trace.values["short"], OptionValue::Flag(true));
}

#[test]
fn stack_options_apply_to_every_event_with_stacks() {
    let stack = |words: &[&str]| request(words).stack().unwrap();
    let usual = StackSampling::default();
    assert_eq!(stack(&["signal"]), usual);
    let walk = CallGraph::Dwarf { bytes: 16384 };
    assert_eq!(stack(&["signal", "--call-graph=dwarf,16384"]), StackSampling { walk, ..usual });
    assert_eq!(
        stack(&["signal", "--user-callchain"]),
        StackSampling { part: ChainPart::User, ..usual }
    );
    let kernel = StackSampling { part: ChainPart::Kernel, walk: CallGraph::Branches, ..usual };
    assert_eq!(stack(&["signal", "-g", "lbr", "--kernel-callchain"]), kernel);
}

#[test]
fn another_argument_after_g_is_not_consumed() {
    let request_ls = request(&["signal", "-g", "ls", "-g", "dwarf"]);
    assert_eq!(request_ls.values["call-graph"], OptionValue::Choice("fp".into()));
    assert_eq!(request_ls.options.workload, ["ls", "-g", "dwarf"]);
    let victim = request(&["who-kills", "nginx", "-g", "lbr", "dwarf"]);
    assert_eq!(victim.values["name"], OptionValue::Text("nginx".into()));
    assert_eq!(victim.values["call-graph"], OptionValue::Choice("lbr".into()));
    assert_eq!(victim.options.workload, ["dwarf"]);
}

#[test]
fn a_flame_graph_implies_stacks() {
    let request = request(&["signal", "--flame-graph", "out"]);
    assert_eq!(request.values["call-graph"], OptionValue::Choice("fp".into()));
    assert!(request.notes.is_empty(), "{:?}", request.notes);
}

#[test]
fn a_profile_implies_stacks_and_writes_no_flame_graph() {
    for option in ["--pprof", "--firefox"] {
        let request = request(&["signal", option, "out"]);
        assert_eq!(request.values["call-graph"], OptionValue::Choice("fp".into()));
        assert_eq!(request.given, [option.trim_start_matches('-')]);
    }
    let sent = request(&["signal", "--otlp", "http://localhost", "--otlp-profiles"]);
    assert_eq!(sent.values["call-graph"], OptionValue::Choice("fp".into()));
    assert!(refused(&["signal", "--pprof", "x", "--diff", "y"]).contains("--diff needs"));
}

#[test]
fn metrics_are_served_on_loopback_unless_an_address_is_given() {
    let address = |typed| request(&["units", "--prometheus", typed]).options.prometheus;
    let parsed = |text: &str| Some(text.parse().unwrap());
    assert_eq!(address("9464"), parsed("127.0.0.1:9464"));
    assert_eq!(address("0.0.0.0:9464"), parsed("0.0.0.0:9464"));
    assert_eq!(address("[::1]:9464"), parsed("[::1]:9464"));
    for typed in ["localhost:9464", "99999", "127.0.0.1", ""] {
        let line = refused(&["units", &format!("--prometheus={typed}")]);
        assert!(line.contains("--prometheus"), "{line}");
    }
    assert!(refused(&["units", "--series", "1"]).contains("--series"));
    let line = refused(&["units", "--prometheus", "1", "--replay", "x"]);
    assert!(line.contains("--prometheus cannot be combined with --replay"), "{line}");
    let unwatched = |words: &[&str]| request(words).interval_ns();
    assert_eq!(unwatched(&["signal"]), None);
    assert_eq!(unwatched(&["signal", "--prometheus", "1"]), Some(1_000_000_000));
}

#[test]
fn a_weight_without_a_flame_graph_is_noted() {
    let script = r#"local weight = choice { "weight", of = { "count", "time" } }
        local m = monitor { options = { "flame-graph", weight } }
        function m.init() end
        return m"#;
    let notes = |words: &[&str]| {
        let words = [&["weigh.lua", "--weight", "time"], words].concat();
        call_on(Bench::with("weigh.lua", script), &words).ran.unwrap().notes
    };
    assert_eq!(notes(&[]), ["--weight does nothing without --flame-graph"]);
    assert!(notes(&["--flame-graph", "x"]).is_empty());
}

#[test]
fn a_share_is_at_most_the_whole() {
    let line = crate::bench::refused(&["units", "--share=101"]);
    assert!(line.contains("--share: `101` is not a percentage from 0 to 100"), "{line}");
    assert_eq!(request(&["units", "--share", "100%"]).values["share"], OptionValue::Percent(100.0));
}

#[test]
fn detail_without_than_is_noted() {
    let script = r#"local m = monitor { options = { "detail", duration { "than" } } }
        function m.init() end
        return m"#;
    let called = call_on(Bench::with("relate.lua", script), &["relate.lua", "--detail"]);
    assert_eq!(called.ran.unwrap().notes, ["--detail does nothing without --than"]);
    let words = ["relate.lua", "--detail", "--than", "5"];
    let called = call_on(Bench::with("relate.lua", script), &words);
    assert!(called.ran.unwrap().notes.is_empty());
}

#[test]
fn detail_accepts_its_value_after_an_equals_sign_or_a_blank() {
    let said = |words: &str| {
        let words: Vec<&str> = ["units"].into_iter().chain(words.split(' ')).collect();
        match request(&words).values["detail"].clone() {
            OptionValue::Detail(detail) => (detail.before_ns, detail.after_ns, detail.same),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(said("--detail"), (0, 0, [false; 4]));
    assert_eq!(
        said("--detail=-1ms,+500us,samecpu"),
        (1_000_000, 500_000, [true, false, false, false])
    );
    assert_eq!(said("--detail samepid,samekey"), (0, 0, [false, true, false, true]));
    assert_eq!(said("--detail -k pid"), (0, 0, [false; 4]));
    let line = crate::bench::refused(&["units", "--detail=1ms"]);
    assert!(line.contains("--detail: `1ms`: expected a time before"), "{line}");
}

#[test]
fn each_e_option_is_a_separate_group() {
    let words = ["multi-trace", "-e", "a:b,c:d/x==\",\"/", "--event=e:f//key=pid/"];
    let request = request(&words);
    let groups = vec!["a:b,c:d/x==\",\"/".to_owned(), "e:f//key=pid/".to_owned()];
    assert_eq!(request.values["event"], OptionValue::Events(groups));
}

#[test]
fn a_script_sees_numbers_text_and_false_but_never_nil() {
    let words = "units --us 5 --ms 1s --share 12.5 --bytes 4K --count -2 --impl pair --detail \
                 -k pid --alloc kmem:kmalloc";
    let mut bench = Bench::new();
    let lua = bench.lua.clone();
    let argv: Vec<_> =
        std::iter::once("perilune").chain(words.split_whitespace()).map(Into::into).collect();
    let code = perilune::cli::main_with(&argv, &mut bench, &mut Vec::new(), &mut Vec::new());
    assert_eq!(code, 0);
    let request = bench.ran.pop().unwrap();
    let opt = to_lua(&lua, &request.values).unwrap();
    lua.globals().set("opt", &opt).unwrap();
    lua.load(
        r#"assert(opt.us == 5000 and opt.ms == 1e9 and opt.share == 12.5 and opt.bytes == 4096)
           assert(opt.count == -2 and opt.impl == "pair" and opt.freq == 100)
           assert(opt.detail.before == 0 and opt.detail.after == 0 and opt.detail.samecpu == false)
           assert(opt.guest == false and opt.ns == false)
           assert(opt.exclude_user == false)"#,
    )
    .exec()
    .unwrap();
    let left: Vec<_> = unparsed(&request.monitor.options, &request.values)
        .map(|(key, option, value)| (key, option.short, value.clone()))
        .collect();
    assert_eq!(
        left,
        [
            ("key".to_owned(), Some('k'), OptionValue::Expr("pid".into())),
            ("alloc".to_owned(), None, OptionValue::Event("kmem:kmalloc".into())),
        ]
    );
}

#[test]
fn a_file_is_run_like_a_bundled_monitor() {
    let script =
        "#!/usr/bin/env perilune\n--- Mine.\nlocal m = monitor {}\nfunction m.init() end\nreturn m";
    let words = ["./mine.lua", "-i", "5", "--", "true"];
    let called = call_on(Bench::with("./mine.lua", script), &words);
    let request = called.ran.unwrap_or_else(|| panic!("{}", called.err));
    assert_eq!(
        (request.monitor.name.as_str(), request.monitor.summary.as_str()),
        ("./mine.lua", "Mine")
    );
    assert_eq!(
        (request.options.interval_ns, request.options.workload),
        (Some(5_000_000), vec!["true".into()])
    );
}

#[test]
fn a_duration_without_a_unit_is_noted_with_its_interpretation() {
    let understood = |words: &[&str]| {
        let request = request(&[&["units"], words].concat());
        request.understood
    };
    assert_eq!(understood(&["--ms", "10"]), ["--ms 10: read as 10ms"]);
    assert_eq!(understood(&["--us=7", "--ns", "7us"]), ["--us 7: read as 7us"]);
    assert_eq!(understood(&["--duration", "1.5"]), ["--duration 1.5: read as 1.5s"]);
    let said = understood(&["--ms", "10ms", "--duration=2s", "-i", "1000"]);
    assert!(said.is_empty(), "a unit, or `-i`, needs no note: {said:?}");
    assert!(understood(&["--ms", "0"]).is_empty());
    assert!(understood(&[]).is_empty(), "a default is not a typed value");
}

#[test]
fn a_prompt_refuses_options_without_an_effect() {
    for option in ["--parquet x", "--prometheus 9464", "--otlp http://localhost"] {
        let words: Vec<&str> = ["repl"].into_iter().chain(option.split(' ')).collect();
        assert_eq!(
            refused(&words),
            format!("perilune: repl: {} applies only to monitors; omit it", words[1])
        );
    }
}

#[test]
fn a_rotation_is_one_size_and_one_time() {
    for (value, why) in [
        ("64MiB,60s,10s", "`10s` is the second size or time; give one of each, such as 64MiB,60s"),
        ("64MiB,1", "`1` is too small; the minimum is 64KiB"),
        ("soon", "`soon` is neither a size nor a time; for example 64MiB,60s"),
    ] {
        let words = ["top", "-e", "sched:sched_switch", "--parquet", "x", "--rotate", value];
        assert_eq!(
            refused(&words),
            format!("perilune: top: --rotate: {why} (perilune top --help shows more)")
        );
    }
}

#[test]
fn a_negative_value_is_refused_as_one() {
    for words in [["signal", "--duration", "-1"], ["units", "-p", "-5"]] {
        let wanted = format!(
            "perilune: {0}: no option '{1}'; a negative value follows `=`: --OPTION={1} \
             (perilune {0} --help lists them)",
            words[0], words[2]
        );
        assert_eq!(refused(&words), wanted);
    }
}
