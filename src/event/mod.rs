//! What to watch: selectors, filters and names into events with a layout. Text in, plans out; nothing is opened here.

pub mod catalog;
pub mod constants;
pub mod counter;
mod doing;
pub mod expr;
mod field;
pub mod filter;
pub mod function;
mod load;
pub mod name;
pub mod plan;
pub mod rate;
pub mod sampling;
pub mod selector;
pub mod syntax;
