//! Names of the frames of chains, asked once per address.
//!
//! Whoever draws many stacks asks for the same addresses again and again: an answer is kept per space and address, the
//! kernel's for all spaces together. The answers kept are bounded; when they are too many all are forgotten and
//! asked anew, and what one drawing needs beyond that is asked each time.

use super::chain::{Side, Step, steps};
use super::{EMPTY, OTHER, Stacks, fold};
use crate::base::frame::{Frame, Space};
use crate::symbol::Names;
use hashbrown::HashTable;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::rc::Rc;

/// Answers that are kept: some 150 bytes each.
const KEPT: usize = 1 << 18;

/// Bytes of the names of the answers that are kept; a name that several have counts each time.
const BYTES: usize = 64 << 20;

/// What names addresses, and its answers so far.
pub struct Naming {
    names: Box<dyn Names>,
    /// Places in `answers`, by what was asked.
    index: HashTable<u32>,
    seed: u64,
    answers: Vec<Answer>,
    frames: Vec<Frame>,
    /// Bytes of their names.
    bytes: usize,
    version: u64,
}

/// What was asked, and where its frames stand.
struct Answer {
    space: Space,
    step: Step,
    frames: Range<u32>,
}

impl Default for Naming {
    fn default() -> Naming {
        Naming::new(Box::new(Unnamed))
    }
}

impl Naming {
    /// Names by `names`.
    pub fn new(names: Box<dyn Names>) -> Naming {
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

    /// The process of a space has ended: opens what names its addresses, as long as it can be
    /// found.
    pub fn on_exit(&mut self, space: Space) {
        self.names.on_exit(space);
    }

    /// Begins a drawing: what may have changed since, and what is too much, is forgotten. Places of before mean nothing.
    /// It costs a look at each file that is asked about: for a batch of events, not for each, since what changes the names
    /// of a process comes between batches.
    pub fn begin(&mut self) {
        let version = self.names.version();
        if self.answers.len() >= KEPT || self.bytes >= BYTES || version != self.version {
            self.index.clear();
            self.answers.clear();
            self.frames.clear();
            self.bytes = 0;
            self.version = version;
        }
    }

    /// Appends the frames of a chain, innermost first, in the drawing that was begun last.
    pub fn of_chain(&mut self, space: Space, chain: &[u64], out: &mut Vec<Frame>) {
        for step in steps(chain) {
            match self.place(space, step) {
                Some(place) => out.extend_from_slice(self.answer(place)),
                None => self.ask(space, step, out),
            }
        }
    }

    /// Appends the frames of an interned chain, innermost first: of [`OTHER`] and of one that was swept, a word for it. A
    /// drawing of its own.
    pub fn of_stack(&mut self, stacks: &Stacks, id: u64, out: &mut Vec<Frame>) {
        self.begin();
        match stacks.chain(id) {
            Some((space, chain)) => self.of_chain(space, chain, out),
            None => out.push(absent(id)),
        }
    }

    /// Where the answer for an address stands until the next [`Naming::begin`]; none where no more are kept.
    pub(super) fn place(&mut self, space: Space, step: Step) -> Option<u32> {
        let space = if step.side == Side::User { space } else { Space::UNKNOWN };
        let seed = self.seed;
        let hash_of = |space: Space, step: Step| {
            let rest = u64::from(space.0) << 8 | (step.side as u64) << 1 | u64::from(step.caller);
            fold(step.address ^ seed, rest ^ 0x9e37_79b9_7f4a_7c15)
        };
        let hash = hash_of(space, step);
        let answers = &self.answers;
        let asked = |place: &u32| {
            answers.get(*place as usize).is_some_and(|one| one.step == step && one.space == space)
        };
        if let Some(&place) = self.index.find(hash, asked) {
            return Some(place);
        }
        if self.answers.len() >= 2 * KEPT || self.bytes >= 2 * BYTES {
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

    /// The frames at a place.
    pub(super) fn answer(&self, place: u32) -> &[Frame] {
        let range = self.answers.get(place as usize).map_or(0..0, |one| one.frames.clone());
        self.frames.get(range.start as usize..range.end as usize).unwrap_or_default()
    }

    pub(super) fn ask(&mut self, space: Space, step: Step, out: &mut Vec<Frame>) {
        let Step { address, side, caller } = step;
        let kernel = side == Side::Kernel;
        match side {
            Side::Kernel | Side::User => {
                self.names.frames(space, address, kernel, caller, out);
            }
            Side::Guest => {
                let dso = Some(Rc::from("[guest]"));
                out.push(Frame { address, dso, ..Frame::default() });
            }
            Side::Cut => out.push(word("[truncated]")),
        }
    }
}

/// The frame that stands for a stack that is not there.
pub(super) fn absent(id: u64) -> Frame {
    debug_assert!(id != EMPTY);
    word(if id == OTHER { "(other)" } else { "(forgotten)" })
}

fn size(frame: &Frame) -> usize {
    let line = frame.line.as_ref().map_or(0, |(file, _)| file.len());
    frame.symbol.as_ref().map_or(0, |name| name.len()) + line
}

fn word(text: &str) -> Frame {
    Frame { symbol: Some(text.into()), ..Frame::default() }
}

/// Addresses only.
struct Unnamed;

impl Names for Unnamed {
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
    use crate::base::chain::{KERNEL, TRUNCATED, USER};
    use std::cell::Cell;

    /// Two functions at each address, the inner one inlined; counts how often it is asked.
    struct Asked(Rc<Cell<usize>>, Rc<Cell<u64>>);

    impl Names for Asked {
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
    fn an_address_is_asked_once_per_space_and_the_kernels_once_for_all() {
        let (asked, version) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let mut naming = Naming::new(Box::new(Asked(asked.clone(), version.clone())));
        let chain = [KERNEL, 1 << 63, USER, 0x10];
        let mut named = |space| {
            let mut frames = Vec::new();
            naming.begin();
            naming.of_chain(Space(space), &chain, &mut frames);
            symbols(&frames).join(" ")
        };
        let first = named(1);
        assert_eq!(first, "f8000000000000000_0 f8000000000000000_0 f10_1 f10_1");
        assert_eq!((named(1), asked.get()), (first.clone(), 2));
        assert!(named(2).ends_with("f10_2"));
        assert_eq!(asked.get(), 3);
        version.set(1);
        assert_eq!((named(1), asked.get()), (first, 5));
    }

    /// One name of a megabyte for everything.
    struct Long(Rc<str>);

    impl Names for Long {
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
    fn what_is_missing_has_a_word() {
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
