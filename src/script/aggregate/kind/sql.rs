//! `sql { "SELECT …", title=, rows=n }`: events as tables of SQL, and a query over those of each
//! interval. `add(e)`.

use super::super::{
    body::AggregateBody,
    cells::TableParts,
    declare::{AggregateKind, DeclaredAggregate, KindPrelude, NewAggregate, share},
    draw::{RowShape, UndrawnRows, UndrawnTable},
    settings::AggregateSettings,
    spec::{AggregateSpec, Checked},
};
use crate::{
    base::{
        report::cell::Cell as TableCell,
        report::coverage::Coverage,
        report::draw::{Align, Column, Report, Style},
    },
    script::aggregate::column::{column, column_key, json_key},
    stat::{leaf::SharedAggregate, sql::SqlStore, strings::Marks},
    sys::signal,
};
use mlua::Value;
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::{Duration, Instant};

pub(super) const KIND: AggregateKind = AggregateKind {
    name: "sql",
    is_drawn: true,
    estimates: false,
    declare,
    prelude: Some(KindPrelude {
        source: include_str!("../../prelude/sql.lua"),
        leaves: mlua::Lua::create_table,
    }),
};

/// Default limit of the rows of an interval: about 150 MB.
const ROWS: i64 = 1_000_000;
/// Time limit of a query.
const LONGEST: Duration = Duration::from_secs(5);

fn declare(spec: &Value, shared: &AggregateSettings) -> Checked<NewAggregate> {
    let spec = AggregateSpec::new("sql", spec, &["title", "rows"])?;
    let queries = spec.fields(&[])?;
    let [query] = queries.as_slice() else {
        return Err("sql takes one query: sql { \"SELECT …\" }".to_owned());
    };
    let rows = spec.integer("rows")?.unwrap_or(ROWS);
    let rows = u64::try_from(rows).ok().filter(|rows| *rows > 0);
    let rows = rows.ok_or("sql option 'rows' must be at least 1")?;
    let title = spec.text("title")?;
    let name = json_key(title.as_deref().unwrap_or_default(), "sql");
    let store = SqlStore::open(query, &shared.sql, rows, shared.budget.size());
    let store = share(store.map_err(|why| format!("sql: {why}"))?);
    let body = Box::new(SqlTable { store: store.clone(), failure: RefCell::default() });
    let declared = DeclaredAggregate { name, title, columns: Vec::new(), keep: false, body };
    Ok(NewAggregate::of_events(&store, Vec::new(), Vec::new(), declared))
}

struct SqlTable {
    store: SharedAggregate<SqlStore>,
    /// Why the query failed last: a failure that repeats is reported once.
    failure: RefCell<Option<String>>,
}

impl AggregateBody for SqlTable {
    fn mark(&self, _: &mut Marks) {}

    fn count(&self, counts: &mut Coverage) {
        counts.evicted += self.store.borrow().dropped();
    }

    fn begin(&self) -> Checked<()> {
        self.store.borrow_mut().check().map_err(|why| format!("sql: {why}"))
    }

    fn keep_events(&self, path: &Path) -> Checked<bool> {
        self.store.borrow_mut().keep_in(path).map(|()| true)
    }

    fn complete_events(&self, coverage: &Coverage) -> Checked<Option<String>> {
        self.store.borrow_mut().complete(coverage)
    }

    /// Draws the interval; a query has no total.
    fn draw(&self, parts: &TableParts<'_>, total: bool) -> mlua::Result<Vec<Report>> {
        if total {
            return Ok(Vec::new());
        }
        let result = in_time(|| self.store.borrow_mut().result(is_stopped));
        let found = match result {
            Ok(found) => {
                // If it fails again later, that is news.
                self.failure.take();
                found
            }
            Err(why) if self.failure.borrow().as_ref() == Some(&why) => return Ok(Vec::new()),
            Err(why) => {
                self.failure.replace(Some(why.clone()));
                return Err(mlua::Error::runtime(format!("sql: {why}")));
            }
        };
        let is_text = |at: usize| {
            found.rows.iter().any(|row| matches!(row.get(at), Some(TableCell::Text(_))))
        };
        let titled = |(at, title): (usize, &String)| Column {
            align: if is_text(at) { Align::Left } else { Align::Right },
            decimals: None,
            ..column(title, &column_key(title), 8)
        };
        let columns: Vec<Column> = found.columns.iter().enumerate().map(titled).collect();
        let shape = RowShape { hide_key: true, named: false };
        let mut rows = UndrawnRows::new(parts, shape, columns.len(), found.rows.len());
        found.rows.into_iter().for_each(|cells| rows.push_evicted(cells));
        let (style, samples, hidden) = (Style::Plain, 0, 0);
        let table = UndrawnTable { style, samples, columns, rows, hidden, name: None };
        let weight = self.store.borrow().weight();
        let sampled = format!("a sample: 1 of {weight} events, weight() is {weight}");
        let title = if weight > 1 { Some(sampled.as_str()) } else { parts.title };
        TableParts { title, ..*parts }.table(table).map(|table| vec![table])
    }

    fn restart(&self, _: bool) {
        self.store.borrow_mut().restart();
    }
}

thread_local! {
    /// When the running query began, and the number of interrupts at that time; None without one.
    static BEGAN: Cell<Option<(Instant, u32)>> = const { Cell::new(None) };
}

/// Runs a query that `is_stopped` ends.
fn in_time<R>(query: impl FnOnce() -> R) -> R {
    BEGAN.set(Some((Instant::now(), signal::interrupts())));
    let result = query();
    BEGAN.set(None);
    result
}

/// Returns whether to stop the query: after an interrupt, or its time limit.
fn is_stopped() -> bool {
    let Some((began, interrupts)) = BEGAN.get() else { return false };
    signal::interrupts() != interrupts || began.elapsed() > LONGEST
}
