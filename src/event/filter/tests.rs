//! Parsing, checking, printing and evaluating filters.

use super::*;
use crate::decode::format::Format;
use proptest::prelude::*;

fn format() -> Format {
    Format::parse(
        "name: sample\nID: 1\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
         \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
         \tfield:int pid;\toffset:24;\tsize:4;\tsigned:1;\n\
         \tfield:u8 small;\toffset:28;\tsize:1;\tsigned:0;\n\
         \tfield:__data_loc char[] name;\toffset:32;\tsize:4;\tsigned:0;\n\
         \tfield:__data_loc cpumask_t mask;\toffset:36;\tsize:4;\tsigned:0;\n\
         \tfield:unsigned long args[6];\toffset:40;\tsize:48;\tsigned:0;\n",
    )
    .unwrap()
}

fn raw() -> Vec<u8> {
    let mut raw = vec![0; 88];
    raw[4..8].copy_from_slice(&7i32.to_ne_bytes());
    raw[8..13].copy_from_slice(b"nginx");
    raw[24..28].copy_from_slice(&(-3i32).to_ne_bytes());
    raw[28] = 200;
    raw[32..36].copy_from_slice(&(6u32 << 16 | 88).to_ne_bytes());
    raw[36..40].copy_from_slice(&(8u32 << 16 | 96).to_ne_bytes());
    raw.extend(b"hello\0\0\0");
    raw.extend(0b1010u64.to_ne_bytes());
    raw
}

fn passes(filter: &str) -> bool {
    let bound = Filter::parse(filter).unwrap().bind("sys:sample", &format()).unwrap();
    bound.passes(&FilterInput { raw: &raw(), cpu: 3, comm: b"worker" })
}

fn message(filter: &str) -> String {
    let fault = Filter::parse(filter).and_then(|f| f.check("sys:sample", &format()).map(|()| f));
    fault.unwrap_err().fault.message
}

#[test]
fn numbers_compare_with_the_width_and_sign_of_the_field() {
    assert!(passes("pid == -3") && passes("pid < 0") && passes("pid != 3"));
    assert!(passes("pid == 4294967293"), "truncated to 32 bits");
    assert!(passes("small == 200") && passes("small == 456") && passes("small > 100"));
    assert!(passes("small & 0x8") && !passes("small & 7"));
    assert!(passes("common_pid == 7") && passes("CPU == 3 && cpu >= 3"));
    assert!(passes("CPU & CPUS{2-4}") && !passes("CPU == CPUS{2-4}") && passes("CPU == CPUS{3}"));
}

#[test]
fn texts_compare_whole_or_by_glob() {
    assert!(passes("comm == \"nginx\"") && passes("comm != 'ngin'"));
    assert!(passes("comm ~ \"*ginx\"") && passes("comm ~ \"!a*\"") && !passes("comm ~ \"ngin\""));
    assert!(passes("name == \"hello\"") && passes("name ~ \"h?l*\""));
    assert!(
        passes("COMM == \"worker\"")
            && !passes("COMM == \"work\"")
            && !passes("COMM == \"workers\"")
    );
}

#[test]
fn masks_compare_as_sets() {
    assert!(
        passes("mask == CPUS{1,3}") && !passes("mask == CPUS{1-3}") && !passes("mask == CPUS{1}")
    );
    assert!(passes("mask != CPUS{1}") && passes("mask & CPUS{2-3}") && !passes("mask & CPUS{2}"));
}

#[test]
fn comparisons_are_counted_at_any_depth() {
    let count = |text| Filter::parse(text).unwrap().comparisons();
    assert_eq!(count("pid == 1"), 1);
    assert_eq!(count("comm == \"a && b\" && !(pid == 1 || (pid == 2 && prio > 3))"), 4);
}

#[test]
fn conditions_join_as_in_c() {
    assert!(passes("pid == 1 || pid == -3 && small == 200"));
    assert!(!passes("(pid == 1 || pid == -3) && small == 1"));
    assert!(passes("!(pid == 1) && !!pid == -3 && !pid == 1"));
}

#[test]
fn a_condition_on_a_field_beyond_the_record_is_not_met() {
    let bound = Filter::parse("mask != CPUS{1} || pid != 1").unwrap();
    let bound = bound.bind("sys:sample", &format()).unwrap();
    assert!(!bound.passes(&FilterInput { raw: &[0; 20], cpu: 0, comm: b"" }));
}

#[test]
fn a_filter_prints_in_the_kernels_syntax() {
    let print = |filter: &str| Filter::parse(filter).unwrap().to_kernel();
    assert_eq!(print("a==1&&( b==2||c==3 )"), "a == 1 && (b == 2 || c == 3)");
    assert_eq!(print("!a==0x1F"), "!(a == 0x1F)");
    assert_eq!(print("(f.function==schedule)||a==1"), "f.function == schedule || a == 1");
    assert_eq!(print("a==1&&!(f.function!=schedule)"), "a == 1 && !(f.function != schedule )");
    assert_eq!(print("x & CPUS{ 0-3 }"), "x & CPUS{0-3}");
    assert_eq!(print("__cpu<4 && __pid != 1"), "CPU < 4 && common_pid != 1");
    assert_eq!(print("comm_get( __pid ) ~ 'a'"), "COMM ~ 'a'");
}

#[test]
fn a_space_separates_a_function_name_from_the_closing_parenthesis() {
    let print = |filter: &str| Filter::parse(filter).unwrap().to_kernel_and("common_pid != 5");
    assert_eq!(print("f.function==schedule"), "(f.function == schedule ) && common_pid != 5");
    assert_eq!(
        print("a==1||!f.function==schedule"),
        "(a == 1 || !(f.function == schedule )) && common_pid != 5"
    );
    assert_eq!(print("a==1"), "(a == 1) && common_pid != 5");
}

/// Returns the format of `syscalls:sys_enter_openat`, before Linux 6.19 or since, where the file
/// name is in the record.
fn openat(recorded: bool) -> Format {
    let value = "\tfield:__data_loc char[] __filename_val;\toffset:48;\tsize:4;\tsigned:0;\n";
    let text = "name: sys_enter_openat\nID: 1\nformat:\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
         \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
         \tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n\
         \tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n\
         \tfield:int flags;\toffset:32;\tsize:8;\tsigned:0;\n";
    Format::parse(&format!("{text}{}", if recorded { value } else { "" })).unwrap()
}

#[test]
fn text_behind_a_user_pointer_is_compared_with_ustring() {
    let meant = |event: &str, filter: &str| {
        let filter = Filter::parse(filter).unwrap().for_event(event, &openat(false));
        filter.check(event, &openat(false)).unwrap();
        filter.to_kernel()
    };
    let enter = "syscalls:sys_enter_openat";
    assert_eq!(meant(enter, "filename ~ \"*x*\""), "filename.ustring ~ \"**x*\"");
    assert_eq!(
        meant(enter, "dfd == 3 || !(filename == \"a\" && flags == 0)"),
        "dfd == 3 || !(filename.ustring == \"a\" && flags == 0)"
    );
    assert_eq!(meant(enter, "filename.ustring != \"a\""), "filename.ustring != \"a\"");
    // In other events, a pointer to text points to kernel memory.
    assert_eq!(meant("rcu:rcu_utilization", "filename == \"a\""), "filename == \"a\"");
}

#[test]
fn text_that_a_system_call_records_is_compared_in_user_space() {
    let event = "syscalls:sys_enter_openat";
    let mut raw = vec![0; 52];
    raw[24..32].copy_from_slice(&0x7ffe_1234_5678u64.to_ne_bytes());
    raw[48..52].copy_from_slice(&(12u32 << 16 | 52).to_ne_bytes());
    raw.extend(b"/etc/passwd\0");
    let passes = |filter: &str, recorded| {
        let format = openat(recorded);
        let bound = Filter::parse(filter).unwrap().for_event(event, &format).bind(event, &format);
        bound.map(|bound| bound.passes(&FilterInput { raw: &raw, cpu: 0, comm: b"cat" }))
    };
    assert!(passes("filename ~ \"*passwd\"", true).unwrap());
    assert!(passes("filename == \"/etc/passwd\"", true).unwrap());
    assert!(!passes("filename.ustring ~ \"*shadow\"", true).unwrap());
    assert!(!passes("!(filename ~ \"/etc/*\")", true).unwrap());
    assert!(passes("__filename_val ~ \"/etc/*\"", true).unwrap());
    let only = "filename.ustring ~ \"**passwd\"".to_owned();
    let refused = passes("filename ~ \"*passwd\"", false).unwrap_err();
    assert_eq!(refused, KernelOnly::UserText(only));
}

#[test]
fn text_that_could_not_be_read_meets_no_condition() {
    let (event, format) = ("syscalls:sys_enter_openat", openat(true));
    let mut raw = vec![0; 52];
    raw[48..52].copy_from_slice(&(8u32 << 16 | 52).to_ne_bytes());
    raw.extend(b"(fault)\0");
    let passes = |filter: &str| {
        let bound = Filter::parse(filter).unwrap().for_event(event, &format).bind(event, &format);
        bound.unwrap().passes(&FilterInput { raw: &raw, cpu: 0, comm: b"cat" })
    };
    let filters = ["filename != \"x\"", "filename ~ \"(f*\"", "filename == \"(fault)\""];
    assert_eq!(filters.map(passes), [false; 3], "as `.ustring` in the kernel");
    assert!(passes("!(filename == \"x\")") && passes("dfd == 0 || filename == \"x\""));
    assert!(passes("__filename_val == \"(fault)\""), "the recorded text itself");
}

#[test]
fn a_function_recorded_as_text_is_compared_by_its_name() {
    let format = |field: &str| {
        let text = format!("name: x\nID: 1\nformat:\n\tfield:{field}\n");
        Format::parse(&text).unwrap()
    };
    let named = format("char function[16];\toffset:0;\tsize:16;\tsigned:0;");
    let mut raw = [0; 16];
    raw[..8].copy_from_slice(b"schedule");
    let passes = |filter: &str| {
        let bound = Filter::parse(filter).unwrap().bind("x:x", &named).unwrap();
        bound.passes(&FilterInput { raw: &raw, cpu: 0, comm: b"a" })
    };
    assert!(passes("function.function == schedule"));
    assert!(!passes("function.function != schedule"));
    assert!(!passes("function.function == watchdog_timer_fn"));
    let address = format("void * function;\toffset:0;\tsize:8;\tsigned:0;");
    let filter = Filter::parse("function.function == schedule").unwrap();
    assert!(matches!(filter.bind("x:x", &address), Err(KernelOnly::Condition(_))));
}

#[test]
fn globs_are_rewritten_to_avoid_the_kernels_shortcuts() {
    let print = |glob: &str| Filter::parse(&format!("c ~ \"{glob}\"")).unwrap().to_kernel();
    assert_eq!(print("*tail"), "c ~ \"**tail\"");
    assert_eq!(print("!*mid*"), "c ~ \"!**mid*\"");
    assert_eq!(print("1*"), "c ~ \"[1]*\"");
    assert_eq!(print("head*"), "c ~ \"head*\"");
    assert_eq!(print("*"), "c ~ \"*\"");
    assert_eq!(print("12"), "c ~ \"12\"");
    assert_eq!(print("**tail"), "c ~ \"**tail\"");
}

#[test]
fn filters_are_joined_with_and_and_or() {
    let of = |text: &str| Filter::parse(text).unwrap();
    let both = of("a == 1 || b == 2").and(of("common_pid != 5"));
    assert_eq!(both.to_kernel(), "(a == 1 || b == 2) && common_pid != 5");
    assert_eq!(
        both.clone().and(of("c == 3")).to_kernel(),
        "(a == 1 || b == 2) && common_pid != 5 && c == 3"
    );
    assert_eq!(
        of("a == 1").or(both).to_kernel(),
        "a == 1 || ((a == 1 || b == 2) && common_pid != 5)"
    );
    assert_eq!(of("a==1"), of("( a == 1 )"));
    assert_ne!(of("a==1"), of("a==2"));
}

#[test]
fn a_filter_splits_into_its_conjuncts() {
    let filter = Filter::parse("(a == 1 || b == 2) && c == 3 && d ~ \"*x\"").unwrap();
    let texts: Vec<String> = filter.conjuncts().iter().map(Filter::to_kernel).collect();
    assert_eq!(texts, ["a == 1 || b == 2", "c == 3", "d ~ \"**x\""]);
    let left = filter.without("c == 3").unwrap();
    assert_eq!(left.to_kernel(), "(a == 1 || b == 2) && d ~ \"**x\"");
    assert_eq!(left.without("d ~ \"**x\"").unwrap().to_kernel(), "a == 1 || b == 2");
    assert!(Filter::parse("a == 1").unwrap().without("a == 1").is_none());
}

#[test]
fn text_is_quoted_with_a_quote_that_it_does_not_contain() {
    assert_eq!(quote("nginx*").unwrap(), "\"nginx*\"");
    assert_eq!(quote("a \"b\"").unwrap(), "'a \"b\"'");
    assert!(quote("it's \"so\"").unwrap_err().fault.message.starts_with("text with both kinds"));
    assert!(quote("a\0b").is_err());
}

#[test]
fn an_error_names_the_problem_and_the_fix() {
    assert_eq!(message(""), "the filter is empty");
    assert_eq!(message("pid = 1"), "`=` is not a comparison; write `==`");
    assert_eq!(message("pid =="), "a value is missing here");
    assert_eq!(message("pid"), "an operator is missing after `pid`: FIELD OP VALUE");
    assert_eq!(message("comm == nginx"), "`nginx` is not a number; quote text: \"nginx\"");
    assert_eq!(message("comm ~ *true"), "quote text: \"*true\"");
    assert_eq!(message("(comm ~ 5*) || pid == 1"), "quote text: \"5*\"");
    assert_eq!(message("comm ~ (a|b)"), "quote text: \"(a|b)\"");
    assert_eq!(message("comm ~ a*||pid == 1"), "quote text: \"a*\"");
    assert_eq!(message("comm ~ kworker/?:* && pid == 1"), "quote text: \"kworker/?:*\"");
    assert_eq!(message("comm > \"a\""), "text is compared with == != or ~ only");
    assert_eq!(message("comm == 1"), "`comm` is text; quote the value");
    assert_eq!(message("pid == 'a'"), "`pid` is not text; compare it with a number");
    assert_eq!(message("pid == 1 and small == 2"), "`and` is written `&&` in a filter");
    assert_eq!(message("(pid == 1"), "this `(` is not closed");
    assert_eq!(message("pid == 1)"), "this `)` has no matching `(`");
    assert_eq!(message("pid == 1 &&"), "a condition is missing after this: FIELD OP VALUE");
    assert_eq!(message("args[0] == 1"), "an element of an array cannot be compared in a filter");
    assert_eq!(message("args == 1"), "`args` is an array, which a filter cannot compare");
    assert_eq!(message("small == -1"), "`small` is unsigned; it is never negative");
    assert_eq!(message("comm == \"a"), "this quote is not closed by another \"");
    assert_eq!(message("pid !~ \"a\""), "there is no `!~`; write `!(pid ~ ...)`");
    assert_eq!(message("pid.foo == 1"), "`.foo` is unknown; there are `.function` and `.ustring`");
    assert_eq!(message("mask == 1"), "`mask` is a set of CPUs; compare it with CPUS{...}");
    assert_eq!(
        message("pidd == 1"),
        "sys:sample has no field 'pidd'; did you mean 'pid'? \
         It has comm, pid, small, name, mask, args"
    );
}

#[test]
fn the_caret_marks_the_position_of_the_error() {
    let shown = Filter::parse("small == 1 && pid = 1").unwrap_err().to_string();
    assert!(shown.ends_with("    small == 1 && pid = 1\n                      ^"), "{shown}");
    let joined = Filter::parse("small == 1").unwrap().and(Filter::parse("nope == 1").unwrap());
    let shown = joined.check("sys:sample", &format()).unwrap_err().to_string();
    assert!(shown.ends_with("    nope == 1\n    ^"), "{shown}");
}

#[test]
fn deep_nesting_and_long_filters_are_refused_without_a_crash() {
    assert!(message(&"(".repeat(4000)).contains("parentheses"));
    assert!(message(&"!".repeat(4000)).contains("missing"));
    assert!(
        message(&format!("pid == {}", "1".repeat(5000))).contains("bytes; the maximum is 4095")
    );
    assert!(message(&format!("comm == \"{}\"", "a".repeat(256))).contains("the maximum is 255"));
}

proptest! {
    #[test]
    fn random_text_never_panics_and_prints_stably(text in "[a-c =!<>&|~()\"'0-9x.{}CPUS-]{0,40}") {
        if let Ok(filter) = Filter::parse(&text) {
            let printed = filter.to_kernel();
            prop_assert_eq!(Filter::parse(&printed).unwrap().to_kernel(), printed);
        }
    }

    #[test]
    fn random_records_never_panic(raw in prop::collection::vec(any::<u8>(), 0..120), cpu: u32) {
        let filter = "pid > 1 || comm ~ \"a*\" || name == \"b\" || mask & CPUS{1} || CPU == 1 \
                      || small == 3";
        let bound = Filter::parse(filter).unwrap().bind("sys:sample", &format()).unwrap();
        bound.passes(&FilterInput { raw: &raw, cpu, comm: &raw });
    }
}
