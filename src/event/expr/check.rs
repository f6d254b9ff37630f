//! Resolves the names and operators in the tree of an expression and generates typed Lua source.

use super::checked::{CheckedExpr, OperandChecker};
use super::scope::{ExprNames, ExprScope};
use super::text::TextExpr;
use super::value::{EXACT, IntExpr, bounds};
use super::{arithmetic, call, sample};
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::text::fault::Fault;
use crate::decode::c::{Binary, ExprKind as C, ExprNode, Int, Pointee, Type, Unary};
use crate::decode::format::{Element, Field, FieldKind};
use crate::event::sample_field::{SAMPLE_FIELDS, SampleFields, row_named};
use crate::event::{ffi_types, field};

/// Maximum nesting; deeper code would exceed the limit of Lua's parser. `a && b && c` is one level.
const DEPTH_MAX: usize = 60;

/// Checks the expressions of one text.
pub(super) struct Checker<'a> {
    pub(super) scope: &'a ExprScope<'a>,
    pub(super) depth: usize,
    /// Fields that few events have and that the text reads.
    pub(super) extra: SampleFields,
}

impl OperandChecker for Checker<'_> {
    fn check(&mut self, node: &ExprNode) -> Result<CheckedExpr, Fault> {
        if self.depth == DEPTH_MAX {
            return Err(Fault::new(node.at, format!("more than {DEPTH_MAX} levels of nesting")));
        }
        self.depth += 1;
        let checked = self.node(node);
        self.depth -= 1;
        checked
    }
}

impl Checker<'_> {
    fn condition(&mut self, node: &ExprNode) -> Result<IntExpr, Fault> {
        match self.check(node)? {
            CheckedExpr::Number(value) => Ok(value),
            CheckedExpr::Text(_) => Err(Fault::new(
                node.at,
                "text is neither true nor false; compare it: == \"…\", != \"…\", ~ \"glob*\"",
            )),
        }
    }

    fn node(&mut self, node: &ExprNode) -> Result<CheckedExpr, Fault> {
        let refuse = |why: &str| Err(Fault::new(node.at, why));
        let value = match &node.kind {
            C::Number(value, ty) => IntExpr::constant(i128::from(*value), *ty),
            C::Text(bytes) => return Ok(CheckedExpr::Text(TextExpr::literal(bytes))),
            C::Name(name) => return self.name(node.at, name),
            C::Unary(Unary::Not, a) => {
                let a = self.condition(a)?;
                return Ok(numeric(arithmetic::unary(Unary::Not, a)));
            }
            C::Unary(Unary::Deref | Unary::Address, _) => {
                return refuse(
                    "`*x` and `&x` are not supported; an expression reads only the record",
                );
            }
            C::Unary(op, a) => {
                let a = self.number(a)?;
                return Ok(numeric(arithmetic::unary(*op, a)));
            }
            C::Binary(op, a, b) => return self.binary(node, *op, a, b),
            C::Choice(_, None, _) => return refuse("a value is missing between `?` and `:`"),
            C::Choice(condition, Some(a), b) => {
                return self.choice(node.at, condition, a, b);
            }
            C::Cast(ty, a) => self.cast(node.at, ty, a)?,
            // The parser does not know the fields and reads `(name)` as a type.
            C::SizeOfType(Type::Other(name)) if self.is_value(name) => {
                self.size_of(&ExprNode { at: node.at, kind: C::Name(name.clone()) })?
            }
            C::SizeOfType(ty) => size(type_size(node.at, ty)?),
            C::SizeOf(a) => self.size_of(a)?,
            C::Call(name, arguments) => {
                let scope = self.scope;
                return call::call(self, scope, node.at, name, arguments);
            }
            C::Index(array, index) => self.element(node.at, array, index)?,
            C::Member(..) => {
                return refuse(
                    "fields have no members; write only the field's name, such as _data_level for \
                     the level of _data_src",
                );
            }
            C::Braces(_) => return refuse("braces are not supported here"),
            C::Block(..) | C::Statements(_) => return refuse("statements are not supported here"),
        };
        Ok(CheckedExpr::Number(value))
    }

    fn binary(
        &mut self,
        node: &ExprNode,
        op: Binary,
        a: &ExprNode,
        b: &ExprNode,
    ) -> Result<CheckedExpr, Fault> {
        if matches!(op, Binary::AndAnd | Binary::OrOr) {
            return self.chain(node, op);
        }
        if op == Binary::Glob {
            let text = self.text(a)?;
            let pattern = self.text(b)?;
            let Some(glob) = pattern.known() else {
                return Err(Fault::new(b.at, "a glob must be a quoted literal: ~ \"kworker*\""));
            };
            // As in a filter, `!` before the glob inverts the result.
            let condition = match glob.strip_prefix(b"!") {
                Some(glob) => format!("(not {})", text.matches(glob)),
                None => text.matches(glob),
            };
            return Ok(CheckedExpr::Number(IntExpr::truth(condition)));
        }
        match (self.check(a)?, self.check(b)?) {
            (CheckedExpr::Number(a), CheckedExpr::Number(b)) => {
                Ok(numeric(arithmetic::binary(op, a, b)))
            }
            (CheckedExpr::Text(a), CheckedExpr::Text(b)) if op == Binary::Eq => {
                Ok(CheckedExpr::Number(IntExpr::truth(a.equals(&b))))
            }
            (CheckedExpr::Text(a), CheckedExpr::Text(b)) if op == Binary::Ne => {
                Ok(CheckedExpr::Number(IntExpr::truth(format!("(not {})", a.equals(&b)))))
            }
            (CheckedExpr::Text(_), CheckedExpr::Text(_)) => {
                Err(Fault::new(node.at, "text is compared with ==, != and ~ only"))
            }
            (CheckedExpr::Text(_), _) => {
                Err(Fault::new(node.at, "there is text on the left and a number on the right"))
            }
            (_, CheckedExpr::Text(_)) => {
                Err(Fault::new(node.at, "there is a number on the left and text on the right"))
            }
        }
    }

    /// Checks `a && b && …`, or with `||`: one level of nesting regardless of its length.
    fn chain(&mut self, node: &ExprNode, op: Binary) -> Result<CheckedExpr, Fault> {
        let (mut links, mut left) = (Vec::new(), node);
        while let C::Binary(inner, a, b) = &left.kind
            && *inner == op
        {
            links.push(&**b);
            left = a;
        }
        links.push(left);
        let mut codes = Vec::new();
        let mut known = Some(op == Binary::AndAnd);
        for link in links.into_iter().rev() {
            let value = self.condition(link)?;
            known = match (known, value.known().map(|v| v != 0), op) {
                (Some(a), Some(b), Binary::AndAnd) => Some(a && b),
                (Some(a), Some(b), _) => Some(a || b),
                _ => None,
            };
            codes.push(value.condition());
        }
        if let Some(known) = known {
            return Ok(CheckedExpr::Number(IntExpr::constant(known.into(), Int::INT)));
        }
        let operator = if op == Binary::AndAnd { " and " } else { " or " };
        Ok(CheckedExpr::Number(IntExpr::truth(format!("({})", codes.join(operator)))))
    }

    fn choice(
        &mut self,
        at: usize,
        c: &ExprNode,
        a: &ExprNode,
        b: &ExprNode,
    ) -> Result<CheckedExpr, Fault> {
        let condition = self.condition(c)?;
        match (self.check(a)?, self.check(b)?) {
            (CheckedExpr::Number(a), CheckedExpr::Number(b)) => {
                Ok(CheckedExpr::Number(arithmetic::choose(&condition, a, b)))
            }
            (CheckedExpr::Text(a), CheckedExpr::Text(b)) => {
                let code = format!("({} and {} or {})", condition.condition(), a.code, b.code);
                Ok(CheckedExpr::Text(TextExpr::computed(code)))
            }
            _ => Err(Fault::new(at, "one side of the `:` is text and the other a number")),
        }
    }

    fn cast(&mut self, at: usize, ty: &Type, a: &ExprNode) -> Result<IntExpr, Fault> {
        let value = self.number(a)?;
        match ty {
            Type::Int(ty) => Ok(value.convert(*ty)),
            Type::Pointer(Pointee::Other(of)) if of == "void" => {
                Ok(value.convert(Int::ULONG).addressed())
            }
            Type::Pointer(_) => {
                Err(Fault::new(at, "unsupported pointer type; write (void *), or unsigned long"))
            }
            Type::Other(name) => Err(Fault::new(at, unknown_type(name))),
        }
    }

    fn size_of(&mut self, node: &ExprNode) -> Result<IntExpr, Fault> {
        if let C::Name(name) = &node.kind
            && let Some(field) = self.field(name)
        {
            return match field.kind {
                FieldKind::DataLoc(_) | FieldKind::RelLoc(_) => Err(Fault::new(
                    node.at,
                    format!("the size of `{name}` differs between records"),
                )),
                _ => Ok(size(field.size as u64)),
            };
        }
        match self.check(node)? {
            CheckedExpr::Number(value) => Ok(size(value.ty.size())),
            CheckedExpr::Text(text) => match text.known() {
                Some(bytes) => Ok(size(bytes.len() as u64 + 1)),
                None => Err(Fault::new(node.at, "this text has no constant size")),
            },
        }
    }

    fn field(&self, name: &str) -> Option<&Field> {
        match self.scope.names {
            ExprNames::Event { format, .. } => format.field(name),
            ExprNames::Key => None,
        }
    }

    fn is_value(&self, name: &str) -> bool {
        match self.scope.names {
            ExprNames::Event { format, .. } => {
                format.field(name).is_some()
                    || sample::value(name).is_some()
                    || row_named(name).is_some()
            }
            ExprNames::Key => name == "key",
        }
    }

    fn name(&mut self, at: usize, name: &str) -> Result<CheckedExpr, Fault> {
        let ExprNames::Event { event, format } = self.scope.names else {
            if name == "key" {
                let key = IntExpr::read("key".to_owned(), Int::LONG, bounds(Int::LONG));
                return Ok(CheckedExpr::Number(key));
            }
            let why = format!("unknown name '{name}'; only `key`, the key's value, is available");
            return Err(Fault::new(at, why));
        };
        // As in a handler, a parameter `_pid` does not hide what every sample has.
        match (sample::value(name), format.text_of(name).or_else(|| format.field(name))) {
            (Some(value), None) => return Ok(value),
            (Some(value), Some(_)) if !name.starts_with("__") => return Ok(value),
            (_, Some(field)) => return whole(at, field),
            (None, None) => {}
        }
        if let Some(value) = sample::extra(name) {
            self.extra = self.extra.or(SampleFields::named(name).unwrap_or_default());
            return value.map_err(|why| Fault::new(at, why));
        }
        if call::is_function(name) {
            let usage = call::usage(name);
            return Err(Fault::new(at, format!("'{name}' is a function: {usage}")));
        }
        let extra = SAMPLE_FIELDS.iter().map(|field| field.name);
        let names: Vec<&str> = sample::NAMES.into_iter().chain(extra).collect();
        Err(Fault::new(at, field::unknown_beside(event, name, format, &names)))
    }

    /// Checks `array[index]`.
    fn element(&mut self, at: usize, array: &ExprNode, index: &ExprNode) -> Result<IntExpr, Fault> {
        let index_value = self.number(index)?;
        let C::Name(name) = &array.kind else {
            return Err(Fault::new(at, "only a field of the event has elements"));
        };
        let Some(field) = self.field(name) else {
            return match self.name(array.at, name)? {
                CheckedExpr::Number(_) => Err(Fault::new(at, format!("`{name}` has no elements"))),
                CheckedExpr::Text(_) => {
                    Err(Fault::new(at, format!("`{name}` is not a field; it has no elements")))
                }
            };
        };
        let width = match field.kind {
            FieldKind::Chars | FieldKind::Bytes => 1,
            FieldKind::Array(width) => width,
            FieldKind::DataLoc(element) | FieldKind::RelLoc(element) => match element {
                Element::Char | Element::Fetched | Element::Byte => 1,
                Element::Int(width) => width,
            },
            FieldKind::Int | FieldKind::Pointer | FieldKind::Float => {
                return Err(Fault::new(at, format!("`{name}` is one number; it has no elements")));
            }
        };
        let Some((lua, ty)) = ffi_types::pointer(usize::from(width), field.signed) else {
            return Err(Fault::new(at, format!("elements of {width} bytes are not C integers")));
        };
        let (pointer, count) = match field.kind {
            FieldKind::DataLoc(_) | FieldKind::RelLoc(_) => {
                let location = dynamic_location(field);
                let count = format!("floor(loc_len({location}) / {width})");
                (format!("loc_at({location})"), Err(count))
            }
            _ => (format!("s.raw + {}", field.offset), Ok(field.size / usize::from(width))),
        };
        let pointer = format!("cast({lua}, {pointer})");
        if let (Some(index), Ok(count)) = (index_value.known(), &count)
            && (0..*count as i128).contains(&index)
        {
            return Ok(IntExpr::read(format!("{pointer}[{index}]"), ty, bounds(ty)));
        }
        let name = match (bounds(ty).1 > EXACT, ty.signed) {
            (false, _) => "element",
            (true, true) => "element_long",
            (true, false) => "element_ulong",
        };
        let count = count.map_or_else(|code| code, |count| count.to_string());
        let code = format!("{name}({pointer}, {}, {count})", index_value.number());
        Ok(IntExpr::read(code, ty, bounds(ty)))
    }
}

/// Converts an operator's result. Operators on addresses are refused before; every other one yields
/// a value.
fn numeric(value: Option<IntExpr>) -> CheckedExpr {
    CheckedExpr::Number(value.unwrap_or_else(|| IntExpr::constant(0, Int::INT)))
}

fn size(bytes: u64) -> IntExpr {
    IntExpr::constant(bytes.into(), Int::ULONG)
}

fn type_size(at: usize, ty: &Type) -> Result<u64, Fault> {
    match ty {
        Type::Int(ty) => Ok(ty.size()),
        Type::Pointer(_) => Ok(8),
        Type::Other(name) => Err(Fault::new(at, unknown_type(name))),
    }
}

const TYPES: [&str; 14] = [
    "bool", "char", "short", "int", "long", "unsigned", "u8", "u16", "u32", "u64", "s8", "s16",
    "s32", "s64",
];

fn unknown_type(name: &str) -> String {
    let guess = did_you_mean(&nearest(name, TYPES.into_iter()));
    format!("unknown integer type `{name}`{guess}")
}

/// Returns the arguments of the Lua functions that find a dynamic field.
fn dynamic_location(field: &Field) -> String {
    let relative = matches!(field.kind, FieldKind::RelLoc(_));
    let base = if relative { field.offset + field.size } else { 0 };
    format!("s, {}, {}, {base}", field.offset, field.size)
}

/// Returns the value of a field that is used without an index.
fn whole(at: usize, field: &Field) -> Result<CheckedExpr, Fault> {
    let name = &field.name;
    match field.kind {
        FieldKind::Int | FieldKind::Pointer => {
            let signed = field.signed && field.kind == FieldKind::Int;
            let Some((lua, ty)) = ffi_types::pointer(field.size, signed) else {
                let size = field.size;
                return Err(Fault::new(at, format!("`{name}` has {size} bytes: not a C integer")));
            };
            let code = format!("cast({lua}, s.raw + {})[0]", field.offset);
            let value = IntExpr::read(code, ty, bounds(ty));
            let is_pointer = field.kind == FieldKind::Pointer;
            Ok(CheckedExpr::Number(if is_pointer { value.addressed() } else { value }))
        }
        FieldKind::Float => {
            let code = format!("whole(s.raw + {})", field.offset);
            Ok(CheckedExpr::Number(IntExpr::read(code, Int::LONG, (-EXACT, EXACT))))
        }
        FieldKind::Chars => Ok(CheckedExpr::Text(TextExpr::field(field.offset, field.size))),
        FieldKind::DataLoc(Element::Char) | FieldKind::RelLoc(Element::Char) => {
            let code = format!("dynamic_text({})", dynamic_location(field));
            Ok(CheckedExpr::Text(TextExpr::computed(code)))
        }
        FieldKind::DataLoc(Element::Fetched) => {
            let code = format!("fetched_text({})", dynamic_location(field));
            Ok(CheckedExpr::Text(TextExpr::computed(code)))
        }
        _ => Err(Fault::new(at, format!("`{name}` is an array; use an element: {name}[0]"))),
    }
}
