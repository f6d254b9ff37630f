//! `flame_graph { title=, unit=, keep=bool }`: a `kv` keyed by stack and root frame, with one sum.
//! `add(stack, weight [, root_frame])`, `write(name)`.

use super::super::{
    declare::{AggregateKind, DeclaredAggregate, KindPrelude, NewAggregate},
    flame,
    settings::AggregateSettings,
    spec::{AggregateSpec, Checked, KeyColumn, SumColumn},
};
use super::kv::{KvLook, KvTable};
use crate::{
    base::{report::draw::Style, text::stack_style::StackStyle},
    script::aggregate::column::json_key,
};
use mlua::{Lua, Value};
use std::rc::Rc;

pub(super) const KIND: AggregateKind = AggregateKind {
    name: "flame_graph",
    is_drawn: true,
    estimates: true,
    declare,
    prelude: Some(KindPrelude {
        source: include_str!("../../prelude/flame_graph.lua"),
        leaves: Lua::create_table,
    }),
};

fn declare(spec: &Value, shared: &AggregateSettings) -> Checked<NewAggregate> {
    let spec = AggregateSpec::new("flame_graph", spec, &["title", "unit", "keep"])?;
    let (title, unit) = (spec.text("title")?, spec.text("unit")?);
    let column = |title: &str| KeyColumn::plain(title.to_owned());
    let style = Rc::new(StackStyle::symbols());
    let stack = KeyColumn { stack: Some(style), ..column("stack") };
    let columns = vec![Some(stack), Some(column("comm"))];
    let look = KvLook {
        count: None,
        top: None,
        style: Style::Plain,
        hide_key: false,
        name: None,
        flame: true,
        weight: None,
        sums: vec![SumColumn::plain(unit.unwrap_or_else(|| "samples".to_owned()), true)],
    };
    let kv = look.new_kv(columns.len(), flame::BYTES, shared);
    let parameters = [("stack", "key"), ("weight", "value"), ("root_frame", "root")];
    let declared = DeclaredAggregate {
        name: json_key(title.as_deref().unwrap_or_default(), "flame_graph"),
        title,
        columns,
        keep: spec.flag("keep", false),
        body: Box::new(KvTable::new(kv.clone(), look)),
    };
    let parameters = parameters.map(|(name, is)| (name.to_owned(), is)).to_vec();
    Ok(NewAggregate::new(&kv, parameters, declared))
}
