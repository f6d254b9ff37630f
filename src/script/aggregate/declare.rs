//! Constructors: a script's table becomes an aggregate and a plan from which the prelude generates `add`.

use super::super::column::json_key;
use super::{
    Aggregates, Body, Declared, Interval,
    draw::{KvLook, LatencyLook},
    spec::{Column, Spec, SumColumn},
};
use crate::{
    base::draw::Style,
    stat::{
        budget::Budget,
        heat_map::HeatMap,
        hist::{Hist, Scale},
        kv::{Kv, Shape},
        latency::Latency,
        leaf::{self, Leaf, Shared},
        pending::{self, Pending, VALUES},
        rate::Rate,
        states::{self, States},
    },
};
use mlua::{LightUserData, Lua, Table, Value};
use std::rc::Rc;

/// The most columns in a key: there is a bit for each, and registers for the doubles.
const KEYS: usize = 8;

/// Bytes that one aggregate may take. A histogram is large, so latencies get more.
const KV_BYTES: usize = 8 << 20;
const LATENCY_BYTES: usize = 16 << 20;
const HIST_BYTES: usize = 4 << 20;
const PENDING_BYTES: usize = 16 << 20;
const RATE_BYTES: usize = 8 << 20;

/// An error is a sentence for the script's author.
type Checked<T> = Result<T, String>;

/// Makes what the word `kind` asks for and returns its plan:
///
/// - `id`, by which the aggregate is known afterwards,
/// - `pointer`, the leaf's first argument, and `leaf`, its address,
/// - `parameters` of `add`, in order: `{ name, is }` with `is` one of `value`, `unsigned` (a
///   value), `key`, `root`, `ignored`,
/// - `columns`, how many keys and values `each` gives.
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
        "pending" => pending(spec, aggregates.shared()),
        "states" => states(spec, aggregates.shared()),
        _ => rate(spec, budget),
    };
    match made {
        Ok(mut made) => {
            aggregates.know_stacks(kind, &mut made.declared.columns);
            made.register(aggregates, lua).map(Ok)
        }
        Err(why) => Ok(Err(why)),
    }
}

/// A new aggregate and what Lua has to know of it.
struct Made {
    declared: Declared,
    pointer: LightUserData,
    leaf: Option<LightUserData>,
    parameters: Vec<(String, &'static str)>,
    /// Places in the plan for what only one kind has.
    extra: Vec<(&'static str, usize)>,
    fields: Vec<String>,
}

impl Made {
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

fn latency(spec: &Value, budget: &Rc<Budget>) -> Checked<Made> {
    let spec =
        Spec::new("latency", spec, &["unit", "count", "title", "top", "percentiles", "keep"])?;
    let columns = key_columns("latency", &spec, 1)?;
    let look = LatencyLook {
        unit: spec.choice("unit", &["ns", "us", "ms", "s"])?.unwrap_or("us"),
        count: spec.text("count")?.unwrap_or_else(|| "calls".to_owned()),
        top: spec.top()?,
        percentiles: spec.flag("percentiles", true),
    };
    let title = spec.text("title")?;
    let shared = share(Latency::new(present(&columns), LATENCY_BYTES).within(budget));
    let values = vec![("ns".to_owned(), "value")];
    let parameters = values.into_iter().chain(keys(&columns)).collect();
    Ok(Made {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: take::<Latency>(1 + present(&columns)),
        parameters,
        extra: Vec::new(),
        fields: Vec::new(),
        declared: Declared {
            name: json_key(title.as_deref().unwrap_or_default(), "latency"),
            title,
            columns,
            keep: spec.flag("keep", false),
            body: Body::Latency(Interval::new(shared), look),
        },
    })
}

fn kv(spec: &Value, budget: &Rc<Budget>) -> Checked<Made> {
    let known = ["sums", "count", "top", "style", "hide_key", "name", "title", "keep"];
    let spec = Spec::new("kv", spec, &known)?;
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
        columns.iter_mut().flatten().for_each(Column::integers_by_default);
    }
    let first = |sum: &(usize, &super::spec::SumColumn)| sum.1.first;
    let shape = Shape {
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
    Ok(Made {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: take::<Kv>(present(&columns) + look.sums.len()),
        parameters,
        extra: vec![
            ("keys", columns.len()),
            ("present", present(&columns)),
            ("sums", look.sums.len()),
        ],
        fields: Vec::new(),
        declared: Declared {
            name,
            title,
            columns,
            keep: spec.flag("keep", false),
            body: Body::Kv(Interval::new(shared), look),
        },
    })
}

/// A kv of stacks and root frames with one sum.
fn flame_graph(spec: &Value, budget: &Rc<Budget>) -> Checked<Made> {
    let spec = Spec::new("flame_graph", spec, &["title", "unit", "keep"])?;
    let (title, unit) = (spec.text("title")?, spec.text("unit")?);
    let columns = ["stack", "comm"].map(|title| Some(Column::plain(title.to_owned()))).to_vec();
    let shape =
        Shape { keys: 2, sums: 1, first: vec![0], named: false, bound: super::flame::BYTES };
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
    Ok(Made {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: take::<Kv>(3),
        parameters: parameters.map(|(name, is)| (name.to_owned(), is)).to_vec(),
        extra: Vec::new(),
        fields: Vec::new(),
        declared: Declared {
            name: json_key(title.as_deref().unwrap_or_default(), "flame_graph"),
            title,
            columns,
            keep: spec.flag("keep", false),
            body: Body::Kv(Interval::new(shared), look),
        },
    })
}

fn hist(kind: &str, spec: &Value, budget: &Rc<Budget>) -> Checked<Made> {
    let linear = kind == "hist.linear";
    let known: &[&str] = if linear {
        &["title", "unit", "keep", "min", "step", "max"]
    } else {
        &["title", "unit", "keep"]
    };
    let spec = Spec::new(kind, spec, known)?;
    let columns = key_columns(kind, &spec, 1)?;
    let scale = if linear {
        let max =
            spec.integer("max")?.ok_or("hist.linear has no `max`: where its last bucket ends")?;
        let (min, step) = (spec.integer("min")?.unwrap_or(0), spec.integer("step")?.unwrap_or(1));
        Scale::linear(min, step, max).map_err(|why| format!("hist.linear: {why}"))?
    } else {
        Scale::Log2
    };
    let title = spec.text("title")?;
    let unit = spec.text("unit")?.unwrap_or_default();
    let shared = share(Hist::new(scale, present(&columns), HIST_BYTES).within(budget));
    let values = vec![("value".to_owned(), "value")];
    let parameters = values.into_iter().chain(keys(&columns)).collect();
    Ok(Made {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: take::<Hist>(1 + present(&columns)),
        parameters,
        extra: Vec::new(),
        fields: Vec::new(),
        declared: Declared {
            name: json_key(title.as_deref().unwrap_or_default(), "hist"),
            title,
            columns,
            keep: spec.flag("keep", false),
            body: Body::Hist(Interval::new(shared), unit),
        },
    })
}

/// A run has one: who asks again gets the same.
fn heat_map(spec: &Value, aggregates: &Aggregates) -> Checked<Made> {
    Spec::new("heat_map", spec, &[])?;
    let shared = aggregates.heat_map().unwrap_or_else(|| share(HeatMap::default()));
    Ok(Made {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: take::<HeatMap>(2),
        parameters: ["time", "ns"].map(|name| (name.to_owned(), "value")).to_vec(),
        extra: Vec::new(),
        fields: Vec::new(),
        declared: Declared::hidden(Body::HeatMap(shared)),
    })
}

fn rate(spec: &Value, budget: &Rc<Budget>) -> Checked<Made> {
    let spec = Spec::new("rate", spec, &["window"])?;
    let window =
        spec.duration("window")?.ok_or("rate has no `window`: rate { window = \"1s\" }")?;
    let shared = share(Rate::new(window, 1, RATE_BYTES).within(budget));
    Ok(Made {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: take::<Rate>(2),
        parameters: vec![("key".to_owned(), "key"), ("time".to_owned(), "value")],
        extra: Vec::new(),
        fields: Vec::new(),
        declared: Declared::hidden(Body::Rate(shared)),
    })
}

fn pending(spec: &Value, run: &super::Shared) -> Checked<Made> {
    let spec = Spec::new("pending", spec, &["key", "keep", "lost", "age", "nested"])?;
    let fields = spec.fields(&["time", "delay", "unsure", "event"])?;
    if fields.len() > VALUES {
        return Err(format!("pending remembers at most {VALUES} values"));
    }
    if spec.flag("nested", false) && fields.is_empty() {
        return Err(
            "pending with nested has no field: the first is the call that close() ends".to_owned()
        );
    }
    let key = spec.choice("key", &["tid", "cpu", "pointer", "any"])?;
    let lost = spec.choice("lost", &["drop", "keep"])?;
    let shape = pending::Shape {
        values: fields.len(),
        by_task: key == Some("tid"),
        keep_lost: lost == Some("keep"),
        nested: spec.flag("nested", false),
        keep_event: spec.flag("keep", false),
        age: spec.duration("age")?.unwrap_or(f64::INFINITY),
        bound: PENDING_BYTES,
    };
    let shared = share(Pending::new(shape).asking(&run.owners).within(&run.budget));
    Ok(Made {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: leaf::open::<Pending>(2 + fields.len()).map(LightUserData),
        parameters: Vec::new(),
        extra: vec![
            ("keep", usize::from(spec.flag("keep", false))),
            ("nested", usize::from(spec.flag("nested", false))),
        ],
        fields,
        declared: Declared::hidden(Body::Pending(shared)),
    })
}

fn states(spec: &Value, run: &super::Shared) -> Checked<Made> {
    let known = ["unit", "count", "title", "top", "percentiles", "keep", "than", "longer"];
    let spec = Spec::new("states", spec, &known)?;
    let columns = key_columns("states", &spec, 0)?;
    let values = present(&columns);
    let state = columns.iter().flatten().position(|column| column.title == "state").ok_or(
        "states has no column called 'state': the state itself, a number of which 0 is running",
    )?;
    let look = LatencyLook {
        unit: spec.choice("unit", &["ns", "us", "ms", "s"])?.unwrap_or("us"),
        count: spec.text("count")?.unwrap_or_else(|| "calls".to_owned()),
        top: spec.top()?,
        percentiles: spec.flag("percentiles", true),
    };
    let title = spec.text("title")?;
    let spent = share(Latency::new(values, LATENCY_BYTES).within(&run.budget));
    // Without `longer` nobody asks how long one was held.
    let than = if spec.flag("longer", false) { -1.0 } else { f64::INFINITY };
    let than = spec.duration("than")?.unwrap_or(than);
    let keep_event = spec.flag("keep", false);
    let shape = states::Shape { values, state, than, keep_event, bound: PENDING_BYTES };
    let shared = share(States::new(shape, spent.clone()).asking(&run.owners).within(&run.budget));
    Ok(Made {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: leaf::open::<States>(2 + values).map(LightUserData),
        parameters: keys(&columns).collect(),
        extra: vec![("keep", usize::from(keep_event)), ("values", values)],
        fields: columns.iter().flatten().map(|column| column.title.clone()).collect(),
        declared: Declared {
            name: json_key(title.as_deref().unwrap_or_default(), "states"),
            title,
            columns,
            keep: false,
            body: Body::States(shared, Interval::new(spent), look),
        },
    })
}

fn key_columns(word: &str, spec: &Spec<'_>, values: usize) -> Checked<Vec<Option<Column>>> {
    let columns = spec.columns()?;
    let most = KEYS - values;
    if present(&columns) > most {
        return Err(format!("{word} has {} columns; it takes at most {most}", present(&columns)));
    }
    Ok(columns)
}

/// Columns that are not false.
fn present(columns: &[Option<Column>]) -> usize {
    columns.iter().flatten().count()
}

fn keys(columns: &[Option<Column>]) -> impl Iterator<Item = (String, &'static str)> {
    columns.iter().map(|column| match column {
        Some(column) => (column.title.clone(), "key"),
        None => ("_".to_owned(), "ignored"),
    })
}

fn share<T>(value: T) -> Shared<T> {
    std::rc::Rc::new(std::cell::RefCell::new(value))
}

fn take<T: Leaf>(doubles: usize) -> Option<LightUserData> {
    leaf::take::<T>(doubles).map(LightUserData)
}
