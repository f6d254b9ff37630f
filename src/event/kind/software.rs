//! Names of software events. Source: include/uapi/linux/perf_event.h for the numbers, `perf list`
//! for the names.

use perf_event_open_sys::bindings as abi;

use super::named::NameFamily;

/// The names of software events.
#[rustfmt::skip]
pub(super) const FAMILY: NameFamily = NameFamily {
    type_: abi::PERF_TYPE_SOFTWARE,
    category: "software",
    table: &[
        ("cpu-clock",        &[],             abi::PERF_COUNT_SW_CPU_CLOCK),
        ("task-clock",       &[],             abi::PERF_COUNT_SW_TASK_CLOCK),
        ("page-faults",      &["faults"],     abi::PERF_COUNT_SW_PAGE_FAULTS),
        ("context-switches", &["cs"],         abi::PERF_COUNT_SW_CONTEXT_SWITCHES),
        ("cpu-migrations",   &["migrations"], abi::PERF_COUNT_SW_CPU_MIGRATIONS),
        ("minor-faults",     &[],             abi::PERF_COUNT_SW_PAGE_FAULTS_MIN),
        ("major-faults",     &[],             abi::PERF_COUNT_SW_PAGE_FAULTS_MAJ),
        ("alignment-faults", &[],             abi::PERF_COUNT_SW_ALIGNMENT_FAULTS),
        ("emulation-faults", &[],             abi::PERF_COUNT_SW_EMULATION_FAULTS),
        ("dummy",            &[],             abi::PERF_COUNT_SW_DUMMY),
        ("bpf-output",       &[],             abi::PERF_COUNT_SW_BPF_OUTPUT),
        ("cgroup-switches",  &[],             abi::PERF_COUNT_SW_CGROUP_SWITCHES),
    ],
    composed: Vec::new,
    config_of: |_| None,
};
