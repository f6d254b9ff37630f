//! Resolves selectors, filters and names into events with a layout, and plans what to open. Opens
//! nothing itself.

pub mod attr_option;
pub mod catalog;
pub mod constants;
pub mod exclude;
pub mod expr;
mod ffi_types;
mod field;
pub mod filter;
pub mod kind;
pub mod other_tools;
pub mod plan;
mod quote;
pub mod rate;
pub mod raw_tracepoint;
pub mod sample_field;
pub mod sampling;
pub mod selector;
mod self_events;
pub mod syntax;
