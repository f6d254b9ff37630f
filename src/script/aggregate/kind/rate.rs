//! `rate { window="1s" }`: `add(key, time)` → the number of adds with this key in the window that
//! ends with this one.

use super::super::{
    body::AggregateBody,
    declare::{AggregateKind, DeclaredAggregate, NewAggregate, share},
    settings::AggregateSettings,
    spec::{AggregateSpec, Checked},
};
use crate::{
    base::report::coverage::Coverage,
    stat::{leaf::SharedAggregate, rate::Rates, strings::Marks},
};
use mlua::Value;

pub(super) const KIND: AggregateKind =
    AggregateKind { name: "rate", is_drawn: false, estimates: false, declare, prelude: None };

/// Size limit in bytes.
const BYTES: usize = 8 << 20;

fn declare(spec: &Value, shared: &AggregateSettings) -> Checked<NewAggregate> {
    let spec = AggregateSpec::new("rate", spec, &["window"])?;
    let window =
        spec.duration("window")?.ok_or("rate has no `window`: rate { window = \"1s\" }")?;
    let rates = share(Rates::new(window, 1, BYTES).with_budget(&shared.budget));
    let parameters = vec![("key".to_owned(), "key"), ("time".to_owned(), "value")];
    let declared = DeclaredAggregate::hidden(RateBody(rates.clone()));
    Ok(NewAggregate::new(&rates, parameters, declared).returning())
}

struct RateBody(SharedAggregate<Rates>);

impl AggregateBody for RateBody {
    fn mark(&self, marks: &mut Marks) {
        self.0.borrow().mark(marks);
    }

    fn count(&self, counts: &mut Coverage) {
        counts.evicted += self.0.borrow().evicted();
    }
}
