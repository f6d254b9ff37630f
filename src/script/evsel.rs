//! The events that a script declares: selectors, options and filters, resolved to roles.

pub mod declare;
pub mod declared_pairs;
pub mod derived;
pub mod fields;
pub(super) mod filter;
mod members;
mod options;
mod remarks;
pub mod resolve;
pub mod role;
pub mod sources;
pub mod watchable;
