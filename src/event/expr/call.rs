//! The functions of expressions: arguments, results, and the Lua code of a call.

use super::checked::{CheckedExpr, OperandChecker};
use super::printf;
use super::scope::{ExprNames, ExprScope};
use super::text::TextExpr;
use super::value::{IntExpr, bounds};
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::text::fault::Fault;
use crate::decode::c::{ExprNode, Int};

/// Name and usage of each function.
const FUNCTIONS: [(&str, &str); 12] = [
    ("comm_get", "comm_get(pid)"),
    ("exit_reason_str", "exit_reason_str(reason), or exit_reason_str(isa, reason)"),
    ("htonl", "htonl(number)"),
    ("htons", "htons(number)"),
    ("ksymbol", "ksymbol(address)"),
    ("ntohl", "ntohl(number)"),
    ("ntohs", "ntohs(number)"),
    ("printf", "printf(\"format\", value, ...)"),
    ("strncmp", "strncmp(text, text, length)"),
    ("syscall_name", "syscall_name(number)"),
    ("system", "system(command)"),
    ("sizeof", "sizeof(type), or sizeof field"),
];

pub(super) fn is_function(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, _)| *known == name)
}

pub(super) fn usage(name: &str) -> &'static str {
    FUNCTIONS.iter().find(|(known, _)| *known == name).map_or("", |(_, usage)| usage)
}

/// Checks `name(arguments)`; `at` is the offset of the name.
///
/// # Errors
/// An unknown function, wrong arguments, or `system` where it is not allowed.
pub(super) fn call(
    checker: &mut dyn OperandChecker,
    scope: &ExprScope<'_>,
    at: usize,
    name: &str,
    arguments: &[ExprNode],
) -> Result<CheckedExpr, Fault> {
    let text = |code: String| Ok(CheckedExpr::Text(TextExpr::computed(code)));
    match (name, arguments) {
        ("printf", [format, values @ ..]) => {
            let text = checker.text(format)?;
            let Some(known) = text.known() else {
                return Err(Fault::new(format.at, "the format must be a quoted literal: \"%d\""));
            };
            printf::printf(checker, format.at, known, values)
        }
        ("comm_get", [pid]) => {
            let pid = checker.number(pid)?.plain().convert(Int::UINT).plain();
            let cpu = if matches!(scope.names, ExprNames::Key) { "0" } else { "s.cpu" };
            text(format!("fstr(comm_of(ctx, {}, {cpu}))", pid.code))
        }
        ("ksymbol", [address]) => {
            let address = checker.number(address)?.convert(Int::ULONG);
            text(format!("ksymbol({})", address.lua()))
        }
        ("syscall_name", [number]) => {
            let number = checker.number(number)?.convert(Int::LONG);
            text(format!("syscall_name({})", number.lua()))
        }
        ("exit_reason_str", [reason]) => {
            let reason = checker.number(reason)?.convert(Int::UINT);
            text(format!("exit_reason({})", reason.lua()))
        }
        ("exit_reason_str", [isa, reason]) => {
            let isa = checker.number(isa)?.convert(Int { bits: 8, signed: false }).plain();
            let reason = checker.number(reason)?.convert(Int::UINT);
            // Combines both into one number, because the cache has one key.
            text(format!("exit_reason({} + 4294967296 * {})", reason.lua(), isa.code))
        }
        ("ntohl" | "htonl", [number]) => {
            let value = checker.number(number)?.plain().convert(Int::UINT).plain();
            Ok(CheckedExpr::Number(swapped(value, "(bswap(@) % 4294967296)")))
        }
        ("ntohs" | "htons", [number]) => {
            let short = Int { bits: 16, signed: false };
            let value = checker.number(number)?.plain().convert(short).plain();
            Ok(CheckedExpr::Number(swapped(value, "rshift(bswap(@), 16)")))
        }
        ("strncmp", [a, b, length]) => {
            let (a, b) = (checker.text(a)?, checker.text(b)?);
            let length = checker.number(length)?.convert(Int::ULONG).number();
            let code = format!("compare_text({}, {}, {length})", a.code, b.code);
            Ok(CheckedExpr::Number(IntExpr::read(code, Int::INT, (-1, 1))))
        }
        ("system", [command]) => {
            let command = checker.text(command)?;
            if !scope.system {
                let why = "system() runs commands as perilune's user; allow it with --unsafe";
                return Err(Fault::new(at, why));
            }
            let code = format!("system({})", command.code);
            Ok(CheckedExpr::Number(IntExpr::read(code, Int::INT, bounds(Int::INT))))
        }
        _ if is_function(name) => {
            let given = arguments.len();
            let why = format!("wrong number of arguments, {given}; write {}", usage(name));
            Err(Fault::new(at, why))
        }
        _ => {
            let names = FUNCTIONS.map(|(name, _)| name);
            let guess = did_you_mean(&nearest(name, names.into_iter()));
            let all = names.join(", ");
            let list = if guess.is_empty() { format!("; there are {all}") } else { guess };
            Err(Fault::new(at, format!("there is no function '{name}'{list}")))
        }
    }
}

/// Converts the bytes to network order, or back. `code` swaps the bytes of `@`; it is not used on a
/// big-endian machine.
fn swapped(value: IntExpr, code: &str) -> IntExpr {
    if cfg!(target_endian = "big") {
        return value;
    }
    if let Some(known) = value.known() {
        let bits = u32::from(value.ty.bits);
        let swapped = (known as u64).swap_bytes() >> (64 - bits);
        return IntExpr::constant(swapped.into(), value.ty);
    }
    IntExpr::read(code.replace('@', &value.bits()), value.ty, bounds(value.ty)).summed()
}
