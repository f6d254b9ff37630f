//! The predicate of a role: the user-space part of its filter, as one Lua function in front of the
//! handler.
//!
//! C expressions are compiled to Lua, and so are comparisons of numbers in the kernel's filter
//! language; LuaJIT compiles both into the trace of the walk. Text and CPU sets of the kernel's
//! filter language call the leaf `met`.

use std::fmt::Write;

use anyhow::bail;
use mlua::{Function, Table};

use crate::event::filter::{BoundFilter, split::Condition};
use crate::script::context::shared::SharedContext;
use crate::script::evsel::role::Role;

/// Returns the predicate of a role, for the driver; `None` if everything passes. `exports` has
/// `predicate_of` of `prelude/expression.lua`.
///
/// # Errors
/// A filter beyond the limits of a Lua function.
pub(super) fn predicate(
    exports: &Table,
    shared: &SharedContext,
    role: &Role,
) -> anyhow::Result<Option<Function>> {
    if role.rest.is_empty() {
        return Ok(None);
    }
    let conditions: Vec<&Condition> = role.rest.iter().map(|rest| &rest.condition).collect();
    let mut source = String::new();
    shared.with(|context| joined(&mut source, &conditions, " and ", &mut context.filters));
    let make: Function = exports.get("predicate_of")?;
    let (function, why): (Option<Function>, Option<String>) = make.call(source)?;
    if function.is_none() {
        // Only Lua's own limits can fail here: constants, nesting.
        let why = why.unwrap_or_default();
        bail!("{}: the filter is too long for user space ({why}); shorten it", role.event.name);
    }
    Ok(function)
}

fn joined(out: &mut String, conditions: &[&Condition], by: &str, filters: &mut Vec<BoundFilter>) {
    for (index, condition) in conditions.iter().enumerate() {
        if index > 0 {
            out.push_str(by);
        }
        one(out, condition, filters);
    }
}

/// Appends Lua code that is true or false, in parentheses if needed.
fn one(out: &mut String, condition: &Condition, filters: &mut Vec<BoundFilter>) {
    match condition {
        Condition::Kernel(bound) => {
            out.push_str(&bound.lua(&mut |part| {
                filters.push(part);
                format!("met(ctx, {}, s)", filters.len() - 1)
            }));
        }
        Condition::Value(expr) => {
            // Text has no truth value, and the filter's parser refuses it. Writing to a String does
            // not fail.
            let _ = write!(out, "({})", expr.condition().unwrap_or("false"));
        }
        Condition::Not(inner) => {
            out.push_str("not (");
            one(out, inner, filters);
            out.push(')');
        }
        Condition::All(all) => {
            out.push('(');
            joined(out, &all.iter().collect::<Vec<_>>(), " and ", filters);
            out.push(')');
        }
        Condition::Any(any) => {
            out.push('(');
            joined(out, &any.iter().collect::<Vec<_>>(), " or ", filters);
            out.push(')');
        }
    }
}
