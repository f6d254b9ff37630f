//! Expressions compared with a C compiler: the same text over the same records has the same values.

mod bpf;
mod c;
mod chance;
mod compiled;
mod functions;
mod lua;
mod operators;
mod random;
mod record;
mod refusals;
mod undefined;
