//! What benches of scripts stand on: a host that has begun a script, over a catalog of one event.

use std::rc::Rc;

use perilune::decode::format::Format;
use perilune::event::catalog::{Catalog, Event, What};
use perilune::script::bundle::{Library, Origin, Script};
use perilune::script::host::{Host, Rules, Setting};
use perilune::source::Batch;

/// The text of the event's format, whatever the event is called.
struct OneEvent(&'static str);

impl Catalog for OneEvent {
    fn describe(&self, name: &str) -> anyhow::Result<Rc<Event>> {
        let what = What::Tracepoint { format: Format::parse(self.0)? };
        Ok(Rc::new(Event { name: name.to_owned(), what }))
    }

    fn names(&self) -> anyhow::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Begins a script whose events are all of that format, and attaches a batch for so many roles.
pub(crate) fn begin(text: String, format: &'static str, roles: usize) -> (Host, Batch) {
    let mut host = Host::new(false).unwrap();
    let script = Script { name: "measured".to_owned(), origin: Origin::Bundled, text };
    host.load(&script, &Library::default(), &[]).unwrap();
    let setting = Setting::of(Rc::new(OneEvent(format)));
    let options = host.lua().create_table().unwrap();
    host.begin(&options, &setting, Rules::default()).unwrap();
    let batch = Batch::new(roles);
    host.attach(batch.addresses()).unwrap();
    (host, batch)
}
