//! Plans the opening of a single event of a session.

use anyhow::Context as _;

use super::super::openings::opening;
use super::super::scope::limit;
use crate::event::plan;
use crate::script::evsel::role::Role;
use crate::source::request::Opening;

/// Plans an opening for one role alone, so that it can be narrowed and closed by itself.
pub(super) fn planned(index: usize, roles: &[Role], only: &[u32]) -> anyhow::Result<Opening> {
    let mut plan = plan::plan(&roles[index..=index])?;
    let mut planned = plan.pop().context("the event has no plan")?;
    planned.roles = vec![index];
    let mut opening = opening(planned, roles)?;
    limit(&mut opening, only);
    Ok(opening)
}
