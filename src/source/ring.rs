//! One CPU's ring: its state, and how its records become slots.

pub(super) mod cgroup_records;
pub(super) mod chains;
pub(super) mod cpu_ring;
pub(super) mod decoder;
pub(super) mod delivery;
pub(super) mod fill;
pub(super) mod group_counts;
pub(super) mod ids;
pub(super) mod lone_threads;
pub(super) mod loss_window;
pub(super) mod openings;
pub(super) mod presence;
pub(super) mod sample_tail;
pub(super) mod staged;
pub(super) mod watched_tasks;
pub(super) mod weights;
