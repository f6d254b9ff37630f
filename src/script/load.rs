//! Scripts before they run: where they are found, which files are trusted, and the monitor that a
//! file returns.

mod declared_options;
pub mod doc;
pub mod group;
pub mod library;
pub mod monitor;
pub mod source;
pub mod trust;
