//! Expressions of a format to values and places, typed as in C. What is constant is computed here.

use super::Kernel;
use super::value::{Place, Value, convert, not, operate, unary};
use crate::decode::c::{self, Binary, Fault, Int, Kind, Node, Pointee, Type, Unary};
use crate::decode::format::{self, Field, Format};

/// What an expression is.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Int(Value, Int),
    Pointer(Place, Pointee),
}

/// Expressions that a program may have, after locals took their place: formats have some thousands at most.
const NODES_MAX: usize = 1 << 16;

/// `struct page`: formats count in it, and no file tells its size, which is this on every common 64-bit kernel.
const PAGE_STRUCT: u64 = 64;

pub(super) struct Compiler<'a> {
    pub(super) format: &'a Format,
    pub(super) kernel: &'a dyn Kernel,
    /// Variables of statement expressions, and what they cost.
    locals: Vec<(String, Operand, usize)>,
    nodes: usize,
    /// The variable of the kernel for which the last expression was refused, if that was why.
    pub(super) unknown: Option<&'static str>,
}

/// The base of the array of pages: with the kernel's own addresses at random, no file tells it.
const VMEMMAP_BASE: &str = "vmemmap_base";

impl<'a> Compiler<'a> {
    /// A compiler of one format's expressions.
    pub(super) fn new(format: &'a Format, kernel: &'a dyn Kernel) -> Compiler<'a> {
        Compiler { format, kernel, locals: Vec::new(), nodes: 0, unknown: None }
    }
}

impl Compiler<'_> {
    /// An expression as an integer of a type.
    pub(super) fn converted(&mut self, node: &Node, to: Int) -> Result<Value, Fault> {
        let (value, from) = self.int(node)?;
        Ok(convert(value, from, to))
    }

    /// An expression as an integer; a pointer is its address.
    pub(super) fn int(&mut self, node: &Node) -> Result<(Value, Int), Fault> {
        number(node, self.operand(node)?)
    }

    /// An expression as a condition: 0 is false.
    fn truth(&mut self, node: &Node) -> Result<Value, Fault> {
        Ok(match self.operand(node)? {
            Operand::Int(value, _) => value,
            Operand::Pointer(place, _) => place.truth(),
        })
    }

    /// An expression as it is.
    pub(super) fn operand(&mut self, node: &Node) -> Result<Operand, Fault> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(Fault::new(node.at, "the print format is too long"));
        }
        let fault = |why: &str| Err(Fault::new(node.at, why));
        match &node.kind {
            Kind::Number(value, int) => Ok(Operand::Int(Value::Const(*value), *int)),
            Kind::Text(text) => {
                let place = Place::Literal(text.as_slice().into());
                Ok(Operand::Pointer(place, Pointee::Int(Int::CHAR)))
            }
            Kind::Name(name) => self.name(node, name),
            Kind::Unary(Unary::Address, a) => self.address(node, a),
            Kind::Unary(Unary::Deref, a) => {
                let pointer = self.operand(a)?;
                self.element(node, pointer, Value::Const(0))
            }
            Kind::Unary(Unary::Not, a) => Ok(Operand::Int(not(self.truth(a)?), Int::INT)),
            Kind::Unary(op, a) => {
                let (value, int) = self.int(a)?;
                let to = int.promoted();
                let value = match convert(value, int, to) {
                    Value::Const(value) => Value::Const(unary(*op, to, value)),
                    value => Value::Unary(*op, to, Box::new(value)),
                };
                Ok(Operand::Int(value, to))
            }
            Kind::Binary(op, a, b) => self.binary(node, *op, a, b),
            Kind::Choice(condition, Some(then), other) => self.choice(condition, then, other),
            Kind::Choice(condition, None, other) => self.choice(condition, condition, other),
            Kind::Cast(ty, a) => self.cast(node, ty, a),
            // `(name)` is a type to the parser, which knows no locals.
            Kind::SizeOfType(Type::Other(name)) if self.locals.iter().any(|l| l.0 == *name) => {
                let local = Node { at: node.at, kind: Kind::Name(name.clone()) };
                self.size_of_value(node, &local)
            }
            Kind::SizeOfType(ty) => size_of(node, ty),
            Kind::SizeOf(a) => self.size_of_value(node, a),
            Kind::Call(name, arguments) => self.call(node, name, arguments),
            Kind::Index(a, i) => {
                let pointer = self.operand(a)?;
                let index = self.converted(i, Int::LONG)?;
                self.element(node, pointer, index)
            }
            Kind::Member(record, name) if is_record(record) => self.member(node, name),
            Kind::Member(_, name) => {
                fault(&format!("where in its structure `{name}` lies is not known"))
            }
            Kind::Block(locals, value) => self.block(locals, value),
            Kind::Statements(_) => fault("a statement expression that does more than declare"),
            Kind::Braces(_) => fault("braces make no value"),
        }
    }

    fn name(&mut self, node: &Node, name: &str) -> Result<Operand, Fault> {
        if let Some((_, operand, cost)) = self.locals.iter().rev().find(|local| local.0 == name) {
            self.nodes += cost;
            return Ok(operand.clone());
        }
        match name {
            "REC" => {
                let place = Place::Field { offset: 0, size: self.format.fixed_size };
                Ok(Operand::Pointer(place, Pointee::Other("struct".to_owned())))
            }
            "NULL" => Ok(Operand::Pointer(
                Place::Address(Value::Const(0)),
                Pointee::Other("void".to_owned()),
            )),
            "true" => Ok(Operand::Int(Value::Const(1), Int::INT)),
            VMEMMAP_BASE => {
                self.unknown = Some(VMEMMAP_BASE);
                Err(Fault::new(node.at, format!("only the kernel knows `{name}`")))
            }
            "false" => Ok(Operand::Int(Value::Const(0), Int::ULONG)),
            "HZ" => Ok(Operand::Int(Value::Const(self.kernel.hz().into()), Int::INT)),
            _ => match self.kernel.enumerator(name) {
                Some(value) => {
                    let int = if i32::try_from(value).is_ok() { Int::INT } else { Int::LONG };
                    Ok(Operand::Int(Value::Const(value.cast_unsigned()), int))
                }
                None => Err(Fault::new(node.at, format!("only the kernel knows `{name}`"))),
            },
        }
    }

    fn member(&mut self, node: &Node, name: &str) -> Result<Operand, Fault> {
        if let Some(field) = self.format.field(name) {
            return Ok(field_operand(field));
        }
        let located = name.strip_prefix("__data_loc_").or_else(|| name.strip_prefix("__rel_loc_"));
        match located.and_then(|name| self.format.field(name)) {
            Some(field) => Ok(Operand::Int(Value::Load(field.offset, Int::UINT), Int::UINT)),
            None => Err(Fault::new(node.at, format!("the event has no field `{name}`"))),
        }
    }

    fn address(&mut self, node: &Node, of: &Node) -> Result<Operand, Fault> {
        let pointee = |int| Pointee::Int(int);
        Ok(match self.operand(of)? {
            Operand::Int(Value::Load(offset, int), _) => {
                let place = Place::Field { offset, size: int.size() as usize };
                Operand::Pointer(place, pointee(int))
            }
            Operand::Int(Value::LoadAt(place, int), _) => Operand::Pointer(*place, pointee(int)),
            Operand::Pointer(Place::Address(Value::Load(offset, int)), _) => {
                let place = Place::Field { offset, size: int.size() as usize };
                Operand::Pointer(place, Pointee::Other("void *".to_owned()))
            }
            // The address of an array is that of its first element.
            Operand::Pointer(place @ Place::Field { .. }, to) => Operand::Pointer(place, to),
            _ => return Err(Fault::new(node.at, "this has no address within the record")),
        })
    }

    /// `pointer[index]`
    fn element(&self, node: &Node, pointer: Operand, index: Value) -> Result<Operand, Fault> {
        let Operand::Pointer(place, Pointee::Int(int)) = pointer else {
            return Err(Fault::new(node.at, "what this leads to is not known"));
        };
        if !place.is_in_record() {
            let why = "what is behind an address of the kernel is not in the record";
            return Err(Fault::new(node.at, why));
        }
        let by = operate(Binary::Mul, Int::LONG, index, Value::Const(int.size()));
        let value = match (place, by) {
            (Place::Field { offset, size }, Value::Const(by))
                if by.saturating_add(int.size()) <= size as u64 =>
            {
                Value::Load(offset + by as usize, int)
            }
            (place, Value::Const(0)) => Value::LoadAt(Box::new(place), int),
            (place, by) => Value::LoadAt(Box::new(Place::Behind(Box::new((place, by)))), int),
        };
        Ok(Operand::Int(value, int))
    }

    fn binary(&mut self, node: &Node, op: Binary, a: &Node, b: &Node) -> Result<Operand, Fault> {
        if let Binary::AndAnd | Binary::OrOr = op {
            let (a, b) = (self.truth(a)?, self.truth(b)?);
            return Ok(Operand::Int(operate(op, Int::INT, a, b), Int::INT));
        }
        let (a, b) = (self.operand(a)?, self.operand(b)?);
        let (a, b) = match (a, b, op) {
            (Operand::Pointer(place, to), Operand::Int(by, int), Binary::Add | Binary::Sub)
            | (Operand::Int(by, int), Operand::Pointer(place, to), Binary::Add) => {
                return self.behind(node, op, (place, to), convert(by, int, Int::LONG));
            }
            (a, b, _) => (number(node, a)?, number(node, b)?),
        };
        let shifts = matches!(op, Binary::Shl | Binary::Shr);
        let int = if shifts { a.1.promoted() } else { Int::usual(a.1, b.1) };
        let right = if shifts { b.1 } else { int };
        let value = operate(op, int, convert(a.0, a.1, int), convert(b.0, b.1, right));
        let compares = (Binary::Lt..=Binary::Glob).contains(&op);
        Ok(Operand::Int(value, if compares { Int::INT } else { int }))
    }

    /// `pointer + by`, `pointer - by`
    fn behind(
        &self,
        node: &Node,
        op: Binary,
        (place, to): (Place, Pointee),
        by: Value,
    ) -> Result<Operand, Fault> {
        let size = match &to {
            Pointee::Int(int) => int.size(),
            Pointee::Other(name) if name == "void" => 1,
            Pointee::Other(name) if name == "struct page" => PAGE_STRUCT,
            Pointee::Other(name) => {
                return Err(Fault::new(node.at, format!("the size of `{name}` is not known")));
            }
        };
        let by = operate(Binary::Mul, Int::LONG, by, Value::Const(size));
        let place = match place {
            Place::Address(value) => Place::Address(operate(op, Int::ULONG, value, by)),
            place => {
                let by = operate(op, Int::LONG, Value::Const(0), by);
                Place::Behind(Box::new((place, by)))
            }
        };
        Ok(Operand::Pointer(place, to))
    }

    fn choice(&mut self, condition: &Node, then: &Node, other: &Node) -> Result<Operand, Fault> {
        let condition_at = condition.at;
        let condition = self.truth(condition)?;
        let (then, other) = match (&condition, self.operand(then), self.operand(other)) {
            (_, Ok(then), Ok(other)) => (then, other),
            // What is never taken need not make sense.
            (Value::Const(1..), Ok(taken), _) | (Value::Const(0), _, Ok(taken)) => {
                return Ok(taken);
            }
            (_, Err(fault), _) | (_, _, Err(fault)) => return Err(fault),
        };
        Ok(match (then, other) {
            (Operand::Int(a, from), Operand::Int(b, other)) => {
                let int = Int::usual(from, other);
                let (a, b) = (convert(a, from, int), convert(b, other, int));
                let value = match condition {
                    Value::Const(0) => b,
                    Value::Const(_) => a,
                    condition => Value::Choice(Box::new((condition, a, b))),
                };
                Operand::Int(value, int)
            }
            (Operand::Pointer(a, to), Operand::Pointer(b, other)) => {
                let is_null = matches!(a, Place::Address(Value::Const(0)));
                let to = if is_null { other } else { to };
                let place = match condition {
                    Value::Const(0) => b,
                    Value::Const(_) => a,
                    condition => Place::Choice(Box::new((condition, a, b))),
                };
                Operand::Pointer(place, to)
            }
            _ => return Err(Fault::new(condition_at, "a choice between a number and a pointer")),
        })
    }

    fn cast(&mut self, node: &Node, ty: &Type, of: &Node) -> Result<Operand, Fault> {
        match ty {
            Type::Int(int) => Ok(Operand::Int(self.converted(of, *int)?, *int)),
            Type::Pointer(to) => Ok(match self.operand(of)? {
                Operand::Pointer(place, _) => Operand::Pointer(place, to.clone()),
                Operand::Int(value, int) => {
                    Operand::Pointer(Place::Address(convert(value, int, Int::ULONG)), to.clone())
                }
            }),
            Type::Other(name) => Err(Fault::new(node.at, format!("the type `{name}` is unknown"))),
        }
    }

    fn size_of_value(&mut self, node: &Node, of: &Node) -> Result<Operand, Fault> {
        let size = match &of.kind {
            Kind::Member(record, name) if is_record(record) => {
                self.format.field(name).map(|field| field.size as u64)
            }
            Kind::Text(text) => Some(text.len() as u64 + 1),
            _ => match self.operand(of)? {
                Operand::Int(_, int) => Some(int.size()),
                Operand::Pointer(..) => Some(8),
            },
        };
        let size = size.ok_or_else(|| Fault::new(node.at, "the size of this is not known"))?;
        Ok(Operand::Int(Value::Const(size), Int::ULONG))
    }

    fn block(&mut self, locals: &[c::Local], value: &Node) -> Result<Operand, Fault> {
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

fn is_record(node: &Node) -> bool {
    matches!(&node.kind, Kind::Name(name) if name == "REC")
}

fn number(node: &Node, operand: Operand) -> Result<(Value, Int), Fault> {
    match operand {
        Operand::Int(value, int) => Ok((value, int)),
        Operand::Pointer(Place::Address(value), _) => Ok((value, Int::ULONG)),
        Operand::Pointer(..) => {
            Err(Fault::new(node.at, "a number is needed here, not a part of the record"))
        }
    }
}

/// What a field is in an expression: its value, its array, or the pointer that it holds.
fn field_operand(field: &Field) -> Operand {
    let &Field { offset, size, signed, ref type_text, .. } = field;
    let int = |bytes: usize| Int { bits: 8 * bytes as u8, signed };
    let region = Place::Field { offset, size };
    match field.kind {
        format::Kind::Int => Operand::Int(Value::Load(offset, int(size)), int(size)),
        format::Kind::Pointer => {
            let value = Value::Load(offset, Int { bits: 8 * size as u8, signed: false });
            let is_text = type_text.split([' ', '*']).any(|word| word == "char");
            let to = match is_text {
                true => Pointee::Int(Int::CHAR),
                false => Pointee::Other("void".to_owned()),
            };
            Operand::Pointer(Place::Address(value), to)
        }
        format::Kind::Chars => Operand::Pointer(region, Pointee::Int(Int { bits: 8, signed })),
        format::Kind::Array(width) => {
            Operand::Pointer(region, Pointee::Int(int(usize::from(width))))
        }
        format::Kind::Bytes if ["u8", "char", "bool"].iter().any(|t| type_text.contains(t)) => {
            Operand::Pointer(region, Pointee::Int(Int { bits: 8, signed }))
        }
        format::Kind::Bytes => Operand::Pointer(region, Pointee::Other(type_text.clone())),
        format::Kind::DataLoc(_) | format::Kind::RelLoc(_) => {
            Operand::Int(Value::Load(offset, Int::UINT), Int::UINT)
        }
    }
}

fn size_of(node: &Node, ty: &Type) -> Result<Operand, Fault> {
    let size = match ty {
        Type::Int(int) => int.size(),
        Type::Pointer(_) => 8,
        Type::Other(name) => {
            return Err(Fault::new(node.at, format!("the size of `{name}` is not known")));
        }
    };
    Ok(Operand::Int(Value::Const(size), Int::ULONG))
}
