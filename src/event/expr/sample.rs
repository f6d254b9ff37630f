//! Values of the sample that expressions can use: those that every sample has, and those that are
//! recorded only for an expression or handler that reads them.

use super::checked::CheckedExpr;
use super::text::TextExpr;
use super::value::{EXACT, IntExpr, bounds};
use crate::decode::c::Int;
use crate::event::sample_field::{FieldValue, SAMPLE_FIELDS, row_named};

/// Every CPU number is below this; see `base::event::slot`.
const CPUS: i128 = crate::base::event::slot::CPUS_MAX as i128;

/// Values that every sample has besides the event's fields.
pub(super) const NAMES: [&str; 11] = [
    "_cpu", "_pid", "_tid", "_time", "_comm", "_stack", "_period", "_ip", "_addr", "__cpu", "__pid",
];

/// Returns a value of the sample by its name.
pub(super) fn value(name: &str) -> Option<CheckedExpr> {
    let id = bounds(Int::INT);
    let number =
        |code: &str, ty, range| Some(CheckedExpr::Number(IntExpr::read(code.into(), ty, range)));
    let address = |code: &str| {
        let value = IntExpr::read(code.into(), Int::ULONG, bounds(Int::ULONG));
        Some(CheckedExpr::Number(value.addressed()))
    };
    match name {
        "_cpu" | "__cpu" => number("s.cpu", Int::LONG, (0, CPUS - 1)),
        "_pid" => number("s.pid", Int::LONG, id),
        // `__pid` is the name of an older tool, where pid means the thread.
        "_tid" | "__pid" => number("s.tid", Int::LONG, id),
        "_time" => number("s.time", Int::LONG, (-EXACT, EXACT)),
        "_stack" => number("stack_of(s)", Int::LONG, (0, EXACT)),
        "_period" => number("u64(s.period)", Int::ULONG, bounds(Int::ULONG)),
        "_ip" => address("u64(s.ip)"),
        "_addr" => address("u64(s.addr)"),
        "_comm" => Some(CheckedExpr::Text(TextExpr::computed("own_comm(s)".to_owned()))),
        _ => None,
    }
}

/// Returns a field that few events have by its name; an error message if it is not a value.
pub(super) fn extra(name: &str) -> Option<Result<CheckedExpr, String>> {
    let row = row_named(name)?;
    let kind = SAMPLE_FIELDS[row].kind;
    let range = bounds(Int::ULONG);
    let number = || IntExpr::read(format!("sampled(s, {row})"), Int::ULONG, range);
    Some(match kind {
        FieldValue::Number => Ok(CheckedExpr::Number(number())),
        FieldValue::Address => Ok(CheckedExpr::Number(number().addressed())),
        _ if kind.is_text() => {
            let code = format!("sampled_text(s, {row})");
            Ok(CheckedExpr::Text(TextExpr::computed(code)))
        }
        _ => Err(format!("`{name}` has several values; read one of them in a script")),
    })
}
