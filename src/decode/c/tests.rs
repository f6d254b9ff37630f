//! Tests of parsed trees, and of rejected texts with the position of the fault.

use super::*;
use proptest::prelude::*;

/// Returns the tree with every operation in parentheses.
fn shown(node: &ExprNode) -> String {
    let list = |nodes: &[ExprNode]| nodes.iter().map(shown).collect::<Vec<_>>().join(", ");
    match &node.kind {
        ExprKind::Number(value, int) => {
            let long = if int.bits == 64 { "l" } else { "" };
            format!("{value}{}{long}", if int.signed { "" } else { "u" })
        }
        ExprKind::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
        ExprKind::Name(name) => name.clone(),
        ExprKind::Unary(op, a) => format!("({op:?} {})", shown(a)),
        ExprKind::Binary(op, a, b) => format!("({op:?} {} {})", shown(a), shown(b)),
        ExprKind::Choice(a, Some(b), c) => format!("({} ? {} : {})", shown(a), shown(b), shown(c)),
        ExprKind::Choice(a, None, c) => format!("({} ?: {})", shown(a), shown(c)),
        ExprKind::Cast(ty, a) => format!("(as {} {})", type_shown(ty), shown(a)),
        ExprKind::SizeOfType(ty) => format!("(size {})", type_shown(ty)),
        ExprKind::SizeOf(a) => format!("(size {})", shown(a)),
        ExprKind::Call(name, arguments) => format!("{name}({})", list(arguments)),
        ExprKind::Index(a, b) => format!("{}[{}]", shown(a), shown(b)),
        ExprKind::Member(a, name) => format!("{}.{name}", shown(a)),
        ExprKind::Braces(all) => format!("{{{}}}", list(all)),
        ExprKind::Block(locals, value) => {
            let all: Vec<String> =
                locals.iter().map(|l| format!("{} = {}; ", l.name, shown(&l.value))).collect();
            format!("{{ {}{} }}", all.concat(), shown(value))
        }
        ExprKind::Statements(text) => format!("<{text}>"),
    }
}

fn type_shown(ty: &Type) -> String {
    let int = |int: &Int| format!("{}{}", if int.signed { 's' } else { 'u' }, int.bits);
    match ty {
        Type::Int(i) => int(i),
        Type::Pointer(Pointee::Int(i)) => format!("{}*", int(i)),
        Type::Pointer(Pointee::Other(name)) => format!("{name}*"),
        Type::Other(name) => name.clone(),
    }
}

fn tree(text: &str) -> String {
    parse(text).map_or_else(|fault| format!("{}: {}", fault.at, fault.message), |n| shown(&n))
}

#[test]
fn operators_bind_as_in_c() {
    for (text, expected) in [
        ("1+2*3-4", "(Sub (Add 1 (Mul 2 3)) 4)"),
        ("a<<1+2 & 3", "(And (Shl a (Add 1 2)) 3)"),
        ("a==b&c|d^e", "(Or (And (Eq a b) c) (Xor d e))"),
        ("a||b&&c", "(OrOr a (AndAnd b c))"),
        ("a?b:c?d:e", "(a ? b : (c ? d : e))"),
        ("a?:b", "(a ?: b)"),
        ("-a*!b", "(Mul (Minus a) (Not b))"),
        ("~a & 1", "(And (Complement a) 1)"),
        ("comm ~ \"py*\" && a", "(AndAnd (Glob comm \"py*\") a)"),
        ("(__cpu<<32)|vec", "(Or (Shl __cpu 32) vec)"),
        ("a < b == c >= d", "(Eq (Lt a b) (Ge c d))"),
        ("a / b % c", "(Rem (Div a b) c)"),
    ] {
        assert_eq!(tree(text), expected, "{text}");
    }
}

#[test]
fn casts_are_distinguished_from_parentheses() {
    for (text, expected) in [
        ("(int)key", "(as s32 key)"),
        ("(unsigned long long)REC->x >> 3", "(Shr (as u64 REC.x) 3)"),
        ("( gfp_t)1u", "(as u32 1u)"),
        ("(void *)REC->ip", "(as void* REC.ip)"),
        ("(struct page *)0", "(as struct page* 0)"),
        ("(const char *)p", "(as s8* p)"),
        ("(key)-1", "(Sub key 1)"),
        ("(key)*2", "(Mul key 2)"),
        ("(pid)-1", "(Sub pid 1)"),
        ("(pid_t)-1", "(as s32 (Minus 1))"),
        ("(u8)-1", "(as u8 (Minus 1))"),
        ("(xfs_ino_t)REC->ino", "(as xfs_ino_t REC.ino)"),
        ("((a))", "a"),
        ("sizeof(int)", "(size s32)"),
        ("sizeof(struct x)", "(size struct x)"),
        ("sizeof(REC->x) / sizeof(u16)", "(Div (size REC.x) (size u16))"),
    ] {
        assert_eq!(tree(text), expected, "{text}");
    }
}

#[test]
fn constants_have_the_first_type_that_holds_them() {
    for (text, expected) in [
        ("2147483647", "2147483647"),
        ("2147483648", "2147483648l"),
        ("0x80000000", "2147483648u"),
        ("0xffffffffffffffff", "18446744073709551615ul"),
        ("10ULL", "10ul"),
        ("0", "0"),
        ("0u", "0u"),
        ("010", "8"),
        ("0b101", "5"),
        ("'a'", "97"),
        ("'\\n'", "10"),
        ("'\\xff'", "18446744073709551615"),
        ("\"a\\\"b\" \"c\\x41\"", "\"a\\\"bcA\""),
    ] {
        assert_eq!(tree(text), expected, "{text}");
    }
}

#[test]
fn expressions_of_print_formats_are_parsed() {
    for (text, expected) in [
        (
            "__print_flags(REC->flags, \"|\", { 0x1, \"A\" }, { 2, \"B\" })",
            "__print_flags(REC.flags, \"|\", {1, \"A\"}, {2, \"B\"})",
        ),
        ("REC->a[2].b", "REC.a[2].b"),
        (
            "({ int x = (REC->n); int y = (128); ((x) < (y) ? (x) : (y)); })",
            "{ x = REC.n; y = 128; ((Lt x y) ? x : y) }",
        ),
        ("({ union u r; r.w = 1; f(r); })", "<({ union u r; r.w = 1; f(r); })>"),
        ("*(u32 *)&REC->x", "(Deref (as u32* (Address REC.x)))"),
    ] {
        assert_eq!(tree(text), expected, "{text}");
    }
    let list = parse_list(" REC->a, (b, c)").map_err(|fault| fault.at);
    assert_eq!(list.unwrap_err(), 11, "the comma operator is not C's expression here");
    assert_eq!(parse_list("a, f(b, c)").unwrap().len(), 2);
}

#[test]
fn a_fault_has_its_position() {
    for (text, expected) in [
        ("", "0: a value is missing here"),
        ("a +", "3: a value is missing here"),
        ("a b", "2: an operator is missing here"),
        ("a,b", "1: one expression ends here; to combine two, write printf(\"%d %s\", A, B)"),
        ("(a", "2: `)` is missing here"),
        ("a)", "1: this closes no open bracket"),
        ("a = 1", "2: assignment is not possible here; write `==` to compare"),
        ("1.5", "0: expressions support only whole numbers"),
        ("12abc", "0: `12abc` is not a number"),
        ("99999999999999999999", "0: `99999999999999999999` does not fit in 64 bits"),
        ("a $ b", "2: `$` is not valid in an expression"),
        ("\"abc", "0: this quote is not closed"),
        ("a ? b", "5: `:` is missing here"),
        ("a->", "3: the name of a member is missing here"),
    ] {
        assert_eq!(tree(text), expected, "{text}");
    }
    assert!(tree(&"(".repeat(100_000)).contains("nested over"));
    assert!(tree(&"- ".repeat(100_000)).contains("nested over"));
    assert!(tree("a--1").starts_with("1: `--` changes a variable"));
    assert!(tree("++a").starts_with("0: `++` changes a variable"));
    assert!(tree(&vec!["a"; 100_000].join("+")).contains("in a row"));
}

/// Returns a text whose tree has `levels` nested chains of `links` each.
fn chains(levels: usize, links: usize, link: &str) -> String {
    let close = link.repeat(links) + ")";
    "(".repeat(levels) + "a" + &close.repeat(levels)
}

#[test]
fn nested_chains_do_not_exhaust_the_stack() {
    let parsed = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
        for (levels, links, link) in [(190, 190, "+a"), (190, 190, ".b"), (190, 190, "[a]")] {
            let fault = parse(&chains(levels, links, link)).unwrap_err();
            assert!(fault.message.contains("operators nested over 400 deep"), "{link}: {fault:?}");
        }
        for link in ["+a", ".b", "[a]"] {
            let node = parse(&chains(3, 133, link)).unwrap();
            let mut nodes = 0;
            node.walk(&mut |_| nodes += 1);
            assert_eq!(nodes, 400 + if link == ".b" { 0 } else { 399 }, "{link}");
            assert_eq!(node.clone(), node);
            assert!(parse(&chains(4, 100, link)).is_err(), "{link}");
        }
        // Each local includes all before it.
        let chain = |from: &str| from.to_owned() + &"+1".repeat(190);
        let locals =
            |last: &str| format!("({{ int x = {}; int y = {}; {last}; }})", chain("a"), chain("x"));
        assert!(matches!(parse(&locals("y")).unwrap().kind, ExprKind::Block(..)));
        assert!(parse(&locals(&chain("y"))).is_err());
    });
    parsed.unwrap().join().unwrap();
}

#[test]
fn integers_convert_as_in_c() {
    let short = Int { bits: 16, signed: true };
    assert_eq!(Int::usual(short, Int::CHAR), Int::INT);
    assert_eq!(Int::usual(Int::UINT, Int::INT), Int::UINT);
    assert_eq!(Int::usual(Int::UINT, Int::LONG), Int::LONG);
    assert_eq!(Int::usual(Int::ULONG, Int::LONG), Int::ULONG);
    assert_eq!(Int::CHAR.wrap(0x1ff), u64::MAX);
    assert_eq!(Int::BOOL.wrap(256), 1);
    assert_eq!(Int::of_typedef("__le32"), Some(Int::UINT));
    assert_eq!(Int::of_typedef("uint64_t"), Some(Int::ULONG));
    assert_eq!(Int::of_typedef("s16"), Some(short));
    assert_eq!(Int::of_typedef("unlikely"), None);
    assert_eq!(Int::of_typedef("s"), None);
}

proptest! {
    #[test]
    fn any_text_gives_a_tree_or_a_fault_within_it(text in ".{0,80}") {
        if let Err(fault) = parse_list(&text) {
            prop_assert!(fault.at <= text.len());
        }
    }

    #[test]
    fn any_tokens_give_a_tree_or_a_fault_within_them(words in proptest::collection::vec(
        prop::sample::select(vec![
            "a", "1", "(", ")", "({", "})", "int", "*", "-", "?", ":", ",", "=", ";", "{", "}",
            "[", "]", "sizeof", "->", "\"s\"", "typeof",
        ]), 0..24)) {
        let text = words.join(" ");
        if let Err(fault) = parse_list(&text) {
            prop_assert!(fault.at <= text.len());
        }
    }
}
