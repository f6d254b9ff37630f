//! `heat_map {}`: delays over time, for `--heatmap`. `add(time, ns)`.

use super::super::{
    body::AggregateBody,
    declare::{AggregateKind, DeclaredAggregate, NewAggregate, share},
    settings::AggregateSettings,
    spec::{AggregateSpec, Checked},
};
use crate::{
    base::report::coverage::Coverage,
    stat::{heat_map::HeatMap, leaf::SharedAggregate, strings::Marks},
};
use mlua::Value;

pub(super) const KIND: AggregateKind =
    AggregateKind { name: "heat_map", is_drawn: false, estimates: false, declare, prelude: None };

/// Returns the heat map of the run; each further call returns the same one.
fn declare(spec: &Value, shared: &AggregateSettings) -> Checked<NewAggregate> {
    AggregateSpec::new("heat_map", spec, &[])?;
    let reports_losses = shared.heat_map.get().is_none();
    let map = shared.heat_map.get_or_init(|| share(HeatMap::default()));
    let parameters = ["time", "ns"].map(|name| (name.to_owned(), "value")).to_vec();
    let declared = DeclaredAggregate::hidden(HeatMapBody { map: map.clone(), reports_losses });
    Ok(NewAggregate::new(map, parameters, declared))
}

struct HeatMapBody {
    map: SharedAggregate<HeatMap>,
    /// Whether it reports the losses of the map: one of those that share it does.
    reports_losses: bool,
}

impl AggregateBody for HeatMapBody {
    fn mark(&self, _: &mut Marks) {}

    fn count(&self, counts: &mut Coverage) {
        if self.reports_losses {
            counts.disordered += self.map.borrow().disordered();
        }
    }

    /// The run draws it.
    fn is_freed_unheld(&self) -> bool {
        false
    }
}
