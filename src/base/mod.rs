//! Words that every layer shares: the slot of an event, the rows of a report, units. No kernel, no Lua.

pub mod coverage;
pub mod cpulist;
pub mod draw;
pub mod exit_reason;
pub mod glob;
pub mod names;
pub mod nearest;
pub mod number;
pub mod slot;
pub mod text;
pub mod units;
pub mod value;
