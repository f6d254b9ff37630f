//! Constructors: turn a script's table into an aggregate, and into a plan from which the prelude
//! generates `add`.

use super::super::column::json_key;
use super::{
    Aggregates, Body, DeclaredAggregate, Interval,
    draw::{KvLook, LatencyLook},
    spec::{AggregateSpec, KeyColumn, SumColumn},
};
use crate::{
    base::draw::Style,
    stat::{
        budget::Budget,
        heat_map::HeatMap,
        hist::{Histograms, Scale},
        kv::{Kv, KvOptions},
        latency::Latency,
        leaf::{self, Leaf, SharedAggregate},
        rate::Rates,
    },
};
use mlua::{LightUserData, Lua, Table, Value};
use std::rc::Rc;

mod states;

/// Maximum number of columns in a key: each has a bit in the flags, and its double a register.
const KEYS: usize = 8;

/// Size limits of one aggregate in bytes. A latency is a large histogram per key and gets more.
const KV_BYTES: usize = 8 << 20;
const LATENCY_BYTES: usize = 16 << 20;
const HIST_BYTES: usize = 4 << 20;
const PENDING_BYTES: usize = 16 << 20;
const RATE_BYTES: usize = 8 << 20;

/// The error is a message for the author of the script.
type Checked<T> = Result<T, String>;

/// Creates the aggregate of constructor `kind` and returns its plan:
///
/// - `id`, which identifies the aggregate,
/// - `pointer`, the first argument of the leaf function, and `leaf`, its address,
/// - `parameters` of `add`, in order: `{ name, is }`, where `is` is `value`, `unsigned` (a value),
///   `key`, `root` or `ignored`,
/// - `fields`, the names of the values of a state (`pending`, `states`), and numbers that only one
///   kind has (`keys`, `present`, `sums`, `keep`, `nested`, `values`).
///
/// # Errors
/// Lua is out of memory. A mistake in the script is the inner error.
pub(super) fn declare(
    aggregates: &Aggregates,
    lua: &Lua,
    kind: &str,
    spec: &Value,
) -> mlua::Result<Checked<Table>> {
    if let Some(why) = aggregates.full(kind) {
        return Ok(Err(why));
    }
    let budget = &aggregates.shared().budget;
    let made = match kind {
        "latency" => latency(spec, budget),
        "kv" => kv(spec, budget),
        "flame_graph" => flame_graph(spec, budget),
        "hist.log2" | "hist.linear" => hist(kind, spec, budget),
        "heat_map" => heat_map(spec, aggregates),
        "pending" => states::pending(spec, aggregates.shared()),
        "states" => states::states(spec, aggregates.shared()),
        "rate" => rate(spec, budget),
        _ => Err(format!("unknown kind of aggregate '{kind}'")),
    };
    match made {
        Ok(mut made) => {
            aggregates.know_stacks(kind, &mut made.declared.columns);
            made.register(aggregates, lua).map(Ok)
        }
        Err(why) => Ok(Err(why)),
    }
}

/// A new aggregate and what Lua needs to know about it.
struct NewAggregate {
    declared: DeclaredAggregate,
    pointer: LightUserData,
    leaf: Option<LightUserData>,
    parameters: Vec<(String, &'static str)>,
    /// Numbers in the plan that only one kind has.
    extra: Vec<(&'static str, usize)>,
    fields: Vec<String>,
}

impl NewAggregate {
    fn register(self, aggregates: &Aggregates, lua: &Lua) -> mlua::Result<Table> {
        let plan = lua.create_table()?;
        plan.set("pointer", self.pointer)?;
        plan.set("leaf", self.leaf)?;
        let parameters = lua.create_table()?;
        for (name, is) in self.parameters {
            let parameter = lua.create_table()?;
            parameter.set("name", name)?;
            parameter.set("is", is)?;
            parameters.push(parameter)?;
        }
        plan.set("parameters", parameters)?;
        for (name, value) in self.extra {
            plan.set(name, value)?;
        }
        plan.set("fields", lua.create_sequence_from(self.fields)?)?;
        plan.set("id", aggregates.declare(self.declared))?;
        Ok(plan)
    }
}

/// Reads how a table of latencies is drawn.
fn latency_look(spec: &AggregateSpec) -> Checked<LatencyLook> {
    Ok(LatencyLook {
        unit: spec.choice("unit", &["ns", "us", "ms", "s"])?.unwrap_or("us"),
        count: spec.text("count")?.unwrap_or_else(|| "calls".to_owned()),
        top: spec.top()?,
        percentiles: spec.flag("percentiles", true),
    })
}

fn latency(spec: &Value, budget: &Rc<Budget>) -> Checked<NewAggregate> {
    let spec = AggregateSpec::new(
        "latency",
        spec,
        &["unit", "count", "title", "top", "percentiles", "keep"],
    )?;
    let columns = key_columns("latency", &spec, 1)?;
    let look = latency_look(&spec)?;
    let title = spec.text("title")?;
    let shared = share(Latency::new(present(&columns), LATENCY_BYTES).within(budget));
    let values = vec![("ns".to_owned(), "value")];
    let parameters = values.into_iter().chain(keys(&columns)).collect();
    Ok(NewAggregate {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: take::<Latency>(1 + present(&columns)),
        parameters,
        extra: Vec::new(),
        fields: Vec::new(),
        declared: DeclaredAggregate {
            name: json_key(title.as_deref().unwrap_or_default(), "latency"),
            title,
            columns,
            keep: spec.flag("keep", false),
            body: Body::Latency(Interval::new(shared), look),
        },
    })
}

fn kv(spec: &Value, budget: &Rc<Budget>) -> Checked<NewAggregate> {
    let known = ["sums", "count", "top", "style", "hide_key", "name", "title", "keep"];
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
        count: if sums.is_empty() {
            Some(count.unwrap_or_else(|| "count".to_owned()))
        } else {
            count
        },
        top: spec.top()?,
        style: if spec.choice("style", &["top"])?.is_some() { Style::Top } else { Style::Plain },
        hide_key: spec.flag("hide_key", false),
        name: spec.named("name")?,
        flame: false,
        sums,
    };
    if look.style == Style::Top {
        columns.iter_mut().flatten().for_each(KeyColumn::integers_by_default);
    }
    let first = |sum: &(usize, &super::spec::SumColumn)| sum.1.first;
    let shape = KvOptions {
        keys: present(&columns),
        sums: look.sums.len(),
        first: look.sums.iter().enumerate().filter(first).map(|sum| sum.0).collect(),
        named: look.name.as_ref().is_some_and(|name| name.draw.is_none()),
        bound: KV_BYTES,
    };
    let shared = share(Kv::new(shape).within(budget));
    let of = |sum: &SumColumn| if sum.unsigned { "unsigned" } else { "value" };
    let values = look.sums.iter().map(|sum| (sum.title.clone(), of(sum)));
    let parameters = keys(&columns).chain(values).collect();
    Ok(NewAggregate {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: take::<Kv>(present(&columns) + look.sums.len()),
        parameters,
        extra: vec![
            ("keys", columns.len()),
            ("present", present(&columns)),
            ("sums", look.sums.len()),
        ],
        fields: Vec::new(),
        declared: DeclaredAggregate {
            name,
            title,
            columns,
            keep: spec.flag("keep", false),
            body: Body::Kv(Interval::new(shared), look),
        },
    })
}

/// A `kv` keyed by stack and root frame, with one sum.
fn flame_graph(spec: &Value, budget: &Rc<Budget>) -> Checked<NewAggregate> {
    let spec = AggregateSpec::new("flame_graph", spec, &["title", "unit", "keep"])?;
    let (title, unit) = (spec.text("title")?, spec.text("unit")?);
    let columns = ["stack", "comm"].map(|title| Some(KeyColumn::plain(title.to_owned()))).to_vec();
    let shape =
        KvOptions { keys: 2, sums: 1, first: vec![0], named: false, bound: super::flame::BYTES };
    let shared = share(Kv::new(shape).within(budget));
    let look = KvLook {
        count: None,
        top: None,
        style: Style::Plain,
        hide_key: false,
        name: None,
        flame: true,
        sums: vec![SumColumn::plain(unit.unwrap_or_else(|| "samples".to_owned()), true)],
    };
    let parameters = [("stack", "key"), ("weight", "value"), ("root_frame", "root")];
    Ok(NewAggregate {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: take::<Kv>(3),
        parameters: parameters.map(|(name, is)| (name.to_owned(), is)).to_vec(),
        extra: Vec::new(),
        fields: Vec::new(),
        declared: DeclaredAggregate {
            name: json_key(title.as_deref().unwrap_or_default(), "flame_graph"),
            title,
            columns,
            keep: spec.flag("keep", false),
            body: Body::Kv(Interval::new(shared), look),
        },
    })
}

fn hist(kind: &str, spec: &Value, budget: &Rc<Budget>) -> Checked<NewAggregate> {
    let linear = kind == "hist.linear";
    let known: &[&str] = if linear {
        &["title", "unit", "keep", "min", "step", "max"]
    } else {
        &["title", "unit", "keep"]
    };
    let spec = AggregateSpec::new(kind, spec, known)?;
    let columns = key_columns(kind, &spec, 1)?;
    let scale = if linear {
        let max =
            spec.integer("max")?.ok_or("hist.linear needs `max`, the end of its last bucket")?;
        let (min, step) = (spec.integer("min")?.unwrap_or(0), spec.integer("step")?.unwrap_or(1));
        Scale::linear(min, step, max).map_err(|why| format!("hist.linear: {why}"))?
    } else {
        Scale::Log2
    };
    let title = spec.text("title")?;
    let unit = spec.text("unit")?.unwrap_or_default();
    let shared = share(Histograms::new(scale, present(&columns), HIST_BYTES).within(budget));
    let values = vec![("value".to_owned(), "value")];
    let parameters = values.into_iter().chain(keys(&columns)).collect();
    Ok(NewAggregate {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: take::<Histograms>(1 + present(&columns)),
        parameters,
        extra: Vec::new(),
        fields: Vec::new(),
        declared: DeclaredAggregate {
            name: json_key(title.as_deref().unwrap_or_default(), "hist"),
            title,
            columns,
            keep: spec.flag("keep", false),
            body: Body::Hist(Interval::new(shared), unit),
        },
    })
}

/// Returns the heat map of the run; each further call returns the same one.
fn heat_map(spec: &Value, aggregates: &Aggregates) -> Checked<NewAggregate> {
    AggregateSpec::new("heat_map", spec, &[])?;
    let shared = aggregates.heat_map().unwrap_or_else(|| share(HeatMap::default()));
    Ok(NewAggregate {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: take::<HeatMap>(2),
        parameters: ["time", "ns"].map(|name| (name.to_owned(), "value")).to_vec(),
        extra: Vec::new(),
        fields: Vec::new(),
        declared: DeclaredAggregate::hidden(Body::HeatMap(shared)),
    })
}

fn rate(spec: &Value, budget: &Rc<Budget>) -> Checked<NewAggregate> {
    let spec = AggregateSpec::new("rate", spec, &["window"])?;
    let window =
        spec.duration("window")?.ok_or("rate has no `window`: rate { window = \"1s\" }")?;
    let shared = share(Rates::new(window, 1, RATE_BYTES).within(budget));
    Ok(NewAggregate {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: take::<Rates>(2),
        parameters: vec![("key".to_owned(), "key"), ("time".to_owned(), "value")],
        extra: Vec::new(),
        fields: Vec::new(),
        declared: DeclaredAggregate::hidden(Body::Rate(shared)),
    })
}

fn key_columns(
    constructor: &str,
    spec: &AggregateSpec<'_>,
    values: usize,
) -> Checked<Vec<Option<KeyColumn>>> {
    let columns = spec.columns()?;
    let most = KEYS - values;
    if present(&columns) > most {
        return Err(format!(
            "{constructor} has {} columns; it takes at most {most}",
            present(&columns)
        ));
    }
    Ok(columns)
}

/// Number of columns that are not false.
fn present(columns: &[Option<KeyColumn>]) -> usize {
    columns.iter().flatten().count()
}

fn keys(columns: &[Option<KeyColumn>]) -> impl Iterator<Item = (String, &'static str)> {
    columns.iter().map(|column| match column {
        Some(column) => (column.title.clone(), "key"),
        None => ("_".to_owned(), "ignored"),
    })
}

fn share<T>(value: T) -> SharedAggregate<T> {
    std::rc::Rc::new(std::cell::RefCell::new(value))
}

fn take<T: Leaf>(doubles: usize) -> Option<LightUserData> {
    leaf::take::<T>(doubles).map(LightUserData)
}
