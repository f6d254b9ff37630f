//! The fields of `perf_event_attr` that a script names, in the attr of an event.

use anyhow::{Context as _, bail};
use perf_event_open_sys::bindings as abi;

use crate::event::attr_option::{FieldUse, without_effect};
use crate::event::kind::EventProperties;
use crate::event::sampling::Sampling;
use crate::sys::attr::Attr;

/// Sets the fields that a script names, once the others are set.
///
/// # Errors
/// A field is unknown, its value is out of range, or it has no effect on the event.
pub(super) fn set(
    attr: &mut Attr,
    event: &dyn EventProperties,
    sampling: &Sampling,
) -> anyhow::Result<()> {
    let kinds = attr.get("sample_type").unwrap_or(0);
    let on = FieldUse {
        is_hardware: event.uses_hardware_counter(),
        is_grouped: sampling.group.is_some(),
        is_counted: sampling.count,
        has_call_chain: kinds & u64::from(abi::PERF_SAMPLE_CALLCHAIN) != 0,
        has_branches: kinds & u64::from(abi::PERF_SAMPLE_BRANCH_STACK) != 0,
    };
    if sampling.pinned && (on.is_hardware || on.is_grouped) {
        attr.set("pinned", 1)?;
    }
    for (name, value) in &sampling.fields {
        if let Some(why) = without_effect(name, on) {
            bail!("'{name}' of an evsel has no effect: {why}");
        }
        attr.set(name, *value).with_context(|| format!("failed to set attribute `{name}`"))?;
    }
    Ok(())
}
