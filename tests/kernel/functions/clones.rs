//! Parameters of functions that the optimizer changed: each field has the value that the program
//! passed for the parameter of that name, and one without a value is not a field.

use super::Program;
use crate::live::live_tests;

live_tests! {
    parameters_of_clones_have_the_values_that_the_program_passed,
    a_parameter_that_was_optimized_out_is_refused_with_the_reason,
    a_parameter_that_the_function_sets_at_once_has_the_value_that_was_passed,
    parameters_on_the_stack_and_behind_a_structure_are_read,
    parameters_of_a_function_with_a_cold_part_are_read,
}

/// `chain N`: calls each function N times. gcc -O2 passes neither `unused` nor `dropped` nor a
/// constant, and `p` only as far as it is used.
const SOURCE: &str = r#"
#include <stdlib.h>
#define NOINLINE __attribute__((noinline))
#define PLAIN __attribute__((noipa))
struct big { long a[40]; };
struct pair { long a, b; };
volatile long sink;
static NOINLINE long sra(struct big *p, int unused, int b) { sink += b; return p->a[1] + b; }
static NOINLINE long cp(int a, int k, int b) { sink += a; return (long)a * k + b; }
static NOINLINE long set(int dropped, int b) { dropped = b; sink += dropped; return dropped * 2; }
PLAIN long changed(int first, int b) { first = b; sink += first; sink += b; return first; }
PLAIN long many(int a, int b, int c, int d, int e, int f, int seventh, long eighth) {
    return a + b + c + d + e + f + seventh + eighth;
}
PLAIN long by_value(long first, struct pair pair, long last) { return first + pair.a + last; }
__attribute__((cold, noipa)) void never(long a) { sink -= a; abort(); }
PLAIN long split(long before, int limit) {
    if (__builtin_expect(before > limit, 0)) { sink++; never(before); }
    return before + 1;
}
int main(int argc, char **argv) {
    struct big big = { { 0 } };
    for (int i = 0, n = atoi(argv[1]); i < n; i++) {
        big.a[1] = 1000 + i;
        sink += sra(&big, i, 2000 + i);
        sink += cp(3000 + i, -5, 4000 - i);
        sink += set(i, 5000 + i);
        sink += changed(6000 + i, i);
        sink += many(i, 1, 2, 3, 4, 5, 7000 - i, -8000L + i);
        sink += by_value(i, (struct pair){ 1, 2 }, 9000 + i);
        sink += split(i, n + i);
    }
    return 0;
}
"#;

const N: u32 = 50;

/// Formats of debug information, and optimizers that change functions.
const BUILDS: [&[&str]; 3] = [&["-g", "-O2"], &["-gdwarf-4", "-O2"], &["-g", "-O2", "-flto"]];

/// Returns the symbol of the function, also of its clone.
fn symbol(program: &Program, function: &str) -> String {
    let out = std::process::Command::new("nm").arg(program.path()).output().expect("binutils");
    let text = String::from_utf8(out.stdout).expect("text");
    let names = text.lines().filter_map(|line| line.split_whitespace().last());
    let is = |name: &&str| name.split('.').next() == Some(function) && !name.ends_with(".cold");
    names.into_iter().find(is).expect("it was not inlined").to_owned()
}

/// Checks the fields of each call: their values in the first call and how they change with each.
fn check(program: &Program, function: &str, fields: &[(&str, i64, i64)], flags: &[&str]) {
    let event = program.function("uprobe", &symbol(program, function));
    let run = program.watched(&["trace", "-e", &event], N, 0);
    assert_eq!(run.of("event").count() as u32, N, "{function} {flags:?}: {}", run.stderr);
    for (i, event) in run.of("event").enumerate() {
        for (field, first, step) in fields {
            assert_eq!(event[field], first + step * i as i64, "{function} {field} {flags:?}");
        }
    }
    run.is_complete();
}

fn parameters_of_clones_have_the_values_that_the_program_passed() {
    for flags in BUILDS {
        let program = Program::of(SOURCE, flags);
        for clone in ["sra", "cp", "set"] {
            assert!(symbol(&program, clone).contains('.'), "{clone} is not a clone: {flags:?}");
        }
        check(&program, "sra", &[("b", 2000, 1)], flags);
        check(&program, "cp", &[("a", 3000, 1), ("k", -5, 0), ("b", 4000, -1)], flags);
        check(&program, "set", &[("b", 5000, 1)], flags);
    }
}

fn a_parameter_that_was_optimized_out_is_refused_with_the_reason() {
    for flags in BUILDS {
        let program = Program::of(SOURCE, flags);
        for (function, parameter) in [("sra", "p"), ("sra", "unused"), ("set", "dropped")] {
            let name = format!("{}({parameter})", symbol(&program, function));
            let run = program.watched(&["trace", "-e", &program.function("uprobe", &name)], 1, 0);
            let why = format!("'{parameter}' was optimized out of this function; read it in a");
            assert!(run.stderr.contains(&why), "{flags:?}: {}", run.stderr);
            assert!(run.code.is_some_and(|code| code != 0) && run.objects.is_empty());
            let event = program.function("uprobe", &symbol(&program, function));
            let run = program.watched(&["trace", "-e", &event], 1, 0);
            assert!(run.of("event").all(|e| e[parameter].is_null()), "{parameter} is not a field");
        }
    }
}

fn a_parameter_that_the_function_sets_at_once_has_the_value_that_was_passed() {
    for flags in BUILDS {
        let program = Program::of(SOURCE, flags);
        check(&program, "changed", &[("first", 6000, 1), ("b", 0, 1)], flags);
    }
}

fn parameters_on_the_stack_and_behind_a_structure_are_read() {
    for flags in BUILDS.into_iter().chain([&["-g", "-O0"][..], &["-g", "-O1"]]) {
        let program = Program::of(SOURCE, flags);
        let stack = [("a", 0, 1), ("f", 5, 0), ("seventh", 7000, -1), ("eighth", -8000, 1)];
        check(&program, "many", &stack, flags);
        if !flags.contains(&"-O0") {
            check(&program, "by_value", &[("first", 0, 1), ("last", 9000, 1)], flags);
        }
    }
}

fn parameters_of_a_function_with_a_cold_part_are_read() {
    for flags in BUILDS {
        let program = Program::of(SOURCE, flags);
        check(&program, "split", &[("before", 0, 1), ("limit", i64::from(N), 1)], flags);
    }
}
