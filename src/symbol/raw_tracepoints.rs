//! The raw tracepoints of the running kernel.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::functions::kernel_types;
use crate::decode::btf::prototypes::BtfTypes;
use crate::event::kind::Event;
use crate::event::raw_tracepoint::{self, RawTracepoint};
use crate::sys::machine::is_linux_since;

/// Kernel from which on the states of tasks are those that [`raw_tracepoint`] expects, and programs
/// of tracepoints count the events that they miss.
const SINCE: (u32, u32) = (6, 7);

/// Raw tracepoints. The types of the kernel are read when the first one is requested, and each is
/// looked up once: that takes some milliseconds.
#[derive(Default)]
pub struct RawTracepoints {
    types: OnceCell<Option<BtfTypes>>,
    found: RefCell<HashMap<String, Option<Rc<RawTracepoint>>>>,
}

impl RawTracepoints {
    /// Returns the raw tracepoint of an event; None if its record cannot be built from arguments.
    pub fn find(&self, event: &Event) -> Option<Rc<RawTracepoint>> {
        if !raw_tracepoint::is_known(&event.name) || !is_linux_since(SINCE) {
            return None;
        }
        let mut found = self.found.borrow_mut();
        let known = found.entry(event.name.to_string()).or_insert_with(|| {
            let types = self.types.get_or_init(kernel_types).as_ref()?;
            let format = event.kind().raw_format()?;
            raw_tracepoint::find(types, &event.name, format).map(Rc::new)
        });
        known.clone()
    }
}
