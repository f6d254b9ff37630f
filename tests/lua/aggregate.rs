//! The aggregates, used as by a script, in a plain Lua state.

mod bounds;
mod compiled;
mod mistakes;
mod state;
mod tables;

use mlua::{FromLuaMulti, Lua};
use perilune::{
    base::report::cell::Cell,
    base::report::draw::{DrawnHistogram, Report, Table},
    script::aggregate::{AggregateSettings, Aggregates},
};

struct Host {
    lua: Lua,
    aggregates: Aggregates,
    shared: AggregateSettings,
}

impl Host {
    fn new() -> Host {
        // SAFETY: the ffi is under test; nothing here loads foreign code.
        let lua = unsafe { Lua::unsafe_new() };
        let shared = AggregateSettings { cpus: 4, ..AggregateSettings::default() };
        let aggregates = Aggregates::register(&lua, &lua.globals(), shared.clone()).unwrap();
        Host { lua, aggregates, shared }
    }

    /// Runs `source` as the file `site.lua`.
    fn run<T: FromLuaMulti>(&self, source: &str) -> mlua::Result<T> {
        self.lua.load(source).set_name("@site.lua").call(())
    }

    fn error(&self, source: &str) -> String {
        let error = self.run::<()>(source).unwrap_err().to_string();
        let line = error.lines().next().unwrap_or_default();
        line.strip_prefix("runtime error: ").unwrap_or(line).to_owned()
    }

    fn draw(&self) -> Vec<Report> {
        self.aggregates.draw(&self.lua, None).unwrap()
    }

    fn table(&self) -> Table {
        match self.draw().into_iter().next() {
            Some(Report::Table(table)) => table,
            other => panic!("not a table: {other:?}"),
        }
    }

    fn hists(&self) -> Vec<DrawnHistogram> {
        let hist = |report| match report {
            Report::Hist(hist) => hist,
            other => panic!("not a histogram: {other:?}"),
        };
        self.draw().into_iter().map(hist).collect()
    }
}

/// Returns each row as text, its cells separated by `|`.
fn rows(table: &Table) -> Vec<String> {
    let cell = |cell: &Cell| match cell {
        Cell::Empty => String::new(),
        Cell::Int(value) => value.get().to_string(),
        Cell::Num(value) => value.to_string(),
        Cell::Bool(value) => value.to_string(),
        Cell::Text(text) => text.clone(),
        Cell::Stack(stack) => stack.frames.join(";"),
    };
    table.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join("|")).collect()
}

fn titles(table: &Table) -> String {
    table.columns.iter().map(|column| column.title.as_str()).collect::<Vec<_>>().join(" ")
}

fn keys(table: &Table) -> String {
    table.columns.iter().map(|column| column.key.as_str()).collect::<Vec<_>>().join(" ")
}
