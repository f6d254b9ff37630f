//! The pairs of events that scripts declare: see `prelude/pairs.lua`.

use mlua::{Lua, Table, Value};

use super::expression;
use super::registry::Registry;
use crate::script::aggregate::Aggregates;
use crate::script::evsel::declared_pairs::{
    DeclaredPairCount, DeclaredPairs, KeptField, PairMoment, PairSide, PairTarget,
};
use crate::script::vm::trusted::template_function;

const SIDES: &str = include_str!("../prelude/sides.lua");
const PAIR_HANDLERS: &str = include_str!("../prelude/pair_handlers.lua");
const PAIRS: &str = include_str!("../prelude/pairs.lua");
const VALUES: &str = include_str!("../prelude/values.lua");

/// Adds `between` to the objects of `latency` and `kv`, and `measure` to those of `latency`. With
/// `system`, expressions may start programs.
///
/// # Errors
/// The prelude failed to load.
pub(super) fn register(api: &Registry<'_>, system: bool) -> mlua::Result<()> {
    let (lua, aggregates) = (api.lua(), api.aggregates);
    let native = lua.create_table()?;
    let (state, weak) = (api.state.clone(), aggregates.downgrade());
    let paired = move |_: &Lua, of: Table| {
        let aggregates = weak.upgrade().ok_or_else(|| mlua::Error::runtime("the run has ended"))?;
        let pairs = read(&of, &aggregates)?;
        let state = state.borrow();
        let mut evsels = state.evsels.borrow_mut();
        let pairs = DeclaredPairs { number: evsels.pairs.len(), ..pairs };
        evsels.pairs.push(pairs);
        Ok(evsels.pairs.len() - 1)
    };
    native.set("paired", lua.create_function(paired)?)?;
    native.set("fill", template_function(lua)?)?;
    native.set("compile", expression::compiler(api, system)?)?;
    native.set("pending", aggregates.trusted().get::<Value>("pending")?)?;
    api.trusted.run::<()>("sides", SIDES, &native)?;
    api.trusted.run::<()>("pair_handlers", PAIR_HANDLERS, &native)?;
    api.trusted.run::<()>("pairs", PAIRS, &native)?;
    api.trusted.run::<()>("values", VALUES, native)?;
    aggregates.trusted().set("between", api.trusted.export("between")?)?;
    aggregates.trusted().set("rows_between", api.trusted.export("rows_between")?)?;
    aggregates.trusted().set("measure", api.trusted.export("measure")?)
}

/// Reads the table that the prelude passes.
fn read(of: &Table, aggregates: &Aggregates) -> mlua::Result<DeclaredPairs> {
    let histogram: Option<Table> = of.get("histogram")?;
    let histogram = histogram.map(|of| {
        let columns: Option<Vec<usize>> = of.get("columns")?;
        let columns = columns.unwrap_or_default().into_iter().map(|column| column - 1);
        mlua::Result::Ok((number(aggregates, &of, 1)?, columns.collect()))
    });
    let present: Vec<bool> = of.get("present")?;
    let sides = |name: &str| {
        let sides: Vec<Table> = of.get(name)?;
        sides.iter().map(|side| read_side(side, present.len())).collect::<mlua::Result<Vec<_>>>()
    };
    let fields: String = of.get("fields")?;
    let fields = fields.split_whitespace().map(|field| match field.strip_prefix("column") {
        Some(column) => KeptField::Column(column.parse::<usize>().unwrap_or(1) - 1),
        None => KeptField::Same,
    });
    let counts: Vec<Table> = of.get("counts")?;
    let counts = counts.iter().map(|count| read_count(count, aggregates));
    Ok(DeclaredPairs {
        target: match of.get::<Option<usize>>("sums")? {
            None => PairTarget::Delays(number(aggregates, of, "target")?),
            Some(sums) => PairTarget::Rows {
                table: number(aggregates, of, "target")?,
                sums,
                starts: of.get("adds_starts")?,
            },
        },
        open: match of.contains_key("open")? {
            true => Some(number(aggregates, of, "open")?),
            false => None,
        },
        histogram: histogram.transpose()?,
        starts: sides("starts")?,
        finishes: sides("finishes")?,
        drops: sides("drops")?,
        fields: fields.collect(),
        counts: counts.collect::<mlua::Result<_>>()?,
        threads: of.get("threads")?,
        strict: of.get("strict")?,
        cut_texts: of.get("cut_texts")?,
        longer_ns: of.get::<Option<f64>>("longer")?.map(|ns| ns as i64),
        than_ns: of.get::<Option<f64>>("than")?.map(|ns| ns.floor() as i64),
        room: of.get("room")?,
        nested: of.get("nested")?,
        needs: of.get("needs")?,
        number: 0,
        present,
    })
}

fn read_side(side: &Table, columns: usize) -> mlua::Result<PairSide> {
    let rows: Table = side.get("rows")?;
    let rows = (1..=columns).map(|column| rows.get::<Option<String>>(column));
    Ok(PairSide {
        evsel: side.get::<Table>("entry")?.get("index")?,
        keys: side.get("key")?,
        value: side.get("value")?,
        condition: side.get("where")?,
        same: side.get("same")?,
        rows: rows.collect::<mlua::Result<_>>()?,
        once: side.get::<Option<bool>>("once")?.unwrap_or(false),
        last: side.get("last")?,
    })
}

fn read_count(count: &Table, aggregates: &Aggregates) -> mlua::Result<DeclaredPairCount> {
    let of = match count.get::<String>("at")?.as_str() {
        "start" => PairMoment::Start,
        "single" => PairMoment::Single,
        _ => PairMoment::Pair,
    };
    Ok(DeclaredPairCount {
        table: number(aggregates, count, 1)?,
        of,
        condition: count.get("where")?,
        keys: count.get("key")?,
    })
}

/// Returns the number of the aggregate in a field.
fn number(aggregates: &Aggregates, of: &Table, field: impl mlua::IntoLua) -> mlua::Result<usize> {
    let number = aggregates.number(&of.get::<Value>(field)?);
    number.ok_or_else(|| {
        mlua::Error::runtime(
            "histogram takes { HISTOGRAM, columns = { … } }, and counts a list of { KV, … }",
        )
    })
}
