//! System calls of a run: perf events and their rings, workloads, properties of the machine.
//! Records are decoded elsewhere.

pub mod attr;
mod attr_fallback;
pub mod backtraces;
pub mod bpf;
pub mod breakpoint_hits;
pub mod budget;
pub mod catch_panic;
pub mod cgroup;
pub mod cgroup_threads;
pub mod child;
pub mod clock;
pub mod code;
pub mod cpu_model;
pub mod cpu_time;
pub mod cpus;
pub mod dynamic_event;
pub mod endpoint;
pub(crate) mod errno;
pub mod folder;
pub mod futex;
pub mod http_post;
pub mod idle_records;
pub mod kernel_functions;
pub mod limits;
pub mod load_address;
pub mod machine;
pub mod mapped_file;
pub mod maps;
pub mod namespace;
pub mod own_tid;
pub mod perf;
pub mod poll;
pub mod pressure;
pub mod privileges;
pub mod probe_type;
pub mod proc_stat;
pub mod process_files;
pub mod progress;
mod read_format;
pub mod refusal;
pub mod registers;
pub mod ring;
pub mod sched;
mod sigbus;
pub mod signal;
pub mod split_lock;
pub mod streams;
pub mod tasks;
pub mod terminal;
pub mod threads;
pub mod tracefs;
pub mod tracepoint_overhead;
pub mod user;
pub mod walk;

#[cfg(test)]
pub(crate) mod live_tests;
#[cfg(test)]
mod tests;
