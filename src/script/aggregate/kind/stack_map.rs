//! `stack_map {}`: stacks over time, for `--heatmap FILE.html`.
//! `add(cell, comm, stack, joined, waker, weight)`: a cell is 20 ms of the run.

use super::super::{
    body::AggregateBody,
    declare::{AggregateKind, DeclaredAggregate, NewAggregate, share},
    settings::AggregateSettings,
    spec::{AggregateSpec, Checked},
};
use crate::{
    base::report::coverage::Coverage,
    stat::{
        Aggregate as _,
        kv::{Kv, KvOptions},
        leaf::SharedAggregate,
        strings::Marks,
    },
};
use mlua::Value;

pub(super) const KIND: AggregateKind =
    AggregateKind { name: "stack_map", is_drawn: false, estimates: false, declare, prelude: None };

/// Size limit in bytes: about a million entries.
const BYTES: usize = 96 << 20;

/// Parameters of `add` that are keys.
const KEYS: [&str; 5] = ["cell", "comm", "stack", "joined", "waker"];

/// Returns the stack map of the run; each further call returns the same one.
fn declare(spec: &Value, shared: &AggregateSettings) -> Checked<NewAggregate> {
    let spec = AggregateSpec::new("stack_map", spec, &["unit"])?;
    let unit = spec.text("unit")?.unwrap_or_else(|| "samples".to_owned());
    let reports_losses = shared.stack_map.get().is_none();
    let options =
        KvOptions { keys: KEYS.len(), sums: 1, first: Vec::new(), named: false, bound: BYTES };
    let new = || (share(Kv::new(options).with_budget(&shared.budget)), unit);
    let (map, _) = shared.stack_map.get_or_init(new);
    let keys = KEYS.map(|name| (name.to_owned(), "key"));
    let parameters = keys.into_iter().chain([("weight".to_owned(), "value")]).collect();
    let declared = DeclaredAggregate::hidden(StackMapBody { map: map.clone(), reports_losses });
    Ok(NewAggregate::new(map, parameters, declared))
}

struct StackMapBody {
    map: SharedAggregate<Kv>,
    /// Whether it reports the losses of the map: one of those that share it does.
    reports_losses: bool,
}

impl AggregateBody for StackMapBody {
    fn mark(&self, marks: &mut Marks) {
        self.map.borrow().mark(marks);
    }

    fn count(&self, counts: &mut Coverage) {
        if self.reports_losses {
            counts.evicted += self.map.borrow().evicted();
        }
    }

    /// The run draws it.
    fn is_freed_unheld(&self) -> bool {
        false
    }
}
