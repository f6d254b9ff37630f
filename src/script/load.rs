//! Scripts before they run: where they are found, which files are trusted, and the monitor that a
//! file returns.

pub mod doc;
pub mod group;
pub mod library;
pub mod monitor;
pub mod trust;
