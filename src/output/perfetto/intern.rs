//! Interned strings, frames and call stacks of one packet sequence.
//!
//! A packet refers to a text by number; the number is defined by the same packet or an earlier one
//! of its sequence (`TracePacket.interned_data`). The memory is bounded: at the bound all numbers
//! are forgotten, and the next packet says so (`SEQ_INCREMENTAL_STATE_CLEARED`), so that a reader
//! forgets them as well.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use super::wire::{put_bytes, put_message, put_text, put_uint};
use crate::base::report::frame::Frame;
use crate::base::report::timeline::NO_ID;

/// Bytes of texts and stacks after which all numbers are forgotten.
const BYTES: usize = 4 << 20;

/// Bytes of a text, a frame or a stack besides its content.
const OVERHEAD: usize = 48;

/// `TracePacket.sequence_flags`.
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

/// Fields of `InternedData`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    Category = 1,
    EventName = 2,
    AnnotationName = 3,
    FunctionName = 5,
    Frame = 6,
    Callstack = 7,
    MappingPath = 17,
    Mapping = 19,
    AnnotationText = 29,
}

struct Text {
    hash: u64,
    kind: Kind,
    start: u32,
    len: u32,
    iid: u64,
}

/// The numbers of one sequence.
#[derive(Default)]
pub(super) struct Interned {
    hasher: RandomState,
    index: HashTable<u32>,
    texts: Vec<Text>,
    bytes: Vec<u8>,
    /// Bytes of the call stacks.
    stack_bytes: usize,
    frames: HashMap<(u64, u64), u64>,
    stacks: HashMap<u64, u64>,
    last: u64,
    /// How often all numbers were forgotten.
    pub(super) generation: u64,
    /// Encoded fields of `InternedData` that the next packet of the sequence has to contain.
    pub(super) fresh: Vec<u8>,
}

impl Interned {
    /// Forgets all numbers if they use too much memory. Returns whether it did.
    pub(super) fn clear_if_large(&mut self) -> bool {
        let entries = (self.frames.len() + self.texts.len()) * OVERHEAD;
        if self.bytes.len() + self.stack_bytes + entries < BYTES {
            return false;
        }
        let (hasher, generation) = (self.hasher.clone(), self.generation + 1);
        *self = Interned { hasher, generation, ..Interned::default() };
        true
    }

    /// Returns the number of a text.
    #[inline]
    pub(super) fn text(&mut self, kind: Kind, text: &[u8]) -> u64 {
        let hash = self.hasher.hash_one((kind as u32, text));
        let (texts, bytes) = (&self.texts, &self.bytes);
        let same = |at: &u32| {
            texts.get(*at as usize).is_some_and(|one| {
                one.hash == hash && one.kind == kind && text_of(bytes, one) == text
            })
        };
        let found = self.index.find(hash, same).and_then(|at| texts.get(*at as usize));
        found.map(|one| one.iid).unwrap_or_else(|| self.add(kind, text, hash))
    }

    #[cold]
    fn add(&mut self, kind: Kind, text: &[u8], hash: u64) -> u64 {
        let iid = self.next();
        let (start, len) = (self.bytes.len() as u32, text.len() as u32);
        self.bytes.extend_from_slice(text);
        self.texts.push(Text { hash, kind, start, len, iid });
        let texts = &self.texts;
        let hash_of = |at: &u32| texts.get(*at as usize).map_or(0, |one| one.hash);
        self.index.insert_unique(hash, texts.len() as u32 - 1, hash_of);
        put_message(&mut self.fresh, kind as u32, |out| {
            put_uint(out, 1, iid);
            put_text(out, 2, text);
        });
        iid
    }

    /// Returns the number of a call stack; `frames` appends its frames, innermost first, if it is
    /// new. A stack with the id [`NO_ID`] is always new.
    pub(super) fn stack(&mut self, id: u64, frames: &mut dyn FnMut(&mut Vec<Frame>)) -> u64 {
        if let Some(iid) = self.stacks.get(&id) {
            return *iid;
        }
        let mut all = Vec::new();
        frames(&mut all);
        // Perfetto lists the outermost frame first.
        let numbers: Vec<u64> = all.iter().rev().map(|frame| self.frame(frame)).collect();
        let iid = self.next();
        if id != NO_ID {
            self.stacks.insert(id, iid);
        }
        self.stack_bytes += numbers.len() * 8 + OVERHEAD;
        put_message(&mut self.fresh, Kind::Callstack as u32, |out| {
            put_uint(out, 1, iid);
            numbers.iter().for_each(|frame| put_uint(out, 2, *frame));
        });
        iid
    }

    /// Returns the number of a frame. Its function is named already, so it has no address.
    fn frame(&mut self, frame: &Frame) -> u64 {
        let function = self.text(Kind::FunctionName, frame.name().as_bytes());
        let file = match &frame.dso {
            Some(file) => file.as_bytes(),
            None if frame.kernel => b"[kernel]",
            None => b"[unknown]",
        };
        let mapping = self.mapping(file);
        if let Some(iid) = self.frames.get(&(function, mapping)) {
            return *iid;
        }
        let iid = self.next();
        self.frames.insert((function, mapping), iid);
        put_message(&mut self.fresh, Kind::Frame as u32, |out| {
            put_uint(out, 1, iid);
            put_uint(out, 2, function);
            put_uint(out, 3, mapping);
        });
        iid
    }

    /// Returns the number of a mapped file, which equals that of its path.
    fn mapping(&mut self, file: &[u8]) -> u64 {
        // A reader joins the parts of a path with `/` and puts one in front.
        let path = file.strip_prefix(b"/").unwrap_or(file);
        let before = self.last;
        let iid = self.text(Kind::MappingPath, path);
        if iid > before {
            let mut mapping = Vec::new();
            put_uint(&mut mapping, 1, iid);
            put_uint(&mut mapping, 7, iid);
            put_bytes(&mut self.fresh, Kind::Mapping as u32, &mapping);
        }
        iid
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

fn text_of<'a>(bytes: &'a [u8], text: &Text) -> &'a [u8] {
    let start = text.start as usize;
    bytes.get(start..start + text.len as usize).unwrap_or_default()
}

/// Appends the sequence of a packet, and the texts that it defines.
pub(super) fn begin_packet(
    out: &mut Vec<u8>,
    sequence: u64,
    is_first: &mut bool,
    strings: &mut Interned,
) {
    let cleared = if std::mem::take(is_first) { STATE_CLEARED } else { 0 };
    put_uint(out, 10, sequence);
    put_uint(out, 13, NEEDS_STATE | cleared);
    if !strings.fresh.is_empty() {
        put_bytes(out, 12, &strings.fresh);
        strings.fresh.clear();
    }
}
