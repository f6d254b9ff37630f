//! Keys of rows in the maps of programs, in words of 8 bytes.

use super::assembler::BpfRegister::*;
use super::assembler::{AccessSize, Assembler};
use super::expression::ExpressionWriter;
use super::integer::IntegerNode;
use super::record_text::RecordText;

/// Bytes of a word.
pub(super) const WORD: usize = 8;

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// 64 bits.
    Integer(IntegerNode),
    /// Text, padded with NULs.
    Text(RecordText),
    /// The ID of the cgroup of the task, which user space shows as text.
    Cgroup(CgroupText),
}

/// Text that user space shows for the ID of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupText {
    /// Its path.
    Path,
    /// The name of its container.
    Container,
}

/// The type of a part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// 64 bits.
    Integer,
    /// Text, padded with NULs.
    Text,
    /// The ID of a cgroup.
    Cgroup(CgroupText),
}

/// The shape of a part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartShape {
    /// Its size in words.
    pub words: usize,
    /// Its type.
    pub kind: KeyKind,
}

/// The shape of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyShape {
    /// Its parts.
    pub parts: Vec<PartShape>,
}

impl KeyPart {
    /// Returns its shape.
    pub fn shape(&self) -> PartShape {
        match self {
            KeyPart::Integer(_) => PartShape::INTEGER,
            KeyPart::Text(text) => PartShape { words: text.words(), kind: KeyKind::Text },
            KeyPart::Cgroup(text) => PartShape { words: 1, kind: KeyKind::Cgroup(*text) },
        }
    }

    /// Returns the number that it is; None for text of the record.
    pub(super) fn number(&self) -> Option<&IntegerNode> {
        match self {
            KeyPart::Integer(node) => Some(node),
            KeyPart::Cgroup(_) => Some(&IntegerNode::Cgroup),
            KeyPart::Text(_) => None,
        }
    }
}

impl PartShape {
    /// A part of 64 bits.
    pub const INTEGER: PartShape = PartShape { words: 1, kind: KeyKind::Integer };
}

impl KeyShape {
    /// Returns the shape of a key of these parts.
    pub fn of(parts: &[KeyPart]) -> KeyShape {
        KeyShape { parts: parts.iter().map(KeyPart::shape).collect() }
    }

    /// Returns whether a part is the ID of a cgroup.
    pub fn has_cgroup(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.kind, KeyKind::Cgroup(_)))
    }

    /// Returns its size in words.
    pub fn words(&self) -> usize {
        self.parts.iter().map(|part| part.words).sum()
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> usize {
        self.words() * WORD
    }
}

/// Stores parts of a key at an offset from R10. Returns None if one is too large.
pub(super) fn store_parts(code: &mut Assembler, parts: &[KeyPart], mut at: i16) -> Option<()> {
    for part in parts {
        match part {
            KeyPart::Text(text) => text.store(code, R10, at)?,
            KeyPart::Integer(_) | KeyPart::Cgroup(_) => {
                ExpressionWriter::new(code).value(part.number()?)?;
                code.store(AccessSize::B8, R10, at, R1);
            }
        }
        at += (part.shape().words * WORD) as i16;
    }
    Some(())
}
