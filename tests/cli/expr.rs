//! `expr`: values of constants, and types for the fields of events.

use std::process::Command;

use perilune::sys::machine::is_root;

/// Returns the output, the error and the exit code of `perilune expr WORDS…`.
fn expr(words: &[&str]) -> (String, String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .arg("expr")
        .args(words)
        .output()
        .expect("the built command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

#[test]
fn constants_have_their_value_and_type() {
    for (typed, expected) in [
        ("(1 << 12) - 1", "4095 (0xfff, signed)"),
        ("9223372036854775807 + 1", "-9223372036854775808 (0x8000000000000000, signed)"),
        ("3000000000 * 3000000000", "9000000000000000000 (0x7ce66c50e2840000, signed)"),
        ("-1", "-1 (0xffffffffffffffff, signed)"),
        ("1UL << 63", "0x8000000000000000 (0x8000000000000000, unsigned)"),
        ("printf(\"%d]]\", 7)", "\"7]]\" (text)"),
        ("printf(\"%d\\n\\t\", 7)", "\"7\\n\\t\" (text)"),
    ] {
        assert_eq!(expr(&[typed]), (expected.to_owned(), String::new(), Some(0)), "{typed}");
    }
}

#[test]
fn a_value_that_c_leaves_undefined_is_an_error() {
    for typed in ["1 << 40", "1 / 0", "5 % (1 - 1)", "1 >> -1", "1L << 64"] {
        let (out, err, code) = expr(&[typed]);
        assert!(out.is_empty() && code != Some(0), "{typed}: {out}");
        assert!(err.contains("C leaves this value undefined"), "{typed}: {err}");
    }
    assert_eq!(expr(&["1L << 40"]).0, "1099511627776 (0x10000000000, signed)");
}

#[test]
fn a_mistake_is_shown_with_its_position() {
    let (out, err, code) = expr(&["1 +"]);
    assert_eq!((out.as_str(), code), ("", Some(2)), "{err}");
    assert!(err.contains("1 +\n") && err.ends_with('^'), "{err}");
    let (_, err, code) = expr(&[]);
    assert_eq!(code, Some(2));
    assert!(err.contains("perilune expr 'EXPRESSION' [-e EVENT]"), "{err}");
}

#[test]
fn an_expression_is_checked_against_the_fields_of_an_event() {
    // Tracepoints can only be read by root.
    if !is_root() {
        return;
    }
    let checked = |text: &str| expr(&[text, "-e", "sched:sched_switch"]);
    assert_eq!(checked("prev_state & 0xff").0, "sched:sched_switch: signed");
    assert_eq!(checked("next_comm").0, "sched:sched_switch: text");
    let filtered =
        |filter: &str| expr(&["prev_pid", "-e", &format!("sched:sched_switch/{filter}/")]);
    assert_eq!(filtered("prev_pid > 0").0, "sched:sched_switch: signed");
    let (out, err, code) = filtered("zork == 1");
    assert!(out.is_empty() && err.contains("'zork'") && code == Some(2), "{out} {err}");
    let (_, err, code) = checked("prev_stat");
    assert!(err.contains("did you mean 'prev_state'?") && code == Some(2), "{err}");
}
