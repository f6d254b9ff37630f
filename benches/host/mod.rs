//! Common part of the script benches: a host that has started a script, with a catalog of one
//! event.

use std::rc::Rc;

use perilune::decode::format::Format;
use perilune::event::catalog::Catalog;
use perilune::event::kind::{Event, Tracepoint};
use perilune::script::host::{Host, Rules, Setting};
use perilune::script::load::library::{Library, Script, ScriptOrigin};
use perilune::source::Batch;

/// Catalog with this format for every event name.
struct OneEvent(&'static str);

impl Catalog for OneEvent {
    fn describe(&self, name: &str) -> anyhow::Result<Rc<Event>> {
        Ok(Rc::new(Event::new(name, Tracepoint { format: Format::parse(self.0)? })))
    }

    fn names(&self) -> anyhow::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Starts a script whose events all have that format, and attaches a batch with `roles` roles.
pub(crate) fn begin(text: String, format: &'static str, roles: usize) -> (Host, Batch) {
    let mut host = Host::new(false).unwrap();
    let script = Script { name: "measured".to_owned(), origin: ScriptOrigin::Bundled, text };
    host.load(&script, &Library::default(), &[]).unwrap();
    let setting = Setting::of(Rc::new(OneEvent(format)));
    let options = host.lua().create_table().unwrap();
    host.begin(&options, &setting, Rules::default()).unwrap();
    let batch = Batch::new(roles);
    host.attach(batch.addresses()).unwrap();
    (host, batch)
}
