//! Event names, compared with those of this kernel.

use std::{fs, io, os::fd::FromRawFd, time::Instant};

use perf_event_open_sys::{self as perf, bindings};
use perilune::event::{
    catalog::{Catalog, TracefsCatalog, expand},
    kind::{Event, EventAttr, NAME_FAMILIES, NameFamily},
    selector::Selector,
};

use crate::kernel;
use crate::live::{live_tests, skip_anywhere};

live_tests! {
    root: [],
    any: [
        every_software_event_opens_and_every_other_is_known_or_refused,
        a_pmu_of_this_machine_is_found,
        selectors_find_the_tracepoints_of_this_kernel,
    ]
}

fn catalog() -> TracefsCatalog {
    let root = kernel::tracefs();
    let events = kernel::events(&root);
    let list = move || Ok(events.clone());
    let read = move |sys: &str, name: &str| {
        fs::read_to_string(root.join("events").join(sys).join(name).join("format"))
    };
    let pmus = |path: &str| fs::read_to_string(format!("/sys/bus/event_source/devices/{path}"));
    TracefsCatalog::new(Box::new(list), Box::new(read)).with_pmus(Box::new(pmus))
}

fn open(event: &EventAttr) -> io::Result<()> {
    let mut attr = bindings::perf_event_attr {
        size: size_of::<bindings::perf_event_attr>() as u32,
        type_: event.type_,
        config: event.config,
        ..Default::default()
    };
    attr.set_disabled(1);
    // SAFETY: attr is a valid perf_event_attr of the size that it states.
    let fd = unsafe { perf::perf_event_open(&mut attr, 0, -1, -1, 8) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor.
    drop(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) });
    Ok(())
}

fn every_software_event_opens_and_every_other_is_known_or_refused() {
    let catalog = catalog();
    let mut opened = 0;
    for (name, _) in NAME_FAMILIES.iter().flat_map(NameFamily::names) {
        let event = catalog.describe(&name).unwrap();
        let attr = event.kind().attr();
        match open(&attr) {
            Ok(()) => opened += 1,
            // cgroup-switches was added in Linux 5.13.
            Err(e) if attr.type_ == 1 && attr.config < 11 => panic!("{name}: {e}"),
            Err(e) => assert!([2, 95, 22].contains(&e.raw_os_error().unwrap()), "{name}: {e}"),
        }
    }
    assert!(opened >= 11);
}

fn a_pmu_of_this_machine_is_found() {
    let catalog = catalog();
    let Ok(type_) = fs::read_to_string("/sys/bus/event_source/devices/msr/type") else {
        skip_anywhere("no PMU msr");
    };
    let event = catalog.describe("msr/tsc/").unwrap();
    let attr = event.kind().attr();
    assert_eq!((attr.type_, attr.config), (type_.trim().parse().unwrap(), 0));
    open(&attr).unwrap();
}

fn selectors_find_the_tracepoints_of_this_kernel() {
    let catalog = catalog();
    let names = |selector: &str| -> Vec<String> {
        let list = Selector::parse_list(selector).unwrap();
        let events = list.iter().flat_map(|s| expand(&catalog, s).unwrap());
        events.map(|e: std::rc::Rc<Event>| e.name.clone()).collect()
    };
    assert_eq!(
        names("sched:sched_wakeup*,sched:sched_waki*,signal:no_such|signal:signal_generate"),
        [
            "sched:sched_wakeup",
            "sched:sched_wakeup_new",
            "sched:sched_waking",
            "signal:signal_generate"
        ]
    );
    let fault = catalog.describe("sched:sched_swich").unwrap_err().to_string();
    assert_eq!(fault, "no event 'sched:sched_swich'; did you mean 'sched:sched_switch'?");
    let fault = catalog.describe("sched_switch").unwrap_err().to_string();
    assert_eq!(fault, "no event 'sched_switch'; did you mean 'sched:sched_switch'?");

    let start = Instant::now();
    let (all, formats) = (catalog.names().unwrap(), start.elapsed());
    for name in &all {
        catalog.describe(name).unwrap();
    }
    println!("{} events; names in {formats:?}, all formats in {:?}", all.len(), start.elapsed());
    let start = Instant::now();
    catalog.describe("sched:sched_swich").unwrap_err();
    println!("nearest of {} in {:?}", all.len(), start.elapsed());
}
