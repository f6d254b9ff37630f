//! Invalid expressions: the position of the caret and the message.

use perilune::event::expr::{Expr, ExprNames, ExprScope};

use super::record;

/// Expression, position of the caret, and a part of the message.
const FAULTS: &[(&str, usize, &str)] = &[
    ("", 0, "an expression is missing"),
    ("  ", 2, "an expression is missing"),
    ("si+", 3, "a value is missing here"),
    ("si+*", 4, "a value is missing here"),
    ("si ui", 3, "an operator is missing"),
    ("(si", 3, "`)` is missing here"),
    ("si)", 2, "closes no open bracket"),
    ("si=1", 2, "write `==` to compare"),
    ("++si", 0, "`++` changes a variable, which is not possible here; write `+ +` for two signs"),
    ("1 + --si", 4, "`--` changes a variable"),
    ("si--1", 2, "write `- -` for two signs"),
    ("(si++)", 3, "`++` changes a variable"),
    ("1.5", 0, "only whole numbers"),
    ("12abc", 0, "`12abc` is not a number"),
    ("si $ 1", 3, "is not valid in an expression"),
    ("si ? 1", 6, "`:` is missing here"),
    ("si ?: 1", 3, "a value is missing between `?` and `:`"),
    ("sii", 0, "test:extremes has no field 'sii'; did you mean 'si'?"),
    ("si + cout", 5, "did you mean 'count'? It has sb, ub,"),
    ("_tidd", 0, "did you mean '_tid'?"),
    ("xyzzyx", 0, "no field 'xyzzyx'; it has sb"),
    ("ksymbol", 0, "'ksymbol' is a function: ksymbol(address)"),
    ("1 + ksymbol(ul)", 2, "a number on the left and text on the right"),
    ("ksymbl(ul)", 0, "there is no function 'ksymbl'; did you mean 'ksymbol'?"),
    ("frobnicate(ul)", 0, "there are comm_get, exit_reason_str"),
    ("ksymbol()", 0, "wrong number of arguments, 0; write ksymbol(address)"),
    ("ksymbol(ul, 1)", 0, "wrong number of arguments, 2;"),
    ("ksymbol(text)", 8, "this is text; a number is needed"),
    ("strncmp(text, 1, 2)", 14, "this is a number; text is needed"),
    ("system(\"true\")", 0, "allow it with --unsafe"),
    ("text + 1", 5, "there is text on the left and a number on the right"),
    ("1 == text", 2, "there is a number on the left and text on the right"),
    ("text < \"a\"", 5, "text is compared with ==, != and ~ only"),
    ("-text", 1, "this is text; a number is needed"),
    ("text && 1", 0, "text is neither true nor false"),
    ("!text", 1, "text is neither true nor false"),
    ("text ? 1 : 2", 0, "text is neither true nor false"),
    ("si ? text : 1", 3, "one side of the `:` is text"),
    ("si ~ \"a\"", 0, "this is a number; text is needed"),
    ("text ~ name", 7, "a glob must be a quoted literal"),
    ("(int)text", 5, "this is text; a number is needed"),
    ("(struct x)si", 0, "unknown integer type `struct x`"),
    ("(long_t)si", 0, "unknown integer type `long_t`; did you mean 'long'"),
    ("(char *)ul", 0, "write (void *), or unsigned long"),
    ("ints", 0, "`ints` is an array; use an element: ints[0]"),
    ("dyn + 1", 0, "`dyn` is an array"),
    ("si[0]", 2, "`si` is one number; it has no elements"),
    ("_tid[0]", 4, "`_tid` has no elements"),
    ("(si)[0]", 4, "it has no elements"),
    ("ints[text]", 5, "this is text; a number is needed"),
    ("*ul", 0, "`*x` and `&x` are not supported"),
    ("REC->si", 3, "write only the field's name"),
    ("{1, 2}", 0, "braces are not supported here"),
    ("({ int x = 1; x; })", 0, "statements are not supported here"),
    ("sizeof name", 7, "the size of `name` differs between records"),
    ("printf(text)", 7, "the format must be a quoted literal"),
    ("printf(\"%d\")", 7, "`%d` has no value"),
    ("printf(\"%s\", si)", 13, "`%s` prints text, but this is a number"),
    ("printf(\"%d\", text)", 13, "`%d` prints a number, but this is text"),
    ("printf(\"%y %d\", 1)", 7, "`%y` is not supported"),
    ("printf(\"a\", si)", 12, "the format has no conversion for this value"),
];

#[test]
fn the_caret_is_under_the_mistake() {
    let format = record::format();
    let mut wrong = Vec::new();
    for &(text, place, message) in FAULTS {
        let error = Expr::parse(text, record::EVENT, &format).expect_err(text);
        if !error.fault.message.contains(message) || error.fault.at != place {
            wrong.push(format!("{error}\nat {}, not {place}: {message}", error.fault.at));
        }
        assert_eq!(error.text, text);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_expression_of_a_key_reads_no_event() {
    let scope = ExprScope { names: ExprNames::Key, system: false };
    for text in ["si", "_tid", "key + _cpu"] {
        let error = Expr::parse_in(text, &scope).expect_err(text);
        assert!(
            error.fault.message.contains("only `key`, the key's value, is available"),
            "{error}"
        );
    }
    assert!(Expr::parse_in("key >> 32", &scope).is_ok());
}

#[test]
fn nesting_is_limited_below_the_limit_of_lua() {
    let format = record::format();
    let parse = |text: String| Expr::parse(&text, record::EVENT, &format);
    let nested = |n: usize| format!("{}ul{}", "-(1ul*".repeat(n), ")".repeat(n));
    let deepest = (1..60).rev().map(nested).find(|text| parse(text.clone()).is_ok()).unwrap();
    let all: Vec<String> = (0..190).map(|n| format!("si == {n}")).collect();
    let sources = [deepest, all.join(" || ")];
    super::lua::values(&sources, &record::records(1), 0);
    assert!(
        parse(nested(31)).unwrap_err().fault.message.contains("more than 60 levels of nesting")
    );
}

#[test]
fn results_have_kinds_and_numbers_have_a_truth_value() {
    use perilune::event::expr::ResultKind;
    let format = record::format();
    let parse = |text| Expr::parse(text, record::EVENT, &format).unwrap();
    assert_eq!((parse("si").kind(), parse("text").kind()), (ResultKind::Number, ResultKind::Text));
    assert_eq!(parse("text").condition(), None);
    assert_eq!(parse("si < ui * 0 + 3 && 1").condition().map(|c| c.starts_with('(')), Some(true));
}
