//! Operands of expressions: integers and pointers with their types, made of fields and sizes.

use super::value::{IntValue, PointerTarget};
use crate::base::text::fault::Fault;
use crate::decode::c::{ExprNode, Int, Pointee, Type};
use crate::decode::format::{Field, FieldKind};

/// The result of an expression.
#[derive(Clone, Debug)]
pub(super) enum PrintOperand {
    Int(IntValue, Int),
    Pointer(PointerTarget, Pointee),
}

/// Returns an operand as an integer; a pointer is its address.
///
/// # Errors
/// The operand points into the record.
pub(super) fn number(node: &ExprNode, operand: PrintOperand) -> Result<(IntValue, Int), Fault> {
    match operand {
        PrintOperand::Int(value, int) => Ok((value, int)),
        PrintOperand::Pointer(PointerTarget::Address(value), _) => Ok((value, Int::ULONG)),
        PrintOperand::Pointer(..) => {
            Err(Fault::new(node.at, "a number is needed here, not a part of the record"))
        }
    }
}

/// Returns a field in an expression: its value, its array, or the pointer in it.
pub(super) fn field_operand(field: &Field) -> PrintOperand {
    let &Field { offset, size, signed, ref type_text, .. } = field;
    let int = |bytes: usize| Int { bits: 8 * bytes as u8, signed };
    let region = PointerTarget::Field { offset, size };
    match field.kind {
        FieldKind::Int => PrintOperand::Int(IntValue::Load(offset, int(size)), int(size)),
        FieldKind::Pointer => {
            let value = IntValue::Load(offset, Int { bits: 8 * size as u8, signed: false });
            let is_text = type_text.split([' ', '*']).any(|word| word == "char");
            let to = match is_text {
                true => Pointee::Int(Int::CHAR),
                false => Pointee::Other("void".to_owned()),
            };
            PrintOperand::Pointer(PointerTarget::Address(value), to)
        }
        FieldKind::Chars => PrintOperand::Pointer(region, Pointee::Int(Int { bits: 8, signed })),
        FieldKind::Array(width) => {
            PrintOperand::Pointer(region, Pointee::Int(int(usize::from(width))))
        }
        // Has no print format.
        FieldKind::Float => PrintOperand::Pointer(region, Pointee::Other(type_text.clone())),
        FieldKind::Bytes if ["u8", "char", "bool"].iter().any(|t| type_text.contains(t)) => {
            PrintOperand::Pointer(region, Pointee::Int(Int { bits: 8, signed }))
        }
        FieldKind::Bytes => PrintOperand::Pointer(region, Pointee::Other(type_text.clone())),
        FieldKind::DataLoc(_) | FieldKind::RelLoc(_) => {
            PrintOperand::Int(IntValue::Load(offset, Int::UINT), Int::UINT)
        }
    }
}

/// Returns the size of a type, as `sizeof` does.
pub(super) fn size_of(node: &ExprNode, ty: &Type) -> Result<PrintOperand, Fault> {
    let size = match ty {
        Type::Int(int) => int.size(),
        Type::Pointer(_) => 8,
        Type::Other(name) => {
            return Err(Fault::new(node.at, format!("the size of `{name}` is unknown")));
        }
    };
    Ok(PrintOperand::Int(IntValue::Const(size), Int::ULONG))
}
