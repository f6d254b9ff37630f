//! The kinds of aggregates. A new one is a file here, a row of [`AGGREGATE_KINDS`], and its types
//! and documentation in `stdlib/meta/aggregate.lua`.

use super::declare::AggregateKind;

mod flame_graph;
mod heat_map;
mod hist;
mod kv;
mod latency;
mod pending;
mod rate;
mod sql;
mod stack_map;
mod states;

/// All kinds, in the order in which messages list them. The prelude of `states` uses that of
/// `pending`.
pub(super) static AGGREGATE_KINDS: &[AggregateKind] = &[
    latency::KIND,
    kv::KIND,
    hist::LOG2,
    hist::LINEAR,
    flame_graph::KIND,
    heat_map::KIND,
    stack_map::KIND,
    rate::KIND,
    pending::KIND,
    states::KIND,
    sql::KIND,
];

/// Returns the constructors of what a report can show: `latency, kv, hist, …`.
pub(in crate::script) fn drawn_kinds() -> String {
    let drawn = AGGREGATE_KINDS.iter().filter(|kind| kind.is_drawn);
    let mut names: Vec<&str> =
        drawn.map(|kind| kind.name.split('.').next().unwrap_or_default()).collect();
    names.dedup();
    names.join(", ")
}
