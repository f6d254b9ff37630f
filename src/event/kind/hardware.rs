//! Names of hardware events. Source: include/uapi/linux/perf_event.h for the numbers, `perf list`
//! for the names.

use perf_event_open_sys::bindings as abi;

use super::named::NameFamily;

/// The names of hardware events.
#[rustfmt::skip]
pub(super) const FAMILY: NameFamily = NameFamily {
    type_: abi::PERF_TYPE_HARDWARE,
    category: "hardware",
    table: &[
        ("cycles",              &["cpu-cycles"], abi::PERF_COUNT_HW_CPU_CYCLES),
        ("instructions",        &[],             abi::PERF_COUNT_HW_INSTRUCTIONS),
        ("cache-references",    &[],             abi::PERF_COUNT_HW_CACHE_REFERENCES),
        ("cache-misses",        &[],             abi::PERF_COUNT_HW_CACHE_MISSES),
        ("branch-instructions", &["branches"],   abi::PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
        ("branch-misses",       &[],             abi::PERF_COUNT_HW_BRANCH_MISSES),
        ("bus-cycles",          &[],             abi::PERF_COUNT_HW_BUS_CYCLES),
        ("stalled-cycles-frontend", &["idle-cycles-frontend"],
            abi::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND),
        ("stalled-cycles-backend", &["idle-cycles-backend"],
            abi::PERF_COUNT_HW_STALLED_CYCLES_BACKEND),
        ("ref-cycles",          &[],             abi::PERF_COUNT_HW_REF_CPU_CYCLES),
    ],
    composed: Vec::new,
    config_of: |_| None,
};
