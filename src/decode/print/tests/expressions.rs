//! Tests of names, C arithmetic, rejected formats, and limits.

use super::*;
use crate::decode::c::Int;
use proptest::prelude::*;

#[test]
fn values_and_bits_have_names() {
    const NAMES: &str = r#"{ 1, "A" }, { 4, "C" }, { 1, "again" }"#;
    for (call, expected) in [
        ("__print_symbolic(4, NAMES)", "C"),
        ("__print_symbolic(1, NAMES)", "A"),
        ("__print_symbolic(REC->minus, NAMES)", "0xfffffffffffffffb"),
        ("__print_symbolic(REC->flags, { KNOWN, \"x\" })", "0x85"),
        ("__print_symbolic(3, { KNOWN, \"x\" })", "x"),
        ("__print_symbolic(-1, { -1, \"x\" })", "x"),
        ("__print_symbolic(5, { })", "0x5"),
        ("__print_flags(REC->flags, \"|\", NAMES)", "A|C|0x80"),
        ("__print_flags(5, \"\", NAMES)", "AC"),
        ("__print_flags(0, \"|\", NAMES)", ""),
        ("__print_flags(2, \"|\", NAMES)", "0x2"),
        ("__print_flags(7, \"|\", { 3, \"both\" }, { 1, \"one\" }, { 4, \"four\" })", "both|four"),
        ("__print_flags(1, \"|\", { 1, \"A\" }, { -1, ((void *)0) })", "A"),
        ("__print_flags_u64(REC->big, \" \", { 1ULL << 63, \"top\" })", "top 0x7fffffff81000000"),
        ("mc_event_error_type(1)", "Uncorrected"),
    ] {
        let print_fmt = format!("\"%s\", {}", call.replace("NAMES", NAMES));
        assert_eq!(printed(&print_fmt), expected, "{call}");
    }
}

#[test]
fn arithmetic_follows_c() {
    for (expression, expected) in [
        ("REC->minus / 2", "-2"),
        ("REC->minus % 3", "-2"),
        ("REC->minus >> 1", "-3"),
        ("REC->minus < 1u", "0"),
        ("REC->half < 1", "1"),
        ("(u8)REC->minus", "251"),
        ("(s8)REC->byte", "-56"),
        ("(bool)REC->flags", "1"),
        ("1 / (REC->byte - 200)", "0"),
        ("1 << 33", "2"),
        ("1ULL << 33", "8589934592"),
        ("(unsigned int)((REC->big) >> 20)", "4294965264"),
        ("REC->minus ?: 3", "-5"),
        ("0 ?: 3", "3"),
        ("!REC->ip", "0"),
        ("!!REC->ip && REC->text", "1"),
        ("-REC->minus", "5"),
        ("~0u", "4294967295"),
        ("sizeof(REC->numbers) / sizeof(u32)", "3"),
        ("sizeof(int) + sizeof(\"abc\") + sizeof(REC->half)", "10"),
        ("REC->numbers[1 + 1]", "16"),
        ("REC->numbers[REC->half + 4]", "16"),
        ("*(u16 *)&REC->flags", "133"),
        ("((u8 *)__get_dynamic_array(bytes))[2]", "171"),
        ("((u16 *)__get_rel_dynamic_array(rel))[1]", "2"),
        ("*((u8 *)REC->ip4 + 1)", "168"),
        ("__get_dynamic_array_len(bytes)", "4"),
        ("({ int x = (REC->minus); int y = (128); ((x) < (y) ? (x) : (y)); })", "-5"),
        ("__builtin_expect(!!(REC->byte), 0) ? 1 : 2", "1"),
        ("__builtin_choose_expr(1, 7, nonsense)", "7"),
        ("__builtin_constant_p(3) + __builtin_constant_p(REC->byte)", "1"),
        ("__builtin_constant_p(REC->flags) ? nonsense : 4", "4"),
        ("jiffies_to_msecs(REC->byte)", "800"),
        ("__print_ns_to_secs(2500000000)", "2"),
        ("__print_ns_without_secs(2500000000)", "500000000"),
        ("ntohs(0x1234)", "13330"),
        ("__fswab32(REC->flags)", "2231369728"),
        ("KNOWN + 1", "4"),
        ("REC->__data_loc_name >> 16", "5"),
        ("(REC->ip == ((void *)0))", "0"),
    ] {
        assert_eq!(
            printed(&format!("\"%lld\", (long long)({expression})")),
            expected,
            "{expression}"
        );
    }
}

#[test]
fn unprintable_formats_are_refused_with_the_reason() {
    for (print_fmt, why) in [
        (r#""%d", jiffies"#, "only the kernel knows `jiffies`"),
        (r#""%d", scsi_name(REC->byte, 1)"#, "the function `scsi_name` exists only in the kernel"),
        (r#""%d", REC->nothing"#, "the event has no field `nothing`"),
        (r#""%pd", REC->ip"#, "`%pd` reads kernel memory, which is not in the record"),
        (r#""%pI4", REC->ip"#, "the kernel memory at this address is not in the record"),
        (r#""%p", REC->comm"#, "the address of a part of the record is meaningless"),
        (r#""%d", *(int *)REC->ip"#, "the kernel memory at this address is not in the record"),
        (r#""%d %d", 1"#, "the template has more conversions than there are arguments"),
        (r#""%y", 1"#, "the template has `%y`, which is not a conversion"),
        (r#""%d", (odd_t)3"#, "the type `odd_t` is unknown"),
        (r#""%s", REC->minus"#, "the argument of `%s` is a number"),
        (r#""%s", __print_array(REC->numbers, 1, 3)"#, "elements have 1, 2, 4 or 8 bytes"),
        (r#""%s", __get_str(comm)"#, "the event has no dynamic field `comm`"),
        (
            r#""%s", ({ union u r; r.w = 1; f(r); })"#,
            "a statement expression with more than declarations",
        ),
        ("", "a value is missing here"),
    ] {
        assert_eq!(printed(print_fmt), format!("refused: {why}"), "{print_fmt}");
    }
}

#[test]
fn a_field_outside_the_record_fails_and_writes_nothing() {
    let short = "failed: the record is too short for the field";
    let mut raw = record();
    raw.truncate(122);
    assert_eq!(printed_of(r#""%s", __get_str(name)"#, &raw), short);
    assert_eq!(
        printed_of(r#""%d", REC->minus"#, &raw),
        "-5",
        "data that the format does not use may be missing"
    );
    assert_eq!(printed_of(r#""%d", REC->minus"#, &raw[..119]), short);
    assert_eq!(printed(r#""%d", REC->numbers[REC->byte]"#), short);
    assert_eq!(printed(r#""%s", __print_hex(REC->ip4, 5)"#), short);
    assert_eq!(printed(r#""%d", ((u8 *)__get_dynamic_array(bytes))[4]"#), short);
    assert_eq!(printed(r#""%d", ((u8 *)__get_dynamic_array(bytes))[REC->minus]"#), short);
}

#[test]
fn text_is_bounded() {
    for print_fmt in [
        r#""%*d%*d", REC->byte << 20, 1, REC->byte << 20, 1"#,
        r#""%.*d", REC->byte << 20, 1"#,
        r#""%-*s", REC->byte << 20, REC->comm"#,
        r#""%60000d%60000d", 1, 1"#,
    ] {
        assert_eq!(printed(print_fmt).len(), TEXT_MAX, "{print_fmt}");
    }
}

#[test]
fn a_bit_set_wider_than_the_record_writes_nothing() {
    let short = "failed: the record is too short for the field";
    for conversion in ["%*pb", "%*pbl", "%2147483647pb"] {
        let width = if conversion.contains('*') { "0x7fffffff, " } else { "" };
        let print_fmt = format!("\"{conversion}\", {width}REC->ip4");
        let program = PrintProgram::compile(&format(&print_fmt), &Few).unwrap();
        let mut out = Vec::new();
        assert_eq!(program.push(&mut out, &record(), &Few), Err(TooShort));
        assert!(out.capacity() < TEXT_MAX, "{print_fmt} took {} bytes", out.capacity());
        assert_eq!(printed(&print_fmt), short);
    }
    assert_eq!(printed(r#""%*pb", 33, REC->ip4"#), short);
    assert_eq!(printed(r#""%*pb", 32, REC->ip4"#), "0100a8c0");
}

#[test]
fn a_local_has_the_size_of_its_type() {
    assert_eq!(printed(r#""%zu", ({ short half = 3; sizeof(half); })"#), "2");
    assert_eq!(printed(r#""%zu", ({ u64 big = 3; sizeof(big) + sizeof big; })"#), "16");
    assert!(printed(r#""%zu", sizeof(half)"#).starts_with("refused: "));
}

#[test]
fn a_format_of_exponential_size_is_refused() {
    let mut locals = String::from("int x0 = REC->byte; ");
    for i in 1..60 {
        locals += &format!("int x{i} = x{0} + x{0}; ", i - 1);
    }
    let why = printed(&format!("\"%d\", ({{ {locals} x59; }})"));
    assert_eq!(why, "refused: the print format is too long");
}

proptest! {
    #[test]
    fn any_record_gives_a_bounded_text_or_none(raw: Vec<u8>, extra in 0usize..64) {
        let print_fmt = r#""%s %s %.*s %s %pISpc %*pbl %*ph %d %s",
            __get_str(name), __print_hex(__get_dynamic_array(bytes), REC->byte),
            REC->minus, REC->comm, __print_array(__get_rel_dynamic_array(rel), REC->half, 2),
            REC->socket, REC->byte, REC->numbers, REC->flags, REC->ip6,
            REC->numbers[REC->minus], __print_flags(REC->big, "|", {1, "a"})"#;
        let program = PrintProgram::compile(&format(print_fmt), &Few).unwrap();
        for raw in [&raw[..], &[raw.clone(), vec![0xff; 120 + extra]].concat()] {
            let mut out = b"before".to_vec();
            let done = program.push(&mut out, raw, &Few);
            prop_assert!(out.starts_with(b"before") && out.len() <= 6 + TEXT_MAX);
            prop_assert!(done.is_ok() || out == b"before");
        }
    }

    #[test]
    fn any_format_compiles_or_is_refused(
        words in proptest::collection::vec(prop::sample::select(vec![
            "\"%d\"", "\"%s %*pbl\"", ",", "REC->byte", "REC->comm", "REC->ip", "__get_str(name)",
            "(", ")", "({ int a =", ";", "a", "})", "+", "*", "&", "[", "]", "(u8 *)", "?", ":",
            "__print_flags(", "\"|\"", "{ 1, \"x\" }", "1", "sizeof", "!", "__print_hex(",
        ]), 0..20)
    ) {
        if let Ok(program) = PrintProgram::compile(&format(&words.join(" ")), &Few) {
            let mut out = Vec::new();
            let _ = program.push(&mut out, &record(), &Few);
            prop_assert!(out.len() <= TEXT_MAX);
        }
    }
}

/// Compares C conversions with the machine's own arithmetic.
#[test]
fn widths_wrap_when_numbers_are_read() {
    assert_eq!(arithmetic::read(&[0xff, 0xff], Int { bits: 16, signed: true }), Some(u64::MAX));
    assert_eq!(arithmetic::read(&[0xff], Int { bits: 16, signed: true }), None);
}
