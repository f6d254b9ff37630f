//! Functions that formats call.

use super::arithmetic::swap;
use super::expression::ExpressionCompiler;
use super::operand::PrintOperand;
use super::value::{
    Call, Dump, FlagNames, IntValue, NamedValue, PointerTarget, SymbolicNames, convert, operate,
};
use crate::base::text::fault::Fault;
use crate::decode::c::{Binary, ExprKind, ExprNode, Int, Pointee};
use crate::decode::format::{Element, FAULT, Field, FieldKind};

const U16: Int = Int { bits: 16, signed: false };

impl ExpressionCompiler<'_> {
    /// Compiles a call; faults are reported at `node`.
    pub(super) fn call(
        &mut self,
        node: &ExprNode,
        name: &str,
        arguments: &[ExprNode],
    ) -> Result<PrintOperand, Fault> {
        match (name, arguments) {
            ("__print_symbolic" | "__print_symbolic_u64", [value, names @ ..]) => {
                let value = self.converted(value, Int::ULONG)?;
                Ok(call(Call::Symbolic(value, SymbolicNames::new(self.names(names)?))))
            }
            ("__print_flags" | "__print_flags_u64", [value, delimiter, names @ ..]) => {
                let value = self.converted(value, Int::ULONG)?;
                let delimiter = self.literal(delimiter)?;
                let names = self.names(names)?.into();
                Ok(call(Call::Flags(value, FlagNames { delimiter, names })))
            }
            ("__print_hex" | "__print_hex_str", [at, len]) => {
                let (at, len) = (self.region(at)?, self.converted(len, Int::INT)?);
                Ok(call(Call::Hex { at, len, joined: name == "__print_hex_str" }))
            }
            ("__print_hex_dump", [prefix, kind, row, group, at, len, text]) => {
                let row = self.constant(row)? as usize;
                let group = self.constant(group)? as usize;
                let dump = Dump {
                    prefix: self.literal(prefix)?,
                    // DUMP_PREFIX_ADDRESS would print the position in the trace buffer.
                    offsets: self.constant(kind)? != 0,
                    row: if row == 32 { 32 } else { 16 },
                    group: if matches!(group, 2 | 4 | 8) { group } else { 1 },
                    at: self.region(at)?,
                    len: self.converted(len, Int::LONG)?,
                    text: self.constant(text)? != 0,
                };
                Ok(call(Call::Dump(dump)))
            }
            ("__print_array", [at, count, size]) => {
                let count = self.converted(count, Int::INT)?;
                let int = self.element_of_size(size)?;
                Ok(call(Call::Array { at: self.region(at)?, count, int }))
            }
            ("__print_dynamic_array", [field, size]) => {
                let int = self.element_of_size(size)?;
                let field = self.dynamic_field(field)?;
                let size = IntValue::Const(int.size());
                let count = operate(Binary::Div, Int::UINT, length(field), size);
                Ok(call(Call::Array { at: region(field), count, int }))
            }
            ("__get_str" | "__get_rel_str", [field]) => {
                let field = self.dynamic_field(field)?;
                let place = match field.kind {
                    FieldKind::DataLoc(Element::Fetched) => {
                        let fault = PointerTarget::Literal(FAULT.as_bytes().into());
                        PointerTarget::Choice(Box::new((length(field), region(field), fault)))
                    }
                    _ => region(field),
                };
                Ok(PrintOperand::Pointer(place, Pointee::Int(Int::CHAR)))
            }
            (
                "__get_dynamic_array"
                | "__get_rel_dynamic_array"
                | "__get_sockaddr"
                | "__get_rel_sockaddr",
                [field],
            ) => {
                let place = region(self.dynamic_field(field)?);
                Ok(PrintOperand::Pointer(place, Pointee::Other("void".to_owned())))
            }
            ("__get_dynamic_array_len" | "__get_rel_dynamic_array_len", [field]) => {
                Ok(PrintOperand::Int(length(self.dynamic_field(field)?), Int::UINT))
            }
            (
                "__get_bitmask" | "__get_rel_bitmask" | "__get_cpumask" | "__get_rel_cpumask",
                [field],
            ) => Ok(call(Call::Bitmask(region(self.dynamic_field(field)?)))),
            _ => self.computing_call(node, name, arguments),
        }
    }

    /// Compiles a call whose result is computed from its arguments alone.
    fn computing_call(
        &mut self,
        node: &ExprNode,
        name: &str,
        arguments: &[ExprNode],
    ) -> Result<PrintOperand, Fault> {
        let only_in_kernel =
            || Err(Fault::new(node.at, format!("the function `{name}` exists only in the kernel")));
        match (name, arguments) {
            ("__print_ns_to_secs", [value]) => self.in_seconds(Binary::Div, value),
            ("__print_ns_without_secs", [value]) => self.in_seconds(Binary::Rem, value),
            ("jiffies_to_msecs" | "jiffies_to_usecs", [value]) => {
                let parts = if name == "jiffies_to_msecs" { 1000 } else { 1_000_000 };
                self.jiffies(value, parts)
            }
            ("mc_event_error_type", [value]) => {
                let names = ["Corrected", "Uncorrected", "Deferred", "Fatal"];
                let names = names.iter().zip(0u64..);
                let names = names.map(|(name, value)| (value, name.as_bytes().into()));
                let value = self.converted(value, Int::ULONG)?;
                Ok(call(Call::Symbolic(value, SymbolicNames::new(names.collect()))))
            }
            ("__builtin_expect", [value, _]) | ("likely" | "unlikely", [value]) => {
                Ok(PrintOperand::Int(self.converted(value, Int::LONG)?, Int::LONG))
            }
            ("__builtin_constant_p", [value]) => {
                let constant =
                    matches!(self.operand(value), Ok(PrintOperand::Int(IntValue::Const(_), _)));
                Ok(PrintOperand::Int(IntValue::Const(constant.into()), Int::INT))
            }
            ("__builtin_choose_expr", [which, a, b]) => {
                let chosen = if self.constant(which)? != 0 { a } else { b };
                self.operand(chosen)
            }
            (_, [value]) => match swapped_width(name) {
                Some(int) => Ok(PrintOperand::Int(self.swapped(value, int)?, int)),
                None => only_in_kernel(),
            },
            _ => only_in_kernel(),
        }
    }

    /// Compiles `{ value, "name" }, …`; an entry without a name ends the table, as in old kernels.
    fn names(&mut self, nodes: &[ExprNode]) -> Result<Vec<NamedValue>, Fault> {
        let mut names = Vec::new();
        for node in nodes {
            let entry = match &node.kind {
                ExprKind::Braces(entry) => entry.as_slice(),
                _ => return Err(Fault::new(node.at, "`{ value, \"name\" }` is needed here")),
            };
            let [value, name] = entry else {
                if entry.is_empty() {
                    break;
                }
                return Err(Fault::new(node.at, "`{ value, \"name\" }` is needed here"));
            };
            let PrintOperand::Pointer(PointerTarget::Literal(name), _) = self.operand(name)? else {
                break;
            };
            names.push((self.constant(value)?, name));
        }
        Ok(names)
    }

    /// Compiles an expression whose value does not depend on the event.
    fn constant(&mut self, node: &ExprNode) -> Result<u64, Fault> {
        match self.converted(node, Int::ULONG)? {
            IntValue::Const(value) => Ok(value),
            _ => Err(Fault::new(node.at, "a constant is needed here")),
        }
    }

    fn literal(&mut self, node: &ExprNode) -> Result<Box<[u8]>, Fault> {
        match self.operand(node)? {
            PrintOperand::Pointer(PointerTarget::Literal(text), _) => Ok(text),
            PrintOperand::Pointer(PointerTarget::Address(IntValue::Const(0)), _)
            | PrintOperand::Int(IntValue::Const(0), _) => Ok(Box::default()),
            _ => Err(Fault::new(node.at, "a string is needed here")),
        }
    }

    /// Compiles a pointer into the record.
    fn region(&mut self, node: &ExprNode) -> Result<PointerTarget, Fault> {
        match self.operand(node)? {
            PrintOperand::Pointer(place, _) if place.is_in_record() => Ok(place),
            _ => Err(Fault::new(node.at, "a part of the record is needed here")),
        }
    }

    fn element_of_size(&mut self, node: &ExprNode) -> Result<Int, Fault> {
        match self.constant(node)? {
            size @ (1 | 2 | 4 | 8) => Ok(Int { bits: 8 * size as u8, signed: false }),
            _ => Err(Fault::new(node.at, "elements have 1, 2, 4 or 8 bytes")),
        }
    }

    /// Returns the dynamic field that is the argument of a function.
    fn dynamic_field(&self, node: &ExprNode) -> Result<&Field, Fault> {
        let ExprKind::Name(name) = &node.kind else {
            return Err(Fault::new(node.at, "the name of a field is needed here"));
        };
        let field = self.format.field(name);
        field
            .filter(|field| matches!(field.kind, FieldKind::DataLoc(_) | FieldKind::RelLoc(_)))
            .ok_or_else(|| Fault::new(node.at, format!("the event has no dynamic field `{name}`")))
    }

    fn in_seconds(&mut self, op: Binary, value: &ExprNode) -> Result<PrintOperand, Fault> {
        let value = self.converted(value, Int::ULONG)?;
        let int = if op == Binary::Div { Int::ULONG } else { Int::UINT };
        let part = operate(op, Int::ULONG, value, IntValue::Const(1_000_000_000));
        Ok(PrintOperand::Int(convert(part, Int::ULONG, int), int))
    }

    fn jiffies(&mut self, value: &ExprNode, parts: u64) -> Result<PrintOperand, Fault> {
        let hz = u64::from(self.kernel.hz());
        if hz == 0 {
            return Err(Fault::new(value.at, "the kernel's tick rate (HZ) is unknown"));
        }
        let value = self.converted(value, Int::ULONG)?;
        // Most kernels have whole milliseconds per tick: multiply only, which cannot overflow
        // before the result does.
        let scaled = match parts % hz {
            0 => operate(Binary::Mul, Int::ULONG, value, IntValue::Const(parts / hz)),
            _ => {
                let all = operate(Binary::Mul, Int::ULONG, value, IntValue::Const(parts));
                operate(Binary::Div, Int::ULONG, all, IntValue::Const(hz))
            }
        };
        Ok(PrintOperand::Int(convert(scaled, Int::ULONG, Int::UINT), Int::UINT))
    }

    fn swapped(&mut self, node: &ExprNode, int: Int) -> Result<IntValue, Fault> {
        let value = self.converted(node, int)?;
        Ok(match value {
            IntValue::Const(value) => IntValue::Const(swap(value, int)),
            value => IntValue::Swap(int, Box::new(value)),
        })
    }
}

/// Returns the result of a printing function.
fn call(call: Call) -> PrintOperand {
    PrintOperand::Pointer(PointerTarget::Call(Box::new(call)), Pointee::Int(Int::CHAR))
}

/// Returns the place of a dynamic field's bytes.
fn region(field: &Field) -> PointerTarget {
    let base = match field.kind {
        FieldKind::RelLoc(_) => field.offset + field.size,
        _ => 0,
    };
    PointerTarget::Dynamic { offset: field.offset, base }
}

/// Returns the length of a dynamic field in bytes.
fn length(field: &Field) -> IntValue {
    operate(Binary::Shr, Int::UINT, IntValue::Load(field.offset, Int::UINT), IntValue::Const(16))
}

/// Returns the width of a function that swaps bytes on this machine.
fn swapped_width(name: &str) -> Option<Int> {
    let name = name.trim_start_matches('_');
    let little = cfg!(target_endian = "little");
    let swaps = |digits: &str| match digits {
        "16" => Some(U16),
        "32" => Some(Int::UINT),
        "64" => Some(Int::ULONG),
        _ => None,
    };
    match name {
        "ntohs" | "htons" => return little.then_some(U16),
        "ntohl" | "htonl" => return little.then_some(Int::UINT),
        _ => {}
    }
    if let Some(digits) = name.strip_prefix("builtin_bswap").or_else(|| name.strip_prefix("swab")) {
        return swaps(digits);
    }
    if let Some(digits) = name.strip_prefix("fswab") {
        return swaps(digits);
    }
    let digits = name.strip_prefix("be").and_then(|rest| rest.split_once('_').map(|(d, _)| d));
    let digits = digits.or_else(|| name.strip_prefix("cpu_to_be"));
    digits.filter(|_| little).and_then(swaps)
}
