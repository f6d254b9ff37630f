//! Splitting filters: the destination of each conjunct, errors, and their positions.

use super::*;
use crate::decode::unset::NumberBehindPointers;
use crate::event::kind::{Counter, Tracepoint};
use proptest::prelude::*;

fn event() -> Event {
    let format = Format::parse(
        "name: sample\nID: 1\nformat:\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
         \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
         \tfield:int pid;\toffset:24;\tsize:4;\tsigned:1;\n\
         \tfield:u8 small;\toffset:28;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned long function;\toffset:32;\tsize:8;\tsigned:0;\n",
    );
    Event::new("sys:sample", Tracepoint { format: format.unwrap() })
}

#[test]
fn a_filter_has_at_most_a_thousand_conditions() {
    for (condition, join) in [("small", "&&"), ("pid == 1", " || "), ("pid + 1 > 2", "&&")] {
        let most = vec![condition; 1000].join(join);
        assert!(Split::parse(&most, &event()).is_ok(), "{condition}");
        let more = vec![condition; 1001].join(join);
        let (message, place) = fault(&more);
        assert_eq!((message.as_str(), place), ("1001 conditions; a filter has at most 1000", 0));
    }
}

/// Returns the text for the kernel, and each conjunct that stays in user space.
fn split(filter: &str) -> (String, Vec<String>) {
    let split = Split::parse(filter, &event()).unwrap_or_else(|why| panic!("{why}"));
    let kernel = split.kernel.map(|filter| filter.to_kernel()).unwrap_or_default();
    (kernel, split.rest.into_iter().map(|rest| rest.text).collect())
}

fn parts(kernel: &str, rest: &[&str]) -> (String, Vec<String>) {
    (kernel.to_owned(), rest.iter().map(|text| (*text).to_owned()).collect())
}

fn fault(filter: &str) -> (String, usize) {
    let error = Split::parse(filter, &event()).unwrap_err();
    assert_eq!(error.text, filter);
    (error.fault.message, error.fault.at)
}

#[test]
fn a_filter_in_the_kernels_language_goes_to_the_kernel_as_a_whole() {
    for filter in ["pid == 1", "pid > 1 || comm ~ \"a*\"", "!(pid == 1 && small & 3) && CPU == 0"] {
        assert_eq!(split(filter), parts(filter, &[]));
    }
    assert_eq!(split("__pid == 1 && __cpu < 4"), parts("common_pid == 1 && CPU < 4", &[]));
    assert_eq!(split("comm_get(__pid) ~ \"python*\""), parts("COMM ~ \"python*\"", &[]));
}

#[test]
fn only_conjuncts_with_values_that_may_be_unset_stay_in_user_space() {
    let mut event = event();
    let mut format = event.format().unwrap().clone();
    let small = NumberBehindPointers { offset: 28, size: 1, pointers: vec![32] };
    format.unset.numbers.push(small);
    event = Event::new("sys:sample", Tracepoint { format });
    let split = |filter: &str| {
        let split = Split::parse(filter, &event).unwrap();
        let kernel = split.kernel.map(|filter| filter.to_kernel()).unwrap_or_default();
        (kernel, split.rest.into_iter().map(|rest| rest.text).collect::<Vec<_>>())
    };
    assert_eq!(split("pid == 1 && small > 0"), parts("pid == 1", &["small > 0"]));
    assert_eq!(split("(small > 0 && (pid == 1))"), parts("pid == 1", &["small > 0"]));
    assert_eq!(
        split("pid > 3 && (small == 1 || pid == 9) && CPU < 2"),
        parts("pid > 3 && CPU < 2", &["small == 1 || pid == 9"])
    );
    assert_eq!(split("small == 1"), parts("", &["small == 1"]));
    assert_eq!(split("!(pid == 1 && small == 1)"), parts("", &["!(pid == 1 && small == 1)"]));
}

#[test]
fn conjuncts_outside_the_kernels_language_stay_in_user_space() {
    assert_eq!(split("_tid"), parts("", &["_tid"]));
    assert_eq!(split("pid == 1 && _tid && small < 3"), parts("pid == 1 && small < 3", &["_tid"]));
    assert_eq!(split(" small&&pid==1&&_cpu "), parts("pid == 1", &["small", "_cpu"]));
}

#[test]
fn a_conjunct_of_both_kinds_stays_in_user_space_as_a_whole() {
    assert_eq!(split("pid > 100 || _tid"), parts("", &["pid > 100 || _tid"]));
    assert_eq!(
        split("(pid > 100 || _tid && pid) && small == 1"),
        parts("small == 1", &["pid > 100 || _tid && pid"])
    );
    assert_eq!(split("!(pid == 1 && _tid)"), parts("", &["!(pid == 1 && _tid)"]));
}

#[test]
fn conjuncts_in_parentheses_are_split() {
    assert_eq!(
        split("(pid == 1 && (_tid && small == 2))"),
        parts("pid == 1 && small == 2", &["_tid"])
    );
    assert_eq!(split("!!(pid == 1 && _tid)"), parts("pid == 1", &["_tid"]));
}

#[test]
fn operators_in_quotes_do_not_split() {
    assert_eq!(
        split("comm == \"a && b || (\" && _tid"),
        parts("comm == \"a && b || (\"", &["_tid"])
    );
    assert_eq!(split("comm == '\"&&' && _tid"), parts("comm == '\"&&'", &["_tid"]));
}

#[test]
fn a_kernel_condition_keeps_its_meaning_in_user_space() {
    let split = Split::parse("pid == 4294967295 || _tid || comm ~ \"!a*\"", &event()).unwrap();
    let Condition::Any(conditions) = &split.rest[0].condition else { panic!("{split:?}") };
    let [Condition::Kernel(bound), Condition::Value(_)] = &conditions[..] else {
        panic!("{conditions:?}")
    };
    let mut raw = [0; 40];
    raw[8] = b'a';
    let passes =
        |raw: &[u8]| bound.passes(&crate::event::filter::FilterInput { raw, cpu: 0, comm: b"" });
    assert!(!passes(&raw), "the text is negated");
    raw[24..28].fill(0xff);
    assert!(passes(&raw), "the number has the same 32 bits");
}

#[test]
fn samples_of_a_counter_are_filtered_in_user_space() {
    let counter = Event::new("cpu-clock", Counter::default());
    let split = Split::parse("CPU == 1 && COMM ~ \"a*\" && _tid", &counter).unwrap();
    assert!(split.kernel.is_none());
    let rest: Vec<_> = split.rest.into_iter().map(|rest| rest.text).collect();
    assert_eq!(rest, ["CPU == 1", "COMM ~ \"a*\"", "_tid"]);
}

#[test]
fn a_condition_for_the_kernel_alone_must_be_a_whole_conjunct() {
    assert_eq!(
        split("function.function == schedule && _tid"),
        parts("function.function == schedule", &["_tid"])
    );
    let (message, place) = fault("pid == 1 && (function.function == schedule || _tid)");
    assert_eq!(place, 13);
    assert_eq!(
        message,
        "only the kernel can evaluate `function.function == schedule`, and it does not support the \
         condition that this is joined with; join it to all other conditions with &&"
    );
}

#[test]
fn conditions_beyond_the_kernels_limit_stay_in_user_space() {
    let terms = |n: usize| vec![format!("pid == {n}"); 300].join(" || ");
    let (kernel, rest) = split(&format!("({}) && ({})", terms(11), terms(22)));
    assert!(kernel.contains("pid == 11") && kernel.len() <= LONGEST);
    assert_eq!(rest, [format!("pid == 22{}", " || pid == 22".repeat(299))]);
    let (kernel, rest) = split(&vec!["pid == 1"; 800].join(" || "));
    assert_eq!((kernel.as_str(), rest.len()), ("", 1));
}

#[test]
fn two_filters_narrow_each_other() {
    let of = |text| Split::parse(text, &event()).unwrap();
    let both = of("pid == 1 || small == 2").and(of("_tid && small == 3"), &event());
    assert_eq!(both.kernel.unwrap().to_kernel(), "(pid == 1 || small == 2) && small == 3");
    assert_eq!(both.rest.len(), 1);
}

#[test]
fn an_error_has_its_position_in_the_whole_filter() {
    assert_eq!(fault(""), ("the filter is empty".into(), 0));
    assert_eq!(fault("_tid && pid = 1"), ("`=` is not a comparison; write `==`".into(), 12));
    assert_eq!(
        fault("_tid && comm == nginx"),
        ("`nginx` is not a number; quote text: \"nginx\"".into(), 16)
    );
    assert_eq!(fault("_tid && comm ~ *true"), ("quote text: \"*true\"".into(), 15));
    assert_eq!(fault("comm ~ ngin* && _tid"), ("quote text: \"ngin*\"".into(), 7));
    assert_eq!(fault("_tid && pidd").1, 8);
    assert!(fault("_tid && pidd").0.contains("did you mean 'pid'"));
    assert_eq!(fault("_tid && (pid == 1").1, 8);
    assert_eq!(fault("_tid && pid == 1)"), ("this `)` has no matching `(`".into(), 16));
    assert_eq!(fault("_tid && comm == \"a"), ("this quote is not closed by another \"".into(), 16));
    assert_eq!(fault("_tid &&"), ("a condition is missing after this: FIELD OP VALUE".into(), 7));
    assert_eq!(
        fault("_tid && && pid == 1"),
        ("a condition is missing before this: FIELD OP VALUE".into(), 8)
    );
    assert_eq!(fault("_tid && ()"), ("a condition is missing here: FIELD OP VALUE".into(), 9));
    assert!(fault(&"(".repeat(4000)).0.contains("not closed"));
    let deep = format!("{}_tid{}", "(".repeat(200), ")".repeat(200));
    assert!(fault(&deep).0.contains("more than 64 nested parentheses"));
}

#[test]
fn the_structure_can_be_checked_before_the_event_is_known() {
    let check =
        |text| Split::check_structure(text).map_err(|why| (why.fault.message, why.fault.at));
    assert_eq!(check("any_field > other && call(it) ~ \"x\" || !(a[1] & 3)"), Ok(()));
    assert_eq!(check("a == 1 && (b").unwrap_err().1, 10);
    assert_eq!(check("a == 1 ||").unwrap_err().1, 9);
    assert_eq!(check(" ").unwrap_err().0, "the filter is empty");
}

proptest! {
    #[test]
    fn random_text_never_panics(text in "[a-c =!<>&|~()?\"'0-9x.{}CPUS_tidp-]{0,40}") {
        let _ = Split::parse(&text, &event());
        let _ = Split::check_structure(&text);
    }

    #[test]
    fn no_conjunct_is_lost(picks in prop::collection::vec(0..4usize, 1..8)) {
        let conjuncts = ["pid == 1", "_tid", "(small == 2)", "(pid == 3 || _cpu)"];
        let typed: Vec<&str> = picks.iter().map(|pick| conjuncts[*pick]).collect();
        let (kernel, rest) = split(&typed.join(" && "));
        let of_kernel = kernel.split(" && ").filter(|text| !text.is_empty()).count();
        prop_assert_eq!(of_kernel + rest.len(), picks.len());
    }
}
