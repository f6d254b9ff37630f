//! The output of a run, as data: scripts return it, `output` draws it.

pub mod cell;
pub mod coverage;
pub mod delay_map;
pub mod draw;
pub mod event_record;
pub mod flame;
pub mod frame;
pub mod heat;
pub mod metric;
pub mod rows;
pub mod run_record;
pub mod run_stats;
pub mod stacks_over_time;
pub mod time_grid;
pub mod timeline;
