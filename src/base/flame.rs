//! Stacks and what each weighs, root first: what folded files and flame graphs are made of.

use std::collections::HashMap;
use std::rc::Rc;

/// Weighted stacks. Frames are numbers of names, each name once, so that a hundred thousand stacks take a few megabytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flame {
    /// What was measured, in words; may be empty.
    pub title: String,
    /// What a weight counts: `samples`, `bytes`, `ns`.
    pub unit: String,
    names: Vec<(Rc<str>, Mark)>,
    numbers: [HashMap<Rc<str>, u32>; 3],
    frames: Vec<u32>,
    stacks: Vec<Stack>,
}

/// What a frame is; it has a colour of its own in a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// A function of a process, or a frame that is none: a process, a time.
    #[default]
    Plain,
    /// The kernel's.
    Kernel,
    /// Inlined into the one below.
    Inlined,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Stack {
    start: u32,
    len: u32,
    weight: u64,
}

impl Flame {
    /// Without stacks yet.
    pub fn new(title: &str, unit: &str) -> Flame {
        Flame { title: title.to_owned(), unit: unit.to_owned(), ..Flame::default() }
    }

    /// The number of a frame's name, made fit for a folded line: `;` parts frames, a line's end lines, and the last blank the
    /// weight, so the first becomes `:`, what controls becomes `?`, and blanks stay inside of a name only.
    pub fn name(&mut self, text: &str, mark: Mark) -> u32 {
        let [plain, kernel, inlined] = &mut self.numbers;
        let numbers = match mark {
            Mark::Plain => plain,
            Mark::Kernel => kernel,
            Mark::Inlined => inlined,
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

    /// The name of a number.
    pub fn name_of(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", |(name, _)| name)
    }

    /// What the frame of a number is.
    pub fn mark_of(&self, number: u32) -> Mark {
        self.names.get(number as usize).map_or(Mark::Plain, |(_, mark)| *mark)
    }

    /// Adds a stack, its frames root first. One without weight or frames is none.
    pub fn push(&mut self, frames: &[u32], weight: u64) {
        let end = self.frames.len() + frames.len();
        if weight == 0 || frames.is_empty() || u32::try_from(end).is_err() {
            return;
        }
        let start = self.frames.len() as u32;
        self.frames.extend_from_slice(frames);
        self.stacks.push(Stack { start, len: frames.len() as u32, weight });
    }

    /// Adds the stacks of another, below further frames.
    pub fn merge(&mut self, other: &Flame, below: &[&str]) {
        let below: Vec<u32> = below.iter().map(|name| self.name(name, Mark::Plain)).collect();
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

    /// Puts the stacks into the order of their names, and adds up those that are equal.
    pub fn settle(&mut self) {
        let mut order: Vec<u32> = (0..self.names.len() as u32).collect();
        order.sort_unstable_by(|a, b| self.name_of(*a).cmp(self.name_of(*b)));
        // Equal names rank equal, whatever marks them: a folded line has names only.
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
        let key = |stack: &Stack| slice_of(&ranked, stack);
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

    /// Cuts each stack at its first frame that weighs less than `least` in all stacks together: nothing of a picture is
    /// lost that could be seen. The stacks must be settled, and still are.
    pub fn prune(&mut self, least: u64) {
        // For each frame of the stack at hand: where its weight stands in `weights`.
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
            let seen = of_stack.iter().position(light).unwrap_or(frames.len()).max(1);
            at += frames.len();
            let frames: Vec<u32> = frames
                .iter()
                .take(seen)
                .map(|number| kept.name(self.name_of(*number), self.mark_of(*number)))
                .collect();
            kept.push(&frames, weight);
        }
        kept.settle();
        *self = kept;
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.frames) + size_of_val(&*self.stacks) + self.names.len() * 128
    }

    /// The stacks with their weights, as they were added or in order once settled.
    pub fn stacks(&self) -> impl Iterator<Item = (&[u32], u64)> {
        self.stacks.iter().map(|stack| (self.frames_of(stack), stack.weight))
    }

    /// How many stacks there are.
    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// The sum of all weights.
    pub fn total(&self) -> u64 {
        self.stacks.iter().fold(0, |total, stack| total.saturating_add(stack.weight))
    }

    fn frames_of(&self, stack: &Stack) -> &[u32] {
        slice_of(&self.frames, stack)
    }
}

fn slice_of<'a>(all: &'a [u32], stack: &Stack) -> &'a [u32] {
    let start = stack.start as usize;
    all.get(start..start + stack.len as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flame(stacks: &[(&[&str], u64)]) -> Flame {
        let mut flame = Flame::new("", "samples");
        for (names, weight) in stacks {
            let frames: Vec<u32> = names.iter().map(|name| flame.name(name, Mark::Plain)).collect();
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
    fn equal_stacks_are_one_and_all_are_in_order() {
        let mut it =
            flame(&[(&["b", "z"], 1), (&["a"], 2), (&["b"], 4), (&["b", "z"], 8), (&[], 9)]);
        it.settle();
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
        a.settle();
        assert_eq!(lines(&a), ["later;x;y 3", "later;y;x 2", "x;y 4", "y;x 2"]);
    }

    #[test]
    fn a_name_is_one_in_a_line_whatever_marks_it() {
        let mut it = Flame::default();
        for (mark, weight) in [(Mark::Kernel, 1), (Mark::Plain, 2), (Mark::Inlined, 4)] {
            let frames = [it.name("a", Mark::Plain), it.name("poll", mark), it.name("b", mark)];
            it.push(&frames, weight);
        }
        it.settle();
        assert_eq!(lines(&it), ["a;poll;b 7"]);
    }

    #[test]
    fn pruning_cuts_what_is_too_light_and_keeps_every_total() {
        let mut it = flame(&[
            (&["a", "b", "c"], 90),
            (&["a", "b", "d"], 4),
            (&["a", "e", "f"], 3),
            (&["a", "e", "g"], 3),
            (&["z", "y"], 1),
        ]);
        it.settle();
        it.prune(5);
        assert_eq!(lines(&it), ["a;b 4", "a;b;c 90", "a;e 6", "z 1"]);
    }
}
