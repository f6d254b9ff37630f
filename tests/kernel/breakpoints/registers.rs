//! Registers at a breakpoint contain the value that a store from a register writes.

use crate::functions::Program;
use crate::live::live_tests;

use super::hits::needs_each_hit;

live_tests! {
    the_value_of_a_store_is_in_its_register,
}

const N: u64 = 50;

/// Writes 7, 14 … 7 N from rax.
#[cfg(target_arch = "x86_64")]
const SOURCE: &str = r#"
long counter;
int main(void) {
    for (long i = 1; i <= 50; i++)
        __asm__ volatile("movq %%rax, %0" : "=m"(counter) : "a"(7 * i));
    return 0;
}
"#;

/// Writes 7, 14 … 7 N from x0.
#[cfg(target_arch = "aarch64")]
const SOURCE: &str = r#"
long counter;
int main(void) {
    for (long i = 1; i <= 50; i++) {
        register long value __asm__("x0") = 7 * i;
        __asm__ volatile("str %1, %0" : "=m"(counter) : "r"(value));
    }
    return 0;
}
"#;

const REGISTER: &str = if cfg!(target_arch = "x86_64") { "ax" } else { "x0" };

fn the_value_of_a_store_is_in_its_register() {
    needs_each_hit();
    let program = Program::of(SOURCE, &[]);
    let path = program.path();
    let script = format!(
        "local m = monitor {{ summary = \"values\" }}
         function m.init()
           evsel('mem:{path}:counter/8:w', function(e) emit {{ value = e._regs.{REGISTER} }} end)
         end
         return m"
    );
    let ran = crate::script::run(&script, &["--duration", "20s", "--", &path]);
    let values: Vec<u64> = ran.rows().filter_map(|row| row["value"].as_u64()).collect();
    let expected: Vec<u64> = (1..=N).map(|i| 7 * i).collect();
    assert_eq!(values, expected, "{}", ran.text);
}
