//! Columns of stacks: which words draw them, and what they show.

use super::draw::Frame;
use super::{Aggregates, Shared, spec};
use crate::base::draw::Cell;
use crate::base::stack_style::StackStyle;
use crate::stat::word::Word;
use mlua::Function;
use std::{collections::HashMap, rc::Rc};

impl Aggregates {
    /// Takes note of a word that draws stacks.
    pub(in crate::script) fn draws_stacks(&self, word: &Function, style: Rc<StackStyle>) {
        self.0.stack_words.borrow_mut().push((word.clone(), style));
    }

    /// Tells the columns whose values are stacks.
    pub(super) fn know_stacks(&self, kind: &str, columns: &mut [Option<spec::Column>]) {
        if let ("flame_graph", Some(Some(stack))) = (kind, columns.first_mut()) {
            stack.stack = Some(Rc::new(StackStyle::symbols()));
            return;
        }
        let words = self.0.stack_words.borrow();
        for column in columns.iter_mut().flatten() {
            let known = words.iter().find(|(word, _)| Some(word) == column.draw.as_ref());
            column.stack = known.map(|(_, style)| style.clone());
        }
    }
}

impl Frame<'_> {
    /// The cell of a stack.
    pub(super) fn stack(
        &self,
        texts: &mut HashMap<Word, Cell>,
        style: &StackStyle,
        word: Word,
        id: f64,
    ) -> Cell {
        let drawn = || {
            let frames = frames_of(self.shared, id, style).into_iter().map(Rc::from).collect();
            Cell::Stack { frames, between: style.between.as_deref().unwrap_or(";").into() }
        };
        texts.entry(word).or_insert_with(drawn).clone()
    }
}

/// The frames of the stack of a number, in a style: a number that no stack has is one that was forgotten.
pub(in crate::script) fn frames_of(shared: &Shared, id: f64, style: &StackStyle) -> Vec<String> {
    let mut frames = Vec::new();
    shared.naming.borrow_mut().of_stack(&shared.stacks.borrow(), id as u64, &mut frames);
    style.chosen(&frames).iter().map(|frame| style.text(frame)).collect()
}
