//! Keys of rows in the maps of programs, in words of 8 bytes.

use super::assembler::BpfRegister::*;
use super::assembler::{AccessSize, Assembler, BpfHelper, JumpIf, Label};
use super::call_chain::{CHAIN_WORDS, ChainMaps, ChainShape};
use super::expression::ExpressionWriter;
use super::integer::IntegerNode;
use super::map_access::{WORD, table_key};
use super::record_text::RecordText;

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// 64 bits.
    Integer(IntegerNode),
    /// Text, padded with NULs.
    Text(RecordText),
    /// The ID of the cgroup of the task, which user space shows as text.
    Cgroup(CgroupText),
    /// The call chain.
    Chain(ChainShape),
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
    /// A call chain: its hash, and the process of its user frames.
    Chain(ChainShape),
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
            KeyPart::Chain(part) => PartShape { words: CHAIN_WORDS, kind: KeyKind::Chain(*part) },
        }
    }

    /// Returns the number that it is or has; None for text of the record.
    pub(super) fn number(&self) -> Option<&IntegerNode> {
        match self {
            KeyPart::Integer(node) => Some(node),
            KeyPart::Cgroup(_) => Some(&IntegerNode::Cgroup),
            KeyPart::Chain(part) => part.user.then_some(&IntegerNode::Process),
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

    /// Returns the call chain in it, and the offset of its words in a key, in bytes.
    pub fn chain(&self) -> Option<(ChainShape, usize)> {
        let mut at = 0;
        self.parts.iter().find_map(|part| match part.kind {
            KeyKind::Chain(chain) => Some((chain, at)),
            _ => {
                at += part.words * WORD;
                None
            }
        })
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
            // Needs maps: `store_chain`.
            KeyPart::Chain(_) => {}
        }
        at += (part.shape().words * WORD) as i16;
    }
    Some(())
}

/// Stores the call chain of a key at an offset from R10, if it has one; jumps to `out` without
/// memory for it.
pub(super) fn store_chain(
    code: &mut Assembler,
    shape: &KeyShape,
    maps: ChainMaps,
    key_at: i16,
    out: Label,
) {
    if let Some((chain, offset)) = shape.chain() {
        chain.store(code, maps, key_at + offset as i16, out);
    }
}

/// Sets R0 to the value of a key with a call chain, if the table in R8 has the key, and jumps to
/// `found`; otherwise adds the chain to those of the table, or jumps to `no_room`. Does nothing for
/// a key without a chain. Uses the stack below the key.
pub(super) fn add_chain(
    code: &mut Assembler,
    shape: &KeyShape,
    maps: ChainMaps,
    key_at: i16,
    [found, no_room]: [Label; 2],
) {
    let Some((_, offset)) = shape.chain() else { return };
    table_key(code, key_at);
    code.call(BpfHelper::MapLookup);
    code.jump_if(JumpIf::Unequal, R0, 0, found);
    maps.add(code, key_at + offset as i16, key_at - WORD as i16, no_room);
}
