//! The parts of samples that a run needs.

use std::collections::BTreeSet;

use super::Host;
use crate::decode::c::{self, ExprKind};
use crate::script::evsel::role::{DeclaredCount, Role};
use crate::source::request::SampleParts;

impl Host {
    /// Returns the parts of a sample that each role needs.
    ///
    /// # Errors
    /// The runtime's own Lua failed.
    pub fn sample_parts(&self) -> mlua::Result<Vec<SampleParts>> {
        let roles = self.roles();
        let mut parts = self.parts_read(&roles)?;
        for (parts, role) in parts.iter_mut().zip(roles.iter()) {
            parts.id = !is_simple(role) || role.event.is_with_user_text(&role.sampling);
            parts.time |= self.ordered;
        }
        Ok(parts)
    }

    /// Returns the parts that each role reads: all of them if events are copied or derived from
    /// others.
    fn parts_read(&self, roles: &[Role]) -> mlua::Result<Vec<SampleParts>> {
        let mut parts = vec![SampleParts::ALL; roles.len()];
        if self.has_state() || self.deepest_source() > 0 {
            return Ok(parts);
        }
        let declared = self.declared_counts()?;
        for (index, role) in roles.iter().enumerate() {
            if may_omit_parameters(role) {
                let mut counts = declared.iter().filter(|(_, of)| of.contains(&index)).peekable();
                parts[index].parameters = match counts.peek() {
                    Some(_) => counts.any(|(count, _)| reads_fields(count, role)),
                    None => self.dispatch.parts_read(index)?.parameters,
                };
            }
        }
        let mut counted = BTreeSet::new();
        for (count, of_count) in &declared {
            let read = read_by_count(count);
            for role in of_count.clone().filter(|role| is_simple(&roles[*role])) {
                // An event may be counted in several tables.
                parts[role] = match counted.contains(&role) {
                    true => parts[role].or(read),
                    false => read,
                };
            }
            counted.extend(of_count.clone());
        }
        for (index, role) in roles.iter().enumerate() {
            if !counted.contains(&index) && is_simple(role) {
                let read = self.dispatch.parts_read(index)?;
                parts[index] = SampleParts { parameters: true, ..read };
            }
        }
        Ok(parts)
    }
}

/// Returns whether a role takes the plain samples of a tracepoint, as they are.
fn is_simple(role: &Role) -> bool {
    let (event, sampling) = (&role.event, &role.sampling);
    let kind = event.kind();
    kind.raw_format().is_some()
        && !kind.is_probe()
        && !kind.is_derived()
        && event.counted.is_empty()
        && role.rest.is_empty()
        && sampling.stack.is_none()
        && sampling.extra.is_empty()
        && !sampling.count
}

/// Returns whether a role takes a function with parameters that it may not need.
fn may_omit_parameters(role: &Role) -> bool {
    role.event.without_parameters().is_some()
        && role.event.counted.is_empty()
        && role.task.is_none()
        && role.filter.is_none()
        && role.rest.is_empty()
        && role.sampling.extra.is_empty()
}

/// Names in expressions that stand for a part of a sample, or for all parts.
const OF_TIME: [&str; 3] = ["_time", "_stack", "_text"];
const OF_PROCESS: [&str; 3] = ["_pid", "_stack", "_text"];

/// Returns the parts that the expressions of a count read.
fn read_by_count(count: &DeclaredCount) -> SampleParts {
    let mut parts = SampleParts { time: false, process: false, ..SampleParts::ALL };
    let all_known = each_name(count, &mut |name| {
        parts.time |= OF_TIME.contains(&name);
        parts.process |= OF_PROCESS.contains(&name);
    });
    if all_known { parts } else { SampleParts::ALL }
}

/// Returns whether the expressions of a count read fields of the event itself.
fn reads_fields(count: &DeclaredCount, role: &Role) -> bool {
    let format = role.event.format();
    let is_field = |name: &str| format.is_some_and(|format| format.field(name).is_some());
    let mut reads = false;
    let all_known = each_name(count, &mut |name| reads |= is_field(name) || name == "_text");
    reads || !all_known
}

/// Calls `take` with each name in the expressions of a count. Returns false if one of them cannot
/// be parsed.
fn each_name(count: &DeclaredCount, take: &mut dyn FnMut(&str)) -> bool {
    let expressions = count.keys.iter().chain(&count.sums).chain(&count.name);
    let mut expressions = expressions.chain(&count.condition);
    expressions.all(|text| {
        let tree = c::parse(text).ok();
        tree.is_some_and(|tree| {
            tree.walk(&mut |node| {
                if let ExprKind::Name(name) = &node.kind {
                    take(name);
                }
            });
            true
        })
    })
}
