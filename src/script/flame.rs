//! The host's part in flame graphs and heat maps: whether there is anything to draw, and what was drawn.

use anyhow::ensure;

use super::aggregate::WriteFlame;
use super::aggregate::flame::Drawn;
use super::host::{Host, Setting};
use crate::stat::{heat_map::HeatMap, leaf::Shared};

impl Host {
    /// With `--flame-graph`, has stacks drawn instead of shown.
    ///
    /// # Errors
    /// No event takes a stack.
    pub(super) fn want_flames(&self, setting: &Setting) -> anyhow::Result<()> {
        if let Some(wish) = &setting.flame {
            ensure!(
                self.roles().iter().any(|role| role.sampling.stack.is_some()),
                "--flame-graph: no event of this monitor takes a stack, so there is nothing to draw; \
                 leave it away, or ask for stacks (-g, or stack in a selector: sys:name//stack/)"
            );
            let taken = self.aggregates.want_flames(wish.clone());
            self.shared.with(|context| {
                context.no_stacks = taken.is_none();
                context.taken = taken;
            });
        }
        Ok(())
    }

    /// The flame graphs of the report that was made last.
    pub fn take_flames(&self) -> Vec<Drawn> {
        let mut flames = self.aggregates.take_flames();
        for drawn in flames.iter_mut().filter(|drawn| drawn.flame.title.is_empty()) {
            drawn.flame.title = self.events_with_stacks();
        }
        flames
    }

    /// The first few of them, by name.
    fn events_with_stacks(&self) -> String {
        const NAMED: usize = 3;
        let roles = self.roles();
        let mut names: Vec<&str> = roles
            .iter()
            .filter(|r| r.sampling.stack.is_some())
            .map(|r| r.event.name.as_str())
            .collect();
        names.dedup();
        let more = if names.len() > NAMED { ", …" } else { "" };
        names.truncate(NAMED);
        names.join(", ") + more
    }

    /// The delays over time of the script, if it has any.
    pub fn heat_map(&self) -> Option<Shared<HeatMap>> {
        self.aggregates.heat_map()
    }

    /// Has the script's own flame graphs written so.
    pub fn write_flames(&self, write: WriteFlame) {
        self.sums.write_flame.replace(Some(write));
    }
}
