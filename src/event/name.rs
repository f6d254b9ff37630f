//! perf's names and aliases for software, hardware and cache events, and names for the CPU times of
//! /proc/stat.
//!
//! Source: include/uapi/linux/perf_event.h for the numbers, `perf list` for the names.

use perf_event_open_sys::bindings as abi;

use super::function::ProbeKind;

const SOFTWARE: u32 = abi::PERF_TYPE_SOFTWARE;
const HARDWARE: u32 = abi::PERF_TYPE_HARDWARE;

/// Stands for the CPU times of /proc/stat as `perf_event_attr.type`; no PMU has this number.
pub const CPU_TIME: u32 = u32::MAX;

/// The event that a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEvent {
    /// The name to show.
    pub name: String,
    /// `perf_event_attr.type`.
    pub type_: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
}

/// Looks up a name without modifiers: a name of the table, an alias, a cache event such as
/// `L1-dcache-load-misses`, or `rHEX`.
pub fn lookup(name: &str) -> Option<NamedEvent> {
    let row = TABLE.iter().find(|row| row.0 == name || row.1.contains(&name));
    row.map(|&(name, _, type_, config)| NamedEvent {
        name: name.to_owned(),
        type_,
        config: u64::from(config),
    })
    .or_else(|| cache(name))
    .or_else(|| raw(name))
}

/// Returns whether a name is that of a tracepoint (`sys:name`) or a function, and not that of a
/// counter with modifiers (`cycles:uH`).
pub fn is_tracepoint(name: &str) -> bool {
    ProbeKind::split_prefix(name).is_some()
        || name
            .split_once(':')
            .is_some_and(|(_, rest)| !rest.bytes().all(|b| b"ukhGHpPSDIWe".contains(&b)))
}

/// Returns every name with its aliases.
pub fn all() -> impl Iterator<Item = (String, Vec<&'static str>)> {
    let table = TABLE.iter().map(|row| (row.0.to_owned(), row.1.to_vec()));
    let caches = CACHES.iter().flat_map(|cache| {
        let accesses = ACCESSES.iter().filter(|access| cache.2.contains(&access.1));
        accesses.map(|access| (format!("{}-{}", cache.0, access.0), Vec::new()))
    });
    table.chain(caches)
}

/// Returns the names and aliases of the table, without the cache events.
pub(crate) fn short_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().flat_map(|row| std::iter::once(row.0).chain(row.1.iter().copied()))
}

#[rustfmt::skip]
const TABLE: [(&str, &[&str], u32, u32); 32] = [
    ("cpu-clock",           &[],             SOFTWARE, abi::PERF_COUNT_SW_CPU_CLOCK),
    ("task-clock",          &[],             SOFTWARE, abi::PERF_COUNT_SW_TASK_CLOCK),
    ("page-faults",         &["faults"],     SOFTWARE, abi::PERF_COUNT_SW_PAGE_FAULTS),
    ("context-switches",    &["cs"],         SOFTWARE, abi::PERF_COUNT_SW_CONTEXT_SWITCHES),
    ("cpu-migrations",      &["migrations"], SOFTWARE, abi::PERF_COUNT_SW_CPU_MIGRATIONS),
    ("minor-faults",        &[],             SOFTWARE, abi::PERF_COUNT_SW_PAGE_FAULTS_MIN),
    ("major-faults",        &[],             SOFTWARE, abi::PERF_COUNT_SW_PAGE_FAULTS_MAJ),
    ("alignment-faults",    &[],             SOFTWARE, abi::PERF_COUNT_SW_ALIGNMENT_FAULTS),
    ("emulation-faults",    &[],             SOFTWARE, abi::PERF_COUNT_SW_EMULATION_FAULTS),
    ("dummy",               &[],             SOFTWARE, abi::PERF_COUNT_SW_DUMMY),
    ("bpf-output",          &[],             SOFTWARE, abi::PERF_COUNT_SW_BPF_OUTPUT),
    ("cgroup-switches",     &[],             SOFTWARE, abi::PERF_COUNT_SW_CGROUP_SWITCHES),
    ("cycles",              &["cpu-cycles"], HARDWARE, abi::PERF_COUNT_HW_CPU_CYCLES),
    ("instructions",        &[],             HARDWARE, abi::PERF_COUNT_HW_INSTRUCTIONS),
    ("cache-references",    &[],             HARDWARE, abi::PERF_COUNT_HW_CACHE_REFERENCES),
    ("cache-misses",        &[],             HARDWARE, abi::PERF_COUNT_HW_CACHE_MISSES),
    ("branch-instructions", &["branches"],   HARDWARE, abi::PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
    ("branch-misses",       &[],             HARDWARE, abi::PERF_COUNT_HW_BRANCH_MISSES),
    ("bus-cycles",          &[],             HARDWARE, abi::PERF_COUNT_HW_BUS_CYCLES),
    ("stalled-cycles-frontend", &["idle-cycles-frontend"], HARDWARE,
        abi::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND),
    ("stalled-cycles-backend", &["idle-cycles-backend"], HARDWARE,
        abi::PERF_COUNT_HW_STALLED_CYCLES_BACKEND),
    ("ref-cycles",          &[],             HARDWARE, abi::PERF_COUNT_HW_REF_CPU_CYCLES),
    ("user-time",           &[],             CPU_TIME, 0),
    ("nice-time",           &[],             CPU_TIME, 1),
    ("system-time",         &[],             CPU_TIME, 2),
    ("idle-time",           &[],             CPU_TIME, 3),
    ("iowait-time",         &[],             CPU_TIME, 4),
    ("irq-time",            &[],             CPU_TIME, 5),
    ("softirq-time",        &[],             CPU_TIME, 6),
    ("steal-time",          &[],             CPU_TIME, 7),
    ("guest-time",          &[],             CPU_TIME, 8),
    ("guest-nice-time",     &[],             CPU_TIME, 9),
];

const READ: u32 = abi::PERF_COUNT_HW_CACHE_OP_READ;
const WRITE: u32 = abi::PERF_COUNT_HW_CACHE_OP_WRITE;
const PREFETCH: u32 = abi::PERF_COUNT_HW_CACHE_OP_PREFETCH;
const ACCESS: u32 = abi::PERF_COUNT_HW_CACHE_RESULT_ACCESS;
const MISS: u32 = abi::PERF_COUNT_HW_CACHE_RESULT_MISS;

/// Name, id, and supported operations of each cache.
#[rustfmt::skip]
const CACHES: [(&str, u32, &[u32]); 7] = [
    ("L1-dcache", abi::PERF_COUNT_HW_CACHE_L1D,  &[READ, WRITE, PREFETCH]),
    ("L1-icache", abi::PERF_COUNT_HW_CACHE_L1I,  &[READ, PREFETCH]),
    ("LLC",       abi::PERF_COUNT_HW_CACHE_LL,   &[READ, WRITE, PREFETCH]),
    ("dTLB",      abi::PERF_COUNT_HW_CACHE_DTLB, &[READ, WRITE, PREFETCH]),
    ("iTLB",      abi::PERF_COUNT_HW_CACHE_ITLB, &[READ]),
    ("branch",    abi::PERF_COUNT_HW_CACHE_BPU,  &[READ]),
    ("node",      abi::PERF_COUNT_HW_CACHE_NODE, &[READ, WRITE, PREFETCH]),
];

const ACCESSES: [(&str, u32, u32); 6] = [
    ("loads", READ, ACCESS),
    ("load-misses", READ, MISS),
    ("stores", WRITE, ACCESS),
    ("store-misses", WRITE, MISS),
    ("prefetches", PREFETCH, ACCESS),
    ("prefetch-misses", PREFETCH, MISS),
];

fn cache(name: &str) -> Option<NamedEvent> {
    CACHES.iter().find_map(|(cache, id, operations)| {
        let access = name.strip_prefix(cache)?.strip_prefix('-')?;
        let (_, operation, result) = ACCESSES.iter().find(|row| row.0 == access)?;
        operations.contains(operation).then(|| NamedEvent {
            name: name.to_owned(),
            type_: abi::PERF_TYPE_HW_CACHE,
            config: u64::from(id | operation << 8 | result << 16),
        })
    })
}

/// Parses `r` and a hexadecimal number: an event in the CPU's own encoding.
fn raw(name: &str) -> Option<NamedEvent> {
    let digits = name.strip_prefix('r').filter(|d| d.chars().all(|c| c.is_ascii_hexdigit()))?;
    let config = u64::from_str_radix(digits, 16).ok()?;
    Some(NamedEvent { name: name.to_owned(), type_: abi::PERF_TYPE_RAW, config })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_resolves_to_its_name() {
        let of = |name: &str| lookup(name).map(|n| (n.name, n.type_, n.config)).unwrap();
        assert_eq!(of("cpu-clock"), ("cpu-clock".into(), 1, 0));
        assert_eq!(of("faults"), ("page-faults".into(), 1, 2));
        assert_eq!(of("cs"), ("context-switches".into(), 1, 3));
        assert_eq!(of("cpu-cycles"), ("cycles".into(), 0, 0));
        assert_eq!(of("branches"), ("branch-instructions".into(), 0, 4));
        assert_eq!(of("ref-cycles"), ("ref-cycles".into(), 0, 9));
        assert_eq!(of("cgroup-switches"), ("cgroup-switches".into(), 1, 11));
        assert_eq!(lookup("sched_switch"), None);
    }

    #[test]
    fn a_cache_event_combines_cache_operation_and_result() {
        let of = |name: &str| lookup(name).map(|n| (n.type_, n.config));
        assert_eq!(of("L1-dcache-loads"), Some((3, 0)));
        assert_eq!(of("L1-dcache-load-misses"), Some((3, 0x10000)));
        assert_eq!(of("LLC-store-misses"), Some((3, 0x10102)));
        assert_eq!(of("node-prefetches"), Some((3, 0x206)));
        assert_eq!(of("iTLB-stores"), None);
    }

    #[test]
    fn a_raw_event_is_hexadecimal() {
        assert_eq!(lookup("r1a8").map(|n| (n.type_, n.config)), Some((4, 0x1a8)));
        assert_eq!(lookup("r"), None);
        assert_eq!(lookup("rcu"), None);
    }

    #[test]
    fn every_listed_name_can_be_looked_up() {
        assert_eq!(all().count(), 32 + 6 * 4 + 4 + 2 + 2);
        for (name, aliases) in all() {
            assert_eq!(lookup(&name).unwrap().name, name);
            assert!(aliases.iter().all(|alias| lookup(alias).unwrap().name == name));
        }
    }
}
