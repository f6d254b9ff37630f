//! Expressions as BPF instructions: their values are those of LuaJIT and of the C compiler.

use std::fmt::Write as _;

use perilune::bpf::assembler::{AccessSize, Assembler, BpfRegister};
use perilune::bpf::expression::{CONTEXT, CPU_AT, ExpressionWriter, PROCESS_AT, THREAD, UNDEFINED};
use perilune::bpf::integer::IntegerNode;
use perilune::event::expr::in_kernel::KernelExpr;

use super::chance::Chance;
use super::{c, lua, record};

/// Number of random expressions, and of records.
const EXPRESSIONS: usize = 3000;
const RECORDS: usize = 24;

/// Offset behind the record at which a program stores its count of undefined operations.
const COUNT_AT: usize = 512;

/// Returns the integer expression; None if only user space can evaluate it.
fn lowered(text: &str) -> Option<IntegerNode> {
    match KernelExpr::parse(text, &record::format()) {
        Ok(KernelExpr::Integer(node, _)) => Some(node),
        _ => None,
    }
}

/// Returns a program that returns the value for record `n`; None if it is too large.
fn program(node: &IntegerNode, n: usize) -> Option<Vec<u8>> {
    let mut code = Assembler::default();
    let (tid, cpu) = (lua::tid(n), lua::cpu(n));
    code.copy(CONTEXT, BpfRegister::R1);
    code.set(THREAD, tid as i32);
    code.set(UNDEFINED, 0);
    for (at, value) in [(CPU_AT, cpu), (PROCESS_AT, tid - 1)] {
        code.store_constant(AccessSize::B8, BpfRegister::R10, at, value as i32);
    }
    ExpressionWriter::new(&mut code).value(node)?;
    code.store(AccessSize::B8, CONTEXT, COUNT_AT as i16, UNDEFINED);
    code.copy(BpfRegister::R0, BpfRegister::R1);
    code.exit();
    Some(code.finish()?.iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// Returns the value for record `n`, and the number of undefined operations.
fn run(node: &IntegerNode, n: usize, record: &[u8]) -> (i64, u64) {
    let program = program(node, n).expect("a program of at most 4000 instructions");
    let machine = rbpf::EbpfVmRaw::new(Some(&program)).unwrap();
    let mut memory = record.to_vec();
    memory.resize(COUNT_AT + 8, 0);
    let value = machine.execute_program(&mut memory).unwrap();
    (value as i64, u64::from_le_bytes(memory[COUNT_AT..].try_into().unwrap()))
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
    for (n, record) in records.iter().enumerate() {
        for (i, (node, text, _)) in all.iter().enumerate() {
            let (value, _) = run(node, n, record);
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
        let of = |(n, record): (usize, &Vec<u8>)| run(&node, n, record).1;
        assert_eq!(records.iter().enumerate().map(of).sum::<u64>(), in_lua, "{text}");
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
    for (n, record) in records.iter().enumerate() {
        for (i, text) in ours.iter().enumerate() {
            let node = lowered(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(run(&node, n, record).0, expected[n][i], "record {n}: {text}");
        }
    }
}

#[test]
fn a_part_that_only_user_space_can_evaluate_is_named() {
    for (text, part) in [
        ("_time + 1", "`_time`"),
        ("ul + _stack", "`_stack`"),
        ("name == \"x\"", "`name`, whose place differs between records"),
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
    let record = &record::records(4)[3];
    let si = i64::from(i32::from_ne_bytes(record[16..20].try_into().unwrap()));
    let expected = |n: i64| i64::from((si * n + 1) as i32);
    assert_eq!(run(&nested(18), 0, record).0, expected(18));
    assert!(program(&nested(30), 0).is_none());
}
