//! A filter evaluated here, on a raw record, as the kernel would have.
//!
//! [`Filter::bind`] resolves names to offsets once; [`Bound::passes`] allocates nothing.

use super::{
    Filter, Node, Op, Operand, Predicate, Reading,
    check::{Class, Subject},
};
use crate::{
    base::{glob, value::read_int},
    decode::format::{Field, Format},
    event::syntax::SyntaxError,
};

/// What a filter sees of one event.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The raw record.
    pub raw: &'a [u8],
    /// The CPU that it happened on.
    pub cpu: u32,
    /// The name of the task that it happened in.
    pub comm: &'a [u8],
}

/// Why a filter cannot be evaluated here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelOnly {
    /// It does not fit the event at all.
    #[error(transparent)]
    Unfit(#[from] SyntaxError),
    /// A condition on what a record does not hold, such as the function of an address.
    #[error("only the kernel can tell `{0}`")]
    Condition(String),
    /// A condition on text in user memory that is not recorded.
    #[error("only the kernel can tell `{0}`")]
    UserText(String),
}

/// A filter with its fields found in one event's format.
#[derive(Clone, Debug)]
pub struct Bound {
    pub(super) root: Test,
}

impl Filter {
    /// Finds the fields of the filter in a format. `event` is its name, for messages.
    pub fn bind(&self, event: &str, format: &Format) -> Result<Bound, KernelOnly> {
        self.check(event, format)?;
        Ok(Bound { root: bind(&self.root, format)? })
    }
}

impl Bound {
    /// Whether the kernel would have let the event pass. A condition on a field that the record is too short for is not met.
    pub fn passes(&self, event: &Context<'_>) -> bool {
        self.root.passes(event)
    }

    /// Whether it asks for the task's name (`COMM`), which a record does not hold.
    pub fn asks_comm(&self) -> bool {
        self.root.asks_comm()
    }
}

#[derive(Clone, Debug)]
pub(super) enum Test {
    Not(Box<Test>),
    All(Vec<Test>),
    Any(Vec<Test>),
    Number {
        from: Number,
        op: Op,
        value: i128,
    },
    Text {
        from: Text,
        matcher: Matcher,
        inverted: bool,
    },
    /// One number within a set of CPUs.
    Cpu {
        from: Number,
        op: Op,
        cpus: Vec<(u32, u32)>,
    },
    CpuMask {
        field: Field,
        op: Op,
        cpus: Vec<(u32, u32)>,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Number {
    Cpu,
    Field { offset: usize, size: usize, signed: bool },
}

#[derive(Clone, Debug)]
pub(super) enum Text {
    Comm,
    Fixed { offset: usize, size: usize },
    Dynamic(Field),
}

fn bind(node: &Node, format: &Format) -> Result<Test, KernelOnly> {
    let all = |nodes: &[Node]| -> Result<Vec<Test>, KernelOnly> {
        nodes.iter().map(|node| bind(node, format)).collect()
    };
    Ok(match node {
        Node::Not(inner) => Test::Not(Box::new(bind(inner, format)?)),
        Node::And(nodes) => Test::All(all(nodes)?),
        Node::Or(nodes) => Test::Any(all(nodes)?),
        Node::Is(predicate) => test(predicate, format).ok_or_else(|| match predicate.reading {
            Reading::UserText => KernelOnly::UserText(predicate.to_string()),
            Reading::Function | Reading::Plain => KernelOnly::Condition(predicate.to_string()),
        })?,
    })
}

fn test(predicate: &Predicate, format: &Format) -> Option<Test> {
    let op = predicate.op;
    let subject = predicate.subject(format)?;
    if predicate.reading == Reading::Function && !matches!(subject, Subject::Field(_, Class::Text))
    {
        return None;
    }
    Some(match (&predicate.value, subject) {
        (Operand::Function(name), Subject::Field(field, Class::Text)) => {
            let (matcher, inverted) = Matcher::new(name, op);
            Test::Text { from: Text::of(field), matcher, inverted }
        }
        (Operand::Text { text, .. }, subject) => {
            let from = match subject {
                Subject::Comm => Text::Comm,
                Subject::Field(field, Class::Text) => Text::of(field),
                Subject::Field(..) if predicate.reading == Reading::UserText => {
                    Text::Dynamic(predicate.recorded_text(format)?.clone())
                }
                _ => return None,
            };
            let (matcher, inverted) = Matcher::new(text, op);
            Test::Text { from, matcher, inverted }
        }
        (Operand::Number { value, .. }, subject) => {
            let from = number(&subject)?;
            let value = from.narrow(*value);
            Test::Number { from, op, value }
        }
        (Operand::Cpus { ranges, .. }, Subject::Field(field, Class::CpuMask)) => {
            Test::CpuMask { field: field.clone(), op, cpus: ranges.clone() }
        }
        (Operand::Cpus { ranges, .. }, subject) => {
            Test::Cpu { from: number(&subject)?, op, cpus: ranges.clone() }
        }
        (Operand::Function(_), _) => return None,
    })
}

fn number(subject: &Subject<'_>) -> Option<Number> {
    match subject {
        Subject::Cpu => Some(Number::Cpu),
        Subject::Field(field, _) => {
            Some(Number::Field { offset: field.offset, size: field.size, signed: field.signed })
        }
        Subject::Comm => None,
    }
}

impl Test {
    fn asks_comm(&self) -> bool {
        match self {
            Test::Not(inner) => inner.asks_comm(),
            Test::All(tests) | Test::Any(tests) => tests.iter().any(Test::asks_comm),
            Test::Text { from, .. } => matches!(from, Text::Comm),
            _ => false,
        }
    }

    fn passes(&self, event: &Context<'_>) -> bool {
        match self {
            Test::Not(inner) => !inner.passes(event),
            Test::All(tests) => tests.iter().all(|test| test.passes(event)),
            Test::Any(tests) => tests.iter().any(|test| test.passes(event)),
            Test::Number { from, op, value } => {
                from.read(event).is_some_and(|number| compare(number, *op, *value))
            }
            Test::Text { from, matcher, inverted } => from
                .read(event)
                .is_some_and(|(text, room)| matcher.matches(text, room) != *inverted),
            Test::Cpu { from, op, cpus } => from.read(event).is_some_and(|number| {
                let within = cpus
                    .iter()
                    .any(|(low, high)| (i128::from(*low)..=i128::from(*high)).contains(&number));
                match op {
                    Op::Equal => within && count(cpus) == 1,
                    Op::Unequal => !within || count(cpus) != 1,
                    _ => within,
                }
            }),
            Test::CpuMask { field, op, cpus } => match field.dynamic_bytes(event.raw) {
                Some(Ok(mask)) => compare_masks(mask, *op, cpus),
                _ => false,
            },
        }
    }
}

fn compare(number: i128, op: Op, value: i128) -> bool {
    match op {
        Op::Equal => number == value,
        Op::Unequal => number != value,
        Op::Less => number < value,
        Op::LessEqual => number <= value,
        Op::Greater => number > value,
        Op::GreaterEqual => number >= value,
        Op::Mask => number & value != 0,
        Op::Glob => false,
    }
}

impl Number {
    fn read(&self, event: &Context<'_>) -> Option<i128> {
        match *self {
            Number::Cpu => Some(i128::from(event.cpu)),
            Number::Field { offset, size, signed } => {
                Some(read_int(event.raw.get(offset..offset.checked_add(size)?)?, signed))
            }
        }
    }

    /// A typed number as the kernel compares it: cut to the width of the field.
    fn narrow(&self, value: i128) -> i128 {
        let (bits, signed) = match *self {
            Number::Cpu => (32, true),
            Number::Field { size, signed, .. } => (8 * size as u32, signed),
        };
        let unused = 128 - bits.clamp(8, 64);
        let high = value << unused;
        if signed { high >> unused } else { ((high as u128) >> unused) as i128 }
    }
}

/// Bytes of a task's name, terminator included.
const COMM_ROOM: usize = 16;

impl Text {
    /// The text of a field of class [`Class::Text`].
    fn of(field: &Field) -> Text {
        match field.dynamic_bytes(&[]) {
            Some(_) => Text::Dynamic(field.clone()),
            None => Text::Fixed { offset: field.offset, size: field.size },
        }
    }

    /// The text up to its NUL, and how many bytes the kernel would compare.
    fn read<'a>(&self, event: &Context<'a>) -> Option<(&'a [u8], usize)> {
        let (buffer, room) = match self {
            Text::Comm => (event.comm, COMM_ROOM),
            Text::Fixed { offset, size } => {
                (event.raw.get(*offset..offset.checked_add(*size)?)?, *size)
            }
            Text::Dynamic(field) => {
                let bytes = field.dynamic_bytes(event.raw)?.ok()?;
                (bytes, bytes.len())
            }
        };
        let end = buffer.iter().position(|b| *b == 0).unwrap_or(buffer.len());
        Some((&buffer[..end], room))
    }
}

#[derive(Clone, Debug)]
pub(super) enum Matcher {
    Whole(Vec<u8>),
    Glob(Vec<u8>),
}

impl Matcher {
    /// And whether the result is inverted: by `!=`, or by a `!` in front of a glob.
    fn new(text: &str, op: Op) -> (Matcher, bool) {
        match (op, text.strip_prefix('!')) {
            (Op::Glob, Some(glob)) => (Matcher::Glob(glob.as_bytes().to_vec()), true),
            (Op::Glob, None) => (Matcher::Glob(text.as_bytes().to_vec()), false),
            _ => (Matcher::Whole(text.as_bytes().to_vec()), op == Op::Unequal),
        }
    }

    fn matches(&self, text: &[u8], room: usize) -> bool {
        match self {
            // Like strncmp: what does not fit the field is not compared.
            Matcher::Whole(wanted) => text == wanted.get(..room).unwrap_or(wanted),
            Matcher::Glob(pattern) => glob::matches(pattern, text),
        }
    }
}

fn count(cpus: &[(u32, u32)]) -> u64 {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    let (mut total, mut next) = (0, 0u64);
    for (low, high) in sorted {
        let (low, end) = (u64::from(low).max(next), u64::from(high) + 1);
        total += end.saturating_sub(low);
        next = next.max(end);
    }
    total
}

fn compare_masks(mask: &[u8], op: Op, cpus: &[(u32, u32)]) -> bool {
    let within = |cpu: u64| {
        cpus.iter().any(|(low, high)| (u64::from(*low)..=u64::from(*high)).contains(&cpu))
    };
    let word = size_of::<usize>();
    let set = mask.chunks_exact(word).enumerate().flat_map(|(index, bytes)| {
        let bits = read_int(bytes, false) as u64;
        let first = (index * word * 8) as u64;
        (0..word as u64 * 8).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| first + bit)
    });
    let (mut inside, mut outside) = (0u64, false);
    for cpu in set {
        match within(cpu) {
            true => inside += 1,
            false => outside = true,
        }
    }
    match op {
        Op::Equal => !outside && inside == count(cpus),
        Op::Unequal => outside || inside != count(cpus),
        _ => inside > 0,
    }
}
