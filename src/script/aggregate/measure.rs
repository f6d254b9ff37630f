//! Measurements of tables for metrics: all rows of the interval, keyed by the texts of their
//! columns.

use super::{
    Aggregates,
    cells::{EVICTED, TableParts},
};
use crate::{
    base::{
        report::cell::Cell,
        report::metric::{Distribution, DistributionShape, MetricKind, MetricRow, MetricTable},
    },
    script::aggregate::column::column_key,
    stat::word::Word,
};
use mlua::Lua;

/// A row whose key is not drawn yet; None for the evicted keys.
#[derive(Default)]
pub(super) struct MeasuredRow {
    pub(super) key: Option<Vec<Word>>,
    pub(super) values: Vec<Option<f64>>,
    pub(super) distribution: Option<Distribution>,
}

/// Returns the column of the variance of the number of values of a distribution, if numbers are
/// estimates. Variances add up over rows and intervals, which errors do not.
pub(super) fn variance_column(is_estimated: bool) -> Vec<(String, MetricKind)> {
    let column = is_estimated.then(|| ("count_variance".to_owned(), MetricKind::Counter));
    column.into_iter().collect()
}

impl TableParts<'_> {
    /// Returns the measurements of these rows. A column of stacks is not a label: its rows add up.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(super) fn measured(
        &self,
        columns: Vec<(String, MetricKind)>,
        distribution: Option<(String, DistributionShape)>,
        rows: Vec<MeasuredRow>,
    ) -> mlua::Result<MetricTable> {
        let keys: Vec<_> = self.columns.iter().flatten().enumerate().collect();
        let shown: Vec<_> = keys.into_iter().filter(|(_, key)| key.stack.is_none()).collect();
        let labels = shown.iter().map(|(_, key)| column_key(&key.title)).collect();
        let mut texts = self.texts();
        let mut measured = Vec::with_capacity(rows.len());
        for row in rows {
            let mut labels = Vec::with_capacity(shown.len());
            for (at, column) in &shown {
                let word = row.key.as_ref().map(|key| key.get(*at).copied().unwrap_or(Word::ZERO));
                labels.push(match (word, texts.get_mut(*at)) {
                    (Some(word), Some(texts)) => label_text(&self.text(texts, column, word)?),
                    _ => EVICTED.to_owned(),
                });
            }
            measured.push(MetricRow { labels, values: row.values, distribution: row.distribution });
        }
        Ok(MetricTable {
            name: self.name.to_owned(),
            labels,
            columns,
            distribution,
            adds_up: true,
            rows: measured,
        })
    }
}

/// Returns a cell as the value of a label.
fn label_text(cell: &Cell) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Int(value) => value.get().to_string(),
        Cell::Num(value) => value.to_string(),
        Cell::Bool(value) => value.to_string(),
        Cell::Text(text) => text.clone(),
        Cell::Stack(stack) => stack.frames.join(";"),
    }
}

impl Aggregates {
    /// Returns the measurements of the aggregates with these numbers that are drawn.
    ///
    /// # Errors
    /// A column's own function failed.
    pub(in crate::script) fn measure(
        &self,
        lua: &Lua,
        ids: &[usize],
    ) -> mlua::Result<Vec<MetricTable>> {
        let each = ids.iter().map(|id| self.measure_one(lua, *id));
        Ok(each.collect::<mlua::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Returns the measurements that can be read, after [`Aggregates::measure`] failed.
    pub(in crate::script) fn measure_what_can(&self, lua: &Lua, ids: &[usize]) -> Vec<MetricTable> {
        ids.iter().filter_map(|id| self.measure_one(lua, *id).ok().flatten()).collect()
    }

    fn measure_one(&self, lua: &Lua, id: usize) -> mlua::Result<Option<MetricTable>> {
        let is_drawn = !self.0.undrawn.borrow().contains(&id);
        let Some(declared) = self.one(id).filter(|one| is_drawn && one.is_drawn()) else {
            return Ok(None);
        };
        declared.body.measure(&self.parts(lua, &declared))
    }
}
