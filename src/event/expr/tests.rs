//! The Lua source of expressions. tests/lua/expression compares their values with C.

use super::*;
use crate::base::text::lua::field_name;

fn lua(text: &str) -> String {
    let format = "name: x\nID: 1\nfield:int pid; offset:8; size:4; signed:1;\n\
                  field:unsigned int vec; offset:12; size:4; signed:0;\n\
                  field:int __pid; offset:16; size:4; signed:1;\n\
                  field:unsigned long addr; offset:24; size:8; signed:0;\n\
                  field:char comm[16]; offset:32; size:16; signed:0;\n\
                  field:int common_pid; offset:4; size:4; signed:1;\n\
                  field:int _tid; offset:48; size:4; signed:1;\n";
    Expr::parse(text, "sys:x", &Format::parse(format).unwrap()).unwrap().lua().to_owned()
}

#[test]
fn values_that_fit_a_double_use_plain_arithmetic() {
    for (text, code) in [
        ("pid", "cast(I32, s.raw + 8)[0]"),
        (" common_pid ", "cast(I32, s.raw + 4)[0]"),
        ("1000", "1000"),
        ("__pid", "cast(I32, s.raw + 16)[0]"),
        ("_tid", "s.tid"),
        ("-5 + 0x10", "11"),
        ("pid + 1l", "(cast(I32, s.raw + 8)[0] + 1)"),
        ("pid + 1", "tobit((cast(I32, s.raw + 8)[0] + 1))"),
        ("vec / 1000", "floor(cast(U32, s.raw + 12)[0] / 1000)"),
        ("(__cpu<<32)|vec", "((s.cpu * 4294967296) + cast(U32, s.raw + 12)[0])"),
        ("_cpu * 1000 + vec % 1000", "((s.cpu * 1000) + (cast(U32, s.raw + 12)[0] % 1000))"),
        (
            "pid == 1 || !vec",
            "(((cast(I32, s.raw + 8)[0] == 1) or (cast(U32, s.raw + 12)[0] == 0)) and 1 or 0)",
        ),
    ] {
        assert_eq!(lua(text), code, "{text}");
    }
}

#[test]
fn an_exclamation_mark_before_a_glob_inverts_it_as_in_a_filter() {
    let (matches, inverted) = (lua("comm ~ \"a*\""), lua("comm ~ \"!a*\""));
    let condition = matches.strip_suffix(" and 1 or 0)").and_then(|text| text.strip_prefix('('));
    let condition = condition.unwrap_or_else(|| panic!("{matches}"));
    assert_eq!(inverted, format!("((not {condition}) and 1 or 0)"));
}

#[test]
fn larger_values_are_computed_in_64_bits() {
    for (text, code) in [
        ("addr", "exact(i64(cast(U64, s.raw + 24)[0]))"),
        ("addr & 0xfff", "tonumber(band(cast(U64, s.raw + 24)[0], 4095ULL))"),
        ("addr >> 12", "tonumber(rshift(cast(U64, s.raw + 24)[0], 12))"),
        ("0xffffffffffffffff", "exact(0xffffffffffffffffLL)"),
    ] {
        assert_eq!(lua(text), code, "{text}");
    }
}

#[test]
fn an_expression_has_the_integer_type_of_its_result() {
    let format = "name: x\nID: 1\nfield:int pid; offset:8; size:4; signed:1;\n\
                  field:void * at; offset:16; size:8; signed:0;\n\
                  field:unsigned long n; offset:24; size:8; signed:0;\n\
                  field:char comm[16]; offset:32; size:16; signed:0;\n";
    let format = Format::parse(format).unwrap();
    let of = |text| Expr::parse(text, "sys:x", &format).unwrap().integer_type();
    for pointer in ["at", "_ip", "_addr", "(void *)n"] {
        assert_eq!(of(pointer), Some(IntegerType::Pointer), "{pointer}");
    }
    for unsigned in ["n", "n + pid", "(unsigned long)at", "at + 8", "_period", "-1UL"] {
        assert_eq!(of(unsigned), Some(IntegerType::Unsigned), "{unsigned}");
    }
    for signed in ["pid", "_tid", "(long)n", "n >> 1", "n & 0xff", "at == n", "1UL"] {
        assert_eq!(of(signed), Some(IntegerType::Signed), "{signed}");
    }
    assert_eq!(of("comm"), None);
}

#[test]
fn a_comparison_with_text_creates_no_string() {
    let word = i32::from_ne_bytes(*b"tree");
    let code = format!(
        "((cast(I32, s.raw + 32)[0] == {word} and cast(U8, s.raw + 36)[0] == 0) and 1 or 0)"
    );
    assert_eq!(lua("comm == \"tree\""), code);
    assert_eq!(lua("comm == \"longer than sixteen\""), "(false and 1 or 0)");
}

#[test]
fn a_field_takes_precedence_over_a_sample_value() {
    assert_eq!(lua("__pid"), "cast(I32, s.raw + 16)[0]");
    assert_eq!(lua("__cpu"), "s.cpu");
}

#[test]
fn keywords_get_an_underscore() {
    assert_eq!(field_name("function"), "function_");
    assert_eq!(field_name("goto"), "goto_");
    assert_eq!(field_name("functions"), "functions");
}
