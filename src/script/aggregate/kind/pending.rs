//! `pending { field…, key=, keep=bool, lost=, age=, nested=bool, uretprobes=bool, counted=bool }`:
//! state between two events.

use super::super::{
    body::{AggregateBody, KernelTarget, OpenState, count_open},
    declare::{AggregateKind, DeclaredAggregate, KindPrelude, NewAggregate, named_leaves, share},
    settings::AggregateSettings,
    spec::{AggregateSpec, Checked},
};
use crate::{
    base::report::coverage::Coverage,
    stat::{
        event_copy::CopyPosition,
        history::History,
        leaf::SharedAggregate,
        pending::{self, Pending, PendingOptions, PendingState, VALUES},
        strings::Marks,
    },
};
use mlua::Value;

pub(super) const KIND: AggregateKind = AggregateKind {
    name: "pending",
    is_drawn: false,
    estimates: false,
    declare,
    prelude: Some(KindPrelude {
        source: include_str!("../../prelude/pending.lua"),
        leaves: |lua| named_leaves(lua, pending::leaves()),
    }),
};

/// Size limit of the state between events, in bytes.
pub(super) const BYTES: usize = 16 << 20;

fn declare(spec: &Value, shared: &AggregateSettings) -> Checked<NewAggregate> {
    let options = ["key", "keep", "lost", "age", "nested", "uretprobes", "counted"];
    let spec = AggregateSpec::new("pending", spec, &options)?;
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
    let options = PendingOptions {
        values: fields.len(),
        by_task: key == Some("tid"),
        keep_lost: lost == Some("keep"),
        nested: spec.flag("nested", false),
        uretprobes: spec.flag("uretprobes", false),
        keep_event: spec.flag("keep", false),
        age: spec.duration("age")?.unwrap_or(f64::INFINITY),
        bound: BYTES,
    };
    let pending =
        share(Pending::new(options).with_owners(&shared.owners).with_budget(&shared.budget));
    let is_counted = spec.flag("counted", true);
    let declared = DeclaredAggregate::hidden(PendingBody { pending: pending.clone(), is_counted });
    Ok(NewAggregate::of_events(&pending, fields, Vec::new(), declared)
        .with([("keep", usize::from(options.keep_event)), ("nested", usize::from(options.nested))]))
}

struct PendingBody {
    pending: SharedAggregate<Pending>,
    /// Whether the coverage includes its counts.
    is_counted: bool,
}

impl AggregateBody for PendingBody {
    fn mark(&self, marks: &mut Marks) {
        self.pending.borrow().mark(marks);
    }

    fn count(&self, counts: &mut Coverage) {
        if !self.is_counted {
            return;
        }
        let pending = self.pending.borrow();
        let open = pending.len() + pending.counted_open();
        count_open(counts, pending.losses(), pending.starts(), open);
    }

    fn open_state(&self) -> Option<&dyn OpenState> {
        Some(self)
    }

    fn kernel_target(&self) -> Option<KernelTarget<'_>> {
        Some(KernelTarget::Starts(&self.pending))
    }
}

impl OpenState for PendingBody {
    fn drop_before(&self, time: f64) {
        self.pending.borrow_mut().drop_before(time);
    }

    fn drop_task(&self, tid: u32) {
        self.pending.borrow_mut().drop_task(tid);
    }

    fn rescue(&self, history: &History, until: CopyPosition) {
        self.pending.borrow_mut().rescue(history, until);
    }

    fn oldest_time(&self) -> f64 {
        self.pending.borrow().oldest_time()
    }

    /// Tables keyed by task are not counted.
    fn starts_without_any_end(&self) -> u64 {
        let pending = self.pending.borrow();
        let never = pending.ended() == 0 && !pending.is_by_task();
        if never { pending.starts() } else { 0 }
    }

    fn results(&self) -> [*const PendingState; 2] {
        let pending = self.pending.borrow();
        [pending.closed(), pending.read()].map(std::ptr::from_ref)
    }
}
