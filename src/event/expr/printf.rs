//! `printf("%03d %s", …)` in an expression: formats values; the format is checked against them.
//!
//! Conversions are as in C, except that a missing length modifier does not truncate: `%d` prints a
//! whole 64-bit argument, `%lx` sign-extends an `int`. `%hd` and `%hhd` do truncate.

use super::checked::{CheckedExpr, OperandChecker};
use super::text::{TextExpr, quoted};
use super::value::IntExpr;
use crate::base::text::fault::Fault;
use crate::decode::c::{ExprNode, Int};

/// One conversion: `%-08.3lx`.
struct PrintfConversion<'a> {
    flags: &'a str,
    width: &'a str,
    /// Including the point.
    precision: &'a str,
    length: &'a str,
    kind: char,
    /// The whole conversion, as typed.
    text: &'a str,
}

/// Generates the call. `at` is the offset of the format, for errors in the format.
///
/// # Errors
/// An invalid format, or values that do not match its conversions.
pub(super) fn printf(
    checker: &mut dyn OperandChecker,
    at: usize,
    format: &[u8],
    values: &[ExprNode],
) -> Result<CheckedExpr, Fault> {
    let fault = |why: String| Fault::new(at, why);
    let format =
        std::str::from_utf8(format).map_err(|_| fault("the format is not UTF-8 text".into()))?;
    let (mut out, mut arguments) = (String::new(), Vec::new());
    let (mut rest, mut left) = (format, values.iter());
    while let Some((before, behind)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(tail) = behind.strip_prefix('%') {
            out.push_str("%%");
            rest = tail;
            continue;
        }
        let conversion = PrintfConversion::read(behind).map_err(fault)?;
        rest = &behind[conversion.text.len()..];
        let Some(node) = left.next() else {
            return Err(fault(format!("`%{}` has no value", conversion.text)));
        };
        let (lua, argument) = conversion.apply(checker, node)?;
        out.push_str(&lua);
        arguments.push(argument);
    }
    out.push_str(rest);
    if let Some(node) = left.next() {
        return Err(Fault::new(node.at, "the format has no conversion for this value"));
    }
    let list: String = arguments.iter().map(|code| format!(", {code}")).collect();
    Ok(CheckedExpr::Text(TextExpr::computed(format!("format({}{list})", quoted(out.as_bytes())))))
}

const KINDS: &str = "d i u x X o c s p";

impl PrintfConversion<'_> {
    /// Parses the text behind a `%`.
    fn read(text: &str) -> Result<PrintfConversion<'_>, String> {
        let mut at = 0;
        let mut take = |accept: fn(char) -> bool| {
            let from = at;
            at += text[at..].find(|c| !accept(c)).unwrap_or(text.len() - at);
            &text[from..at]
        };
        let flags = take(|c| "-+ #0".contains(c));
        let width = take(|c| c.is_ascii_digit());
        let point = take(|c| c == '.');
        let digits = take(|c| c.is_ascii_digit());
        let length = take(|c| "hlqjztL".contains(c));
        let Some(kind) = text[at..].chars().next() else {
            return Err(
                "the format ends within a conversion; write %% for a percent sign".to_owned()
            );
        };
        let end = at + kind.len_utf8();
        let text = &text[..end];
        let precision = &text[flags.len() + width.len()..][..point.len() + digits.len()];
        if kind == '*' {
            return Err(format!("`%{text}`: a width must be a number"));
        }
        if !KINDS.contains(kind) || kind == ' ' || point.len() > 1 {
            return Err(format!("`%{text}` is not supported; the conversions are {KINDS}"));
        }
        if width.len() > 2 || digits.len() > 2 {
            return Err(format!("`%{text}`: width and precision are at most 99"));
        }
        Ok(PrintfConversion { flags, width, precision, length, kind, text })
    }

    /// Returns the conversion for `string.format`, and the code of its argument.
    fn apply(
        &self,
        checker: &mut dyn OperandChecker,
        node: &ExprNode,
    ) -> Result<(String, String), Fault> {
        let checked = checker.check(node)?;
        let spec =
            |flags: &str, kind: char| format!("%{flags}{}{}{kind}", self.width, self.precision);
        let value = match (self.kind, checked) {
            ('s', CheckedExpr::Text(text)) => return Ok((spec(self.flags, 's'), text.code)),
            ('s', CheckedExpr::Number(_)) => {
                let why = format!("`%{}` prints text, but this is a number; use %d", self.text);
                return Err(Fault::new(node.at, why));
            }
            (_, CheckedExpr::Text(_)) => {
                let why = format!("`%{}` prints a number, but this is text; use %s", self.text);
                return Err(Fault::new(node.at, why));
            }
            (_, CheckedExpr::Number(value)) => value.plain().promote(),
        };
        let bits = match self.length {
            "hh" => 8,
            "h" => 16,
            "" => value.ty.bits,
            _ => 64,
        };
        let converted = |signed| value.clone().convert(Int { bits, signed }).plain();
        Ok(match self.kind {
            'd' | 'i' => (spec(self.flags, 'd'), code(&converted(true))),
            'c' => {
                let byte = value.convert(Int { bits: 8, signed: false }).plain();
                (spec(self.flags, 'c'), code(&byte))
            }
            'p' => {
                let address = value.convert(Int::ULONG).plain();
                (spec(self.flags, 's'), format!("format(\"0x%x\", {})", code(&address)))
            }
            kind => (spec(self.flags, kind), code(&converted(false))),
        })
    }
}

/// Returns the code of an argument; `string.format` accepts numbers and boxes.
fn code(value: &IntExpr) -> String {
    value.code.clone()
}
