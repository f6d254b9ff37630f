//! Converts interned stacks into frames of a flame graph: root first, each address named once.

use super::Stacks;
use super::chain::steps;
use super::naming::{Naming, absent};
use crate::base::report::flame::{Flame, FrameKind};
use crate::base::report::frame::Frame;

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

    /// Adds the stack of an id below `roots`, the first of which is the outermost.
    pub fn add(&mut self, roots: &[&str], id: u64, weight: u64) {
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
        self.line.extend(roots.iter().rev().map(|root| self.flame.name(root, FrameKind::Plain)));
        self.line.reverse();
        self.flame.push(&self.line, weight);
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
            fold.add(&["nginx"], id, weight);
        }
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
            ]
        );
    }
}
