//! The names that a print format gives to values: what `__print_symbolic` and `__print_flags` list.
//!
//! For showing to people, so a list that is written in an unforeseen way is left out rather than refused. Values
//! come out of the kernel's preprocessor as anything between `3` and four lines of shifts; those that are made of
//! literals get their number, the rest keep their text.

use crate::decode::c::{Binary, Kind, Node, Type, Unary};
use crate::decode::print::parse;

/// The named values of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constants {
    /// The field that has them.
    pub field: String,
    /// Whether they are bits that add up; else one of them is the value.
    pub flags: bool,
    /// In the format's order.
    pub values: Vec<Constant>,
}

/// A value and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The number, where the format has nothing but literals in it: some `i64` or `u64`.
    pub number: Option<i128>,
    /// As the format spells it.
    pub text: String,
    /// The name.
    pub name: String,
}

/// The calls that list names, and whether these are flags.
const LISTS: [(&str, bool); 5] = [
    ("__print_symbolic", false),
    ("__print_symbolic64", false),
    ("__print_symbolic_u64", false),
    ("__print_flags", true),
    ("__print_flags_u64", true),
];

/// What a `print fmt` names; of several lists for one field the first.
pub fn of(print_fmt: &str) -> Vec<Constants> {
    let mut found: Vec<Constants> = Vec::new();
    let arguments = parse(print_fmt).unwrap_or_default();
    for argument in &arguments {
        argument.walk(&mut |node| {
            if let Some(constants) = listed(print_fmt, node)
                && found.iter().all(|known| known.field != constants.field)
            {
                found.push(constants);
            }
        });
    }
    found
}

/// The list of a call: the value, a separator of flags, then the pairs.
fn listed(print_fmt: &str, node: &Node) -> Option<Constants> {
    let Kind::Call(name, arguments) = &node.kind else { return None };
    let &(_, flags) = LISTS.iter().find(|(list, _)| list == name)?;
    let (value, pairs) = arguments.split_first()?;
    let field = field_of(value)?;
    let pairs = pairs.iter().skip(usize::from(flags));
    let values: Vec<Constant> = pairs.filter_map(|node| pair(print_fmt, node)).collect();
    (!values.is_empty()).then(|| Constants { field: field.to_owned(), flags, values })
}

/// The one field that an expression reads: `REC->gfp_flags & 3`.
fn field_of(expression: &Node) -> Option<&str> {
    let mut fields = Vec::new();
    expression.walk(&mut |node| {
        if let Kind::Member(record, field) = &node.kind
            && matches!(&record.kind, Kind::Name(name) if name == "REC")
        {
            fields.push(field.as_str());
        }
    });
    fields.dedup();
    match fields[..] {
        [field] => Some(field),
        _ => None,
    }
}

/// `{ VALUE, "NAME" }`.
fn pair(print_fmt: &str, node: &Node) -> Option<Constant> {
    let Kind::Braces(pair) = &node.kind else { return None };
    let [value, Node { at: end, kind: Kind::Text(name) }] = &pair[..] else { return None };
    let name = String::from_utf8_lossy(name).into_owned();
    let text = print_fmt.get(node.at + 1..*end)?.trim().trim_end_matches(',').trim_end();
    (!name.is_empty()).then(|| Constant { number: number(value), text: text.to_owned(), name })
}

/// `3`, `-1`, `0x10UL`, `(1 << 4) | 3`. Nothing wraps: `1 << 31` is what whoever wrote it meant.
fn number(node: &Node) -> Option<i128> {
    let value = match &node.kind {
        Kind::Number(value, int) if int.signed => value.cast_signed().into(),
        Kind::Number(value, _) => (*value).into(),
        Kind::Unary(Unary::Minus, a) => -number(a)?,
        Kind::Unary(Unary::Plus, a) => number(a)?,
        Kind::Binary(Binary::Or, a, b) => number(a)? | number(b)?,
        // Some sets of flags are others without a few: `A & ~(1 << 4)`.
        Kind::Binary(Binary::And, a, b) => match &b.kind {
            Kind::Unary(Unary::Complement, b) => number(a)? & !number(b)?,
            _ => number(a)? & number(b)?,
        },
        Kind::Binary(Binary::Shl, a, b) => {
            let by = u32::try_from(number(b)?).ok().filter(|by| *by < 64)?;
            number(a)? << by
        }
        Kind::Binary(Binary::Shr, a, b) => {
            number(a)? >> u32::try_from(number(b)?).ok().filter(|by| *by < 64)?
        }
        Kind::Cast(Type::Int(int), a) => {
            let value = int.wrap(number(a)? as u64);
            if int.signed { value.cast_signed().into() } else { value.into() }
        }
        _ => return None,
    };
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field, flags, `number name` of each value.
    fn named(print_fmt: &str) -> Vec<(String, bool, Vec<String>)> {
        let shown = |c: &Constant| match c.number {
            Some(number) => format!("{number} {}", c.name),
            None => format!("{} {}", c.text, c.name),
        };
        let all = of(print_fmt).into_iter();
        all.map(|c| (c.field, c.flags, c.values.iter().map(shown).collect())).collect()
    }

    #[test]
    fn symbols_and_flags_are_found_with_their_field() {
        let fmt = r#""vec=%u [action=%s] f=%s", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" }), __print_flags(REC->f & 0xf, "|", { (1 << 0), "A" }, { 0x2UL, "B" }, { ((1UL) << (3)), "C" })"#;
        assert_eq!(
            named(fmt),
            [
                ("vec".to_owned(), false, vec!["0 HI".to_owned(), "1 TIMER".to_owned()]),
                ("f".to_owned(), true, vec!["1 A".into(), "2 B".into(), "8 C".into()]),
            ]
        );
    }

    #[test]
    fn a_value_that_is_no_plain_number_keeps_its_text() {
        let fmt = r#""%s", __print_symbolic(REC->x, { ((A) | (1 << 2)), "odd, (name)" }, { SOME_ENUM, "e" })"#;
        let values = vec!["((A) | (1 << 2)) odd, (name)".to_owned(), "SOME_ENUM e".to_owned()];
        assert_eq!(named(fmt), [("x".to_owned(), false, values)]);
    }

    #[test]
    fn literals_are_read_and_folded_as_in_c() {
        for (value, number) in [
            ("017", "15"),
            ("0b101", "5"),
            ("0X1fUL", "31"),
            ("'a'", "97"),
            ("-1", "-1"),
            ("-(1 << 4)", "-16"),
            ("1 << 31", "2147483648"),
            ("1ULL << 63", "9223372036854775808"),
            ("0xffffffffffffffff", "18446744073709551615"),
            ("((1 << 2) | (1UL << 4) | 1)", "21"),
            ("(gfp_t)((((1UL))) << (3))", "8"),
            ("(u8)-1", "255"),
            ("0x1f & ~((1 << 4) | 1)", "14"),
            ("0x1f & 3", "3"),
            ("256 >> 4", "16"),
            ("1 << 64", "1 << 64"),
            ("0xffffffffffffffff << 1", "0xffffffffffffffff << 1"),
            ("A | 1", "A | 1"),
        ] {
            let fmt = format!(r#""%s", __print_flags(REC->x, "|", {{ {value}, "a, b" }})"#);
            let expected = vec![format!("{number} a, b")];
            assert_eq!(named(&fmt), [("x".to_owned(), true, expected)], "{value}");
        }
    }

    #[test]
    fn a_template_with_quotes_of_its_own_hides_no_list() {
        let fmt = r#""n="%s", x=%s", REC->n, __print_symbolic(REC->x, { ONE, "1" }, { 2, "2" })"#;
        let values = vec!["ONE 1".to_owned(), "2 2".to_owned()];
        assert_eq!(named(fmt), [("x".to_owned(), false, values)]);
    }

    #[test]
    fn what_is_no_list_of_one_field_is_left_out() {
        for fmt in [
            "",
            "\"%d\", REC->x",
            "\"%s\", __print_symbolic(REC->x, { 1, \"unclosed",
            "\"%s\", __print_symbolic(REC->a + REC->b, { 1, \"x\" })",
            "\"%s\", __print_symbolic(3, { 1, \"x\" })",
            "\"%s\", __print_hex(REC->x, 3)",
            "\"%s\", __print_flags(REC->x, \"|\")",
            "__print_symbolic(REC->é, }",
        ] {
            assert_eq!(named(fmt), [], "{fmt}");
        }
    }
}
