//! Converts interned stacks into frames of a flame graph: root first, each address named once.

use super::Stacks;
use super::chain::steps;
use super::naming::{Naming, absent};
use crate::base::report::flame::{Flame, FrameKind};
use crate::base::report::frame::Frame;

/// The frame between a stack and the one that is joined to it.
const JOINT: &str = "--";

/// A stack with the frames around it.
#[derive(Clone, Debug, Default)]
pub struct FoldedStack<'a> {
    /// The frames below it, the outermost first.
    pub roots: Vec<&'a str>,
    /// The id of the stack.
    pub id: u64,
    /// The id of a stack that is joined to it, such as that of the waker of a task that slept in
    /// the first, and the frames above that stack. Its innermost function is drawn lowest, next to
    /// a frame `--`: there the two stacks met.
    pub joined: Option<(u64, Vec<&'a str>)>,
}

/// Adds stacks to a flame graph.
pub struct Fold<'a> {
    stacks: &'a Stacks,
    naming: &'a mut Naming,
    flame: Flame,
    /// By index in `naming`: the range of its frames in `numbers`.
    known: Vec<Option<(u32, u32)>>,
    numbers: Vec<u32>,
    line: Vec<u32>,
    frames: Vec<Frame>,
}

impl<'a> Fold<'a> {
    /// Continues the flame graph `flame`.
    pub fn new(stacks: &'a Stacks, naming: &'a mut Naming, flame: Flame) -> Fold<'a> {
        naming.begin();
        Fold {
            stacks,
            naming,
            flame,
            known: Vec::new(),
            numbers: Vec::new(),
            line: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Adds a stack, with the frames around it.
    pub fn add(&mut self, folded: &FoldedStack<'_>, weight: u64) {
        let mut line = Vec::new();
        // Built innermost first and reversed at the end.
        if let Some((id, leaves)) = &folded.joined {
            let flame = &mut self.flame;
            line.extend(leaves.iter().rev().map(|leaf| flame.name(leaf, FrameKind::Plain)));
            self.walk(*id);
            line.extend(self.line.iter().rev());
            line.push(self.flame.name(JOINT, FrameKind::Plain));
        }
        self.walk(folded.id);
        line.extend(&self.line);
        let flame = &mut self.flame;
        line.extend(folded.roots.iter().rev().map(|root| flame.name(root, FrameKind::Plain)));
        line.reverse();
        self.flame.push(&line, weight);
    }

    /// Writes the frames of a stack to `line`, innermost first.
    fn walk(&mut self, id: u64) {
        self.line.clear();
        match self.stacks.chain(id) {
            Some((space, chain)) => {
                for step in steps(chain) {
                    match self.naming.place(space, step) {
                        Some(place) => self.push_known(place),
                        None => {
                            self.frames.clear();
                            self.naming.ask(space, step, &mut self.frames);
                            let flame = &mut self.flame;
                            self.line.extend(self.frames.iter().map(|frame| number(flame, frame)));
                        }
                    }
                }
            }
            None => self.line.push(number(&mut self.flame, &absent(id))),
        }
        // Consecutive functions without names become one frame: their number has no meaning, least
        // of all if the walk failed in code without frame pointers.
        let flame = &self.flame;
        self.line.dedup_by(|next, before| next == before && is_nameless(flame.name_of(*before)));
    }

    fn push_known(&mut self, place: u32) {
        let at = place as usize;
        if self.known.len() <= at {
            self.known.resize(at + 1, None);
        }
        let (start, end) = match self.known.get(at).copied().flatten() {
            Some(known) => known,
            None => {
                let start = self.numbers.len() as u32;
                let flame = &mut self.flame;
                self.numbers
                    .extend(self.naming.answer(place).iter().map(|frame| number(flame, frame)));
                let known = (start, self.numbers.len() as u32);
                if let Some(place) = self.known.get_mut(at) {
                    *place = Some(known);
                }
                known
            }
        };
        self.line
            .extend_from_slice(self.numbers.get(start as usize..end as usize).unwrap_or_default());
    }

    /// Returns the flame graph; equal stacks are merged and sorted.
    pub fn finish(mut self) -> Flame {
        self.flame.merge_equal();
        self.flame
    }
}

fn number(flame: &mut Flame, frame: &Frame) -> u32 {
    let mark = match (frame.inlined, frame.kernel) {
        (true, _) => FrameKind::Inlined,
        (_, true) => FrameKind::Kernel,
        _ => FrameKind::Plain,
    };
    flame.name(&frame.name(), mark)
}

/// Returns whether a name is a placeholder for a missing one.
fn is_nameless(name: &str) -> bool {
    name.starts_with('[') && name.ends_with(']')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::event::chain::{KERNEL, TRUNCATED, USER};
    use crate::base::report::frame::Space;
    use crate::symbol::Symbolizer;
    use std::rc::Rc;

    struct FoldedName;

    impl Symbolizer for FoldedName {
        fn frames(&mut self, _: Space, address: u64, kernel: bool, _: bool, out: &mut Vec<Frame>) {
            let symbol = (address & 1 == 0).then(|| Rc::from(format!("f{}", address & 0xff)));
            let dso = (!kernel).then(|| Rc::from("/usr/lib/libx.so"));
            if address & 0xff == 4 {
                let inlined = Some(Rc::from("inner"));
                out.push(Frame { symbol: inlined, inlined: true, ..Frame::default() });
            }
            out.push(Frame { address, symbol, dso, ..Frame::default() });
        }
    }

    #[test]
    fn stacks_fold_root_first_with_inlined_functions_and_files_for_missing_names() {
        let (mut stacks, mut naming) = (Stacks::default(), Naming::new(Box::new(FoldedName)));
        let kernel = 1 << 63;
        let one = stacks.intern(&[KERNEL, kernel | 2, kernel | 3, USER, 4, 5, 7, 9], || Space(1));
        let two = stacks.intern(&[USER, 4, TRUNCATED], || Space(2));
        let mut fold = Fold::new(&stacks, &mut naming, Flame::new("", ""));
        for (id, weight) in [(one, 3), (two, 1), (one, 4), (super::super::OTHER, 2)] {
            fold.add(&FoldedStack { roots: vec!["nginx"], id, joined: None }, weight);
        }
        let joined = Some((two, vec!["waker"]));
        fold.add(&FoldedStack { roots: vec!["redis"], id: one, joined }, 9);
        let flame = fold.finish();
        let line = |(frames, weight): (&[u32], u64)| {
            let names: Vec<&str> = frames.iter().map(|number| flame.name_of(*number)).collect();
            format!("{} {weight}", names.join(";"))
        };
        assert_eq!(
            flame.stacks().map(line).collect::<Vec<_>>(),
            [
                "nginx;(other) 2",
                "nginx;[libx.so];f4;inner;[unknown];f2 7",
                "nginx;[truncated];f4;inner 1",
                "redis;[libx.so];f4;inner;[unknown];f2;--;inner;f4;[truncated];waker 9",
            ]
        );
    }
}
