//! Folds the rows of a table of stacks into a flame graph.

use super::super::{cells::TableParts, settings::AggregateSettings};
use crate::base::report::draw::Cell;
use crate::base::report::flame::{Flame, FrameKind};
use crate::script::vm::guard::pause::off_the_clock;
use crate::stack::fold::Fold;
use crate::stat::sum::Sum;
use crate::stat::word::{Word, WordContent};

/// Adds rows to a flame graph; `split` returns the root frames and the stack of a key.
///
/// # Errors
/// `split` failed.
pub(in super::super) fn fold(
    shared: &AggregateSettings,
    flame: Flame,
    evicted: u64,
    rows: Vec<(Vec<Word>, u64)>,
    split: impl Fn(&[Word]) -> mlua::Result<(Vec<String>, Word)>,
) -> mlua::Result<Flame> {
    let split = |(key, weight): (Vec<Word>, u64)| Ok((split(&key)?, weight));
    // Drawing a column calls Lua, which may itself read stacks: draw all before folding any.
    let rows = rows.into_iter().map(split).collect::<mlua::Result<Vec<_>>>()?;
    let (stacks, mut naming) = (shared.stacks.borrow(), shared.naming.borrow_mut());
    let mut fold = Fold::new(&stacks, &mut naming, flame);
    for ((roots, stack), weight) in &rows {
        let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
        if let WordContent::Number(id) = stack.part() {
            off_the_clock(|| fold.add(&roots, id as u64, *weight));
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

/// Returns the texts of the other columns of a key, and its stack.
///
/// # Errors
/// A column's own function failed.
pub(in super::super) fn roots(
    parts: &TableParts<'_>,
    key: &[Word],
) -> mlua::Result<(Vec<String>, Word)> {
    let (mut roots, mut stack) = (Vec::new(), None);
    for (column, word) in parts.columns.iter().flatten().zip(key) {
        if column.stack.is_some() && stack.is_none() {
            stack = Some(*word);
            continue;
        }
        let text = match parts.text(&mut Default::default(), column, *word)? {
            Cell::Text(text) => text,
            Cell::Int(value) => value.to_string(),
            Cell::Num(value) => value.to_string(),
            Cell::Bool(value) => value.to_string(),
            Cell::Empty | Cell::Stack { .. } => continue,
        };
        if !text.is_empty() {
            roots.push(text);
        }
    }
    Ok((roots, stack.unwrap_or(Word::ZERO)))
}

/// Returns the unit of a weight with this name: times are in nanoseconds.
pub(in super::super) fn unit(weight: &str) -> &str {
    if weight == "time" { "ns" } else { weight }
}

/// Returns a sum as a weight.
pub(in super::super) fn sum_of(sum: Option<&Sum>) -> u64 {
    sum.map_or(0, |sum| sum.value().max(0.0) as u64)
}
