//! Expressions against a C compiler: the same text over the same records gives the same values.

mod c;
mod compiled;
mod functions;
mod lua;
mod operators;
mod random;
mod record;
mod refusals;
mod undefined;
