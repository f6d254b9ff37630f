//! `expr`: values of constants, and types for the fields of events.
