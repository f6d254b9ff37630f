//! `kv { column…, sums={…}, count=, top=n, style="top", hide_key=bool, name={title, draw}, title=,
//! keep=bool }`: counts or sums by key.

use super::super::{
    body::{AggregateBody, KernelTarget, PushRow},
    cells::TableParts,
    declare::{
        AggregateKind, DeclaredAggregate, KindPrelude, NewAggregate, key_columns, keys, present,
        share,
    },
    draw::{RowShape, UndrawnRows, UndrawnTable},
    flame::{
        DrawnGraph, FlameOptions,
        fold::{fold, name_and_unit, split, sum_of},
    },
    interval::Interval,
    measure::MeasuredRow,
    settings::AggregateSettings,
    spec::{AggregateSpec, Checked, KeyColumn, SumColumn},
    stack::{frames_of, of_stacks},
};
use crate::{
    base::{
        report::cell::Cell,
        report::coverage::Coverage,
        report::draw::{Align, Column, Report, Style},
        report::flame::Flame,
        report::metric::{MetricKind, MetricTable},
        text::stack_style::StackStyle,
    },
    script::aggregate::column::{column, column_key, error_column, json_key},
    stat::{
        kv::{Kv, KvOptions, KvRow, KvVariances},
        leaf::{self, SharedAggregate},
        strings::Marks,
        sum::Sum,
        weight::{EventWeight, error_of},
        word::{Word, WordContent, order_keys},
    },
};
use mlua::{LightUserData, Lua, Table, Value};
use std::{cell::RefCell, collections::HashMap};

pub(super) const KIND: AggregateKind = AggregateKind {
    name: "kv",
    is_drawn: true,
    estimates: true,
    declare,
    prelude: Some(KindPrelude { source: include_str!("../../prelude/kv.lua"), leaves }),
};

/// Size limit in bytes.
const BYTES: usize = 8 << 20;

/// Returns the leaves for 0, 1, … doubles.
fn leaves(lua: &Lua) -> mlua::Result<Table> {
    lua.create_sequence_from((0..).map_while(leaf::take::<Kv>).map(LightUserData))
}

fn declare(spec: &Value, shared: &AggregateSettings) -> Checked<NewAggregate> {
    let known = ["sums", "count", "top", "style", "hide_key", "name", "title", "keep", "weight"];
    let spec = AggregateSpec::new("kv", spec, &known)?;
    let mut columns = key_columns("kv", &spec, 0)?;
    let sums = spec.sums()?;
    if sums.len() > 0xff {
        return Err("kv has more than 255 sums".to_owned());
    }
    let count = spec.text("count")?;
    let title = spec.text("title")?;
    let name = json_key(title.as_deref().or(count.as_deref()).unwrap_or_default(), "kv");
    let look = KvLook {
        count: count.or_else(|| sums.is_empty().then(|| "count".to_owned())),
        top: spec.top()?,
        style: if spec.choice("style", &["top"])?.is_some() { Style::Top } else { Style::Plain },
        hide_key: spec.flag("hide_key", false),
        name: spec.named("name")?,
        flame: false,
        weight: spec.text("weight")?,
        sums,
    };
    if look.style == Style::Top {
        columns.iter_mut().flatten().for_each(KeyColumn::integers_by_default);
    }
    let kv = look.new_kv(present(&columns), BYTES, shared);
    let of = |sum: &SumColumn| if sum.unsigned { "unsigned" } else { "value" };
    let values = look.sums.iter().map(|sum| (sum.title.clone(), of(sum)));
    let parameters = keys(&columns).chain(values).collect();
    let extra =
        [("keys", columns.len()), ("present", present(&columns)), ("sums", look.sums.len())];
    let declared = DeclaredAggregate {
        name,
        title,
        columns,
        keep: spec.flag("keep", false),
        body: Box::new(KvTable::new(kv.clone(), look)),
    };
    Ok(NewAggregate::new(&kv, parameters, declared).with(extra))
}

/// Options for drawing counts and sums.
pub(super) struct KvLook {
    /// Title of the count, if it is shown.
    pub(super) count: Option<String>,
    pub(super) sums: Vec<SumColumn>,
    pub(super) top: Option<usize>,
    pub(super) style: Style,
    pub(super) hide_key: bool,
    pub(super) name: Option<KeyColumn>,
    /// Whether it was declared as a flame graph: its sum is the weight, regardless of `--weight`.
    pub(super) flame: bool,
    /// Title of the sum that is the weight of a flame graph without `--weight`.
    pub(super) weight: Option<String>,
}

impl KvLook {
    /// Returns an empty table with keys of this many words.
    pub(super) fn new_kv(
        &self,
        keys: usize,
        bound: usize,
        shared: &AggregateSettings,
    ) -> SharedAggregate<Kv> {
        let first = self.sums.iter().enumerate().filter(|(_, sum)| sum.first);
        let options = KvOptions {
            keys,
            sums: self.sums.len(),
            first: first.map(|(i, _)| i).collect(),
            named: self.name.as_ref().is_some_and(|name| name.draw.is_none()),
            bound,
        };
        let weight = EventWeight::of_aggregate(&shared.weight);
        share(Kv::new(options).with_budget(&shared.budget).with_weight(weight))
    }

    fn columns(&self, parts: &TableParts<'_>, is_estimated: bool) -> Vec<Column> {
        let mut columns = if self.hide_key { Vec::new() } else { parts.key_columns(None) };
        let titles = self.count.iter().chain(self.sums.iter().map(|sum| &sum.title));
        for title in titles {
            columns.push(Column { decimals: None, ..column(title, &column_key(title), 12) });
            columns.extend(is_estimated.then(|| error_column(title, false)));
        }
        columns.extend(self.name.iter().map(|name| Column {
            align: Align::Left,
            decimals: None,
            ..column(&name.title, &column_key(&name.title), 0)
        }));
        columns
    }
}

impl KvLook {
    /// Returns the cells of a row after its key: each number, with its error if it is estimated.
    fn cells(&self, row: &KvRow<'_>) -> impl Iterator<Item = Cell> {
        let count = self.count.iter().map(|_| (Cell::whole(i128::from(row.count)), 0));
        let sums = row.sums.iter().map(Sum::cell).zip(1..);
        let error = |at: usize| row.variances.get(at).map(|variance| Cell::Num(error_of(variance)));
        count.chain(sums).flat_map(move |(cell, at)| [Some(cell), error(at)]).flatten()
    }
}

/// Counts and sums by key.
pub(super) struct KvTable {
    of: Interval<Kv>,
    look: KvLook,
}

impl KvTable {
    pub(super) fn new(live: SharedAggregate<Kv>, look: KvLook) -> KvTable {
        KvTable { of: Interval::new(live), look }
    }

    /// Draws counts and sums. Joins rows whose stacks have the same frames after naming: two
    /// addresses in one function, or the same code in a process that is attributed to another one
    /// because the record of its mappings was lost.
    fn draw_joined(&self, kv: &RefCell<Kv>, parts: &TableParts<'_>) -> mlua::Result<Report> {
        let styles: Vec<Option<&StackStyle>> =
            parts.columns.iter().flatten().map(|column| column.stack.as_deref()).collect();
        if styles.iter().all(Option::is_none) {
            return self.draw_rows(kv, parts);
        }
        let (mut alike, mut known) = (HashMap::new(), HashMap::new());
        for row in kv.borrow().rows() {
            for (place, (word, style)) in row.key.iter().zip(&styles).enumerate() {
                if let (WordContent::Number(id), Some(style)) = (word.part(), style) {
                    known.entry((place, *word)).or_insert_with(|| {
                        let frames = frames_of(parts.shared, id, style);
                        *alike.entry((place, frames)).or_insert(*word)
                    });
                }
            }
        }
        let joined = kv.borrow().rekeyed(|place, word| *known.get(&(place, word)).unwrap_or(&word));
        self.draw_rows(&RefCell::new(joined), parts)
    }

    /// Draws counts and sums by the columns that are not stacks (those are in the flame graph), or
    /// with the stacks if there are no such columns. Returns None for a table without keys.
    fn draw_beside_stacks(
        &self,
        kv: &RefCell<Kv>,
        parts: &TableParts<'_>,
    ) -> mlua::Result<Option<Report>> {
        let shown: Vec<bool> =
            parts.columns.iter().flatten().map(|column| column.stack.is_none()).collect();
        if self.look.flame || self.look.hide_key {
            return Ok(None);
        }
        if !shown.contains(&true) {
            return self.draw_joined(kv, parts).map(Some);
        }
        let is_shown = |place: usize| shown.get(place).is_none_or(|shown| *shown);
        let joined =
            kv.borrow().rekeyed(|place, word| if is_shown(place) { word } else { Word::ZERO });
        let mut report = self.draw_rows(&RefCell::new(joined), parts)?;
        if let Report::Table(table) = &mut report {
            let mut places = 0..;
            table.columns.retain(|_| places.next().is_some_and(is_shown));
            table.rows.retain_columns(is_shown);
        }
        Ok(Some(report))
    }

    fn draw_rows(&self, kv: &RefCell<Kv>, parts: &TableParts<'_>) -> mlua::Result<Report> {
        let look = &self.look;
        let (columns, rows, hidden, samples) = {
            let kv = kv.borrow();
            let columns = look.columns(parts, kv.is_estimated());
            let mut all = sorted(&kv, parts);
            let most = look.top.unwrap_or(usize::MAX).min(all.len());
            let shape = RowShape { hide_key: look.hide_key, named: look.name.is_some() };
            let mut rows = UndrawnRows::new(parts, shape, columns.len(), most + 1);
            for row in all.by_ref().take(most) {
                rows.push(row.key, row.name, look.cells(&row));
            }
            let hidden = all.len() as u64;
            let folded = kv.folded();
            if folded.keys > 0 {
                let (sums, variances) = (&folded.sums[..], kv.folded_variances());
                let row = KvRow { key: &[], count: folded.count, sums, variances, name: None };
                rows.push_evicted(look.cells(&row));
            }
            (columns, rows, hidden, kv.samples())
        };
        let (style, name) = (look.style, look.name.as_ref());
        parts.table(UndrawnTable { style, samples, columns, rows, hidden, name })
    }

    /// Returns the sum that is the weight of a stack (None: the count), and the unit of a weight.
    fn weight(&self, options: &FlameOptions) -> (Option<usize>, &str) {
        let named = |wanted: &String| {
            let is = |title: &str| title.eq_ignore_ascii_case(wanted);
            self.look.sums.iter().position(|sum| is(&sum.title) || is(name_and_unit(&sum.title).0))
        };
        let declared = self.look.weight.as_ref().filter(|_| !options.counts);
        let wanted = options.weight.as_ref().or(declared);
        let sum = if self.look.flame { Some(0) } else { wanted.and_then(named) };
        match sum.and_then(|at| self.look.sums.get(at)) {
            Some(column) => (sum, name_and_unit(&column.title).1),
            None => (None, self.look.count.as_deref().unwrap_or("stacks")),
        }
    }
}

impl AggregateBody for KvTable {
    fn mark(&self, marks: &mut Marks) {
        self.of.mark(marks);
    }

    fn count(&self, counts: &mut Coverage) {
        self.of.each(|kv| counts.evicted += kv.evicted());
    }

    fn draw(&self, parts: &TableParts<'_>, total: bool) -> mlua::Result<Vec<Report>> {
        if parts.shared.flame.borrow().is_none() || !of_stacks(parts.columns) {
            return self.of.draw(total, |kv| self.draw_joined(kv, parts)).map(|one| vec![one]);
        }
        if !total {
            // The intervals' flame graphs add up to that of the run.
            let flame = self.flame(parts)?.map(|flame| DrawnGraph {
                table: parts.name.to_owned(),
                flame,
                snapshot: parts.keep,
            });
            parts.shared.flames.borrow_mut().extend(flame);
        }
        let beside = self.of.draw(total, |kv| self.draw_beside_stacks(kv, parts))?;
        Ok(beside.into_iter().collect())
    }

    /// Returns all rows, those beyond `top` included. Counts and sums of a table that keeps its
    /// rows are a state, not counters.
    fn measure(&self, parts: &TableParts<'_>) -> mlua::Result<Option<MetricTable>> {
        let look = &self.look;
        let kind = if parts.keep { MetricKind::Gauge } else { MetricKind::Counter };
        let titles = look.count.iter().chain(look.sums.iter().map(|sum| &sum.title));
        let is_estimated = self.of.live.borrow().is_estimated();
        let variance = |key: &str| is_estimated.then(|| (format!("{key}_variance"), kind));
        let columns = titles.map(|title| column_key(title));
        let columns = columns.flat_map(|key| [variance(&key), Some((key, kind))]);
        let columns = columns.flatten().collect();
        let values = |count: u64, sums: &[Sum], variances: KvVariances<'_>| {
            let count = look.count.iter().map(|_| (count as f64, 0));
            let all = count.chain(sums.iter().map(Sum::value).zip(1..));
            // The folded keys have no variances before something was folded.
            let variance = |at| variances.get(at).or(is_estimated.then_some(0.0));
            all.flat_map(|(value, at)| [variance(at), Some(value)]).flatten().map(Some).collect()
        };
        let rows = {
            let kv = self.of.live.borrow();
            let mut rows: Vec<MeasuredRow> = kv
                .rows()
                .map(|row| MeasuredRow {
                    key: Some(row.key.to_vec()),
                    values: values(row.count, row.sums, row.variances),
                    distribution: None,
                })
                .collect();
            let folded = kv.folded();
            if folded.keys > 0 {
                let values = values(folded.count, &folded.sums, kv.folded_variances());
                rows.push(MeasuredRow { values, ..MeasuredRow::default() });
            }
            rows
        };
        parts.measured(columns, None, rows).map(Some)
    }

    fn rows(&self, parts: &TableParts<'_>, push: &mut PushRow<'_>) -> mlua::Result<()> {
        let kv = self.of.live.borrow();
        for row in sorted(&kv, parts) {
            let sums = row.sums.iter().map(|sum| Value::Number(sum.value()));
            let count = self.look.sums.is_empty().then_some(Value::Number(row.count as f64));
            push(row.key, count.into_iter().chain(sums).collect())?;
        }
        Ok(())
    }

    fn restart(&self, totals: bool) {
        self.of.restart(totals);
    }

    fn has_total(&self) -> bool {
        self.of.has_total()
    }

    fn kernel_target(&self) -> Option<KernelTarget<'_>> {
        Some(KernelTarget::Rows(&self.of.live))
    }

    fn can_be_flame(&self) -> bool {
        true
    }

    fn flame(&self, parts: &TableParts<'_>) -> mlua::Result<Option<Flame>> {
        if !of_stacks(parts.columns) {
            return Ok(None);
        }
        let options = parts.shared.flame.borrow().clone().unwrap_or_default();
        let (sum, unit) = self.weight(&options);
        let (rows, folded) = {
            let kv = self.of.live.borrow();
            let weight = |count, sums: &[Sum]| match sum {
                Some(sum) => sum_of(sums.get(sum)),
                None => count,
            };
            let rows = kv.rows().map(|row| (row.key.to_vec(), weight(row.count, row.sums)));
            (rows.collect::<Vec<_>>(), weight(kv.folded().count, &kv.folded().sums))
        };
        let flame = Flame::new(parts.title.unwrap_or(""), unit);
        fold(parts.shared, flame, folded, rows, |key| split(parts, key)).map(Some)
    }
}

/// Returns the rows in drawing order. Sorts their numbers, because there may be 10^5 of 72 bytes.
fn sorted<'t>(kv: &'t Kv, parts: &TableParts<'_>) -> impl ExactSizeIterator<Item = KvRow<'t>> {
    let strings = parts.strings.borrow();
    let mut rows: Vec<u32> = kv.numbered_rows().map(|(number, _)| number as u32).collect();
    rows.sort_by(|a, b| {
        let [a, b] = [*a, *b].map(|number| number as usize);
        let keys = || order_keys(kv.row_at(a).key, kv.row_at(b).key, |id| strings.get(id));
        kv.order(a, b).then_with(keys)
    });
    rows.into_iter().map(|number| kv.row_at(number as usize))
}
