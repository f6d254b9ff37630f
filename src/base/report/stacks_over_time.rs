//! Stacks with the time at which they were added: the data of a heat map whose ranges can be drawn
//! as flame graphs.
//!
//! Stacks share their frames: each is the last node of a path in a tree. Time is divided into cells
//! of equal length. The size is bounded: first cells become longer, then light nodes are added to
//! the nodes below them.

use std::collections::HashMap;
use std::rc::Rc;

use crate::base::report::flame::{Flame, FrameKind};

/// Length of a cell at first, in nanoseconds: 50 to a second.
pub const CELL_NS: f64 = 20e6;

/// Limits of the entries, and of the nodes.
const ENTRIES: usize = 600_000;
const NODES: usize = 150_000;

/// Limit of the cells: 20 minutes of the shortest.
const CELLS: u32 = 60_000;

/// Stacks over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StacksOverTime {
    /// Unit of the weights.
    pub unit: String,
    /// Length of a cell, in nanoseconds.
    pub cell_ns: f64,
    /// Names of frames.
    pub names: Vec<(Rc<str>, FrameKind)>,
    /// Parent and name of each node; a parent comes before its children. Node 0 is the root.
    pub nodes: Vec<(u32, u32)>,
    /// Cell, node and weight of each entry, in order of cells.
    pub entries: Vec<(u32, u32, u64)>,
}

impl StacksOverTime {
    /// Builds the tree of `stacks`, and the entries from cells, numbers of stacks and weights. The
    /// first frame of each stack is its number.
    pub fn new(unit: &str, stacks: &Flame, entries: &[(u32, u32, u64)]) -> StacksOverTime {
        let mut all = StacksOverTime {
            unit: unit.to_owned(),
            cell_ns: CELL_NS,
            nodes: vec![(0, 0)],
            names: vec![("all".into(), FrameKind::Plain)],
            ..StacksOverTime::default()
        };
        let ends = all.add(stacks);
        let entry =
            |&(cell, stack, weight): &(u32, u32, u64)| Some((cell, *ends.get(&stack)?, weight));
        all.entries = entries.iter().filter_map(entry).collect();
        all.merge_equal();
        all.shrink();
        all
    }

    /// Adds stacks. Returns the last node of each, by its number.
    fn add(&mut self, stacks: &Flame) -> HashMap<u32, u32> {
        let (mut known, mut numbers, mut ends) = (HashMap::new(), HashMap::new(), HashMap::new());
        for (frames, _) in stacks.stacks() {
            let Some((number, frames)) = frames.split_first() else { continue };
            let Ok(number) = stacks.name_of(*number).parse() else { continue };
            let mut node = 0;
            for frame in frames {
                let name = *numbers.entry(*frame).or_insert_with(|| {
                    self.names.push((stacks.name_of(*frame).into(), stacks.mark_of(*frame)));
                    self.names.len() as u32 - 1
                });
                node = *known.entry((node, name)).or_insert_with(|| {
                    self.nodes.push((node, name));
                    self.nodes.len() as u32 - 1
                });
            }
            ends.insert(number, node);
        }
        ends
    }

    fn merge_equal(&mut self) {
        self.entries.sort_unstable();
        self.entries.dedup_by(|next, first| {
            let same = (next.0, next.1) == (first.0, first.1);
            if same {
                first.2 = first.2.saturating_add(next.2);
            }
            same
        });
    }

    /// Merges cells until there are few enough, then nodes.
    fn shrink(&mut self) {
        let is_long = |all: &Self| all.entries.last().is_some_and(|last| last.0 >= CELLS);
        while (self.entries.len() > ENTRIES || is_long(self)) && self.cell_ns < 1e18 {
            self.cell_ns *= 2.0;
            self.entries.iter_mut().for_each(|entry| entry.0 /= 2);
            self.merge_equal();
        }
        let mut parts = 1 << 17;
        while self.nodes.len() > NODES && parts > 1 {
            self.prune(self.total() / parts);
            parts /= 2;
        }
    }

    /// Adds the weights of nodes below `least` to their parents.
    fn prune(&mut self, least: u64) {
        let sums = self.sums();
        let mut place = vec![0u32; self.nodes.len()];
        let mut kept: Vec<(u32, u32)> = Vec::new();
        for (at, (parent, name)) in self.nodes.iter().enumerate() {
            let parent = place.get(*parent as usize).copied().unwrap_or_default();
            let is_kept = at == 0 || sums.get(at).is_some_and(|sum| *sum > least);
            if let Some(place) = place.get_mut(at) {
                *place = if is_kept { kept.len() as u32 } else { parent };
            }
            if is_kept {
                kept.push((parent, *name));
            }
        }
        self.nodes = kept;
        for entry in &mut self.entries {
            entry.1 = place.get(entry.1 as usize).copied().unwrap_or_default();
        }
        self.merge_equal();
    }

    /// Returns the weight of each node, its children included.
    fn sums(&self) -> Vec<u64> {
        let mut sums = vec![0u64; self.nodes.len()];
        for (_, node, weight) in &self.entries {
            if let Some(sum) = sums.get_mut(*node as usize) {
                *sum = sum.saturating_add(*weight);
            }
        }
        for at in (1..self.nodes.len()).rev() {
            let sum = sums[at];
            if let Some(parent) = self.nodes.get(at).and_then(|node| sums.get_mut(node.0 as usize))
            {
                *parent = parent.saturating_add(sum);
            }
        }
        sums
    }

    /// Returns the sum of all weights.
    pub fn total(&self) -> u64 {
        self.entries.iter().fold(0, |total, entry| total.saturating_add(entry.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(all: &[&[&str]]) -> Flame {
        let mut flame = Flame::default();
        for (number, frames) in all.iter().enumerate() {
            let mut line = vec![flame.name(&number.to_string(), FrameKind::Plain)];
            line.extend(frames.iter().map(|frame| flame.name(frame, FrameKind::Plain)));
            flame.push(&line, 1);
        }
        flame
    }

    #[test]
    fn stacks_share_their_nodes_and_entries_of_a_cell_are_added_up() {
        let stacks = stacks(&[&["a", "b"], &["a", "c"], &["a", "b"]]);
        let all = StacksOverTime::new("samples", &stacks, &[(3, 0, 2), (1, 1, 5), (3, 2, 4)]);
        assert_eq!(all.nodes, [(0, 0), (0, 1), (1, 2), (1, 3)]);
        assert_eq!(all.entries, [(1, 3, 5), (3, 2, 6)]);
        assert_eq!((all.total(), all.sums()), (11, vec![11, 11, 6, 5]));
    }

    #[test]
    fn a_long_run_has_longer_cells_and_the_same_total() {
        let entries: Vec<_> = (0..400_000).map(|cell| (cell, 0, 1)).collect();
        let all = StacksOverTime::new("samples", &stacks(&[&["a"]]), &entries);
        assert_eq!((all.total(), all.cell_ns), (400_000, CELL_NS * 8.0));
        assert!(all.entries.iter().all(|entry| entry.0 < CELLS && entry.2 == 8));
    }

    #[test]
    fn light_nodes_are_added_to_their_parents() {
        let stacks = stacks(&[&["a", "b"], &["a", "c"]]);
        let mut all = StacksOverTime::new("samples", &stacks, &[(0, 0, 9), (0, 1, 1)]);
        all.prune(1);
        assert_eq!((all.nodes.len(), all.entries), (3, vec![(0, 1, 1), (0, 2, 9)]));
    }
}
