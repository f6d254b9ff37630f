//! Columns of stacks: which drawing functions mark them, and how they are drawn.

use super::draw::{KvLook, TableParts};
use super::{AggregateSettings, Aggregates, spec};
use crate::base::draw::{Cell, Report};
use crate::base::stack_style::StackStyle;
use crate::script::guard::pause::off_the_clock;
use crate::stat::kv::Kv;
use crate::stat::word::{Word, WordContent};
use mlua::Function;
use std::{cell::RefCell, collections::HashMap, rc::Rc};

impl Aggregates {
    /// Registers a function that draws stacks in `style`; a column drawn by it is a stack column.
    pub(in crate::script) fn draws_stacks(&self, function: &Function, style: Rc<StackStyle>) {
        self.0.stack_functions.borrow_mut().push((function.clone(), style));
    }

    /// Sets the stack style of each column whose values are stacks.
    pub(super) fn know_stacks(&self, kind: &str, columns: &mut [Option<spec::KeyColumn>]) {
        if let ("flame_graph", Some(Some(stack))) = (kind, columns.first_mut()) {
            stack.stack = Some(Rc::new(StackStyle::symbols()));
            return;
        }
        let functions = self.0.stack_functions.borrow();
        for column in columns.iter_mut().flatten() {
            let known =
                functions.iter().find(|(function, _)| Some(function) == column.draw.as_ref());
            column.stack = known.map(|(_, style)| style.clone());
        }
    }
}

impl TableParts<'_> {
    /// Draws counts and sums. Joins rows whose stacks have the same frames after naming: two
    /// addresses in one function, or the same code in a process that is attributed to another one
    /// because the record of its mappings was lost.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(super) fn counted(&self, kv: &RefCell<Kv>, look: &KvLook) -> mlua::Result<Report> {
        let styles: Vec<Option<&StackStyle>> =
            self.columns.iter().flatten().map(|column| column.stack.as_deref()).collect();
        if styles.iter().all(Option::is_none) {
            return self.kv(kv, look);
        }
        let (mut alike, mut known) = (HashMap::new(), HashMap::new());
        for row in kv.borrow().rows() {
            for (place, (word, style)) in row.key.iter().zip(&styles).enumerate() {
                if let (WordContent::Number(id), Some(style)) = (word.part(), style) {
                    known.entry((place, *word)).or_insert_with(|| {
                        let frames = frames_of(self.shared, id, style);
                        *alike.entry((place, frames)).or_insert(*word)
                    });
                }
            }
        }
        let joined = kv.borrow().rekeyed(|place, word| *known.get(&(place, word)).unwrap_or(&word));
        self.kv(&RefCell::new(joined), look)
    }

    /// Draws counts and sums by the columns that are not stacks (those are in the flame graph).
    /// Returns None if there are no such columns.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(super) fn beside_stacks(
        &self,
        kv: &RefCell<Kv>,
        look: &KvLook,
    ) -> mlua::Result<Option<Report>> {
        let shown: Vec<bool> =
            self.columns.iter().flatten().map(|column| column.stack.is_none()).collect();
        if look.flame || look.hide_key || !shown.contains(&true) {
            return Ok(None);
        }
        let is_shown = |place: usize| shown.get(place).is_none_or(|shown| *shown);
        let joined =
            kv.borrow().rekeyed(|place, word| if is_shown(place) { word } else { Word::ZERO });
        let mut report = self.kv(&RefCell::new(joined), look)?;
        if let Report::Table(table) = &mut report {
            let mut places = 0..;
            table.columns.retain(|_| places.next().is_some_and(is_shown));
            for row in &mut table.rows {
                let mut places = 0..;
                row.retain(|_| places.next().is_some_and(is_shown));
            }
        }
        Ok(Some(report))
    }

    /// Returns the cell of a stack.
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
