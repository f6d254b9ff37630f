//! nearest
