//! The events of a run as rows of SQL.

use super::shared::SharedContext;
use crate::base::event::value::Value;
use crate::base::text::message::utf8;
use crate::base::text::unescape::until_nul;
use crate::stat::leaf::BorrowedEvent;
use crate::stat::sql::{SqlSample, SqlSource, VisitEvent};

/// Fields of an event without a format: a sample of a counter or a clock.
const SAMPLE: [&str; 3] = ["period", "ip", "addr"];

/// The run whose events are rows.
pub(in crate::script) struct RunEvents(pub(in crate::script) SharedContext);

impl SqlSource for RunEvents {
    fn events(&self) -> Vec<(String, Vec<String>)> {
        self.0.with(|context| {
            let described = context.roles.iter().map(|event| {
                let opened = event.opened();
                let fields = opened.fields.into_iter().map(|(name, _)| name);
                let sample = event.format().is_none().then_some(SAMPLE).into_iter().flatten();
                (opened.name, sample.map(str::to_owned).chain(fields).collect())
            });
            described.collect()
        })
    }

    fn read(&self, event: &BorrowedEvent<'_>, visit: &mut VisitEvent<'_>) {
        self.0.with(|context| {
            let slot = event.slot;
            let Some(role) = context.roles.get(slot.ev as usize).cloned() else { return };
            let comm = context.comm_of_slot(slot);
            let sample = SqlSample {
                time_ns: slot.time as i64,
                cpu: slot.cpu.into(),
                pid: slot.pid.cast_signed(),
                tid: slot.tid.cast_signed(),
                comm: until_nul(&comm),
            };
            match role.format() {
                Some(format) => visit(&sample, &mut format.values(event.raw)),
                None => {
                    let [period, ip, addr] = SAMPLE;
                    let values = [
                        (period, Value::Uint(slot.occurrences())),
                        (ip, Value::Pointer(slot.ip)),
                        (addr, Value::Pointer(slot.addr)),
                    ];
                    visit(&sample, &mut values.into_iter());
                }
            }
        });
    }

    fn ksymbol(&self, address: u64) -> Option<String> {
        self.0.with(|context| context.symbols.name(address).map(str::to_owned))
    }

    fn comm(&self, tid: u32) -> String {
        self.0.with(|context| {
            let comm = context.comm_of(tid, 0);
            utf8(until_nul(&comm)).into_owned()
        })
    }
}
