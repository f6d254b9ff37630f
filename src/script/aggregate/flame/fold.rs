//! Folds the rows of a table of stacks into a flame graph.

use super::super::{cells::TableParts, settings::AggregateSettings};
use crate::base::report::cell::Cell;
use crate::base::report::flame::{Flame, FrameKind};
use crate::script::vm::guard::pause::off_the_clock;
use crate::stack::fold::{Fold, FoldedStack};
use crate::stat::sum::Sum;
use crate::stat::word::{Word, WordContent};

/// A key of a table of stacks, split into its parts; see [`FoldedStack`].
#[derive(Default)]
pub(in super::super) struct SplitKey {
    pub(in super::super) roots: Vec<String>,
    pub(in super::super) stack: Option<Word>,
    pub(in super::super) joined: Option<Word>,
    pub(in super::super) leaves: Vec<String>,
}

impl SplitKey {
    /// Returns the stack with its frames; None if it has no stack.
    fn folded(&self) -> Option<FoldedStack<'_>> {
        let id = |word: Word| match word.part() {
            WordContent::Number(id) => Some(id as u64),
            WordContent::String(_) => None,
        };
        Some(FoldedStack {
            roots: self.roots.iter().map(String::as_str).collect(),
            id: id(self.stack.unwrap_or(Word::ZERO))?,
            joined: (self.joined.and_then(id))
                .map(|id| (id, self.leaves.iter().map(String::as_str).collect())),
        })
    }
}

/// Adds rows to a flame graph; `split` splits a key.
///
/// # Errors
/// `split` failed.
pub(in super::super) fn fold(
    shared: &AggregateSettings,
    flame: Flame,
    evicted: u64,
    rows: Vec<(Vec<Word>, u64)>,
    split: impl Fn(&[Word]) -> mlua::Result<SplitKey>,
) -> mlua::Result<Flame> {
    let split = |(key, weight): (Vec<Word>, u64)| Ok((split(&key)?, weight));
    // Drawing a column calls Lua, which may itself read stacks: draw all before folding any.
    let rows = rows.into_iter().map(split).collect::<mlua::Result<Vec<_>>>()?;
    let (stacks, mut naming) = (shared.stacks.borrow(), shared.naming.borrow_mut());
    let mut fold = Fold::new(&stacks, &mut naming, flame);
    for (key, weight) in &rows {
        if let Some(folded) = key.folded() {
            off_the_clock(|| fold.add(&folded, *weight));
        }
    }
    let mut flame = fold.finish();
    if evicted > 0 {
        let name = flame.name("(evicted)", FrameKind::Plain);
        flame.push(&[name], evicted);
        flame.merge_equal();
    }
    Ok(flame)
}

/// Splits a key at its columns of stacks: the second stack is joined to the first, and the texts
/// after it are above it. All other texts are at the root.
///
/// # Errors
/// A column's own function failed.
pub(in super::super) fn split(parts: &TableParts<'_>, key: &[Word]) -> mlua::Result<SplitKey> {
    let mut split = SplitKey::default();
    for (column, word) in parts.columns.iter().flatten().zip(key) {
        if column.stack.is_some() && split.joined.is_none() {
            let first = split.stack.replace(split.stack.unwrap_or(*word));
            split.joined = first.map(|_| *word);
            continue;
        }
        let text = match parts.text(&mut Default::default(), column, *word)? {
            Cell::Text(text) => text,
            Cell::Int(value) => value.get().to_string(),
            Cell::Num(value) => value.to_string(),
            Cell::Bool(value) => value.to_string(),
            Cell::Empty | Cell::Stack(_) => continue,
        };
        match split.joined {
            _ if text.is_empty() => {}
            None => split.roots.push(text),
            Some(_) => split.leaves.push(text),
        }
    }
    Ok(split)
}

/// Returns the name and the unit of a weight with this title, `time(ns)`; without a unit in it, the
/// name is the unit, but times are in nanoseconds.
pub(in super::super) fn name_and_unit(title: &str) -> (&str, &str) {
    match title.strip_suffix(')').and_then(|title| title.split_once('(')) {
        Some(both) => both,
        None if title == "time" => (title, "ns"),
        None => (title, title),
    }
}

/// Returns a sum as a weight.
pub(in super::super) fn sum_of(sum: Option<&Sum>) -> u64 {
    sum.map_or(0, |sum| sum.value().max(0.0) as u64)
}
