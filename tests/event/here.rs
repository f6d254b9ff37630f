//! Filters in user space, evaluated as by a run: predicates in front of handlers, over batches of
//! the records that the kernel filtered, compared with the kernel's result.

use std::{
    cell::RefCell,
    path::PathBuf,
    rc::Rc,
    sync::{Mutex, PoisonError},
};

use perilune::{
    base::{
        event::slot::Slot,
        event::value::Value,
        report::draw::{Draw, Level, Stamp},
    },
    event::{
        catalog::{Catalog, TracefsCatalog},
        filter::split::UserCondition,
    },
    script::{
        host::{Host, Rules, Setting},
        load::library::{Library, Script, ScriptOrigin},
    },
    source::{Batch, Sink as _},
    sys::tracefs::Tracefs,
    task::Tasks,
};

use crate::kernel::{self, Sample};

/// Runs a script with one handler per element of `predicates`, behind those conditions, over the
/// samples of tasks with those `names`. Returns the indices of the samples that reached each
/// handler, and the total count of filtered ones.
pub(crate) fn passing(
    event: &str,
    predicates: &[Vec<UserCondition>],
    samples: &[Sample],
    names: &[Vec<u8>],
) -> (Vec<Vec<usize>>, u64) {
    // A process has one guard at a time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let heard = Rc::new(RefCell::new(vec![Vec::new(); predicates.len()]));
    let mut host = host(event, predicates.len());
    for (role, rests) in predicates.iter().enumerate() {
        for rest in rests {
            host.filter_here(role as u32, Some(rest.clone())).unwrap();
        }
    }
    let mut batch = Batch::new(predicates.len());
    host.attach(batch.addresses()).unwrap();
    let context = host.context().clone();
    context.set_output(Box::new(Heard(heard.clone())));
    context.begin_notes();
    context.set_tasks(Tasks::new(64));
    let format = kernel::format(event).unwrap();
    let tid = format.field("common_pid").unwrap();
    for (index, sample) in samples.iter().enumerate() {
        let tid = match tid.read(&sample.raw) {
            Ok(Value::Int(tid)) => tid as u32,
            other => panic!("{other:?}"),
        };
        // The task's name at the time of the event.
        context.change_tasks(|tasks| tasks.on_comm(tid, tid, &names[index], index as f64));
        for role in 0..predicates.len() as u16 {
            batch.push(Slot {
                time: index as f64,
                pid: tid,
                tid,
                cpu: sample.cpu as u16,
                ev: role,
                ..Slot::of(&sample.raw)
            });
        }
        // SAFETY: the sample comes from the kernel, has the event's own format, and outlives the
        // call.
        unsafe { host.dispatch(&mut batch) };
        batch.clear();
    }
    let coverage = host.coverage(None);
    assert_eq!(coverage.errors, 0, "a predicate failed");
    let received = (samples.len() * predicates.len()) as u64;
    assert_eq!(coverage.events + coverage.filtered, received, "each is handled or filtered");
    (heard.take(), coverage.filtered)
}

fn host(event: &str, roles: usize) -> Host {
    let text = format!(
        "local m = monitor {{ summary = 'notes what it gets', order = false }}\n\
         function m.init()\n\
           for i = 0, {roles} - 1 do evsel('{event}', function(e) note('%d %d', i, e._time) end) \
           end\n\
         end\n\
         return m\n"
    );
    let script = Script { name: "heard".into(), origin: ScriptOrigin::Bundled, text };
    let mut host = Host::new(false).unwrap();
    host.load(&script, &Library::new(Vec::<PathBuf>::new(), false), &[]).unwrap();
    let tracefs = Tracefs::find().unwrap();
    let list = Box::new(|| unreachable!("only an unknown name needs the list"));
    let formats = Box::new(move |sys: &str, name: &str| tracefs.format(sys, name));
    let catalog: Rc<dyn Catalog> = Rc::new(TracefsCatalog::new(list, formats));
    let setting = Setting::of(catalog);
    let options = host.lua().create_table().unwrap();
    host.begin(&options, &setting, Rules::default()).unwrap();
    host
}

/// An output that stores the handlers' notes.
struct Heard(Rc<RefCell<Vec<Vec<usize>>>>);

impl Draw for Heard {
    fn note(&mut self, _: Stamp, level: Level, text: &str) {
        assert!(matches!(level, Level::Info), "{text}");
        let (role, index) = text.split_once(' ').unwrap();
        self.0.borrow_mut()[role.parse::<usize>().unwrap()].push(index.parse().unwrap());
    }
}
