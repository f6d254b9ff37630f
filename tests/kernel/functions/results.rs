//! Results of functions: they have the types of the debug information, and lead to text and members
//! of structures.

use super::Program;
use super::parameters::{SOURCE, needs_user_text};
use crate::live::live_tests;

live_tests! {
    results_have_the_types_of_the_debug_information,
}

const N: u32 = 300;

fn results_have_the_types_of_the_debug_information() {
    let (program, plain) = (Program::of(SOURCE, &["-g", "-O1"]), Program::of(SOURCE, &[]));
    let watch = |program: &Program, name: &str| {
        let event = program.function("uretprobe", name);
        let run = program.watched(&["trace", "-e", &event], N, 0);
        needs_user_text(&run);
        run.is_complete();
        run
    };
    let of = |program: &Program, name: &str| watch(program, name).of("event").count();
    assert_eq!(
        (of(&program, "negated/retval == -1/"), of(&program, "negated/retval < 0/")),
        (1, 299)
    );
    assert_eq!(of(&plain, "negated/(int)retval < 0/"), 299);
    // Without debug information, text is read behind the register.
    for program in [&program, &plain] {
        let run = watch(program, "label(retval.text)");
        let odd = run.of("event").filter(|event| event["retval_text"] == "odd").count();
        assert_eq!((odd, run.of("event").count() as u32), (N as usize / 2, N), "{}", run.stderr);
    }
    let whole = watch(&program, "by_value");
    assert!(whole.of("event").all(|event| event["retval"] == 7), "{:?}", whole.objects);
    let nothing = watch(&program, "ratio_of");
    assert_eq!(nothing.of("event").filter(|event| event["retval"].is_null()).count(), 1);
    let run = watch(&program, "same(id=retval.id, retval.shell, retval.raw.text)");
    assert_eq!(run.of("event").count() as u32, N, "{}", run.stderr);
    let is_right = |event: &serde_json::Value| {
        event["id"] == 7
            && event["retval_shell"] == "/bin/sh"
            && event["retval_raw_text"] == "bytes"
    };
    assert!(run.of("event").all(is_right));
}
