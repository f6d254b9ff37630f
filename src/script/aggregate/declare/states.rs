//! Constructors of the state that a script keeps between events: `pending` and `states`.

use super::super::{AggregateSettings, Body, DeclaredAggregate, Interval, spec::AggregateSpec};
use super::{
    Checked, LATENCY_BYTES, NewAggregate, PENDING_BYTES, key_columns, keys, latency_look, present,
    share,
};
use crate::script::column::json_key;
use crate::stat::{
    latency::Latency,
    leaf,
    pending::{self, Pending, VALUES},
    states::{self, States},
};
use mlua::{LightUserData, Value};

/// Declares `pending { field…, … }`.
pub(super) fn pending(spec: &Value, run: &AggregateSettings) -> Checked<NewAggregate> {
    let spec = AggregateSpec::new("pending", spec, &["key", "keep", "lost", "age", "nested"])?;
    let fields = spec.fields(&["time", "delay", "unsure", "event"])?;
    if fields.len() > VALUES {
        return Err(format!("pending holds at most {VALUES} values"));
    }
    if spec.flag("nested", false) && fields.is_empty() {
        return Err(
            "pending with nested needs a field: the first is the call that close() ends".to_owned()
        );
    }
    let key = spec.choice("key", &["tid", "cpu", "pointer", "any"])?;
    let lost = spec.choice("lost", &["drop", "keep"])?;
    let shape = pending::PendingOptions {
        values: fields.len(),
        by_task: key == Some("tid"),
        keep_lost: lost == Some("keep"),
        nested: spec.flag("nested", false),
        keep_event: spec.flag("keep", false),
        age: spec.duration("age")?.unwrap_or(f64::INFINITY),
        bound: PENDING_BYTES,
    };
    let shared = share(Pending::new(shape).asking(&run.owners).within(&run.budget));
    Ok(NewAggregate {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: leaf::open::<Pending>(2 + fields.len()).map(LightUserData),
        parameters: Vec::new(),
        extra: vec![
            ("keep", usize::from(spec.flag("keep", false))),
            ("nested", usize::from(spec.flag("nested", false))),
        ],
        fields,
        declared: DeclaredAggregate::hidden(Body::Pending(shared)),
    })
}

/// Declares `states { column…, … }`.
pub(super) fn states(spec: &Value, run: &AggregateSettings) -> Checked<NewAggregate> {
    let known = ["unit", "count", "title", "top", "percentiles", "keep", "than", "longer"];
    let spec = AggregateSpec::new("states", spec, &known)?;
    let columns = key_columns("states", &spec, 0)?;
    let values = present(&columns);
    let state = columns
        .iter()
        .flatten()
        .position(|column| column.title == "state")
        .ok_or("states needs a column 'state': the number of the state, 0 for running")?;
    let look = latency_look(&spec)?;
    let title = spec.text("title")?;
    let spent = share(Latency::new(values, LATENCY_BYTES).within(&run.budget));
    // Without `longer` no state is reported, whatever its length.
    let than = if spec.flag("longer", false) { -1.0 } else { f64::INFINITY };
    let than = spec.duration("than")?.unwrap_or(than);
    let keep_event = spec.flag("keep", false);
    let shape = states::StatesOptions { values, state, than, keep_event, bound: PENDING_BYTES };
    let shared = share(States::new(shape, spent.clone()).asking(&run.owners).within(&run.budget));
    Ok(NewAggregate {
        pointer: LightUserData(leaf::pointer(&shared)),
        leaf: leaf::open::<States>(2 + values).map(LightUserData),
        parameters: keys(&columns).collect(),
        extra: vec![("keep", usize::from(keep_event)), ("values", values)],
        fields: columns.iter().flatten().map(|column| column.title.clone()).collect(),
        declared: DeclaredAggregate {
            name: json_key(title.as_deref().unwrap_or_default(), "states"),
            title,
            columns,
            keep: false,
            body: Body::States(shared, Interval::new(spent), look),
        },
    })
}
