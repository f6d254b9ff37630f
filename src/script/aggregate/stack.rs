//! Cells of the columns whose values are stacks.

use super::settings::AggregateSettings;
use super::spec::KeyColumn;
use crate::base::report::cell::{Cell, StackCell};
use crate::base::text::stack_style::StackStyle;
use crate::script::vm::guard::pause::off_the_clock;
use crate::stat::word::Word;
use std::{collections::HashMap, rc::Rc};

/// Returns whether one of the columns shows stacks.
pub(super) fn of_stacks(columns: &[Option<KeyColumn>]) -> bool {
    columns.iter().flatten().any(|column| column.stack.is_some())
}

/// Returns the cell of a stack.
pub(super) fn stack_cell(
    shared: &AggregateSettings,
    texts: &mut HashMap<Word, Cell>,
    style: &StackStyle,
    word: Word,
    id: f64,
) -> Cell {
    let drawn = || {
        let frames = frames_of(shared, id, style).into_iter().map(Rc::from).collect();
        let between = style.between.as_deref().unwrap_or(";").into();
        Cell::Stack(Box::new(StackCell { frames, between }))
    };
    texts.entry(word).or_insert_with(drawn).clone()
}

/// Returns the frames of the stack with this id, in a style. An id that no stack has belongs to one
/// that was swept.
pub(in crate::script) fn frames_of(
    shared: &AggregateSettings,
    id: f64,
    style: &StackStyle,
) -> Vec<String> {
    let mut frames = Vec::new();
    let stacks = shared.stacks.borrow();
    off_the_clock(|| shared.naming.borrow_mut().of_stack(&stacks, id as u64, &mut frames));
    style.chosen(&frames).iter().map(|frame| style.in_table(frame)).collect()
}
