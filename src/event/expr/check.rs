//! Names to fields, and operators to code: the tree of an expression becomes typed Lua source.

use super::text::Text;
use super::value::{EXACT, Value, bounds};
use super::{Names, Scope, arithmetic, call};
use crate::base::nearest::{did_you_mean, nearest};
use crate::decode::c::{Binary, Fault, Int, Kind as C, Node, Pointee, Type, Unary};
use crate::decode::format::{Element, Field, Kind};
use crate::event::{field, load};

/// Nesting beyond this would be more than Lua's own parser takes. `a && b && c` is one level.
const DEPTH_MAX: usize = 60;

/// Every CPU's number is below this; see `base::slot`.
const CPUS: i128 = crate::base::slot::CPUS_MAX as i128;

/// A checked expression.
pub(super) enum Checked {
    Number(Value),
    Text(Text),
}

/// Checks the expressions of one text.
pub(super) struct Checker<'a> {
    pub(super) scope: &'a Scope<'a>,
    pub(super) depth: usize,
}

impl Checker<'_> {
    pub(super) fn check(&mut self, node: &Node) -> Result<Checked, Fault> {
        if self.depth == DEPTH_MAX {
            return Err(Fault::new(node.at, format!("nested over {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let checked = self.node(node);
        self.depth -= 1;
        checked
    }

    /// An operand that has to be a number.
    pub(super) fn number(&mut self, node: &Node) -> Result<Value, Fault> {
        match self.check(node)? {
            Checked::Number(value) => Ok(value),
            Checked::Text(_) => Err(Fault::new(node.at, "this is text; a number is needed here")),
        }
    }

    /// An operand that has to be text.
    pub(super) fn text(&mut self, node: &Node) -> Result<Text, Fault> {
        match self.check(node)? {
            Checked::Text(text) => Ok(text),
            Checked::Number(_) => Err(Fault::new(node.at, "this is a number; text is needed here")),
        }
    }

    fn condition(&mut self, node: &Node) -> Result<Value, Fault> {
        match self.check(node)? {
            Checked::Number(value) => Ok(value),
            Checked::Text(_) => Err(Fault::new(
                node.at,
                "text is neither true nor false; compare it: == \"…\", != \"…\", ~ \"glob*\"",
            )),
        }
    }

    fn node(&mut self, node: &Node) -> Result<Checked, Fault> {
        let refuse = |why: &str| Err(Fault::new(node.at, why));
        let value = match &node.kind {
            C::Number(value, ty) => Value::constant(i128::from(*value), *ty),
            C::Text(bytes) => return Ok(Checked::Text(Text::literal(bytes))),
            C::Name(name) => return self.name(node.at, name),
            C::Unary(Unary::Not, a) => {
                let a = self.condition(a)?;
                return Ok(numeric(arithmetic::unary(Unary::Not, a)));
            }
            C::Unary(Unary::Deref | Unary::Address, _) => {
                return refuse("addresses lead out of the record; nothing is read there");
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
            // `(name)` is a type to the parser, which knows no fields.
            C::SizeOfType(Type::Other(name)) if self.is_value(name) => {
                self.size_of(&Node { at: node.at, kind: C::Name(name.clone()) })?
            }
            C::SizeOfType(ty) => size(type_size(node.at, ty)?),
            C::SizeOf(a) => self.size_of(a)?,
            C::Call(name, arguments) => {
                return call::call(self, node.at, name, arguments);
            }
            C::Index(array, index) => self.element(node.at, array, index)?,
            C::Member(..) => return refuse("fields have no members; write the field's name alone"),
            C::Braces(_) => return refuse("braces mean nothing here"),
            C::Block(..) | C::Statements(_) => return refuse("statements mean nothing here"),
        };
        Ok(Checked::Number(value))
    }

    fn binary(&mut self, node: &Node, op: Binary, a: &Node, b: &Node) -> Result<Checked, Fault> {
        if matches!(op, Binary::AndAnd | Binary::OrOr) {
            return self.chain(node, op);
        }
        if op == Binary::Glob {
            let text = self.text(a)?;
            let pattern = self.text(b)?;
            let Some(glob) = pattern.known() else {
                return Err(Fault::new(b.at, "a glob is written in quotes: ~ \"kworker*\""));
            };
            return Ok(Checked::Number(Value::truth(text.matches(glob))));
        }
        match (self.check(a)?, self.check(b)?) {
            (Checked::Number(a), Checked::Number(b)) => Ok(numeric(arithmetic::binary(op, a, b))),
            (Checked::Text(a), Checked::Text(b)) if op == Binary::Eq => {
                Ok(Checked::Number(Value::truth(a.equals(&b))))
            }
            (Checked::Text(a), Checked::Text(b)) if op == Binary::Ne => {
                Ok(Checked::Number(Value::truth(format!("(not {})", a.equals(&b)))))
            }
            (Checked::Text(_), Checked::Text(_)) => {
                Err(Fault::new(node.at, "text is compared with ==, != and ~ only"))
            }
            (Checked::Text(_), _) => {
                Err(Fault::new(node.at, "there is text on the left and a number on the right"))
            }
            (_, Checked::Text(_)) => {
                Err(Fault::new(node.at, "there is a number on the left and text on the right"))
            }
        }
    }

    /// `a && b && …`, or with `||`: one level however long it is.
    fn chain(&mut self, node: &Node, op: Binary) -> Result<Checked, Fault> {
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
            return Ok(Checked::Number(Value::constant(known.into(), Int::INT)));
        }
        let word = if op == Binary::AndAnd { " and " } else { " or " };
        Ok(Checked::Number(Value::truth(format!("({})", codes.join(word)))))
    }

    fn choice(&mut self, at: usize, c: &Node, a: &Node, b: &Node) -> Result<Checked, Fault> {
        let condition = self.condition(c)?;
        match (self.check(a)?, self.check(b)?) {
            (Checked::Number(a), Checked::Number(b)) => {
                Ok(Checked::Number(arithmetic::choose(&condition, a, b)))
            }
            (Checked::Text(a), Checked::Text(b)) => {
                let code = format!("({} and {} or {})", condition.condition(), a.code, b.code);
                Ok(Checked::Text(Text::computed(code)))
            }
            _ => Err(Fault::new(at, "one side of the `:` is text and the other a number")),
        }
    }

    fn cast(&mut self, at: usize, ty: &Type, a: &Node) -> Result<Value, Fault> {
        let value = self.number(a)?;
        match ty {
            Type::Int(ty) => Ok(value.convert(*ty)),
            Type::Pointer(Pointee::Other(of)) if of == "void" => {
                Ok(value.convert(Int::ULONG).addressed())
            }
            Type::Pointer(_) => Err(Fault::new(
                at,
                "what it points to does not matter here; write (void *), or unsigned long",
            )),
            Type::Other(name) => Err(Fault::new(at, no_integer(name))),
        }
    }

    fn size_of(&mut self, node: &Node) -> Result<Value, Fault> {
        if let C::Name(name) = &node.kind
            && let Some(field) = self.field(name)
        {
            return match field.kind {
                Kind::DataLoc(_) | Kind::RelLoc(_) => Err(Fault::new(
                    node.at,
                    format!("`{name}` has a size of its own in each record"),
                )),
                _ => Ok(size(field.size as u64)),
            };
        }
        match self.check(node)? {
            Checked::Number(value) => Ok(size(value.ty.size())),
            Checked::Text(text) => match text.known() {
                Some(bytes) => Ok(size(bytes.len() as u64 + 1)),
                None => Err(Fault::new(node.at, "this text has no constant size")),
            },
        }
    }

    fn field(&self, name: &str) -> Option<&Field> {
        match self.scope.names {
            Names::Event { format, .. } => format.field(name),
            Names::Key => None,
        }
    }

    fn is_value(&self, name: &str) -> bool {
        match self.scope.names {
            Names::Event { format, .. } => format.field(name).is_some() || sample(name).is_some(),
            Names::Key => name == "key",
        }
    }

    fn name(&mut self, at: usize, name: &str) -> Result<Checked, Fault> {
        let Names::Event { event, format } = self.scope.names else {
            if name == "key" {
                let key = Value::read("key".to_owned(), Int::LONG, bounds(Int::LONG));
                return Ok(Checked::Number(key));
            }
            let what = "here is only `key`, the value that an event's key had";
            return Err(Fault::new(at, format!("{what}; no '{name}'")));
        };
        if let Some(field) = format.field(name) {
            return whole(at, field);
        }
        if let Some(sample) = sample(name) {
            return Ok(sample);
        }
        if call::is_function(name) {
            let usage = call::usage(name);
            return Err(Fault::new(at, format!("'{name}' is a function: {usage}")));
        }
        Err(Fault::new(at, field::unknown_beside(event, name, format, &SAMPLE)))
    }

    /// `array[index]`
    fn element(&mut self, at: usize, array: &Node, index: &Node) -> Result<Value, Fault> {
        let index_value = self.number(index)?;
        let C::Name(name) = &array.kind else {
            return Err(Fault::new(at, "only a field of the event has elements"));
        };
        let Some(field) = self.field(name) else {
            return match self.name(array.at, name)? {
                Checked::Number(_) => Err(Fault::new(at, format!("`{name}` has no elements"))),
                Checked::Text(_) => {
                    Err(Fault::new(at, format!("`{name}` is no field; it has no elements")))
                }
            };
        };
        let width = match field.kind {
            Kind::Chars | Kind::Bytes => 1,
            Kind::Array(width) => width,
            Kind::DataLoc(element) | Kind::RelLoc(element) => match element {
                Element::Char | Element::Byte => 1,
                Element::Int(width) => width,
            },
            Kind::Int | Kind::Pointer => {
                return Err(Fault::new(at, format!("`{name}` is one number; it has no elements")));
            }
        };
        let Some((lua, ty)) = load::pointer(usize::from(width), field.signed) else {
            return Err(Fault::new(at, format!("elements of {width} bytes are no integers of C")));
        };
        let (pointer, count) = match field.kind {
            Kind::DataLoc(_) | Kind::RelLoc(_) => {
                let place = dynamic_place(field);
                let count = format!("floor(loc_len({place}) / {width})");
                (format!("loc_at({place})"), Err(count))
            }
            _ => (format!("s.raw + {}", field.offset), Ok(field.size / usize::from(width))),
        };
        let pointer = format!("cast({lua}, {pointer})");
        if let (Some(index), Ok(count)) = (index_value.known(), &count)
            && (0..*count as i128).contains(&index)
        {
            return Ok(Value::read(format!("{pointer}[{index}]"), ty, bounds(ty)));
        }
        let name = match (bounds(ty).1 > EXACT, ty.signed) {
            (false, _) => "element",
            (true, true) => "element_long",
            (true, false) => "element_ulong",
        };
        let count = count.map_or_else(|code| code, |count| count.to_string());
        let code = format!("{name}({pointer}, {}, {count})", index_value.number());
        Ok(Value::read(code, ty, bounds(ty)))
    }
}

/// Operators on addresses are told before; every other gives a value.
fn numeric(value: Option<Value>) -> Checked {
    Checked::Number(value.unwrap_or_else(|| Value::constant(0, Int::INT)))
}

fn size(bytes: u64) -> Value {
    Value::constant(bytes.into(), Int::ULONG)
}

fn type_size(at: usize, ty: &Type) -> Result<u64, Fault> {
    match ty {
        Type::Int(ty) => Ok(ty.size()),
        Type::Pointer(_) => Ok(8),
        Type::Other(name) => Err(Fault::new(at, no_integer(name))),
    }
}

const TYPES: [&str; 14] = [
    "bool", "char", "short", "int", "long", "unsigned", "u8", "u16", "u32", "u64", "s8", "s16",
    "s32", "s64",
];

fn no_integer(name: &str) -> String {
    let guess = did_you_mean(&nearest(name, TYPES.into_iter()));
    format!("`{name}` is no integer type that is known here{guess}")
}

/// The arguments of the leaves that find a dynamic field.
fn dynamic_place(field: &Field) -> String {
    let relative = matches!(field.kind, Kind::RelLoc(_));
    let base = if relative { field.offset + field.size } else { 0 };
    format!("s, {}, {}, {base}", field.offset, field.size)
}

/// The value of a field that is named without an index.
fn whole(at: usize, field: &Field) -> Result<Checked, Fault> {
    let name = &field.name;
    match field.kind {
        Kind::Int | Kind::Pointer => {
            let signed = field.signed && field.kind == Kind::Int;
            let Some((lua, ty)) = load::pointer(field.size, signed) else {
                let size = field.size;
                return Err(Fault::new(at, format!("`{name}` has {size} bytes: no integer of C")));
            };
            let code = format!("cast({lua}, s.raw + {})[0]", field.offset);
            let value = Value::read(code, ty, bounds(ty));
            let is_pointer = field.kind == Kind::Pointer;
            Ok(Checked::Number(if is_pointer { value.addressed() } else { value }))
        }
        Kind::Chars => Ok(Checked::Text(Text::field(field.offset, field.size))),
        Kind::DataLoc(Element::Char) | Kind::RelLoc(Element::Char) => {
            let code = format!("dynamic_text({})", dynamic_place(field));
            Ok(Checked::Text(Text::computed(code)))
        }
        _ => Err(Fault::new(at, format!("`{name}` is an array; take an element: {name}[0]"))),
    }
}

/// What every sample has besides the event's fields.
const SAMPLE: [&str; 11] = [
    "_cpu", "_pid", "_tid", "_time", "_comm", "_stack", "_period", "_ip", "_addr", "__cpu", "__pid",
];

fn sample(name: &str) -> Option<Checked> {
    let id = bounds(Int::INT);
    let number = |code: &str, ty, range| Some(Checked::Number(Value::read(code.into(), ty, range)));
    let address = |code: &str| {
        let value = Value::read(code.into(), Int::ULONG, bounds(Int::ULONG));
        Some(Checked::Number(value.addressed()))
    };
    match name {
        "_cpu" | "__cpu" => number("s.cpu", Int::LONG, (0, CPUS - 1)),
        "_pid" => number("s.pid", Int::LONG, id),
        // The words of the older tool, where pid is the thread.
        "_tid" | "__pid" => number("s.tid", Int::LONG, id),
        "_time" => number("s.time", Int::LONG, (-EXACT, EXACT)),
        "_stack" => number("stack_of(s)", Int::LONG, (0, EXACT)),
        "_period" => number("u64(s.period)", Int::ULONG, bounds(Int::ULONG)),
        "_ip" => address("u64(s.ip)"),
        "_addr" => address("u64(s.addr)"),
        "_comm" => Some(Checked::Text(Text::computed("fstr(own_comm(ctx, s))".to_owned()))),
        _ => None,
    }
}
