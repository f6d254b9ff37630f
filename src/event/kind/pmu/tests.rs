//! Terms of PMUs, with files in the formats of drivers of the kernel.

use std::io;

use super::*;
use crate::event::kind::{EventAttr, EventFiles, EventProperties as _};
use crate::event::sampling::SamplingRate;

/// Files of several PMUs, after arch/x86/events/intel/core.c, arch/x86/events/rapl.c,
/// arch/x86/events/intel/uncore_snbep.c, arch/x86/events/amd/{core,ibs}.c, drivers/perf/arm-cmn.c
/// and arch/powerpc/perf/hv-24x7.c.
const FILES: &[(&str, &str)] = &[
    ("msr/type", "9\n"),
    ("msr/events/tsc", "event=0x00\n"),
    ("msr/events/smi", "event=0x04\n"),
    ("msr/events/cpu_thermal_margin", "event=0x06\n"),
    ("msr/events/cpu_thermal_margin.snapshot", "1\n"),
    ("msr/events/cpu_thermal_margin.unit", "C\n"),
    ("msr/format/event", "config:0-63\n"),
    ("cpu/type", "4\n"),
    ("cpu/caps/max_precise", "3\n"),
    ("cpu/format/event", "config:0-7\n"),
    ("cpu/format/umask", "config:8-15,40-47\n"),
    ("cpu/format/edge", "config:18\n"),
    ("cpu/format/inv", "config:23\n"),
    ("cpu/format/cmask", "config:24-31\n"),
    ("cpu/format/offcore_rsp", "config1:0-63\n"),
    ("cpu/format/ldlat", "config1:0-15\n"),
    ("cpu/format/acr_mask", "config2:0-63\n"),
    ("cpu/events/cpu-cycles", "event=0x3c\n"),
    ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
    ("cpu/events/topdown-slots", "event=0x00,umask=0x4\n"),
    ("cpu_core/type", "4\n"),
    ("cpu_core/cpus", "0-7\n"),
    ("power/type", "12\n"),
    ("power/cpumask", "0\n"),
    ("power/format/event", "config:0-7\n"),
    ("power/events/energy-pkg", "event=0x02\n"),
    ("power/events/energy-pkg.unit", "Joules\n"),
    ("power/events/energy-pkg.scale", "2.3283064365386962890625e-10\n"),
    ("uncore_imc_0/type", "24\n"),
    ("uncore_imc_0/cpumask", "0,18\n"),
    ("uncore_imc_0/format/event", "config:0-7\n"),
    ("uncore_imc_0/format/umask", "config:8-15\n"),
    ("uncore_imc_0/format/thresh", "config:24-31\n"),
    ("uncore_imc_0/events/cas_count_read", "event=0x04,umask=0x03\n"),
    ("uncore_imc_0/events/cas_count_read.scale", "6.103515625e-5\n"),
    ("uncore_imc_0/events/cas_count_read.unit", "MiB\n"),
    ("amd/type", "4\n"),
    ("amd/format/event", "config:0-7,32-35\n"),
    ("arm_cmn_0/type", "30\n"),
    ("arm_cmn_0/cpumask", "0\n"),
    ("arm_cmn_0/format/type", "config:0-15\n"),
    ("arm_cmn_0/format/eventid", "config:16-26\n"),
    ("arm_cmn_0/format/bynodeid", "config:31\n"),
    ("arm_cmn_0/format/nodeid", "config:32-47\n"),
    ("arm_cmn_0/format/wp_val", "config1:0-63\n"),
    ("arm_cmn_0/format/wp_mask", "config2:0-63\n"),
    ("arm_cmn_0/events/hnf_cache_miss", "type=0x5,eventid=0x1\n"),
    ("hv_24x7/type", "40\n"),
    ("hv_24x7/format/domain", "config:0-3\n"),
    ("hv_24x7/format/core", "config:16-31\n"),
    ("hv_24x7/format/offset", "config:32-63\n"),
    ("hv_24x7/events/PM_CYC", "domain=2,offset=0x10,core=?\n"),
    ("odd/type", "5\n"),
    ("odd/format/x", "config:9-99\n"),
    ("odd/format/y", "config9:0\n"),
];

fn machine(path: &str) -> io::Result<String> {
    if path.is_empty() || path.ends_with('/') {
        let entries = FILES.iter().filter_map(|(file, _)| file.strip_prefix(path));
        let mut names: Vec<&str> = entries.filter_map(|rest| rest.split('/').next()).collect();
        names.dedup();
        return Ok(names.join("\n"));
    }
    let found = FILES.iter().find(|(file, _)| *file == path);
    found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn counter(text: &str) -> Counter {
    parse(text, &machine).unwrap().unwrap().1
}

fn of(text: &str) -> EventAttr {
    counter(text).attr
}

fn fault(text: &str) -> String {
    parse(text, &machine).unwrap_err().to_string()
}

#[test]
fn terms_are_translated_with_the_files_of_the_pmu() {
    assert_eq!(of("msr/tsc/"), EventAttr { type_: 9, ..EventAttr::default() });
    assert_eq!(of("msr/smi/").config, 4);
    assert_eq!(of("msr/event=0x3/").config, 3);
    assert_eq!(of("amd/event=0x1c2/").config, 0x1_0000_00c2, "bits 8 to 11 are at 32");
    assert_eq!(of("cpu/event=0xc2,umask=0x103,edge,inv,cmask=2/").config, 0x100_0284_03c2);
    assert_eq!(of("cpu/config=0x11,config2=5,config3=6/").config3, 6);
    assert_eq!(of("cpu/r1a8/").config, 0x1a8);
    let loads = of("cpu/mem-loads,ldlat=30/pp");
    assert_eq!((loads.config, loads.config1, loads.precise_ip), (0x1cd, 30, 2));
    assert_eq!(of("cpu/ldlat=30,mem-loads/").config1, 30, "in any order");
    assert_eq!(of("cpu/cpu-cycles/P").precise_ip, 3);
    let misses = of("arm_cmn_0/hnf_cache_miss,bynodeid=1,nodeid=0x88/");
    assert_eq!(misses.config, 0x88_8001_0005);
    let watched = of("arm_cmn_0/type=0x7770,wp_val=0xffffffffffffffff,wp_mask=7/");
    assert_eq!((watched.config1, watched.config2), (u64::MAX, 7));
}

#[test]
fn a_parameter_of_an_event_is_filled_by_a_term() {
    assert_eq!(of("hv_24x7/PM_CYC,core=3/").config, 0x10_0003_0002);
    assert_eq!(fault("hv_24x7/PM_CYC/"), "hv_24x7/PM_CYC/ needs the parameter core=NUMBER");
}

#[test]
fn the_unit_and_the_cpus_are_those_of_the_files() {
    let energy = counter("power/energy-pkg/");
    let unit = energy.unit().unwrap();
    assert_eq!(
        (unit.unit.as_str(), unit.scale, unit.is_snapshot),
        ("Joules", 2f64.powi(-32), false)
    );
    assert_eq!(energy.cpus(), Some(&[0][..]));
    assert!(counter("msr/cpu_thermal_margin/").unit().unwrap().is_snapshot);
    assert_eq!(counter("uncore_imc_0/cas_count_read/").cpus(), Some(&[0, 18][..]));
    assert_eq!(counter("uncore_imc_0/event=4/").unit(), None);
    assert_eq!(counter("cpu_core/r3c/").cpus().unwrap().len(), 8);
    assert_eq!(counter("msr/tsc/").cpus(), None);
}

#[test]
fn an_uncore_event_is_counted_for_whole_cpus_only() {
    use crate::event::sampling::Sampling;
    let counted = Sampling { count: true, ..Sampling::default() };
    let event = counter("uncore_imc_0/cas_count_read/");
    event.check_options(&counted, false).unwrap();
    let why = |sampling, of_tasks| event.check_options(sampling, of_tasks).unwrap_err().to_string();
    assert!(why(&counted, true).starts_with("the PMU 'uncore_imc_0' counts for whole CPUs"));
    assert!(why(&Sampling::default(), false).starts_with("the PMU 'uncore_imc_0' only counts"));
    counter("cpu_core/r3c/").check_options(&Sampling::default(), true).unwrap();
    let msr = counter("msr/tsc/");
    msr.check_options(&counted, true).unwrap();
    let refused = msr.check_options(&Sampling::default(), true).unwrap_err().to_string();
    assert!(refused.starts_with("the PMU 'msr' only counts"), "{refused}");
    assert!(msr.only_counts() && event.only_counts() && !counter("cpu/r3c/").only_counts());
    for (name, modifier) in [("msr/tsc/u", 'u'), ("msr/tsc/D", 'D'), ("msr/tsc/p", 'p')] {
        let why = format!("{name}: the modifier {modifier} has no effect: the PMU counts in all");
        assert!(fault(name).starts_with(&why), "{}", fault(name));
    }
    assert_eq!(
        fault("power/energy-pkg/u"),
        "power/energy-pkg/u: the modifier u has no effect: the PMU counts for all tasks and modes; \
         omit it"
    );
}

#[test]
fn the_rate_and_the_name_are_terms() {
    let (name, event) =
        parse("cpu/cpu-cycles,period=100003,name='my cycles'/", &machine).unwrap().unwrap();
    assert_eq!((name.as_str(), event.rate()), ("my cycles", Some(SamplingRate::Period(100_003))));
    assert_eq!(counter("cpu/cpu-cycles,freq=99/").rate(), Some(SamplingRate::Frequency(99)));
    assert!(fault("cpu/cpu-cycles,freq=9,period=9/").contains("exclude each other"));
    assert!(fault("cpu/cpu-cycles,freq=0/").contains("greater than 0"));
}

#[test]
fn an_unknown_pmu_or_term_is_named_in_the_error() {
    let pmu = fault("cpuu/x/");
    assert!(pmu.starts_with("no PMU 'cpuu' on this machine; did you mean 'cpu'"), "{pmu}");
    assert!(pmu.contains("(there are amd, arm_cmn_0, cpu, "), "{pmu}");
    assert!(fault("../x/").starts_with("no PMU '..'"));
    assert_eq!(
        fault("msr/tcs/"),
        "msr has no term 'tcs'; did you mean 'tsc'? (there are event; of events, there are \
         cpu_thermal_margin, smi, tsc)"
    );
    assert!(fault("cpu/umsk=1/").starts_with("cpu has no term 'umsk'; did you mean 'umask'?"));
    assert!(fault("cpu/call-graph=fp/").contains("write the attribute stack"));
    assert!(parse("nopmu/x/", EventFiles::NONE.pmu).unwrap_err().to_string().contains("nopmu"));
}

#[test]
fn an_invalid_value_is_refused() {
    assert_eq!(
        fault("cpu/cmask=0x100/"),
        "cpu: cmask=0x100 needs 9 bits, the field has 8: use at most 0xff"
    );
    assert_eq!(
        fault("cpu/edge=2/"),
        "cpu: edge=0x2 needs 2 bits, the field has 1: use at most 0x1"
    );
    assert_eq!(fault("cpu/umask/"), "cpu: 'umask' has 16 bits and needs a value: umask=0x1");
    assert_eq!(fault("cpu/config/"), "cpu: 'config' needs a value: config=0x1");
    assert_eq!(fault("cpu/umask=many/"), "'many' is not a number; write it as 10 or 0xa");
    assert_eq!(fault("odd/x=1/"), "odd: the format of 'x' has invalid bits 9-99");
    assert_eq!(fault("odd/y=1/"), "odd: the format of 'y' sets an unknown field config9");
}

#[test]
fn the_events_of_all_pmus_are_listed_without_the_files_of_their_units() {
    let all = pmu_events(&machine);
    assert_eq!(all.len(), 10, "{all:?}");
    assert!(all.contains(&"power/energy-pkg/".to_owned()));
    assert!(all.contains(&"msr/cpu_thermal_margin/".to_owned()));
}

/// The files of four boxes of one PMU, and of one with another name.
fn boxes(path: &str) -> io::Result<String> {
    const BOXES: [&str; 4] = ["uncore_imc_0", "uncore_imc_1", "uncore_imc_10", "uncore_imc_2"];
    if path.is_empty() {
        return Ok(format!("{}\nuncore_imc_free_running", BOXES.join("\n")));
    }
    let (pmu, file) = path.split_once('/').unwrap_or((path, ""));
    match (BOXES.iter().position(|one| *one == pmu), file) {
        (Some(at), "type") => Ok(format!("{}\n", 20 + at)),
        (Some(at), "cpumask") => Ok(format!("{at}\n")),
        (Some(_), "format/event") => Ok("config:0-7\n".to_owned()),
        (Some(0 | 3), "events/") => Ok("of_two\n".to_owned()),
        (Some(1), "events/") => Ok("of_one\n".to_owned()),
        (Some(0 | 3), "events/of_two") => Ok("event=2\n".to_owned()),
        (None, "type") if pmu == "uncore_imc_free_running" => Ok("40\n".to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

#[test]
fn the_events_of_several_boxes_are_listed_merged_as_well() {
    let expected = [
        "uncore_imc/of_two/",
        "uncore_imc_0/of_two/",
        "uncore_imc_1/of_one/",
        "uncore_imc_2/of_two/",
    ];
    assert_eq!(pmu_events(&boxes), expected);
}

#[test]
fn the_name_of_a_pmu_without_its_number_stands_for_all_boxes() {
    use crate::event::catalog::{TracefsCatalog, expand};
    use crate::event::selector::Selector;
    let none =
        || TracefsCatalog::new(Box::new(|| Ok(Vec::new())), Box::new(EventFiles::NONE.format));
    let catalog = none().with_pmus(Box::new(boxes));
    let all = |text: &str| expand(&catalog, &Selector::parse_list(text).unwrap()[0]);
    let names = |text| {
        let events = all(text).unwrap();
        events.iter().map(|event| event.name.clone()).collect::<Vec<_>>()
    };
    let numbered = |numbers: &[u32], terms: &str| {
        let name = |number| format!("uncore_imc_{number}/{terms}/");
        numbers.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names("uncore_imc/event=4/"), numbered(&[0, 1, 2, 10], "event=4"));
    assert_eq!(names("imc/event=4/"), names("uncore_imc/event=4/"));
    assert_eq!(names("uncore_imc_1*/event=4/"), numbered(&[1, 10], "event=4"));
    assert_eq!(names("uncore_imc_2/event=4/"), numbered(&[2], "event=4"));
    // Boxes without the event are omitted, unless none has it.
    assert_eq!(names("uncore_*/of_two/"), numbered(&[0, 2], "of_two"));
    let why = |text| all(text).unwrap_err().to_string();
    assert!(why("imc/of_three/").starts_with("uncore_imc_0 has no term 'of_three'"));
    assert!(why("uncore_cha/x/").starts_with("no PMU 'uncore_cha' on this machine"));
    let events = all("imc/event=4/").unwrap();
    let cpus = events.iter().map(|event| event.kind().cpus().unwrap()[0]).collect::<Vec<_>>();
    assert_eq!(cpus, [0, 1, 3, 2], "each on its own CPU");
}
