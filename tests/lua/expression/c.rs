//! Evaluates expressions with the C compiler.

use std::fmt::Write as _;
use std::process::Command;

use super::{lua, record};

/// Defines the results of operations that are undefined in C as 0, as perilune's expressions do.
const PRELUDE: &str = "
#include <stdio.h>
#include <stdbool.h>
#include <string.h>
#include <arpa/inet.h>
typedef signed char s8; typedef unsigned char u8; typedef short s16; typedef unsigned short u16;
typedef int s32; typedef unsigned int u32; typedef long s64; typedef unsigned long u64; typedef int pid_t;
#define LEAST(x) ((__typeof__(x))((unsigned long)1 << (8 * sizeof(x) - 1)))
#define IS_BAD(x, y) (y == 0 || ((__typeof__(x))-1 < 0 && y == (__typeof__(x))-1 && x == LEAST(x)))
#define DIV(a, b) ({ __typeof__((a) + (b)) x_ = (a), y_ = (b); IS_BAD(x_, y_) ? 0 : x_ / y_; })
#define REM(a, b) ({ __typeof__((a) + (b)) x_ = (a), y_ = (b); IS_BAD(x_, y_) ? 0 : x_ % y_; })
#define WRONG(x, n) (n < 0 || n >= 8 * (long)sizeof(x))
#define SHL(a, b) ({ __typeof__(+(a)) x_ = (a); long n_ = (b); WRONG(x_, n_) ? 0 : x_ << n_; })
#define SHR(a, b) ({ __typeof__(+(a)) x_ = (a); long n_ = (b); WRONG(x_, n_) ? 0 : x_ >> n_; })
";

/// Compiles one program of all expressions and runs it. Returns the output of `print` (a statement
/// over `EXPRESSION`) for each record and expression, line by line.
fn run(expressions: &[String], records: &[Vec<u8>], print: &str) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("all.c"), folder.path().join("all"));
    let mut text = PRELUDE.to_owned() + &record::structure();
    for name in record::names() {
        let _ = writeln!(text, "#define {name} r->{name}");
    }
    text.push_str("static long __cpu, _cpu, _tid, _pid, __pid, _time;\n");
    let _ = writeln!(text, "static const unsigned char raw[][256] = {{");
    for record in records {
        let bytes: Vec<String> = record.iter().map(u8::to_string).collect();
        let _ = writeln!(text, "{{ {} }},", bytes.join(","));
    }
    text.push_str("};\n");
    for (i, expression) in expressions.iter().enumerate() {
        let print = print.replace("EXPRESSION", expression);
        let _ = writeln!(text, "static void f{i}(const struct record *r) {{ {print} }}");
    }
    text.push_str("static void (*const all[])(const struct record *) = {");
    (0..expressions.len()).for_each(|i| text.push_str(&format!("f{i},")));
    text.push_str("};\nint main(void) {\n");
    for (n, _) in records.iter().enumerate() {
        let (cpu, tid) = (lua::cpu(n), lua::tid(n));
        let _ = writeln!(
            text,
            "__cpu = _cpu = {cpu}; __pid = _tid = {tid}; _pid = _tid - 1; _time = 1000000000 + {n};
            for (int i = 0; i < {}; i++) all[i]((const void *)raw[{n}]);",
            expressions.len()
        );
    }
    text.push_str("return 0; }\n");
    std::fs::write(&source, text).unwrap();
    let output = Command::new("cc")
        .args(["-w", "-O0", "-fwrapv", "-fsigned-char", "-std=gnu11", "-o"])
        .args([&program, &source])
        .output()
        .expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.split('\n').map(str::to_owned);
    records.iter().map(|_| lines.by_ref().take(expressions.len()).collect()).collect()
}

/// Returns the values as 64-bit numbers.
pub(crate) fn values(expressions: &[String], records: &[Vec<u8>]) -> Vec<Vec<i64>> {
    let lines = run(expressions, records, "printf(\"%ld\\n\", (long)(EXPRESSION));");
    let number = |text: &String| text.parse().unwrap_or_else(|_| panic!("{text}"));
    lines.iter().map(|line| line.iter().map(number).collect()).collect()
}

/// Returns the output of `printf` for these arguments.
pub(crate) fn printed(arguments: &[String], records: &[Vec<u8>]) -> Vec<Vec<String>> {
    run(arguments, records, "printf(EXPRESSION); putchar('\\n');")
}

/// Compares pairs of an expression and its C equivalent.
pub(crate) fn compare(pairs: &[(String, String)], records: &[Vec<u8>], repeats: u32) {
    let ours: Vec<String> = pairs.iter().map(|(ours, _)| ours.clone()).collect();
    let theirs: Vec<String> = pairs.iter().map(|(_, theirs)| theirs.clone()).collect();
    let expected = values(&theirs, records);
    let found = lua::values(&ours, records, repeats);
    let mut wrong = String::new();
    for (n, (expected, found)) in expected.iter().zip(&found).enumerate() {
        for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
            if expected != found && wrong.len() < 4000 {
                let _ = writeln!(wrong, "record {n}: {}: C {expected:#x}, Lua {found:#x}", ours[i]);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
