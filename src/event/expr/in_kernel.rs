//! Lowers an expression to the form that a program in the kernel can evaluate.
//!
//! The expression was checked before ([`super::Expr`]), so what does not fit here is an expression
//! for user space, and not a mistake. Types and conversions are C's, as in `super::arithmetic`;
//! the values are the same, bit by bit.

mod texts;

use super::call;
use crate::bpf::assembler::{AccessSize, JumpIf};
use crate::bpf::integer::{IntegerNode, IntegerOperator, IntegerWidth};
use crate::bpf::key::CgroupText;
use crate::bpf::record_text::RecordText;
use crate::decode::c::{self, Binary, ExprKind as C, ExprNode, Int, Pointee, Type, Unary};
use crate::decode::format::{FieldKind, Format};
use crate::event::ffi_types;
use crate::sys::cgroup::CgroupHierarchy;

pub use texts::location;

/// Size of the common fields in bytes: a program finds a pointer in their place.
const COMMON_BYTES: usize = 8;

/// An expression for a program in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelExpr {
    /// A number, and its type.
    Integer(IntegerNode, IntegerWidth),
    /// Text.
    Text(RecordText),
    /// Text for the cgroup of the task.
    Cgroup(CgroupText),
    /// The call chain.
    Chain,
}

/// A part of an expression that a program in the kernel cannot evaluate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OnlyInUserSpace(String);

/// A value and its type.
type TypedNode = (IntegerNode, Int);

impl KernelExpr {
    /// Lowers an expression over an event's fields.
    ///
    /// # Errors
    /// A part that only user space can evaluate, or an invalid expression.
    pub fn parse(text: &str, format: &Format) -> Result<KernelExpr, OnlyInUserSpace> {
        let tree = c::parse(text).map_err(|fault| OnlyInUserSpace(fault.message))?;
        let lowering = Lowering { format };
        if let Some(text) = lowering.cgroup_text(&tree) {
            check_cgroup_version()?;
            return Ok(KernelExpr::Cgroup(text));
        }
        match lowering.text(&tree) {
            _ if matches!(&tree.kind, C::Name(name) if name == "_stack") => Ok(KernelExpr::Chain),
            Some(TextOperand::Record(text)) => Ok(KernelExpr::Text(text?)),
            Some(TextOperand::Literal(_)) => only("constant text"),
            None => {
                let (node, ty) = lowering.number(&tree)?;
                Ok(KernelExpr::Integer(node, width(ty)))
            }
        }
    }
}

fn width(ty: Int) -> IntegerWidth {
    IntegerWidth { bits: ty.bits, signed: ty.signed }
}

fn only<T>(what: impl Into<String>) -> Result<T, OnlyInUserSpace> {
    Err(OnlyInUserSpace(what.into()))
}

/// Text in an expression.
enum TextOperand {
    Literal(Vec<u8>),
    Record(Result<RecordText, OnlyInUserSpace>),
}

struct Lowering<'a> {
    format: &'a Format,
}

impl Lowering<'_> {
    fn number(&self, node: &ExprNode) -> Result<TypedNode, OnlyInUserSpace> {
        Ok(match &node.kind {
            C::Number(value, ty) => (IntegerNode::Constant(ty.wrap(*value)), *ty),
            C::Name(name) => return self.name(name),
            C::Unary(op, a) => return self.unary(*op, a),
            C::Binary(op, a, b) => return self.binary(*op, a, b),
            C::Choice(condition, Some(a), b) => {
                let (condition, a, b) =
                    (self.number(condition)?.0, self.number(a)?, self.number(b)?);
                let ty = Int::usual(a.1, b.1);
                let all = [condition, convert(a, ty), convert(b, ty)];
                (IntegerNode::Choose(Box::new(all)), ty)
            }
            C::Cast(Type::Int(ty), a) => (convert(self.number(a)?, *ty), *ty),
            C::Cast(Type::Pointer(Pointee::Other(of)), a) if of == "void" => {
                (convert(self.number(a)?, Int::ULONG), Int::ULONG)
            }
            C::SizeOfType(Type::Other(name)) if self.format.field(name).is_some() => {
                size(self.size_of_field(name)?)
            }
            C::SizeOfType(Type::Int(ty)) => size(ty.size()),
            C::SizeOfType(Type::Pointer(_)) => size(8),
            C::SizeOf(a) => match &a.kind {
                C::Name(name) if self.format.field(name).is_some() => {
                    size(self.size_of_field(name)?)
                }
                C::Text(bytes) => size(bytes.len() as u64 + 1),
                _ => size(self.number(a)?.1.size()),
            },
            C::Call(name, arguments) => return self.call(name, arguments),
            C::Index(array, index) => return self.element(array, index),
            _ => return only("this expression"),
        })
    }

    fn unary(&self, op: Unary, a: &ExprNode) -> Result<TypedNode, OnlyInUserSpace> {
        let a = self.number(a)?;
        let ty = a.1.promoted();
        Ok(match op {
            Unary::Plus => (convert(a, ty), ty),
            Unary::Minus => {
                let zero = (IntegerNode::Constant(0), ty);
                operation(IntegerOperator::Sub, zero, a)
            }
            Unary::Complement => {
                let ones = (IntegerNode::Constant(ty.wrap(u64::MAX)), ty);
                operation(IntegerOperator::Xor, a, ones)
            }
            Unary::Not => (IntegerNode::Not(Box::new(a.0)), Int::INT),
            Unary::Deref | Unary::Address => return only("an access to memory"),
        })
    }

    fn binary(&self, op: Binary, a: &ExprNode, b: &ExprNode) -> Result<TypedNode, OnlyInUserSpace> {
        use IntegerOperator as O;
        let operator = match op {
            Binary::Mul => O::Mul,
            Binary::Div => O::Div,
            Binary::Rem => O::Rem,
            Binary::Add => O::Add,
            Binary::Sub => O::Sub,
            Binary::And => O::And,
            Binary::Or => O::Or,
            Binary::Xor => O::Xor,
            Binary::Shl | Binary::Shr => {
                let (a, b) = (self.number(a)?, self.number(b)?);
                let (ty, of_count) = (a.1.promoted(), b.1.promoted());
                let op = if op == Binary::Shl { O::ShiftLeft } else { O::ShiftRight };
                let (a, b) = (convert(a, ty), convert(b, of_count));
                return Ok((IntegerNode::binary(op, width(ty), a, b), ty));
            }
            Binary::Eq | Binary::Ne if self.text(a).is_some() || self.text(b).is_some() => {
                let equal = self.same_text(a, b)?;
                let node = if op == Binary::Ne { not(equal) } else { equal };
                return Ok((node, Int::INT));
            }
            Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge | Binary::Eq | Binary::Ne => {
                let (a, b) = (self.number(a)?, self.number(b)?);
                let ty = Int::usual(a.1, b.1);
                let sides = Box::new([convert(a, ty), convert(b, ty)]);
                let condition = condition(op, ty.signed);
                return Ok((IntegerNode::Compare { condition, sides }, Int::INT));
            }
            Binary::AndAnd => {
                return self.chain(op, a, b).map(|all| (IntegerNode::All(all), Int::INT));
            }
            Binary::OrOr => {
                return self.chain(op, a, b).map(|all| (IntegerNode::Any(all), Int::INT));
            }
            Binary::Glob => return only("a glob"),
        };
        Ok(operation(operator, self.number(a)?, self.number(b)?))
    }

    /// Lowers the links of `a && b && …`, or of `||`.
    fn chain(
        &self,
        op: Binary,
        a: &ExprNode,
        b: &ExprNode,
    ) -> Result<Vec<IntegerNode>, OnlyInUserSpace> {
        let mut links = match &a.kind {
            C::Binary(inner, first, second) if *inner == op => self.chain(op, first, second)?,
            _ => vec![self.number(a)?.0],
        };
        links.push(self.number(b)?.0);
        Ok(links)
    }

    /// Returns text; None for a number.
    fn text(&self, node: &ExprNode) -> Option<TextOperand> {
        match &node.kind {
            C::Text(bytes) => {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                Some(TextOperand::Literal(bytes[..end].to_vec()))
            }
            C::Name(name) => {
                let field = self.format.text_of(name).or_else(|| self.format.field(name));
                let record = match field {
                    None if name == "_comm" => Ok(RecordText::Comm),
                    Some(field) if field.kind == FieldKind::Chars => texts::of_array(field),
                    Some(field)
                        if matches!(field.kind, FieldKind::DataLoc(_) | FieldKind::RelLoc(_)) =>
                    {
                        texts::elsewhere(field)
                    }
                    _ => return None,
                };
                Some(TextOperand::Record(record))
            }
            _ => None,
        }
    }

    /// Returns the text for a cgroup that the expression is.
    fn cgroup_text(&self, node: &ExprNode) -> Option<CgroupText> {
        let C::Name(name) = &node.kind else { return None };
        match name.as_str() {
            _ if self.format.text_of(name).or_else(|| self.format.field(name)).is_some() => None,
            "_cgroup" => Some(CgroupText::Path),
            "_container" => Some(CgroupText::Container),
            _ => None,
        }
    }

    fn same_text(&self, a: &ExprNode, b: &ExprNode) -> Result<IntegerNode, OnlyInUserSpace> {
        let (field, literal) = match (self.text(a), self.text(b)) {
            (Some(TextOperand::Record(field)), Some(TextOperand::Literal(literal)))
            | (Some(TextOperand::Literal(literal)), Some(TextOperand::Record(field))) => {
                (field?, literal)
            }
            _ => return only("a comparison of two texts"),
        };
        let (offset, size) = match field {
            RecordText::Field { offset, size } => (offset, size),
            RecordText::Comm => return only("a comparison with the name of a task"),
            RecordText::Short(_) | RecordText::Long(_) => {
                return only("a comparison with text whose place differs between records");
            }
        };
        if literal.len() > size {
            return Ok(IntegerNode::Constant(0));
        }
        let mut bytes = literal;
        bytes.resize(size.min(bytes.len() + 1), 0);
        Ok(IntegerNode::BytesEqual { offset, bytes })
    }

    fn name(&self, name: &str) -> Result<TypedNode, OnlyInUserSpace> {
        if let Some(field) = self.format.text_of(name).or_else(|| self.format.field(name)) {
            return match field.kind {
                FieldKind::Int | FieldKind::Pointer => {
                    let signed = field.signed && field.kind == FieldKind::Int;
                    integer(name, field.offset, field.size, signed)
                }
                _ => only(format!("`{name}`")),
            };
        }
        match name {
            "_cpu" | "__cpu" => Ok((IntegerNode::Cpu, Int::LONG)),
            "_tid" | "__pid" => Ok((IntegerNode::Thread, Int::LONG)),
            "_pid" => Ok((IntegerNode::Process, Int::LONG)),
            "_cgroup_id" => check_cgroup_version().map(|()| (IntegerNode::Cgroup, Int::LONG)),
            _ => only(format!("`{name}`")),
        }
    }

    /// Lowers `array[index]`, for a constant index: a program may not load from a computed place.
    fn element(&self, array: &ExprNode, index: &ExprNode) -> Result<TypedNode, OnlyInUserSpace> {
        let (C::Name(name), (IntegerNode::Constant(index), _)) = (&array.kind, self.number(index)?)
        else {
            return only("an element with a computed index");
        };
        let element = self.format.field(name).and_then(|field| {
            let width = match field.kind {
                FieldKind::Chars | FieldKind::Bytes => 1,
                FieldKind::Array(width) => usize::from(width),
                _ => return None,
            };
            let index = usize::try_from(index).ok().filter(|at| *at < field.size / width)?;
            Some((field.offset + width * index, width, field.signed))
        });
        match element {
            Some((offset, size, signed)) => integer(name, offset, size, signed),
            None => only(format!("this element of `{name}`")),
        }
    }

    fn call(&self, name: &str, arguments: &[ExprNode]) -> Result<TypedNode, OnlyInUserSpace> {
        let (bits, argument) = match (name, arguments) {
            ("ntohl" | "htonl", [argument]) => (32, argument),
            ("ntohs" | "htons", [argument]) => (16, argument),
            _ if call::is_function(name) => return only(format!("{name}()")),
            _ => return only(format!("`{name}`")),
        };
        let ty = Int { bits, signed: false };
        let of = Box::new(convert(self.number(argument)?, ty));
        Ok((IntegerNode::NetworkOrder { bits, of }, ty))
    }

    fn size_of_field(&self, name: &str) -> Result<u64, OnlyInUserSpace> {
        let size = self.format.field(name).map(|field| field.size as u64);
        size.map_or_else(|| only(format!("`{name}`")), Ok)
    }
}

/// Checks that the cgroups of samples are those of cgroup v2, whose IDs programs know.
fn check_cgroup_version() -> Result<(), OnlyInUserSpace> {
    match CgroupHierarchy::find().is_some_and(|hierarchy| hierarchy.is_version_2()) {
        true => Ok(()),
        false => only("the cgroup, which is not one of cgroup v2"),
    }
}

fn size(bytes: u64) -> TypedNode {
    (IntegerNode::Constant(bytes), Int::ULONG)
}

fn not(node: IntegerNode) -> IntegerNode {
    IntegerNode::Not(Box::new(node))
}

fn convert((node, from): TypedNode, to: Int) -> IntegerNode {
    match node {
        IntegerNode::Constant(value) => IntegerNode::Constant(to.wrap(value)),
        node => node.converted(width(from), width(to)),
    }
}

fn operation(op: IntegerOperator, a: TypedNode, b: TypedNode) -> TypedNode {
    let ty = Int::usual(a.1, b.1);
    (IntegerNode::binary(op, width(ty), convert(a, ty), convert(b, ty)), ty)
}

fn condition(op: Binary, signed: bool) -> JumpIf {
    match (op, signed) {
        (Binary::Lt, false) => JumpIf::Less,
        (Binary::Le, false) => JumpIf::LessEqual,
        (Binary::Gt, false) => JumpIf::Greater,
        (Binary::Ge, false) => JumpIf::GreaterEqual,
        (Binary::Lt, true) => JumpIf::SignedLess,
        (Binary::Le, true) => JumpIf::SignedLessEqual,
        (Binary::Gt, true) => JumpIf::SignedGreater,
        (Binary::Ge, true) => JumpIf::SignedGreaterEqual,
        (Binary::Ne, _) => JumpIf::Unequal,
        _ => JumpIf::Equal,
    }
}

/// Returns an integer of the record. The kernel refuses to load at an offset that is not a multiple
/// of the size, and gives a program a pointer in place of the common fields.
fn integer(
    name: &str,
    offset: usize,
    size: usize,
    signed: bool,
) -> Result<TypedNode, OnlyInUserSpace> {
    let (Some((_, ty)), Some(access)) = (ffi_types::pointer(size, signed), AccessSize::of(size))
    else {
        return only(format!("`{name}`"));
    };
    match i16::try_from(offset) {
        // `common_pid`, the thread.
        Ok(4) if size == 4 => Ok((IntegerNode::Thread, ty)),
        Ok(at) if offset >= COMMON_BYTES && offset.is_multiple_of(size) => {
            Ok((IntegerNode::Field { offset: at, size: access, signed }, ty))
        }
        _ => only(format!("`{name}`")),
    }
}
