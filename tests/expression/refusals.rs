//! What is refused, where the caret stands, and what is said.

use perilune::event::expr::{Expr, Names, Scope};

use crate::record;

/// Text, place of the caret, and a part of the message.
const FAULTS: &[(&str, usize, &str)] = &[
    ("", 0, "an expression is missing"),
    ("  ", 2, "an expression is missing"),
    ("si+", 3, "a value is missing here"),
    ("si+*", 4, "a value is missing here"),
    ("si ui", 3, "an operator is missing"),
    ("(si", 3, "`)` is missing here"),
    ("si)", 2, "nothing was opened"),
    ("si=1", 2, "write `==` to compare"),
    ("++si", 0, "`++` changes a variable, and an expression cannot; write `+ +` for two signs"),
    ("1 + --si", 4, "`--` changes a variable"),
    ("si--1", 2, "write `- -` for two signs"),
    ("(si++)", 3, "`++` changes a variable"),
    ("1.5", 0, "whole numbers only"),
    ("12abc", 0, "`12abc` is no number"),
    ("si $ 1", 3, "means nothing"),
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
    ("ksymbol()", 0, "ksymbol does not take 0 arguments: ksymbol(address)"),
    ("ksymbol(ul, 1)", 0, "does not take 2 arguments"),
    ("ksymbol(text)", 8, "this is text; a number is needed"),
    ("strncmp(text, 1, 2)", 14, "this is a number; text is needed"),
    ("system(\"true\")", 0, "--unsafe allows it"),
    ("text + 1", 5, "there is text on the left and a number on the right"),
    ("1 == text", 2, "there is a number on the left and text on the right"),
    ("text < \"a\"", 5, "text is compared with ==, != and ~ only"),
    ("-text", 1, "this is text; a number is needed"),
    ("text && 1", 0, "text is neither true nor false"),
    ("!text", 1, "text is neither true nor false"),
    ("text ? 1 : 2", 0, "text is neither true nor false"),
    ("si ? text : 1", 3, "one side of the `:` is text"),
    ("si ~ \"a\"", 0, "this is a number; text is needed"),
    ("text ~ name", 7, "a glob is written in quotes"),
    ("(int)text", 5, "this is text; a number is needed"),
    ("(struct x)si", 0, "`struct x` is no integer type"),
    ("(long_t)si", 0, "`long_t` is no integer type that is known here; did you mean 'long'"),
    ("(char *)ul", 0, "write (void *), or unsigned long"),
    ("ints", 0, "`ints` is an array; take an element: ints[0]"),
    ("dyn + 1", 0, "`dyn` is an array"),
    ("si[0]", 2, "`si` is one number; it has no elements"),
    ("_tid[0]", 4, "`_tid` has no elements"),
    ("(si)[0]", 4, "it has no elements"),
    ("ints[text]", 5, "this is text; a number is needed"),
    ("*ul", 0, "addresses lead out of the record"),
    ("REC->si", 3, "write the field's name alone"),
    ("{1, 2}", 0, "braces mean nothing here"),
    ("({ int x = 1; x; })", 0, "statements mean nothing here"),
    ("sizeof name", 7, "has a size of its own in each record"),
    ("printf(text)", 7, "the format is written in quotes"),
    ("printf(\"%d\")", 7, "`%d` has no value"),
    ("printf(\"%s\", si)", 13, "`%s` prints text and this is a number"),
    ("printf(\"%d\", text)", 13, "`%d` prints a number and this is text"),
    ("printf(\"%y %d\", 1)", 7, "`%y` is no conversion here"),
    ("printf(\"a\", si)", 12, "the format has no conversion for this value"),
];

#[test]
fn the_caret_stands_under_what_is_wrong() {
    let format = record::format();
    let mut wrong = Vec::new();
    for &(text, place, message) in FAULTS {
        let fault = Expr::parse(text, record::EVENT, &format).expect_err(text);
        if !fault.message.contains(message) || fault.place != place {
            wrong.push(format!("{fault}\nat {}, not {place}: {message}", fault.place));
        }
        assert_eq!(fault.text, text);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_expression_of_a_key_reads_no_event() {
    let scope = Scope { names: Names::Key, system: false };
    for text in ["si", "_tid", "key + _cpu"] {
        let fault = Expr::parse_in(text, &scope).expect_err(text);
        assert!(fault.message.starts_with("here is only `key`"), "{fault}");
    }
    assert!(Expr::parse_in("key >> 32", &scope).is_ok());
}

#[test]
fn nesting_is_bounded_below_what_lua_takes() {
    let format = record::format();
    let parse = |text: String| Expr::parse(&text, record::EVENT, &format);
    let nested = |n: usize| format!("{}ul{}", "-(1ul*".repeat(n), ")".repeat(n));
    let deepest = (1..60).rev().map(nested).find(|text| parse(text.clone()).is_ok()).unwrap();
    let all: Vec<String> = (0..190).map(|n| format!("si == {n}")).collect();
    let sources = [deepest, all.join(" || ")];
    crate::lua::values(&sources, &record::records(1), 0);
    assert!(parse(nested(31)).unwrap_err().message.contains("nested over 60 deep"));
}

#[test]
fn results_have_kinds_and_numbers_have_a_truth() {
    use perilune::event::expr::Kind;
    let format = record::format();
    let parse = |text| Expr::parse(text, record::EVENT, &format).unwrap();
    assert_eq!((parse("si").kind(), parse("text").kind()), (Kind::Number, Kind::Text));
    assert_eq!(parse("text").condition(), None);
    assert_eq!(parse("si < ui * 0 + 3 && 1").condition().map(|c| c.starts_with('(')), Some(true));
}
