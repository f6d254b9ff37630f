//! Lists of selectors: names, filters and attributes, with the separators that each may contain.

use super::*;
use proptest::prelude::*;

fn one(text: &str) -> Selector {
    let mut list = Selector::parse_list(text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(list.len(), 1, "{list:?}");
    list.remove(0)
}

/// Returns name, filter (empty for none), and attributes as `name=value` or `name`.
fn parts(text: &str) -> Vec<(String, String, Vec<String>)> {
    let list = Selector::parse_list(text).unwrap_or_else(|e| panic!("{e}"));
    list.into_iter()
        .map(|s| {
            let attr = |(name, value): (String, Option<String>)| match value {
                Some(value) => format!("{name}={value}"),
                None => name,
            };
            (s.name, s.filter.unwrap_or_default(), s.attrs.into_iter().map(attr).collect())
        })
        .collect()
}

macro_rules! selectors {
    ($($text:expr => $([$name:expr, $filter:expr $(, $attr:expr)*]),+;)*) => {
        $(assert_eq!(
            parts($text),
            vec![$((
                $name.to_owned(),
                $filter.to_owned(),
                vec![$($attr.to_owned()),*] as Vec<String>,
            )),+],
            "{}", $text
        );)*
    };
}

#[test]
fn slashes_separate_the_filter_and_the_attributes() {
    selectors! {
        "sched:sched_switch" => ["sched:sched_switch", ""];
        "sched:sched_switch/" => ["sched:sched_switch", ""];
        "sched:sched_switch//" => ["sched:sched_switch", ""];
        "a:b/prev_pid==1" => ["a:b", "prev_pid==1"];
        "a:b/prev_pid==1/stack" => ["a:b", "prev_pid==1", "stack"];
        "a:b//stack/max-stack=16/" => ["a:b", "", "stack", "max-stack=16"];
        " a:b / x == 1 / key = pid / , c:d " => ["a:b", "x == 1", "key=pid"], ["c:d", ""];
    }
    assert_eq!(Selector::parse_list(" a:b//k=1/ ,c:d").unwrap()[0].text, "a:b//k=1/");
}

#[test]
fn selectors_of_simple_monitors_parse() {
    selectors! {
        "signal:signal_generate/sig==9/stack/" => ["signal:signal_generate", "sig==9", "stack"];
        "skb:kfree_skb" => ["skb:kfree_skb", ""];
        "kprobes:alloc_percpu" => ["kprobes:alloc_percpu", ""];
        "syscalls:sys_enter_nanosleep,syscalls:sys_exit_nanosleep" =>
            ["syscalls:sys_enter_nanosleep", ""], ["syscalls:sys_exit_nanosleep", ""];
        "timer:hrtimer_start/function==0xffffffffc0537050/,\
         timer:hrtimer_expire_entry/function==0xffffffffc0537050/,timer:hrtimer_expire_exit" =>
            ["timer:hrtimer_start", "function==0xffffffffc0537050"],
            ["timer:hrtimer_expire_entry", "function==0xffffffffc0537050"],
            ["timer:hrtimer_expire_exit", ""];
        "timer:hrtimer_start,timer:hrtimer_expire_entry,timer:hrtimer_expire_exit" =>
            ["timer:hrtimer_start", ""],
            ["timer:hrtimer_expire_entry", ""],
            ["timer:hrtimer_expire_exit", ""];
        "timer:hrtimer_expire_entry,irq:irq_handler_entry//untraced/" =>
            ["timer:hrtimer_expire_entry", ""], ["irq:irq_handler_entry", "", "untraced"];
    }
}

#[test]
fn function_selectors_parse_with_their_files() {
    selectors! {
        "kprobe:vfs_read" => ["kprobe:vfs_read", ""];
        "kretprobe:vfs_*/retval<0/stack" => ["kretprobe:vfs_*", "retval<0", "stack"];
        "uprobe:/usr/bin/bash:readline" => ["uprobe:/usr/bin/bash:readline", ""];
        "uprobe:/usr/bin/bash:readline/arg1>0/stack/,a:b" =>
            ["uprobe:/usr/bin/bash:readline", "arg1>0", "stack"], ["a:b", ""];
        "a:b/x ? 1 : 0/,uretprobe:bash:f//key=retval/" =>
            ["a:b", "x ? 1 : 0"], ["uretprobe:bash:f", "", "key=retval"];
        "uprobe:/proc/7/root/bin/x:mem*" => ["uprobe:/proc/7/root/bin/x:mem*", ""];
        "uprobe:\"/a dir/b:c,d|e\":f/arg1/" => ["uprobe:\"/a dir/b:c,d|e\":f", "arg1"];
        "uprobe:./x:ns::f(int, char/*)/arg1/" => ["uprobe:./x:ns::f(int, char/*)", "arg1"];
        "uprobe:/a/b:f|uprobe:/c/d:g|cycles/arg1/" =>
            ["uprobe:/a/b:f|uprobe:/c/d:g|cycles", "arg1"];
        "sys:name|kprobe:g//stack" => ["sys:name|kprobe:g", "", "stack"];
    }
    let alternatives = |text: &str| {
        let one = one(text);
        one.alternatives().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(alternatives("uprobe:'/a|b':f|kprobe:g"), ["uprobe:'/a|b':f", "kprobe:g"]);
    for (text, place) in [("uprobe:/usr/bin/bash", 20), ("uretprobe:/a,b:c", 12)] {
        let why = Selector::parse_list(text).unwrap_err();
        assert!(why.fault.message.starts_with("the function is missing here: u"), "{why}");
        assert_eq!(why.fault.at, place);
    }
}

#[test]
fn selectors_of_related_events_parse() {
    selectors! {
        "sched:sched_wakeup,sched:sched_switch/prev_state==0/key=prev_pid/" =>
            ["sched:sched_wakeup", ""], ["sched:sched_switch", "prev_state==0", "key=prev_pid"];
        "sched:sched_wakeup,sched:sched_switch//key=prev_pid/" =>
            ["sched:sched_wakeup", ""], ["sched:sched_switch", "", "key=prev_pid"];
        "sched:sched_switch//key=next_pid/,sched:sched_stat_runtime//untraced/" =>
            ["sched:sched_switch", "", "key=next_pid"],
            ["sched:sched_stat_runtime", "", "untraced"];
        "sched:sched_wakeup/comm~\"while*\"/,\
         sched:sched_switch/prev_comm~\"while*\"/key=prev_pid/" =>
            ["sched:sched_wakeup", "comm~\"while*\""],
            ["sched:sched_switch", "prev_comm~\"while*\"", "key=prev_pid"];
        "kmem:kmalloc//key=ptr/size=bytes_req/" =>
            ["kmem:kmalloc", "", "key=ptr", "size=bytes_req"];
        "kmem:kfree//key=ptr/" => ["kmem:kfree", "", "key=ptr"];
        "raw_syscalls:sys_enter" => ["raw_syscalls:sys_enter", ""];
        "sched:sched_wakeup/comm~\"nginx*\"/stack/" =>
            ["sched:sched_wakeup", "comm~\"nginx*\"", "stack"];
        "sched:sched_switch/prev_state!=0/" => ["sched:sched_switch", "prev_state!=0"];
        "sched:sched_stat_runtime/comm==\"redis\"/" =>
            ["sched:sched_stat_runtime", "comm==\"redis\""];
    }
}

#[test]
fn selectors_of_top_parse() {
    selectors! {
        "irq:irq_handler_entry//key=irq/" => ["irq:irq_handler_entry", "", "key=irq"];
        "sched:sched_stat_runtime//key=pid/comm=comm/top-by=\"runtime/1000\"/alias=run(us)/" =>
            ["sched:sched_stat_runtime", "", "key=pid", "comm=comm", "top-by=runtime/1000",
             "alias=run(us)"];
        "sched:sched_stat_runtime//top-by=\"runtime/1000\"/alias=run(us)/" =>
            ["sched:sched_stat_runtime", "", "top-by=runtime/1000", "alias=run(us)"];
        "sched:sched_wakeup//comm=comm/" => ["sched:sched_wakeup", "", "comm=comm"];
        "sys:A//key=fieldA/top-by=value1/top-add=value2/,sys:B//key=fieldB/,\
         sys:C//key=fieldC/top-by=value3/comm=comm1/" =>
            ["sys:A", "", "key=fieldA", "top-by=value1", "top-add=value2"],
            ["sys:B", "", "key=fieldB"],
            ["sys:C", "", "key=fieldC", "top-by=value3", "comm=comm1"];
        "irq:softirq_entry//key=(__cpu<<32)|vec/\
         printkey=printf(\"   %03d        %d\",key>>32,(int)key)/" =>
            ["irq:softirq_entry", "", "key=(__cpu<<32)|vec",
             "printkey=printf(\"   %03d        %d\",key>>32,(int)key)"];
        "sched:sched_switch,sched:sched_stat_runtime" =>
            ["sched:sched_switch", ""], ["sched:sched_stat_runtime", ""];
        "sched:sched_switch//key=prev_pid/comm=prev_comm/,\
         sched:sched_stat_runtime//key=pid/top-by=runtime/" =>
            ["sched:sched_switch", "", "key=prev_pid", "comm=prev_comm"],
            ["sched:sched_stat_runtime", "", "key=pid", "top-by=runtime"];
        "irq:irq_handler_entry//key=irq/comm=name/" =>
            ["irq:irq_handler_entry", "", "key=irq", "comm=name"];
        "sched:sched_wakeup//key=pid/" => ["sched:sched_wakeup", "", "key=pid"];
        "sched:sched_stat_runtime//top-by=runtime/" =>
            ["sched:sched_stat_runtime", "", "top-by=runtime"];
        "block:block_rq_issue//top-by=nr_sector/comm=comm/" =>
            ["block:block_rq_issue", "", "top-by=nr_sector", "comm=comm"];
        "block:block_rq_issue/rwbs==\"W\"&&nr_sector<4/top-by=nr_sector/comm=comm/" =>
            ["block:block_rq_issue", "rwbs==\"W\"&&nr_sector<4", "top-by=nr_sector", "comm=comm"];
        "kvm:kvm_exit//key=exit_reason/" => ["kvm:kvm_exit", "", "key=exit_reason"];
        "sched:sched_stat_runtime//top-by=runtime/,\
         sched:sched_switch//key=prev_pid/comm=prev_comm/" =>
            ["sched:sched_stat_runtime", "", "top-by=runtime"],
            ["sched:sched_switch", "", "key=prev_pid", "comm=prev_comm"];
        "sched:sched_process_exec//key=pid/alias=num/comm=filename/" =>
            ["sched:sched_process_exec", "", "key=pid", "alias=num", "comm=filename"];
        "skb:kfree_skb//key=protocol/comm=ksymbol(location)/" =>
            ["skb:kfree_skb", "", "key=protocol", "comm=ksymbol(location)"];
        "kvm:kvm_msi_set_irq//key=(target_cpu*1000+vector)/\
         printkey=printf(\"cpu%d->vec%d\",key/1000,key%1000)/" =>
            ["kvm:kvm_msi_set_irq", "", "key=(target_cpu*1000+vector)",
             "printkey=printf(\"cpu%d->vec%d\",key/1000,key%1000)"];
        "sched:sched_wakeup//key=(target_cpu*1000+pid)/\
         printkey=printf(\"cpu%d->%d\",key/1000,key%1000)/" =>
            ["sched:sched_wakeup", "", "key=(target_cpu*1000+pid)",
             "printkey=printf(\"cpu%d->%d\",key/1000,key%1000)"];
        "sched:sched_wakeup/comm_get(__pid) ~ \"python*\"/key=pid/" =>
            ["sched:sched_wakeup", "comm_get(__pid) ~ \"python*\"", "key=pid"];
        "sched:sched_switch/__cpu<4/key=prev_pid/comm=prev_comm/" =>
            ["sched:sched_switch", "__cpu<4", "key=prev_pid", "comm=prev_comm"];
    }
}

#[test]
fn counters_globs_and_alternatives_parse_as_names() {
    selectors! {
        "cpu-clock,page-faults:u" => ["cpu-clock", ""], ["page-faults:u", ""];
        "cpu-clock//stack/" => ["cpu-clock", "", "stack"];
        "page-faults:u//alias=faults/" => ["page-faults:u", "", "alias=faults"];
        "ref-cycles:uH,ref-cycles:G" => ["ref-cycles:uH", ""], ["ref-cycles:G", ""];
        "sched:sched_wak*,irq:*" => ["sched:sched_wak*", ""], ["irq:*", ""];
        "bus-cycles|cpu-clock//stack/" => ["bus-cycles|cpu-clock", "", "stack"];
        "vmscan:a|vmscan:b/x==1/" => ["vmscan:a|vmscan:b", "x==1"];
    }
    assert_eq!(
        one("cycles:ppp|cycles").alternatives().collect::<Vec<_>>(),
        ["cycles:ppp", "cycles"]
    );
}

#[test]
fn a_name_that_is_not_an_event_is_a_pmu_with_terms() {
    selectors! {
        "msr/tsc/" => ["msr/tsc/", ""];
        "msr/tsc/,cpu-clock" => ["msr/tsc/", ""], ["cpu-clock", ""];
        "cpu/event=0x3c,umask=0x1/uH" => ["cpu/event=0x3c,umask=0x1/uH", ""];
        "cpu/event=0x3c,umask=0x1/u,msr/tsc/" =>
            ["cpu/event=0x3c,umask=0x1/u", ""], ["msr/tsc/", ""];
        "cpu/event=0x3c/u/stack/alias=x/" => ["cpu/event=0x3c/u", "", "stack", "alias=x"];
        "msr/tsc//alias=t/" => ["msr/tsc/", "", "alias=t"];
        "msr/tsc/alias=t/" => ["msr/tsc/", "", "alias=t"];
    }
}

#[test]
fn quotes_and_parentheses_hide_separators() {
    selectors! {
        "a:b/f==\"x,y/z\"&&(c==1)/k=f(1,2)/,c:d" =>
            ["a:b", "f==\"x,y/z\"&&(c==1)", "k=f(1,2)"], ["c:d", ""];
        "a:b/CPU&CPUS{0,2}/" => ["a:b", "CPU&CPUS{0,2}"];
        "a:b/'x ~ \"/a,b/\"'/" => ["a:b", "x ~ \"/a,b/\""];
        "a:b/f==\"\\\"/k='1/2'/" => ["a:b", "f==\"\\\"", "k=1/2"];
        "a:b//k=printf(\"\\\"/%d\", x)/" => ["a:b", "", "k=printf(\"\\\"/%d\", x)"];
        "a:b//k=\"a \\\"x/y\\\"\"/" => ["a:b", "", "k=a \"x/y\""];
        "a:b//k=\"a\"+\"b\"/" => ["a:b", "", "k=\"a\"+\"b\""];
        "a:b//k=x==1/" => ["a:b", "", "k=x==1"];
    }
}

#[test]
fn an_error_has_the_position_of_the_fault() {
    let fault = |text: &str| {
        Selector::parse_list(text).map_err(|e| (e.fault.message, e.fault.at)).unwrap_err()
    };
    let at = |message: &str, place: usize| (message.to_owned(), place);
    assert_eq!(fault(""), at("an event is missing here: sys:name", 0));
    assert_eq!(fault("a:b,"), at("an event is missing here: sys:name", 4));
    assert_eq!(fault("a:b,,c:d"), at("an event is missing here: sys:name", 4));
    assert_eq!(fault("a:b c:d"), at("events are joined with `,`", 3));
    assert_eq!(fault("a:b/x==\"1/"), at("this quote is not closed by another \"", 7));
    assert_eq!(fault("a:b/(x==1/"), at("this `(` is not closed", 4));
    assert_eq!(fault("a:b//stack//alias=x/"), at("expected an attribute: NAME or NAME=VALUE", 11));
    assert_eq!(fault("a:b//=5/"), at("expected an attribute: NAME or NAME=VALUE", 5));
    assert_eq!(fault("msr/tsc"), at("the terms of a PMU end with a `/`: msr/tsc/", 3));
    let path = |event: &str| format!("a path is not an event; write uprobe:{event}");
    assert_eq!(fault("./up:f2"), at(&path("./up:f2"), 0));
    assert_eq!(fault("a:b,/bin/sh:main/arg1/"), at(&path("/bin/sh:main/arg1/"), 4));
    assert_eq!(fault("~/up"), at(&path("~/up:FUNCTION"), 0));
    let (why, place) = fault("cpu-clock/freq=99,name=x/");
    assert!(why.starts_with("`name=x` is not an event; `/` separates attributes"), "{why}");
    assert!(why.contains("'alias=TEXT' (there are stack,") && place == 18, "{why}");
}

#[test]
fn built_in_attributes_have_accessors() {
    let s = one("a:b//stack/max-stack=16/alias=run(us)/cpus=0-3,8/key=pid/");
    assert_eq!((s.stack(), s.max_stack(), s.alias()), (true, Some(16), Some("run(us)")));
    assert_eq!(s.cpus(), Some("0-3,8"));
    assert_eq!(one("a:b//cpus=\"0-3,8\"/").cpus(), Some("0-3,8"));
    assert_eq!(s.attr("key"), Some(Some("pid")));
    assert_eq!(one("a:b//untraced/").attr("untraced"), Some(None));
    assert_eq!(one("a:b").attr("stack"), None);
}

#[test]
fn errors_name_unknown_and_misplaced_attributes() {
    let check = |text: &str| one(text).check_attrs(&["key", "top-by"]).map_err(|e| e.to_string());
    assert_eq!(check("a:b/x==1/stack/key=pid/top-by=x/"), Ok(()));
    assert_eq!(
        check("a:b//kee=pid/").unwrap_err(),
        "a:b has no attribute 'kee'; did you mean 'key'? (there are stack, max-stack, alias, \
         cpus, freq, period, key, top-by)"
    );
    assert_eq!(
        check("a:b/stack/").unwrap_err(),
        "'stack' is in the position of the filter; write a:b//stack/"
    );
    assert_eq!(
        check("a:b/key=pid/").unwrap_err(),
        "'key' is in the position of the filter; write a:b//key=pid/"
    );
    assert_eq!(check("a:b/key==1/"), Ok(()));
    assert_eq!(
        check("a:b//stack=1/").unwrap_err(),
        "the attribute 'stack' takes no value; omit `=1`"
    );
    assert_eq!(
        check("a:b//alias/").unwrap_err(),
        "the attribute 'alias' needs a value: alias=VALUE"
    );
    assert!(check("a:b//max-stack=0/").is_err() && check("a:b//max-stack=x/").is_err());
}

proptest! {
    #[test]
    fn random_text_never_panics(text in "[a-c:/,=\"'\\\\(){}| é*]{0,30}") {
        if let Ok(list) = Selector::parse_list(&text) {
            for selector in list {
                let _ = selector.check_attrs(&["a"]);
                // The text of an event in braces does not have the braces.
                let selector = Selector { group: None, ..selector };
                let again = Selector::parse_list(&selector.text).unwrap();
                prop_assert_eq!(&again, &[selector]);
            }
        }
    }
}

#[test]
fn a_rate_follows_a_counter_directly_or_behind_an_empty_filter() {
    for text in ["cpu-clock/freq=99/", "cpu-clock//freq=99/", "cycles:u|cpu-clock/freq=99/stack/"] {
        let one = one(text);
        assert_eq!((one.rate(), &one.filter), (Some(SamplingRate::Frequency(99)), &None), "{text}");
    }
    assert_eq!(one("cycles/period=1000000").rate(), Some(SamplingRate::Period(1_000_000)));
    assert_eq!(one("msr/tsc/u/freq=9/").rate(), Some(SamplingRate::Frequency(9)));
    // A condition stays a filter, and so does any text at the position of a tracepoint's filter.
    assert_eq!(one("page-faults/addr==5/").filter.as_deref(), Some("addr==5"));
    assert_eq!(one("sched:sched_switch/freq=99/").filter.as_deref(), Some("freq=99"));
}

#[test]
fn an_invalid_rate_is_refused() {
    let check = |text: &str| one(text).check_attrs(&[]).unwrap_err().to_string();
    let expected = "expected a whole number of samples per second greater than 0, such as 1000";
    assert_eq!(check("cpu-clock/freq=0/"), format!("freq=0: {expected}"));
    assert_eq!(check("cpu-clock/freq=1k/"), format!("freq=1k: {expected}"));
    assert_eq!(check("cpu-clock/freq/"), "the attribute 'freq' needs a value: freq=VALUE");
    assert_eq!(
        check("cpu-clock/freq=9/period=9/"),
        "cpu-clock: freq= and period= exclude each other; omit one"
    );
}

#[test]
fn terms_and_modifiers_of_a_pmu_belong_to_its_name() {
    let list = Selector::parse_list("cpu/event=0x3c,umask=1/uppD/stack/,msr/tsc/e").unwrap();
    let names: Vec<&str> = list.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["cpu/event=0x3c,umask=1/uppD", "msr/tsc/e"]);
    assert!(list[0].stack() && list[1].attrs.is_empty());
}

#[test]
fn a_monitor_has_options_before_its_attributes() {
    let one = |text: &str| {
        let all = Selector::parse_list(text).unwrap();
        let parts = |s: &Selector| (s.name.clone(), s.options.clone(), s.attrs.len());
        all.iter().map(parts).collect::<Vec<_>>()
    };
    let profile = ("profile".to_owned(), Some("-F 200 --than 50".to_owned()), 1);
    assert_eq!(one("profile/-F 200 --than 50/untraced/"), [profile]);
    let list = one("task-state/-S,-D --filter 'a/b'/,sched:sched_switch//key=pid/");
    assert_eq!(list[0].1.as_deref(), Some("-S,-D --filter 'a/b'"));
    assert_eq!((list[1].0.as_str(), &list[1].1), ("sched:sched_switch", &None));
    // As a whole in quotes, with slashes inside.
    let quoted = one("trace/\"-e 'profile/-F 9/'\"/stack");
    assert_eq!((quoted[0].1.as_deref(), quoted[0].2), (Some("-e 'profile/-F 9/'"), 1));
    // A filter and the terms of a PMU do not begin with a dash.
    assert_eq!(one("sched:sched_switch/-1 < prev_prio/")[0].1, None);
    let why = Selector::parse_list("profile/-F 200").unwrap_err().to_string();
    assert!(why.contains("the options of a monitor end with a `/`"), "{why}");
    let why = Selector::parse_list("funclatency/-e uprobe:./a:slow/").unwrap_err();
    assert_eq!(
        (why.fault.message.as_str(), why.fault.at),
        ("a `/` ends the options of a monitor; quote it: funclatency/-e \"uprobe:./a:slow\"/", 23)
    );
    let why = Selector::parse_list("profile/-F 9/a!b/").unwrap_err();
    assert_eq!(why.fault.message, "expected an attribute: NAME or NAME=VALUE");
}

#[test]
fn a_path_behind_a_prefix_of_another_tool_is_shown_in_full() {
    for (text, hint) in [
        ("u:./a:f", "; instead of bpftrace's: 'uprobe:FILE:FUNCTION'"),
        ("p:./a:f", "; instead of bcc's: 'kprobe:FUNCTION' or 'uprobe:FILE:FUNCTION'"),
    ] {
        let why = Selector::parse_list(text).unwrap_err().fault.message;
        assert_eq!(why, format!("no event '{text}'{hint}"));
    }
}
