//! Types that every layer shares: event slots, report rows, units. Independent of the kernel and of
//! Lua.

pub mod chain;
pub mod coverage;
pub mod cpulist;
pub mod delay_map;
pub mod draw;
pub mod exit_reason;
pub mod flame;
pub mod frame;
pub mod glob;
pub mod heat;
pub mod names;
pub mod nearest;
pub mod number;
pub mod pattern;
pub mod slot;
pub mod stack_style;
pub mod text;
pub mod time_grid;
pub mod units;
pub mod value;
