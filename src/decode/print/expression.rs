//! Compiles expressions of a format to values and places, typed as in C, with constant folding.

use super::arithmetic::unary;
use super::kernel_data::KernelData;
use super::operand::{PrintOperand, field_operand, number, size_of};
use super::value::{IntValue, PointerTarget, convert, not, operate};
use crate::base::text::fault::Fault;
use crate::decode::c::{self, Binary, ExprKind, ExprNode, Int, Pointee, Type, Unary};
use crate::decode::format::Format;

/// Maximum number of expressions in a program, after substitution of locals: formats have a few
/// thousand at most.
const NODES_MAX: usize = 1 << 16;

/// Size of `struct page`, needed for pointer arithmetic. No file states it; 64 is the size on all
/// common 64-bit kernels.
const PAGE_STRUCT: u64 = 64;

pub(super) struct ExpressionCompiler<'a> {
    pub(super) format: &'a Format,
    pub(super) kernel: &'a dyn KernelData,
    /// Variables of statement expressions, and their number of nodes.
    locals: Vec<(String, PrintOperand, usize)>,
    nodes: usize,
    /// The kernel variable that made the last expression fail, if any.
    pub(super) unknown: Option<&'static str>,
}

/// The base of the array of pages: no file states it, because kernel addresses are randomized.
const VMEMMAP_BASE: &str = "vmemmap_base";

impl<'a> ExpressionCompiler<'a> {
    /// Returns a compiler for the expressions of one format.
    pub(super) fn new(format: &'a Format, kernel: &'a dyn KernelData) -> ExpressionCompiler<'a> {
        ExpressionCompiler { format, kernel, locals: Vec::new(), nodes: 0, unknown: None }
    }
}

impl ExpressionCompiler<'_> {
    /// Compiles an expression and converts it to an integer type.
    pub(super) fn converted(&mut self, node: &ExprNode, to: Int) -> Result<IntValue, Fault> {
        let (value, from) = self.int(node)?;
        Ok(convert(value, from, to))
    }

    /// Compiles an expression as an integer; a pointer is its address.
    pub(super) fn int(&mut self, node: &ExprNode) -> Result<(IntValue, Int), Fault> {
        number(node, self.operand(node)?)
    }

    /// Compiles an expression as a condition: 0 is false.
    fn truth(&mut self, node: &ExprNode) -> Result<IntValue, Fault> {
        Ok(match self.operand(node)? {
            PrintOperand::Int(value, _) => value,
            PrintOperand::Pointer(place, _) => place.truth(),
        })
    }

    /// Compiles an expression with its own type.
    pub(super) fn operand(&mut self, node: &ExprNode) -> Result<PrintOperand, Fault> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(Fault::new(node.at, "the print format is too long"));
        }
        let fault = |why: &str| Err(Fault::new(node.at, why));
        match &node.kind {
            ExprKind::Number(value, int) => Ok(PrintOperand::Int(IntValue::Const(*value), *int)),
            ExprKind::Text(text) => {
                let place = PointerTarget::Literal(text.as_slice().into());
                Ok(PrintOperand::Pointer(place, Pointee::Int(Int::CHAR)))
            }
            ExprKind::Name(name) => self.name(node, name),
            ExprKind::Unary(Unary::Address, a) => self.address(node, a),
            ExprKind::Unary(Unary::Deref, a) => {
                let pointer = self.operand(a)?;
                self.element(node, pointer, IntValue::Const(0))
            }
            ExprKind::Unary(Unary::Not, a) => Ok(PrintOperand::Int(not(self.truth(a)?), Int::INT)),
            ExprKind::Unary(op, a) => {
                let (value, int) = self.int(a)?;
                let to = int.promoted();
                let value = match convert(value, int, to) {
                    IntValue::Const(value) => IntValue::Const(unary(*op, to, value)),
                    value => IntValue::Unary(*op, to, Box::new(value)),
                };
                Ok(PrintOperand::Int(value, to))
            }
            ExprKind::Binary(op, a, b) => self.binary(node, *op, a, b),
            ExprKind::Choice(condition, Some(then), other) => self.choice(condition, then, other),
            ExprKind::Choice(condition, None, other) => self.choice(condition, condition, other),
            ExprKind::Cast(ty, a) => self.cast(node, ty, a),
            // The parser does not know locals and takes `(name)` as a type.
            ExprKind::SizeOfType(Type::Other(name)) if self.locals.iter().any(|l| l.0 == *name) => {
                let local = ExprNode { at: node.at, kind: ExprKind::Name(name.clone()) };
                self.size_of_value(node, &local)
            }
            ExprKind::SizeOfType(ty) => size_of(node, ty),
            ExprKind::SizeOf(a) => self.size_of_value(node, a),
            ExprKind::Call(name, arguments) => self.call(node, name, arguments),
            ExprKind::Index(a, i) => {
                let pointer = self.operand(a)?;
                let index = self.converted(i, Int::LONG)?;
                self.element(node, pointer, index)
            }
            ExprKind::Member(record, name) if is_record(record) => self.member(node, name),
            ExprKind::Member(_, name) => {
                fault(&format!("the offset of member `{name}` is unknown"))
            }
            ExprKind::Block(locals, value) => self.block(locals, value),
            ExprKind::Statements(_) => fault("a statement expression with more than declarations"),
            ExprKind::Braces(_) => fault("braces are not a value"),
        }
    }

    fn name(&mut self, node: &ExprNode, name: &str) -> Result<PrintOperand, Fault> {
        if let Some((_, operand, cost)) = self.locals.iter().rev().find(|local| local.0 == name) {
            self.nodes += cost;
            return Ok(operand.clone());
        }
        match name {
            "REC" => {
                let place = PointerTarget::Field { offset: 0, size: self.format.fixed_size };
                Ok(PrintOperand::Pointer(place, Pointee::Other("struct".to_owned())))
            }
            "NULL" => Ok(PrintOperand::Pointer(
                PointerTarget::Address(IntValue::Const(0)),
                Pointee::Other("void".to_owned()),
            )),
            "true" => Ok(PrintOperand::Int(IntValue::Const(1), Int::INT)),
            VMEMMAP_BASE => {
                self.unknown = Some(VMEMMAP_BASE);
                Err(Fault::new(node.at, format!("only the kernel knows `{name}`")))
            }
            "false" => Ok(PrintOperand::Int(IntValue::Const(0), Int::ULONG)),
            "HZ" => Ok(PrintOperand::Int(IntValue::Const(self.kernel.hz().into()), Int::INT)),
            _ => match self.kernel.enumerator(name) {
                Some(value) => {
                    let int = if i32::try_from(value).is_ok() { Int::INT } else { Int::LONG };
                    Ok(PrintOperand::Int(IntValue::Const(value.cast_unsigned()), int))
                }
                None => Err(Fault::new(node.at, format!("only the kernel knows `{name}`"))),
            },
        }
    }

    fn member(&mut self, node: &ExprNode, name: &str) -> Result<PrintOperand, Fault> {
        if let Some(field) = self.format.field(name) {
            return Ok(field_operand(field));
        }
        let located = name.strip_prefix("__data_loc_").or_else(|| name.strip_prefix("__rel_loc_"));
        match located.and_then(|name| self.format.field(name)) {
            Some(field) => {
                Ok(PrintOperand::Int(IntValue::Load(field.offset, Int::UINT), Int::UINT))
            }
            None => Err(Fault::new(node.at, format!("the event has no field `{name}`"))),
        }
    }

    fn address(&mut self, node: &ExprNode, of: &ExprNode) -> Result<PrintOperand, Fault> {
        let pointee = |int| Pointee::Int(int);
        Ok(match self.operand(of)? {
            PrintOperand::Int(IntValue::Load(offset, int), _) => {
                let place = PointerTarget::Field { offset, size: int.size() as usize };
                PrintOperand::Pointer(place, pointee(int))
            }
            PrintOperand::Int(IntValue::LoadAt(place, int), _) => {
                PrintOperand::Pointer(*place, pointee(int))
            }
            PrintOperand::Pointer(PointerTarget::Address(IntValue::Load(offset, int)), _) => {
                let place = PointerTarget::Field { offset, size: int.size() as usize };
                PrintOperand::Pointer(place, Pointee::Other("void *".to_owned()))
            }
            // The address of an array is that of its first element.
            PrintOperand::Pointer(place @ PointerTarget::Field { .. }, to) => {
                PrintOperand::Pointer(place, to)
            }
            _ => return Err(Fault::new(node.at, "this has no address in the record")),
        })
    }

    /// `pointer[index]`
    fn element(
        &self,
        node: &ExprNode,
        pointer: PrintOperand,
        index: IntValue,
    ) -> Result<PrintOperand, Fault> {
        let PrintOperand::Pointer(place, Pointee::Int(int)) = pointer else {
            return Err(Fault::new(node.at, "the type that this points to is unknown"));
        };
        if !place.is_in_record() {
            let why = "the kernel memory at this address is not in the record";
            return Err(Fault::new(node.at, why));
        }
        let by = operate(Binary::Mul, Int::LONG, index, IntValue::Const(int.size()));
        let value = match (place, by) {
            (PointerTarget::Field { offset, size }, IntValue::Const(by))
                if by.saturating_add(int.size()) <= size as u64 =>
            {
                IntValue::Load(offset + by as usize, int)
            }
            (place, IntValue::Const(0)) => IntValue::LoadAt(Box::new(place), int),
            (place, by) => {
                IntValue::LoadAt(Box::new(PointerTarget::Behind(Box::new((place, by)))), int)
            }
        };
        Ok(PrintOperand::Int(value, int))
    }

    fn binary(
        &mut self,
        node: &ExprNode,
        op: Binary,
        a: &ExprNode,
        b: &ExprNode,
    ) -> Result<PrintOperand, Fault> {
        if let Binary::AndAnd | Binary::OrOr = op {
            let (a, b) = (self.truth(a)?, self.truth(b)?);
            return Ok(PrintOperand::Int(operate(op, Int::INT, a, b), Int::INT));
        }
        let (a, b) = (self.operand(a)?, self.operand(b)?);
        let (a, b) = match (a, b, op) {
            (
                PrintOperand::Pointer(place, to),
                PrintOperand::Int(by, int),
                Binary::Add | Binary::Sub,
            )
            | (PrintOperand::Int(by, int), PrintOperand::Pointer(place, to), Binary::Add) => {
                return self.behind(node, op, (place, to), convert(by, int, Int::LONG));
            }
            (a, b, _) => (number(node, a)?, number(node, b)?),
        };
        let shifts = matches!(op, Binary::Shl | Binary::Shr);
        let int = if shifts { a.1.promoted() } else { Int::usual(a.1, b.1) };
        let right = if shifts { b.1 } else { int };
        let value = operate(op, int, convert(a.0, a.1, int), convert(b.0, b.1, right));
        let compares = (Binary::Lt..=Binary::Glob).contains(&op);
        Ok(PrintOperand::Int(value, if compares { Int::INT } else { int }))
    }

    /// `pointer + by`, `pointer - by`
    fn behind(
        &self,
        node: &ExprNode,
        op: Binary,
        (place, to): (PointerTarget, Pointee),
        by: IntValue,
    ) -> Result<PrintOperand, Fault> {
        let size = match &to {
            Pointee::Int(int) => int.size(),
            Pointee::Other(name) if name == "void" => 1,
            Pointee::Other(name) if name == "struct page" => PAGE_STRUCT,
            Pointee::Other(name) => {
                return Err(Fault::new(node.at, format!("the size of `{name}` is unknown")));
            }
        };
        let by = operate(Binary::Mul, Int::LONG, by, IntValue::Const(size));
        let place = match place {
            PointerTarget::Address(value) => {
                PointerTarget::Address(operate(op, Int::ULONG, value, by))
            }
            place => {
                let by = operate(op, Int::LONG, IntValue::Const(0), by);
                PointerTarget::Behind(Box::new((place, by)))
            }
        };
        Ok(PrintOperand::Pointer(place, to))
    }

    fn choice(
        &mut self,
        condition: &ExprNode,
        then: &ExprNode,
        other: &ExprNode,
    ) -> Result<PrintOperand, Fault> {
        let condition_at = condition.at;
        let condition = self.truth(condition)?;
        let (then, other) = match (&condition, self.operand(then), self.operand(other)) {
            (_, Ok(then), Ok(other)) => (then, other),
            // The branch that is never taken need not be valid.
            (IntValue::Const(1..), Ok(chosen), _) | (IntValue::Const(0), _, Ok(chosen)) => {
                return Ok(chosen);
            }
            (_, Err(fault), _) | (_, _, Err(fault)) => return Err(fault),
        };
        Ok(match (then, other) {
            (PrintOperand::Int(a, from), PrintOperand::Int(b, other)) => {
                let int = Int::usual(from, other);
                let (a, b) = (convert(a, from, int), convert(b, other, int));
                let value = match condition {
                    IntValue::Const(0) => b,
                    IntValue::Const(_) => a,
                    condition => IntValue::Choice(Box::new((condition, a, b))),
                };
                PrintOperand::Int(value, int)
            }
            (PrintOperand::Pointer(a, to), PrintOperand::Pointer(b, other)) => {
                let is_null = matches!(a, PointerTarget::Address(IntValue::Const(0)));
                let to = if is_null { other } else { to };
                let place = match condition {
                    IntValue::Const(0) => b,
                    IntValue::Const(_) => a,
                    condition => PointerTarget::Choice(Box::new((condition, a, b))),
                };
                PrintOperand::Pointer(place, to)
            }
            _ => {
                return Err(Fault::new(
                    condition_at,
                    "`?:` has a number and a pointer as its values",
                ));
            }
        })
    }

    fn cast(&mut self, node: &ExprNode, ty: &Type, of: &ExprNode) -> Result<PrintOperand, Fault> {
        match ty {
            Type::Int(int) => Ok(PrintOperand::Int(self.converted(of, *int)?, *int)),
            Type::Pointer(to) => Ok(match self.operand(of)? {
                PrintOperand::Pointer(place, _) => PrintOperand::Pointer(place, to.clone()),
                PrintOperand::Int(value, int) => PrintOperand::Pointer(
                    PointerTarget::Address(convert(value, int, Int::ULONG)),
                    to.clone(),
                ),
            }),
            Type::Other(name) => Err(Fault::new(node.at, format!("the type `{name}` is unknown"))),
        }
    }

    fn size_of_value(&mut self, node: &ExprNode, of: &ExprNode) -> Result<PrintOperand, Fault> {
        let size = match &of.kind {
            ExprKind::Member(record, name) if is_record(record) => {
                self.format.field(name).map(|field| field.size as u64)
            }
            ExprKind::Text(text) => Some(text.len() as u64 + 1),
            _ => match self.operand(of)? {
                PrintOperand::Int(_, int) => Some(int.size()),
                PrintOperand::Pointer(..) => Some(8),
            },
        };
        let size = size.ok_or_else(|| Fault::new(node.at, "the size of this is unknown"))?;
        Ok(PrintOperand::Int(IntValue::Const(size), Int::ULONG))
    }

    fn block(&mut self, locals: &[c::Local], value: &ExprNode) -> Result<PrintOperand, Fault> {
        let outer = self.locals.len();
        for local in locals {
            let before = self.nodes;
            let operand = match &local.ty {
                Some(ty) => self.cast(&local.value, ty, &local.value)?,
                None => self.operand(&local.value)?,
            };
            self.locals.push((local.name.clone(), operand, self.nodes - before));
        }
        let result = self.operand(value);
        self.locals.truncate(outer);
        result
    }
}

fn is_record(node: &ExprNode) -> bool {
    matches!(&node.kind, ExprKind::Name(name) if name == "REC")
}
