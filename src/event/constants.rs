//! Names of values in a print format: the lists of `__print_symbolic` and `__print_flags`.
//!
//! Used for display only, so a list in an unexpected form is omitted instead of refused. The
//! kernel's preprocessor leaves values between `3` and four lines of shifts. A value made of
//! literals is evaluated to its number; any other value keeps its text.

use crate::decode::c::{Binary, ExprKind, ExprNode, Type, Unary};
use crate::decode::print::parse;

/// The named values of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constants {
    /// Name of the field.
    pub field: String,
    /// Whether the values are flags that can be combined; otherwise the field has one of them.
    pub flags: bool,
    /// The values in the order of the format.
    pub values: Vec<Constant>,
}

/// A value and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The number, if the value consists of literals only; fits an `i64` or a `u64`.
    pub number: Option<i128>,
    /// The value as spelled in the format.
    pub text: String,
    /// The name.
    pub name: String,
}

/// Functions that list names, and whether the names are flags.
const LISTS: [(&str, bool); 5] = [
    ("__print_symbolic", false),
    ("__print_symbolic64", false),
    ("__print_symbolic_u64", false),
    ("__print_flags", true),
    ("__print_flags_u64", true),
];

/// Returns the named values in a `print fmt`; for each field, its first list.
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

/// Returns the list of a call, whose arguments are the value, a separator for flags, and the pairs.
fn listed(print_fmt: &str, node: &ExprNode) -> Option<Constants> {
    let ExprKind::Call(name, arguments) = &node.kind else { return None };
    let &(_, flags) = LISTS.iter().find(|(list, _)| list == name)?;
    let (value, pairs) = arguments.split_first()?;
    let field = field_of(value)?;
    let pairs = pairs.iter().skip(usize::from(flags));
    let values: Vec<Constant> = pairs.filter_map(|node| pair(print_fmt, node)).collect();
    (!values.is_empty()).then(|| Constants { field: field.to_owned(), flags, values })
}

/// Returns the only field that an expression such as `REC->gfp_flags & 3` reads.
fn field_of(expression: &ExprNode) -> Option<&str> {
    let mut fields = Vec::new();
    expression.walk(&mut |node| {
        if let ExprKind::Member(record, field) = &node.kind
            && matches!(&record.kind, ExprKind::Name(name) if name == "REC")
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

/// Returns the value and name of `{ VALUE, "NAME" }`.
fn pair(print_fmt: &str, node: &ExprNode) -> Option<Constant> {
    let ExprKind::Braces(pair) = &node.kind else { return None };
    let [value, ExprNode { at: end, kind: ExprKind::Text(name) }] = &pair[..] else { return None };
    let name = String::from_utf8_lossy(name).into_owned();
    let text = print_fmt.get(node.at + 1..*end)?.trim().trim_end_matches(',').trim_end();
    (!name.is_empty()).then(|| Constant { number: number(value), text: text.to_owned(), name })
}

/// Evaluates `3`, `-1`, `0x10UL`, `(1 << 4) | 3`. Shifts do not wrap: `1 << 31` is positive.
fn number(node: &ExprNode) -> Option<i128> {
    let value = match &node.kind {
        ExprKind::Number(value, int) if int.signed => value.cast_signed().into(),
        ExprKind::Number(value, _) => (*value).into(),
        ExprKind::Unary(Unary::Minus, a) => -number(a)?,
        ExprKind::Unary(Unary::Plus, a) => number(a)?,
        ExprKind::Binary(Binary::Or, a, b) => number(a)? | number(b)?,
        // Some sets of flags remove flags from another set: `A & ~(1 << 4)`.
        ExprKind::Binary(Binary::And, a, b) => match &b.kind {
            ExprKind::Unary(Unary::Complement, b) => number(a)? & !number(b)?,
            _ => number(a)? & number(b)?,
        },
        ExprKind::Binary(Binary::Shl, a, b) => {
            let by = u32::try_from(number(b)?).ok().filter(|by| *by < 64)?;
            number(a)? << by
        }
        ExprKind::Binary(Binary::Shr, a, b) => {
            number(a)? >> u32::try_from(number(b)?).ok().filter(|by| *by < 64)?
        }
        ExprKind::Cast(Type::Int(int), a) => {
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

    /// Returns field, flags, and `number name` of each value.
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
        let fmt = concat!(
            r#""vec=%u [action=%s] f=%s", REC->vec, "#,
            r#"__print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" }), "#,
            r#"__print_flags(REC->f & 0xf, "|", { (1 << 0), "A" }, { 0x2UL, "B" }, "#,
            r#"{ ((1UL) << (3)), "C" })"#
        );
        assert_eq!(
            named(fmt),
            [
                ("vec".to_owned(), false, vec!["0 HI".to_owned(), "1 TIMER".to_owned()]),
                ("f".to_owned(), true, vec!["1 A".into(), "2 B".into(), "8 C".into()]),
            ]
        );
    }

    #[test]
    fn a_value_that_is_not_a_number_keeps_its_text() {
        let fmt = concat!(
            r#""%s", __print_symbolic(REC->x, "#,
            r#"{ ((A) | (1 << 2)), "odd, (name)" }, { SOME_ENUM, "e" })"#
        );
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
    fn lists_are_found_behind_a_template_with_quotes() {
        let fmt = r#""n="%s", x=%s", REC->n, __print_symbolic(REC->x, { ONE, "1" }, { 2, "2" })"#;
        let values = vec!["ONE 1".to_owned(), "2 2".to_owned()];
        assert_eq!(named(fmt), [("x".to_owned(), false, values)]);
    }

    #[test]
    fn a_list_without_exactly_one_field_is_omitted() {
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
