//! `states { column…, "state", keep=, than=, longer=function(stay, e), unit=, count=, title=, top=,
//! percentiles= }`: one state at a time per task, and a table of their durations.

use super::super::{
    body::{AggregateBody, OpenState, PushRow, count_open},
    cells::TableParts,
    declare::{
        AggregateKind, DeclaredAggregate, KindPrelude, NewAggregate, key_columns, keys,
        named_leaves, present, share,
    },
    settings::AggregateSettings,
    spec::{AggregateSpec, Checked},
};
use super::latency::{LatencyLook, LatencyTable, new_latency};
use super::pending;
use crate::{
    base::{report::coverage::Coverage, report::draw::Report, report::metric::MetricTable},
    script::aggregate::column::json_key,
    stat::{
        leaf::SharedAggregate,
        pending::PendingState,
        states::{self, States, StatesOptions},
        strings::Marks,
    },
};
use mlua::Value;

pub(super) const KIND: AggregateKind = AggregateKind {
    name: "states",
    is_drawn: true,
    estimates: false,
    declare,
    prelude: Some(KindPrelude {
        source: include_str!("../../prelude/states.lua"),
        leaves: |lua| named_leaves(lua, states::leaves()),
    }),
};

fn declare(spec: &Value, shared: &AggregateSettings) -> Checked<NewAggregate> {
    let known = ["unit", "count", "title", "top", "percentiles", "keep", "than", "longer"];
    let spec = AggregateSpec::new("states", spec, &known)?;
    let columns = key_columns("states", &spec, 0)?;
    let values = present(&columns);
    let state = columns
        .iter()
        .flatten()
        .position(|column| column.title == "state")
        .ok_or("states needs a column 'state': the number of the state, 0 for running")?;
    let look = LatencyLook::read(&spec)?;
    let title = spec.text("title")?;
    let spent = new_latency(values, shared);
    // Without `longer` no state is reported, whatever its length.
    let than = if spec.flag("longer", false) { -1.0 } else { f64::INFINITY };
    let than = spec.duration("than")?.unwrap_or(than);
    let keep_event = spec.flag("keep", false);
    let options = StatesOptions { values, state, than, keep_event, bound: pending::BYTES };
    let states = States::new(options, spent.clone());
    let states = share(states.with_owners(&shared.owners).with_budget(&shared.budget));
    let parameters = keys(&columns).collect();
    let fields = columns.iter().flatten().map(|column| column.title.clone()).collect();
    let declared = DeclaredAggregate {
        name: json_key(title.as_deref().unwrap_or_default(), "states"),
        title,
        columns,
        keep: false,
        body: Box::new(StatesBody {
            states: states.clone(),
            spent: LatencyTable::new(spent, look),
        }),
    };
    Ok(NewAggregate::of_events(&states, fields, parameters, declared)
        .with([("keep", usize::from(keep_event)), ("values", values)]))
}

/// The states that have not ended, and the durations of those that have.
struct StatesBody {
    states: SharedAggregate<States>,
    spent: LatencyTable,
}

impl AggregateBody for StatesBody {
    fn mark(&self, marks: &mut Marks) {
        self.states.borrow().mark(marks);
        self.spent.mark(marks);
    }

    fn count(&self, counts: &mut Coverage) {
        let states = self.states.borrow();
        count_open(counts, states.losses(), states.starts(), states.held());
        self.spent.count(counts);
    }

    fn draw(&self, parts: &TableParts<'_>, total: bool) -> mlua::Result<Vec<Report>> {
        self.spent.draw(parts, total)
    }

    fn measure(&self, parts: &TableParts<'_>) -> mlua::Result<Option<MetricTable>> {
        self.spent.measure(parts)
    }

    fn rows(&self, parts: &TableParts<'_>, push: &mut PushRow<'_>) -> mlua::Result<()> {
        self.spent.rows(parts, push)
    }

    fn restart(&self, totals: bool) {
        self.spent.restart(totals);
    }

    fn has_total(&self) -> bool {
        self.spent.has_total()
    }

    fn open_state(&self) -> Option<&dyn OpenState> {
        Some(self)
    }
}

impl OpenState for StatesBody {
    fn drop_before(&self, time: f64) {
        self.states.borrow_mut().drop_before(time);
    }

    fn drop_task(&self, tid: u32) {
        self.states.borrow_mut().drop_task(tid);
    }

    fn forget_task(&self, tid: u32) {
        self.states.borrow_mut().forget_task(tid);
    }

    fn rename_task(&self, tid: u32) {
        self.states.borrow_mut().rename_task(tid);
    }

    fn results(&self) -> [*const PendingState; 2] {
        [std::ptr::from_ref(self.states.borrow().ended()); 2]
    }
}
