//! The names that a print format gives to values: what `__print_symbolic` and `__print_flags` list.
//!
//! For showing to people, so a list that is written in an unforeseen way is left out rather than refused. Values
//! come out of the kernel's preprocessor as anything between `3` and four lines of shifts; those that are a
//! number, or one shifted, get it, the rest keep their text.

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
    /// The number, where the format spells it plainly.
    pub number: Option<u64>,
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
    for (at, _) in print_fmt.match_indices("__print_") {
        let rest = &print_fmt[at..];
        let Some((word, arguments)) = rest.split_once('(') else { continue };
        let Some(&(_, flags)) = LISTS.iter().find(|(name, _)| *name == word.trim_end()) else {
            continue;
        };
        let Some(constants) = listed(arguments, flags) else { continue };
        if found.iter().all(|known| known.field != constants.field) {
            found.push(constants);
        }
    }
    found
}

/// The list behind the opening parenthesis of a call: the value, a separator of flags, then the pairs.
fn listed(arguments: &str, flags: bool) -> Option<Constants> {
    let mut parts = split(arguments)?.into_iter();
    let field = field_of(parts.next()?)?;
    let values: Vec<Constant> =
        parts.skip(usize::from(flags)).filter_map(pair).filter(|c| !c.name.is_empty()).collect();
    (!values.is_empty()).then(|| Constants { field: field.to_owned(), flags, values })
}

/// The one field that an expression reads: `REC->gfp_flags & 3`.
fn field_of(expression: &str) -> Option<&str> {
    let (_, rest) = expression.split_once("REC->")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0 && !rest.contains("REC->")).then(|| &rest[..end])
}

/// `{ VALUE, "NAME" }`.
fn pair(text: &str) -> Option<Constant> {
    let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let comma = inside.rfind(',')?;
    let name = inside[comma + 1..].trim().strip_prefix('"')?.strip_suffix('"')?;
    let value = inside[..comma].trim();
    Some(Constant { number: number(value), text: value.to_owned(), name: name.to_owned() })
}

/// The arguments up to the closing parenthesis; None when there is none.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0usize);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => while !matches!(chars.next()?.1, '"') {},
            '(' | '{' => depth += 1,
            ')' if depth == 0 => {
                parts.push(text[start..at].trim());
                return Some(parts);
            }
            ')' | '}' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// `3`, `0x10`, `1UL`, `(1 << 4)`.
fn number(text: &str) -> Option<u64> {
    let mut text = text.trim();
    while let Some(inside) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        // `(1) << (2)` is not enclosed.
        if inside.find(')') < inside.find('(') {
            break;
        }
        text = inside.trim();
    }
    if let Some((one, by)) = text.split_once("<<") {
        return number(one)?.checked_shl(u32::try_from(number(by)?).ok()?);
    }
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
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
        // A name with a comma cannot be told from a value with one and is left out.
        assert_eq!(named(fmt), [("x".to_owned(), false, vec!["SOME_ENUM e".to_owned()])]);
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
