//! Events found by name, and suggestions for unknown names.

use std::cell::Cell;

use super::*;

const NAMES: [(&str, &str); 6] = [
    ("sched", "sched_wakeup"),
    ("sched", "sched_switch"),
    ("sched", "sched_waking"),
    ("irq", "irq_handler_entry"),
    ("signal", "signal_generate"),
    ("bad", "broken"),
];

fn catalog_counting_reads(reads: Rc<Cell<u32>>) -> TracefsCatalog {
    let list = || Ok(NAMES.map(|(sys, name)| (sys.to_owned(), name.to_owned())).to_vec());
    let read = move |sys: &str, name: &str| {
        reads.set(reads.get() + 1);
        match sys {
            // A file in the directory of a system that is not a tracepoint.
            _ if name == "enable" => Err(io::ErrorKind::NotADirectory.into()),
            _ if !NAMES.contains(&(sys, name)) => Err(io::ErrorKind::NotFound.into()),
            "bad" => Ok("nonsense".to_owned()),
            _ => Ok(format!(
                "name: {name}\nID: 7\nformat:\n\tfield:int pid; offset:8; size:4; signed:1;\n"
            )),
        }
    };
    let pmu = |path: &str| match path {
        "msr/type" => Ok("9".to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    TracefsCatalog::new(Box::new(list), Box::new(read)).with_pmus(Box::new(pmu))
}

fn catalog() -> TracefsCatalog {
    catalog_counting_reads(Rc::default())
}

fn fault(name: &str) -> String {
    catalog().describe(name).unwrap_err().to_string()
}

fn names_of(selector: &str) -> Result<Vec<String>> {
    let selector = Selector::parse_list(selector)?.remove(0);
    Ok(expand(&catalog(), &selector)?.iter().map(|e| e.name.clone()).collect())
}

#[test]
fn an_event_is_described_by_its_format_read_once() {
    let reads = Rc::default();
    let catalog = catalog_counting_reads(Rc::clone(&reads));
    let event = catalog.describe("sched:sched_switch").unwrap();
    assert!(event.format().unwrap().field("pid").is_some());
    assert!(Rc::ptr_eq(&event, &catalog.describe("sched:sched_switch").unwrap()));
    assert_eq!(reads.get(), 1);
}

#[test]
fn counters_are_events_too() {
    let event = catalog().describe("faults:u").unwrap();
    assert_eq!(event.name, "page-faults:u");
    assert!(event.kind().attr().exclude.kernel);
    assert!(catalog().describe("msr/config=1/").is_ok());
}

#[test]
fn an_unknown_event_name_suggests_similar_names() {
    assert_eq!(
        fault("sched:sched_swich"),
        "no event 'sched:sched_swich'; did you mean 'sched:sched_switch'?"
    );
    assert_eq!(
        fault("sched_switch"),
        "no event 'sched_switch'; did you mean 'sched:sched_switch'?"
    );
    assert_eq!(
        fault("schd:sched_switch"),
        "no event 'schd:sched_switch'; did you mean 'sched:sched_switch'?"
    );
    assert_eq!(fault("sched_swtch"), "no event 'sched_swtch'; did you mean 'sched:sched_switch'?");
    assert_eq!(fault("page-fault"), "no event 'page-fault'; did you mean 'page-faults'?");
    assert_eq!(
        fault("nothing:like_that"),
        "no event 'nothing:like_that' (perilune list shows all)"
    );
    assert_eq!(fault("sched:enable"), "no event 'sched:enable' (perilune list shows all)");
    assert_eq!(fault("bad:broken"), "failed to parse the format of `bad:broken`");
}

#[test]
fn a_glob_names_every_event_that_matches() {
    assert_eq!(names_of("sched:sched_wak*").unwrap(), ["sched:sched_wakeup", "sched:sched_waking"]);
    assert_eq!(names_of("s*:*").unwrap().len(), 4);
    assert_eq!(names_of("*_wak*").unwrap().len(), 2);
    assert_eq!(
        names_of("schd:*").unwrap_err().to_string(),
        "no event matches 'schd:*'; did you mean 'sched:*'?"
    );
    assert_eq!(names_of("sched:x*").unwrap_err().to_string(), "no event matches 'sched:x*'");
    assert_eq!(
        names_of("t:sched:*").unwrap_err().to_string(),
        "no event matches 't:sched:*'; instead of bpftrace's: 'SYSTEM:EVENT', without a prefix"
    );
}

#[test]
fn alternatives_name_the_first_event_that_exists() {
    assert_eq!(names_of("sched:gone|sched:sched_waking|irq:*").unwrap(), ["sched:sched_waking"]);
    assert_eq!(names_of("cycles|cpu-clock").unwrap(), ["cycles"]);
    let selector = Selector::parse_list("cycles|cpu-clock").unwrap().remove(0);
    let mut software = |event: &Rc<Event>| (event.kind().attr().type_ == 1).then(|| event.clone());
    assert_eq!(
        expand_where(&catalog(), &selector, &mut software).unwrap().events[0].name,
        "cpu-clock"
    );
    let mut none = |_: &Rc<Event>| None;
    assert_eq!(
        expand_where(&catalog(), &selector, &mut none).unwrap().events[0].name,
        "cpu-clock",
        "the last alternative is returned, to report its error"
    );
    assert!(
        names_of("sched:gone|sched:sched_swich").unwrap_err().to_string().contains("'sched:gone'")
    );
}

#[test]
fn too_many_alternatives_are_refused_before_similar_names_are_searched() {
    let names = |number: usize| vec!["sched:gone"; number].join("|");
    let why = names_of(&names(ALTERNATIVES_MAX + 1)).unwrap_err().to_string();
    assert_eq!(why, "65 alternatives joined by `|`; at most 64 are tried in turn");
    let why = names_of(&names(ALTERNATIVES_MAX)).unwrap_err().to_string();
    assert!(why.starts_with("no event 'sched:gone'"), "{why}");
}

#[test]
fn a_glob_that_matches_no_tracepoint_selects_software_events() {
    let faults = ["page-faults", "minor-faults", "major-faults", "alignment-faults"];
    assert_eq!(names_of("*-faults").unwrap(), [&faults[..], &["emulation-faults"]].concat());
    assert_eq!(names_of("cpu-*").unwrap(), ["cpu-clock", "cpu-migrations"]);
    assert_eq!(names_of("*_wak*").unwrap(), ["sched:sched_wakeup", "sched:sched_waking"]);
    assert_eq!(names_of("*-nothing").unwrap_err().to_string(), "no event matches '*-nothing'");
}
