//! Stacks and their weights, root first: the data of folded files and flame graphs.

use std::collections::HashMap;
use std::rc::Rc;

/// Weighted stacks. Frames are indexes into a table of unique names, so 100,000 stacks take a few
/// megabytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flame {
    /// Description of the measurement; may be empty.
    pub title: String,
    /// Unit of the weights: `samples`, `bytes`, `ns`.
    pub unit: String,
    names: Vec<(Rc<str>, FrameKind)>,
    numbers: [HashMap<Rc<str>, u32>; 3],
    frames: Vec<u32>,
    stacks: Vec<FlameStack>,
}

/// Kind of a frame; each kind has its own colour in a flame graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameKind {
    /// A function of a process, or a frame that is not a function: a process, a time.
    #[default]
    Plain,
    /// A kernel function.
    Kernel,
    /// Inlined into the frame below.
    Inlined,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct FlameStack {
    start: u32,
    len: u32,
    weight: u64,
}

impl Flame {
    /// Returns an empty set of stacks.
    pub fn new(title: &str, unit: &str) -> Flame {
        Flame { title: title.to_owned(), unit: unit.to_owned(), ..Flame::default() }
    }

    /// Returns the index of a frame's name, made safe for a folded line, where `;` separates
    /// frames, a newline ends the line, and the last blank precedes the weight: `;` becomes `:`,
    /// control characters become `?`, and leading and trailing blanks are removed.
    pub fn name(&mut self, text: &str, mark: FrameKind) -> u32 {
        let [plain, kernel, inlined] = &mut self.numbers;
        let numbers = match mark {
            FrameKind::Plain => plain,
            FrameKind::Kernel => kernel,
            FrameKind::Inlined => inlined,
        };
        if let Some(&number) = numbers.get(text) {
            return number;
        }
        let fits = |c: char| c != ';' && !c.is_control();
        let text = text.trim();
        let name: Rc<str> = match text {
            "" => "[unknown]".into(),
            text if text.chars().all(fits) => text.into(),
            text => text
                .chars()
                .map(|c| {
                    if c == ';' {
                        ':'
                    } else if fits(c) {
                        c
                    } else {
                        '?'
                    }
                })
                .collect::<String>()
                .into(),
        };
        if let Some(&number) = numbers.get(&name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push((name.clone(), mark));
        numbers.insert(name, number);
        number
    }

    /// Returns the name with this index.
    pub fn name_of(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", |(name, _)| name)
    }

    /// Returns the kind of the frame with this index.
    pub fn mark_of(&self, number: u32) -> FrameKind {
        self.names.get(number as usize).map_or(FrameKind::Plain, |(_, mark)| *mark)
    }

    /// Adds a stack, its frames root first. Ignores a stack without weight or frames.
    pub fn push(&mut self, frames: &[u32], weight: u64) {
        let end = self.frames.len() + frames.len();
        if weight == 0 || frames.is_empty() || u32::try_from(end).is_err() {
            return;
        }
        let start = self.frames.len() as u32;
        self.frames.extend_from_slice(frames);
        self.stacks.push(FlameStack { start, len: frames.len() as u32, weight });
    }

    /// Adds the stacks of `other` on top of the frames `below`.
    pub fn merge(&mut self, other: &Flame, below: &[&str]) {
        let below: Vec<u32> = below.iter().map(|name| self.name(name, FrameKind::Plain)).collect();
        let numbers: Vec<u32> =
            other.names.iter().map(|(name, mark)| self.name(name, *mark)).collect();
        let mut frames = Vec::new();
        for (stack, weight) in other.stacks() {
            frames.clear();
            frames.extend_from_slice(&below);
            frames.extend(stack.iter().filter_map(|number| numbers.get(*number as usize)));
            self.push(&frames, weight);
        }
    }

    /// Sorts the stacks by their names and merges equal ones.
    pub fn merge_equal(&mut self) {
        let mut order: Vec<u32> = (0..self.names.len() as u32).collect();
        order.sort_unstable_by(|a, b| self.name_of(*a).cmp(self.name_of(*b)));
        // Equal names have equal rank regardless of their mark: a folded line has only names.
        let (mut ranks, mut rank) = (vec![0u32; order.len()], 0);
        for (i, number) in order.iter().enumerate() {
            let before = i.checked_sub(1).and_then(|before| order.get(before));
            rank += u32::from(before.is_some_and(|b| self.name_of(*b) != self.name_of(*number)));
            if let Some(place) = ranks.get_mut(*number as usize) {
                *place = rank;
            }
        }
        let rank_of = |number: &u32| ranks.get(*number as usize).copied().unwrap_or(0);
        let ranked: Vec<u32> = self.frames.iter().map(rank_of).collect();
        let key = |stack: &FlameStack| slice_of(&ranked, stack);
        let mut stacks = std::mem::take(&mut self.stacks);
        stacks.sort_by(|a, b| key(a).cmp(key(b)));
        stacks.dedup_by(|next, first| {
            let equal = key(next) == key(first);
            if equal {
                first.weight = first.weight.saturating_add(next.weight);
            }
            equal
        });
        self.stacks = stacks;
    }

    /// Cuts each stack at its first frame that weighs less than `least` in all stacks together,
    /// which is too little to be visible in a picture. The stacks must be sorted by
    /// [`Flame::merge_equal`], and stay so.
    pub fn prune(&mut self, least: u64) {
        // The index into `weights` of each frame of the current stack.
        let (mut open, mut weights): (Vec<usize>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut places: Vec<u32> = Vec::with_capacity(self.frames.len());
        let mut before: &[u32] = &[];
        for (frames, weight) in self.stacks() {
            let shared = frames
                .iter()
                .zip(before)
                .take_while(|(a, b)| self.name_of(**a) == self.name_of(**b))
                .count();
            open.truncate(shared);
            for _ in shared..frames.len() {
                open.push(weights.len());
                weights.push(0);
            }
            for place in &open {
                if let Some(sum) = weights.get_mut(*place) {
                    *sum = sum.saturating_add(weight);
                }
                places.push(*place as u32);
            }
            before = frames;
        }
        let (mut kept, mut at) = (Flame::new(&self.title, &self.unit), 0);
        for (frames, weight) in self.stacks() {
            let light = |place: &u32| weights.get(*place as usize).is_none_or(|sum| *sum < least);
            let of_stack = places.get(at..at + frames.len()).unwrap_or_default();
            let heavy = of_stack.iter().position(light).unwrap_or(frames.len()).max(1);
            at += frames.len();
            let frames: Vec<u32> = frames
                .iter()
                .take(heavy)
                .map(|number| kept.name(self.name_of(*number), self.mark_of(*number)))
                .collect();
            kept.push(&frames, weight);
        }
        kept.merge_equal();
        *self = kept;
    }

    /// Returns the approximate memory use in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.frames) + size_of_val(&*self.stacks) + self.names.len() * 128
    }

    /// Returns the stacks with their weights, in the order of insertion, or sorted after
    /// [`Flame::merge_equal`].
    pub fn stacks(&self) -> impl Iterator<Item = (&[u32], u64)> {
        self.stacks.iter().map(|stack| (self.frames_of(stack), stack.weight))
    }

    /// Returns the number of stacks.
    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    /// Returns whether there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Returns the sum of all weights.
    pub fn total(&self) -> u64 {
        self.stacks.iter().fold(0, |total, stack| total.saturating_add(stack.weight))
    }

    fn frames_of(&self, stack: &FlameStack) -> &[u32] {
        slice_of(&self.frames, stack)
    }
}

fn slice_of<'a>(all: &'a [u32], stack: &FlameStack) -> &'a [u32] {
    let start = stack.start as usize;
    all.get(start..start + stack.len as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flame(stacks: &[(&[&str], u64)]) -> Flame {
        let mut flame = Flame::new("", "samples");
        for (names, weight) in stacks {
            let frames: Vec<u32> =
                names.iter().map(|name| flame.name(name, FrameKind::Plain)).collect();
            flame.push(&frames, *weight);
        }
        flame
    }

    fn lines(flame: &Flame) -> Vec<String> {
        let line = |(frames, weight): (&[u32], u64)| {
            let names: Vec<&str> = frames.iter().map(|number| flame.name_of(*number)).collect();
            format!("{} {weight}", names.join(";"))
        };
        flame.stacks().map(line).collect()
    }

    #[test]
    fn equal_stacks_are_merged_and_sorted() {
        let mut it =
            flame(&[(&["b", "z"], 1), (&["a"], 2), (&["b"], 4), (&["b", "z"], 8), (&[], 9)]);
        it.merge_equal();
        assert_eq!(lines(&it), ["a 2", "b 4", "b;z 9"]);
        assert_eq!(it.total(), 15);
    }

    #[test]
    fn names_cannot_break_a_line() {
        let it = flame(&[(&["a;b", " tmux: server ", "x\ny", "", "[T; 4]::f"], 1)]);
        assert_eq!(lines(&it), ["a:b;tmux: server;x?y;[unknown];[T: 4]::f 1"]);
    }

    #[test]
    fn merged_stacks_keep_their_names() {
        let (mut a, b) = (flame(&[(&["x", "y"], 1)]), flame(&[(&["y", "x"], 2), (&["x", "y"], 3)]));
        a.merge(&b, &[]);
        a.merge(&b, &["later"]);
        a.merge_equal();
        assert_eq!(lines(&a), ["later;x;y 3", "later;y;x 2", "x;y 4", "y;x 2"]);
    }

    #[test]
    fn stacks_that_differ_only_in_frame_kinds_are_one_line() {
        let mut it = Flame::default();
        for (mark, weight) in
            [(FrameKind::Kernel, 1), (FrameKind::Plain, 2), (FrameKind::Inlined, 4)]
        {
            let frames =
                [it.name("a", FrameKind::Plain), it.name("poll", mark), it.name("b", mark)];
            it.push(&frames, weight);
        }
        it.merge_equal();
        assert_eq!(lines(&it), ["a;poll;b 7"]);
    }

    #[test]
    fn pruning_removes_light_frames_and_keeps_totals() {
        let mut it = flame(&[
            (&["a", "b", "c"], 90),
            (&["a", "b", "d"], 4),
            (&["a", "e", "f"], 3),
            (&["a", "e", "g"], 3),
            (&["z", "y"], 1),
        ]);
        it.merge_equal();
        it.prune(5);
        assert_eq!(lines(&it), ["a;b 4", "a;b;c 90", "a;e 6", "z 1"]);
    }
}
