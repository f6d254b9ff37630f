//! Names the frames of chains; looks up each address once.
//!
//! Drawing many stacks looks up the same addresses repeatedly. Answers are cached per space and
//! address, answers for the kernel once for all spaces. The cache is bounded: beyond the limit it
//! is cleared, and within one drawing further addresses are looked up each time.

use super::chain::{ChainStep, CodeSide, steps};
use super::{EMPTY, OTHER, Stacks, fold};
use crate::base::report::frame::{Frame, Space};
use crate::symbol::{OmittedSymbols, Symbolizer};
use hashbrown::HashTable;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::rc::Rc;

/// Maximum number of cached answers; each takes about 150 bytes.
const ANSWERS_MAX: usize = 1 << 18;

/// Maximum size of the names in the cache, in bytes; a shared name counts each time.
const BYTES: usize = 64 << 20;

/// A symbolizer and its cached answers.
pub struct Naming {
    names: Box<dyn Symbolizer>,
    /// Indexes of `answers`, by space and address.
    index: HashTable<u32>,
    seed: u64,
    answers: Vec<Answer>,
    frames: Vec<Frame>,
    /// Size of their names in bytes.
    bytes: usize,
    version: u64,
}

/// A looked-up address and the range of its frames.
struct Answer {
    space: Space,
    step: ChainStep,
    frames: Range<u32>,
}

impl Default for Naming {
    fn default() -> Naming {
        Naming::new(Box::new(Unnamed))
    }
}

impl Naming {
    /// Creates a cache of the answers of `names`.
    pub fn new(names: Box<dyn Symbolizer>) -> Naming {
        Naming {
            names,
            index: HashTable::new(),
            seed: RandomState::new().hash_one(0),
            answers: Vec::new(),
            frames: Vec::new(),
            bytes: 0,
            version: 0,
        }
    }

    /// Handles the end of the process of a space: opens the files that name its addresses while
    /// they can be found.
    pub fn on_exit(&mut self, space: Space) {
        self.names.on_exit(space);
    }

    /// Returns how many symbols were omitted because of limits.
    pub fn omitted(&self) -> OmittedSymbols {
        self.names.omitted()
    }

    /// Begins a drawing: clears the cache if it is too large or names may have changed. Indexes
    /// from before are then invalid.
    ///
    /// It checks each file in use, so it is called per batch of events, not per event: names of a
    /// process change only between batches.
    pub fn begin(&mut self) {
        let version = self.names.version();
        if self.answers.len() >= ANSWERS_MAX || self.bytes >= BYTES || version != self.version {
            self.index.clear();
            self.answers.clear();
            self.frames.clear();
            self.bytes = 0;
            self.version = version;
        }
    }

    /// Appends the frames of a chain, innermost first, within the current drawing.
    pub fn of_chain(&mut self, space: Space, chain: &[u64], out: &mut Vec<Frame>) {
        for step in steps(chain) {
            match self.place(space, step) {
                Some(place) => out.extend_from_slice(self.answer(place)),
                None => self.ask(space, step, out),
            }
        }
    }

    /// Appends the frames of an interned chain, innermost first, in a drawing of its own. [`OTHER`]
    /// and swept chains get a placeholder.
    pub fn of_stack(&mut self, stacks: &Stacks, id: u64, out: &mut Vec<Frame>) {
        self.begin();
        match stacks.chain(id) {
            Some((space, chain)) => self.of_chain(space, chain, out),
            None => out.push(absent(id)),
        }
    }

    /// Returns the index of the answer for an address, valid until the next [`Naming::begin`]; None
    /// if the cache is full.
    pub(super) fn place(&mut self, space: Space, step: ChainStep) -> Option<u32> {
        let space = if step.side == CodeSide::User { space } else { Space::UNKNOWN };
        let seed = self.seed;
        let hash_of = |space: Space, step: ChainStep| {
            let rest = u64::from(space.0) << 8 | (step.side as u64) << 1 | u64::from(step.caller);
            fold(step.address ^ seed, rest ^ 0x9e37_79b9_7f4a_7c15)
        };
        let hash = hash_of(space, step);
        let answers = &self.answers;
        let lookups = |place: &u32| {
            answers.get(*place as usize).is_some_and(|one| one.step == step && one.space == space)
        };
        if let Some(&place) = self.index.find(hash, lookups) {
            return Some(place);
        }
        if self.answers.len() >= 2 * ANSWERS_MAX || self.bytes >= 2 * BYTES {
            return None;
        }
        let mut frames = std::mem::take(&mut self.frames);
        let start = frames.len() as u32;
        self.ask(space, step, &mut frames);
        self.bytes += frames.iter().skip(start as usize).map(size).sum::<usize>();
        let place = self.answers.len() as u32;
        self.answers.push(Answer { space, step, frames: start..frames.len() as u32 });
        self.frames = frames;
        let answers = &self.answers;
        let of_answer = |place: &u32| {
            answers.get(*place as usize).map_or(0, |one| hash_of(one.space, one.step))
        };
        self.index.insert_unique(hash, place, of_answer);
        Some(place)
    }

    /// Returns the frames of an index.
    pub(super) fn answer(&self, place: u32) -> &[Frame] {
        let range = self.answers.get(place as usize).map_or(0..0, |one| one.frames.clone());
        self.frames.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    pub(super) fn ask(&mut self, space: Space, step: ChainStep, out: &mut Vec<Frame>) {
        let ChainStep { address, side, caller } = step;
        let kernel = side == CodeSide::Kernel;
        match side {
            CodeSide::Kernel | CodeSide::User => {
                self.names.frames(space, address, kernel, caller, out);
            }
            CodeSide::Guest => {
                let dso = Some(Rc::from("[guest]"));
                out.push(Frame { address, dso, ..Frame::default() });
            }
            CodeSide::Cut => out.push(placeholder("[truncated]")),
        }
    }
}

/// Returns the placeholder of a missing stack.
pub(super) fn absent(id: u64) -> Frame {
    debug_assert!(id != EMPTY);
    placeholder(if id == OTHER { "(other)" } else { "(forgotten)" })
}

fn size(frame: &Frame) -> usize {
    let line = frame.line.as_ref().map_or(0, |(file, _)| file.len());
    frame.symbol.as_ref().map_or(0, |name| name.len()) + line
}

fn placeholder(text: &str) -> Frame {
    Frame { symbol: Some(text.into()), ..Frame::default() }
}

/// Returns addresses without names.
struct Unnamed;

impl Symbolizer for Unnamed {
    fn frames(
        &mut self,
        _space: Space,
        address: u64,
        kernel: bool,
        _caller: bool,
        out: &mut Vec<Frame>,
    ) {
        out.push(Frame { address, kernel, ..Frame::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::event::chain::{KERNEL, TRUNCATED, USER};
    use std::cell::Cell;

    /// Returns two functions for each address, the inner one inlined; counts the lookups.
    struct AddressNames(Rc<Cell<usize>>, Rc<Cell<u64>>);

    impl Symbolizer for AddressNames {
        fn frames(
            &mut self,
            space: Space,
            address: u64,
            kernel: bool,
            _: bool,
            out: &mut Vec<Frame>,
        ) {
            self.0.set(self.0.get() + 1);
            let symbol = Some(Rc::from(format!("f{address:x}_{}", space.0)));
            out.push(Frame {
                address,
                kernel,
                symbol: symbol.clone(),
                inlined: true,
                ..Frame::default()
            });
            out.push(Frame { address, kernel, symbol, ..Frame::default() });
        }

        fn version(&self) -> u64 {
            self.1.get()
        }
    }

    fn symbols(frames: &[Frame]) -> Vec<&str> {
        frames.iter().map(|frame| frame.symbol.as_deref().unwrap_or("")).collect()
    }

    #[test]
    fn user_addresses_are_looked_up_once_per_space_and_kernel_addresses_once() {
        let (lookups, version) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let mut naming = Naming::new(Box::new(AddressNames(lookups.clone(), version.clone())));
        let chain = [KERNEL, 1 << 63, USER, 0x10];
        let mut named = |space| {
            let mut frames = Vec::new();
            naming.begin();
            naming.of_chain(Space(space), &chain, &mut frames);
            symbols(&frames).join(" ")
        };
        let first = named(1);
        assert_eq!(first, "f8000000000000000_0 f8000000000000000_0 f10_1 f10_1");
        assert_eq!((named(1), lookups.get()), (first.clone(), 2));
        assert!(named(2).ends_with("f10_2"));
        assert_eq!(lookups.get(), 3);
        version.set(1);
        assert_eq!((named(1), lookups.get()), (first, 5));
    }

    /// Returns the same name of one megabyte for each address.
    struct Long(Rc<str>);

    impl Symbolizer for Long {
        fn frames(&mut self, _: Space, address: u64, _: bool, _: bool, out: &mut Vec<Frame>) {
            out.push(Frame { address, symbol: Some(self.0.clone()), ..Frame::default() });
        }
    }

    #[test]
    fn long_names_leave_room_for_fewer_answers() {
        let mut naming = Naming::new(Box::new(Long("x".repeat(1 << 20).into())));
        let chain: Vec<u64> = std::iter::once(USER).chain(1..200).collect();
        let mut frames = Vec::new();
        naming.of_chain(Space(1), &chain, &mut frames);
        assert_eq!((frames.len(), naming.answers.len()), (199, (2 * BYTES) >> 20));
        naming.begin();
        assert_eq!((naming.answers.len(), naming.bytes), (0, 0));
    }

    #[test]
    fn missing_chains_have_placeholders() {
        let (mut naming, mut stacks) = (Naming::default(), Stacks::default());
        let cut = stacks.intern(&[USER, 0x10, TRUNCATED], || Space(1));
        let mut frames = Vec::new();
        for id in [OTHER, EMPTY, cut, 999] {
            naming.of_stack(&stacks, id, &mut frames);
        }
        assert_eq!(symbols(&frames), ["(other)", "", "[truncated]", "(forgotten)"]);
        assert_eq!(frames.get(1).map(|frame| frame.address), Some(0x10));
    }
}
