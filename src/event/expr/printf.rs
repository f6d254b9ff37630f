//! `printf("%03d %s", …)` in an expression: text made of values, the format checked against them.
//!
//! The conversions are C's, except that no length modifier ever loses a part of a value: `%d` prints a 64-bit
//! argument whole, `%lx` of an `int` extends it by its sign. `%hd` and `%hhd` cut, as asked.

use super::check::{Checked, Checker};
use super::text::{Text, quoted};
use super::value::Value;
use crate::decode::c::{Fault, Int, Node};

/// One conversion: `%-08.3lx`.
struct Conversion<'a> {
    flags: &'a str,
    width: &'a str,
    /// With its point.
    precision: &'a str,
    length: &'a str,
    kind: char,
    /// All of it, as written.
    text: &'a str,
}

/// Builds the call. `at` is the place of the format, which faults of the format point to.
pub(super) fn printf(
    checker: &mut Checker<'_>,
    at: usize,
    format: &[u8],
    values: &[Node],
) -> Result<Checked, Fault> {
    let fault = |why: String| Fault::new(at, why);
    let format = std::str::from_utf8(format).map_err(|_| fault("a format is UTF-8 text".into()))?;
    let (mut out, mut arguments) = (String::new(), Vec::new());
    let (mut rest, mut left) = (format, values.iter());
    while let Some((before, behind)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(tail) = behind.strip_prefix('%') {
            out.push_str("%%");
            rest = tail;
            continue;
        }
        let conversion = Conversion::read(behind).map_err(fault)?;
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
    Ok(Checked::Text(Text::computed(format!("format({}{list})", quoted(out.as_bytes())))))
}

const KINDS: &str = "d i u x X o c s p";

impl Conversion<'_> {
    /// What stands behind a `%`.
    fn read(text: &str) -> Result<Conversion<'_>, String> {
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
            return Err("the format ends within a conversion; a percent sign is %%".to_owned());
        };
        let end = at + kind.len_utf8();
        let text = &text[..end];
        let precision = &text[flags.len() + width.len()..][..point.len() + digits.len()];
        if kind == '*' {
            return Err(format!("`%{text}`: a width is written as a number here"));
        }
        if !KINDS.contains(kind) || kind == ' ' || point.len() > 1 {
            return Err(format!("`%{text}` is no conversion here; there are {KINDS}"));
        }
        if width.len() > 2 || digits.len() > 2 {
            return Err(format!("`%{text}`: at most 99 characters"));
        }
        Ok(Conversion { flags, width, precision, length, kind, text })
    }

    /// The conversion as `string.format` has it, and the code of its argument.
    fn apply(&self, checker: &mut Checker<'_>, node: &Node) -> Result<(String, String), Fault> {
        let checked = checker.check(node)?;
        let spec =
            |flags: &str, kind: char| format!("%{flags}{}{}{kind}", self.width, self.precision);
        let value = match (self.kind, checked) {
            ('s', Checked::Text(text)) => return Ok((spec(self.flags, 's'), text.code)),
            ('s', Checked::Number(_)) => {
                let why =
                    format!("`%{}` prints text and this is a number; %d prints it", self.text);
                return Err(Fault::new(node.at, why));
            }
            (_, Checked::Text(_)) => {
                let why =
                    format!("`%{}` prints a number and this is text; %s prints it", self.text);
                return Err(Fault::new(node.at, why));
            }
            (_, Checked::Number(value)) => value.plain().promote(),
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

/// `string.format` takes numbers and boxes.
fn code(value: &Value) -> String {
    value.code.clone()
}
