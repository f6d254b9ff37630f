//! Names of cache events: cache, operation and result, as in `L1-dcache-load-misses`.

use perf_event_open_sys::bindings as abi;

use super::named::NameFamily;

/// The names of cache events.
pub(super) const FAMILY: NameFamily = NameFamily {
    type_: abi::PERF_TYPE_HW_CACHE,
    category: "hardware",
    table: &[],
    composed: all,
    config_of,
};

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

fn all() -> Vec<String> {
    let of_cache = |(cache, _, operations): &(&str, u32, &[u32])| {
        let accesses = ACCESSES.iter().filter(|access| operations.contains(&access.1));
        accesses.map(|access| format!("{cache}-{}", access.0)).collect::<Vec<_>>()
    };
    CACHES.iter().flat_map(of_cache).collect()
}

fn config_of(name: &str) -> Option<u64> {
    CACHES.iter().find_map(|(cache, id, operations)| {
        let access = name.strip_prefix(cache)?.strip_prefix('-')?;
        let (_, operation, result) = ACCESSES.iter().find(|row| row.0 == access)?;
        operations.contains(operation).then(|| u64::from(id | operation << 8 | result << 16))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_event_combines_cache_operation_and_result() {
        assert_eq!(config_of("L1-dcache-loads"), Some(0));
        assert_eq!(config_of("L1-dcache-load-misses"), Some(0x10000));
        assert_eq!(config_of("LLC-store-misses"), Some(0x10102));
        assert_eq!(config_of("node-prefetches"), Some(0x206));
        assert_eq!(config_of("iTLB-stores"), None);
    }
}
