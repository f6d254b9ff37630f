//! Every system call that a run needs: perf events and their rings, workloads, what the machine is. Nothing is decoded here.

pub mod attr;
pub mod budget;
pub mod cgroup;
pub mod child;
pub mod clock;
pub mod code;
pub mod cpu_model;
pub mod cpu_time;
pub mod cpus;
pub mod facts;
pub mod folder;
pub mod held;
pub mod idle_records;
pub mod kernel_functions;
mod ladder;
pub mod limits;
pub mod machine;
pub mod maps;
pub mod namespace;
pub mod perf;
pub mod poll;
pub mod proc_stat;
pub mod quiet;
mod read_format;
pub mod refusal;
pub mod registers;
pub mod ring;
pub mod signal;
pub mod slice;
pub mod split_lock;
pub mod streams;
pub mod tasks;
pub mod terminal;
pub mod threads;
pub mod toll;
mod torn;
pub mod tracefs;
pub mod user;
pub mod walk;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod trial;
