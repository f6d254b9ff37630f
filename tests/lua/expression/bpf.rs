//! Expressions as BPF instructions: their values are those of LuaJIT and of the C compiler.

use std::fmt::Write as _;

use perilune::bpf::assembler::{AccessSize, Assembler, BpfRegister};
use perilune::bpf::expression::{CONTEXT, CPU_AT, ExpressionWriter, PROCESS_AT, THREAD, UNDEFINED};
use perilune::bpf::integer::IntegerNode;
use perilune::event::expr::in_kernel::KernelExpr;

use super::chance::Chance;
use super::{c, lua, record};

/// Number of random expressions, and of records.
const EXPRESSIONS: usize = 10_000;
const RECORDS: usize = 24;

/// Offset behind the record at which a program stores its count of undefined operations, and those
/// at which it finds its thread, CPU and process, 8 bytes each.
const COUNT_AT: usize = 512;
const THREAD_AT: usize = 520;
const CPU_FROM: usize = 528;
const PROCESS_FROM: usize = 536;

/// Returns the integer expression; None if only user space can evaluate it.
fn lowered(text: &str) -> Option<IntegerNode> {
    match KernelExpr::parse(text, &record::format()) {
        Ok(KernelExpr::Integer(node, _)) => Some(node),
        _ => None,
    }
}

/// Returns a program that returns the value for a record; None if it is too large.
fn program(node: &IntegerNode) -> Option<Vec<u8>> {
    let mut code = Assembler::default();
    code.copy(CONTEXT, BpfRegister::R1);
    code.load(AccessSize::B8, THREAD, CONTEXT, THREAD_AT as i16);
    code.set(UNDEFINED, 0);
    for (at, from) in [(CPU_AT, CPU_FROM), (PROCESS_AT, PROCESS_FROM)] {
        code.load(AccessSize::B8, BpfRegister::R1, CONTEXT, from as i16);
        code.store(AccessSize::B8, BpfRegister::R10, at, BpfRegister::R1);
    }
    ExpressionWriter::new(&mut code).value(node)?;
    code.store(AccessSize::B8, CONTEXT, COUNT_AT as i16, UNDEFINED);
    code.copy(BpfRegister::R0, BpfRegister::R1);
    code.exit();
    Some(code.finish()?.iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// Returns the value for each record, and the number of undefined operations.
fn run(node: &IntegerNode, records: &[Vec<u8>]) -> Vec<(i64, u64)> {
    let program = program(node).expect("a program of at most 4000 instructions");
    let machine = rbpf::EbpfVmRaw::new(Some(&program)).unwrap();
    let of_record = |(n, record): (usize, &Vec<u8>)| {
        let mut memory = record.clone();
        memory.resize(COUNT_AT, 0);
        let tid = u64::from(lua::tid(n));
        for number in [0, tid, lua::cpu(n).into(), tid - 1] {
            memory.extend(number.to_ne_bytes());
        }
        let value = machine.execute_program(&mut memory).unwrap();
        let undefined = u64::from_le_bytes(memory[COUNT_AT..THREAD_AT].try_into().unwrap());
        (value as i64, undefined)
    };
    records.iter().enumerate().map(of_record).collect()
}

#[test]
fn random_expressions_have_the_values_of_lua_and_c() {
    let mut chance = Chance(0x7f4a_7c15_9e37_79b9);
    let all = (0..).map(|n| chance.tree(1 + n % 5));
    let lowered = all.filter_map(|(ours, theirs)| Some((lowered(&ours)?, ours, theirs)));
    let all: Vec<_> = lowered.take(EXPRESSIONS).collect();
    let ours: Vec<String> = all.iter().map(|(_, ours, _)| ours.clone()).collect();
    let theirs: Vec<String> = all.iter().map(|(_, _, theirs)| theirs.clone()).collect();
    let records = record::records(RECORDS);
    let (by_c, by_lua) = (c::values(&theirs, &records), lua::values(&ours, &records, 0));
    let mut wrong = String::new();
    for (i, (node, text, _)) in all.iter().enumerate() {
        for (n, (value, _)) in run(node, &records).into_iter().enumerate() {
            if (value != by_c[n][i] || value != by_lua[n][i]) && wrong.len() < 4000 {
                let (c, lua) = (by_c[n][i], by_lua[n][i]);
                let _ =
                    writeln!(wrong, "record {n}: {text}: BPF {value:#x}, C {c:#x}, Lua {lua:#x}");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn undefined_operations_are_counted_as_in_user_space() {
    let mut chance = Chance(0x1357_9bdf_0246_8ace);
    let records = record::records(6);
    let mut compared = 0;
    while compared < 300 {
        let (text, _) = chance.tree(3);
        let Some(node) = lowered(&text) else { continue };
        let (_, in_lua) = lua::texts(std::slice::from_ref(&text), &records, 0);
        let sum: u64 = run(&node, &records).iter().map(|(_, undefined)| undefined).sum();
        assert_eq!(sum, in_lua, "{text}");
        compared += 1;
    }
}

#[test]
fn text_byte_order_and_names_have_the_values_of_lua() {
    let all = [
        "text == \"kworker/0:1\"",
        "text != \"swapper\"",
        "\"exactly sixteen!\" == text",
        "text == \"longer than sixteen bytes\"",
        "text == \"\"",
        "text == \"nginx\" && si > 0 || text == \"\\xff\\xfe\"",
        "ntohl(ui) + htons(uh) * ntohs(ul)",
        "-ntohs(sh)",
        "(_cpu << 32) | _tid",
        "_pid * 1000 + __cpu - __pid",
        "sizeof(long) + sizeof ints + sizeof text + sizeof(si + 1l)",
        "text[0] + ints[3] + shorts[1]",
    ];
    let ours: Vec<String> = all.map(str::to_owned).into();
    let records = record::records(RECORDS);
    let expected = lua::values(&ours, &records, 0);
    for (i, text) in ours.iter().enumerate() {
        let node = lowered(text).unwrap_or_else(|| panic!("{text}"));
        for (n, (value, _)) in run(&node, &records).into_iter().enumerate() {
            assert_eq!(value, expected[n][i], "record {n}: {text}");
        }
    }
}

#[test]
fn a_part_that_only_user_space_can_evaluate_is_named() {
    for (text, part) in [
        ("_time + 1", "`_time`"),
        ("ul + _stack", "`_stack`"),
        ("name == \"x\"", "a comparison with text whose place differs between records"),
        ("ints[ub]", "an element with a computed index"),
        ("longs[0]", "`longs`"),
        ("dyn[0]", "this element of `dyn`"),
        ("text ~ \"k*\"", "a glob"),
        ("strncmp(text, \"x\", 1)", "strncmp()"),
        ("printf(\"%d\", si)", "printf()"),
        ("common_type", "`common_type`"),
        ("_comm == \"x\"", "a comparison with the name of a task"),
        ("text == _comm", "a comparison of two texts"),
    ] {
        let why = KernelExpr::parse(text, &record::format()).unwrap_err().to_string();
        assert_eq!(why, part, "{text}");
    }
}

#[test]
fn a_deep_expression_uses_the_stack_and_a_deeper_one_is_refused() {
    let nested = |depth: usize| {
        let (open, close) = ("(si + ".repeat(depth), ")".repeat(depth));
        lowered(&format!("{open}1{close}")).unwrap()
    };
    let records = record::records(4);
    let si = i64::from(i32::from_ne_bytes(records[3][16..20].try_into().unwrap()));
    let expected = |n: i64| i64::from((si * n + 1) as i32);
    assert_eq!(run(&nested(18), &records)[3].0, expected(18));
    assert!(program(&nested(30)).is_none());
}
