//! Evaluates a filter on a raw record in user space, with the kernel's semantics.
//!
//! [`Filter::bind`] resolves names to offsets once; [`BoundFilter::passes`] allocates nothing.

use super::{
    FieldReading, Filter, FilterNode, FilterOperand, Op, Predicate,
    check::{Class, Subject},
};
use crate::{
    base::{event::value::read_int, matching::glob, text::unescape::until_nul},
    decode::format::{Element, FAULT, Field, FieldKind, Format},
    event::syntax::SyntaxError,
};

/// The data of one event that a filter is evaluated on.
#[derive(Clone, Copy, Debug)]
pub struct FilterInput<'a> {
    /// The raw record.
    pub raw: &'a [u8],
    /// The CPU of the event.
    pub cpu: u32,
    /// The name of the event's task.
    pub comm: &'a [u8],
}

/// Why a filter cannot be evaluated in user space.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelOnly {
    /// The filter does not fit the event.
    #[error(transparent)]
    Unfit(#[from] SyntaxError),
    /// A condition on data that is not in the record, such as the function of an address.
    #[error("only the kernel can evaluate `{0}`")]
    Condition(String),
    /// A condition on text in user memory that is not in the record.
    #[error("only the kernel can evaluate `{0}`")]
    UserText(String),
}

/// A filter with its fields resolved in one event's format.
#[derive(Clone, Debug)]
pub struct BoundFilter {
    pub(super) root: Test,
}

impl Filter {
    /// Resolves the fields of the filter in a format. `event` is the event's name, for messages.
    ///
    /// # Errors
    /// The filter does not fit the event, or only the kernel can evaluate it.
    pub fn bind(&self, event: &str, format: &Format) -> Result<BoundFilter, KernelOnly> {
        self.check(event, format)?;
        Ok(BoundFilter { root: bind(&self.root, format)? })
    }
}

impl BoundFilter {
    /// Returns whether the kernel would have passed the event. A condition on a field beyond the
    /// end of the record is not met.
    pub fn passes(&self, event: &FilterInput<'_>) -> bool {
        self.root.passes(event)
    }

    /// Returns whether it compares the task's name (`COMM`), which is not in the record.
    pub fn needs_comm(&self) -> bool {
        self.root.needs_comm()
    }
}

#[derive(Clone, Debug)]
pub(super) enum Test {
    Not(Box<Test>),
    All(Vec<Test>),
    Any(Vec<Test>),
    Number {
        from: NumberTest,
        op: Op,
        value: i128,
    },
    Text {
        from: TextTest,
        matcher: FilterMatcher,
        inverted: bool,
    },
    /// One number compared with a set of CPUs.
    Cpu {
        from: NumberTest,
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
pub(super) enum NumberTest {
    Cpu,
    Field { offset: usize, size: usize, signed: bool },
}

#[derive(Clone, Debug)]
pub(super) enum TextTest {
    Comm,
    Fixed {
        offset: usize,
        size: usize,
    },
    Dynamic(Field),
    /// Text in user memory that the record contains.
    UserText(Field),
}

fn bind(node: &FilterNode, format: &Format) -> Result<Test, KernelOnly> {
    let all = |nodes: &[FilterNode]| -> Result<Vec<Test>, KernelOnly> {
        nodes.iter().map(|node| bind(node, format)).collect()
    };
    Ok(match node {
        FilterNode::Not(inner) => Test::Not(Box::new(bind(inner, format)?)),
        FilterNode::And(nodes) => Test::All(all(nodes)?),
        FilterNode::Or(nodes) => Test::Any(all(nodes)?),
        FilterNode::Is(predicate) => {
            test(predicate, format).ok_or_else(|| match predicate.reading {
                FieldReading::UserText => KernelOnly::UserText(predicate.to_string()),
                FieldReading::Function | FieldReading::Plain => {
                    KernelOnly::Condition(predicate.to_string())
                }
            })?
        }
    })
}

fn test(predicate: &Predicate, format: &Format) -> Option<Test> {
    let op = predicate.op;
    let subject = predicate.subject(format)?;
    if predicate.reading == FieldReading::Function
        && !matches!(subject, Subject::Field(_, Class::Text))
    {
        return None;
    }
    Some(match (&predicate.value, subject) {
        (FilterOperand::Function(name), Subject::Field(field, Class::Text)) => {
            let (matcher, inverted) = FilterMatcher::new(name, op);
            Test::Text { from: TextTest::of(field), matcher, inverted }
        }
        (FilterOperand::Text { text, .. }, subject) => {
            let from = match subject {
                Subject::Comm => TextTest::Comm,
                Subject::Field(field, Class::Text) => TextTest::of(field),
                Subject::Field(..) if predicate.reading == FieldReading::UserText => {
                    TextTest::UserText(predicate.recorded_text(format)?.clone())
                }
                _ => return None,
            };
            let (matcher, inverted) = FilterMatcher::new(text, op);
            Test::Text { from, matcher, inverted }
        }
        (FilterOperand::Number { value, .. }, subject) => {
            let from = number(&subject)?;
            let value = from.narrow(*value);
            Test::Number { from, op, value }
        }
        (FilterOperand::Cpus { ranges, .. }, Subject::Field(field, Class::CpuMask)) => {
            Test::CpuMask { field: field.clone(), op, cpus: ranges.clone() }
        }
        (FilterOperand::Cpus { ranges, .. }, subject) => {
            Test::Cpu { from: number(&subject)?, op, cpus: ranges.clone() }
        }
        (FilterOperand::Function(_), _) => return None,
    })
}

fn number(subject: &Subject<'_>) -> Option<NumberTest> {
    match subject {
        Subject::Cpu => Some(NumberTest::Cpu),
        Subject::Field(field, _) => {
            Some(NumberTest::Field { offset: field.offset, size: field.size, signed: field.signed })
        }
        Subject::Comm => None,
    }
}

impl Test {
    fn needs_comm(&self) -> bool {
        match self {
            Test::Not(inner) => inner.needs_comm(),
            Test::All(tests) | Test::Any(tests) => tests.iter().any(Test::needs_comm),
            Test::Text { from, .. } => matches!(from, TextTest::Comm),
            _ => false,
        }
    }

    fn passes(&self, event: &FilterInput<'_>) -> bool {
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

impl NumberTest {
    fn read(&self, event: &FilterInput<'_>) -> Option<i128> {
        match *self {
            NumberTest::Cpu => Some(i128::from(event.cpu)),
            NumberTest::Field { offset, size, signed } => {
                Some(read_int(event.raw.get(offset..offset.checked_add(size)?)?, signed))
            }
        }
    }

    /// Returns a typed number as the kernel compares it: truncated to the width of the field.
    fn narrow(&self, value: i128) -> i128 {
        let (bits, signed) = match *self {
            NumberTest::Cpu => (32, true),
            NumberTest::Field { size, signed, .. } => (8 * size as u32, signed),
        };
        let unused = 128 - bits.clamp(8, 64);
        let high = value << unused;
        if signed { high >> unused } else { ((high as u128) >> unused) as i128 }
    }
}

/// Size of a task's name in bytes, terminator included (`TASK_COMM_LEN`).
pub const COMM_ROOM: usize = 16;

impl TextTest {
    /// Returns the text of a field of class [`Class::Text`].
    fn of(field: &Field) -> TextTest {
        match field.dynamic_bytes(&[]) {
            Some(_) => TextTest::Dynamic(field.clone()),
            None => TextTest::Fixed { offset: field.offset, size: field.size },
        }
    }

    /// Returns the text up to its NUL, and the number of bytes that the kernel would compare; None
    /// if the text could not be read. The kernel's `.ustring` never matches such text.
    fn read<'a>(&self, event: &FilterInput<'a>) -> Option<(&'a [u8], usize)> {
        let (buffer, room) = match self {
            TextTest::Comm => (event.comm, COMM_ROOM),
            TextTest::Fixed { offset, size } => {
                (event.raw.get(*offset..offset.checked_add(*size)?)?, *size)
            }
            TextTest::UserText(field) => {
                let bytes = field.dynamic_bytes(event.raw)?.ok()?;
                if until_nul(bytes) == FAULT.as_bytes() {
                    return None;
                }
                (bytes, bytes.len())
            }
            TextTest::Dynamic(field) => {
                let bytes = field.dynamic_bytes(event.raw)?.ok()?;
                match field.kind {
                    FieldKind::DataLoc(Element::Fetched) if bytes.is_empty() => {
                        (FAULT.as_bytes(), FAULT.len() + 1)
                    }
                    _ => (bytes, bytes.len()),
                }
            }
        };
        Some((until_nul(buffer), room))
    }
}

#[derive(Clone, Debug)]
pub(super) enum FilterMatcher {
    Whole(Vec<u8>),
    Glob(Vec<u8>),
}

impl FilterMatcher {
    /// Returns the matcher, and whether its result is inverted by `!=` or by a `!` before a glob.
    fn new(text: &str, op: Op) -> (FilterMatcher, bool) {
        match (op, text.strip_prefix('!')) {
            (Op::Glob, Some(glob)) => (FilterMatcher::Glob(glob.as_bytes().to_vec()), true),
            (Op::Glob, None) => (FilterMatcher::Glob(text.as_bytes().to_vec()), false),
            _ => (FilterMatcher::Whole(text.as_bytes().to_vec()), op == Op::Unequal),
        }
    }

    fn matches(&self, text: &[u8], room: usize) -> bool {
        match self {
            // Like strncmp: bytes beyond the size of the field are not compared.
            FilterMatcher::Whole(wanted) => text == wanted.get(..room).unwrap_or(wanted),
            FilterMatcher::Glob(pattern) => glob::matches(pattern, text),
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
