//! Flame graphs and heat maps of a host: checks that there is something to draw, and hands out the
//! result.

use anyhow::ensure;

use super::{Host, Setting};
use crate::base::report::stacks_over_time::StacksOverTime;
use crate::script::aggregate::WriteFlame;
use crate::script::aggregate::flame::DrawnGraph;
use crate::stat::{heat_map::HeatMap, leaf::SharedAggregate};

impl Host {
    /// Draws stacks as flame graphs instead of printing them, with `--flame-graph`.
    ///
    /// # Errors
    /// No event has a stack.
    pub(in crate::script) fn want_flames(&self, setting: &Setting) -> anyhow::Result<()> {
        if let Some(options) = &setting.flame {
            ensure!(
                self.roles().iter().any(|role| role.sampling.stack.is_some()),
                "--flame-graph: no event of this monitor has a stack; omit the option, or sample \
                 stacks (-g, or stack in a selector: sys:name//stack/)"
            );
            let counts = self.aggregates.want_flames(options.clone());
            self.context.with(|context| {
                context.no_stacks = counts.is_none();
                context.flame_counts = counts;
            });
        }
        Ok(())
    }

    /// Returns the flame graphs of the last report.
    pub fn take_flames(&self) -> Vec<DrawnGraph> {
        let mut flames = self.aggregates.take_flames();
        for drawn in flames.iter_mut().filter(|drawn| drawn.flame.title.is_empty()) {
            drawn.flame.title = self.events_with_stacks();
        }
        flames
    }

    /// Returns the first few events that take stacks, by name.
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

    /// Returns the script's map of delays over time, if it has one.
    pub fn heat_map(&self) -> Option<SharedAggregate<HeatMap>> {
        self.aggregates.heat_map()
    }

    /// Returns the function that returns the script's stacks over time; None if it has none.
    pub fn stacks_over_time(&self) -> Option<Box<dyn Fn() -> StacksOverTime>> {
        let aggregates = self.aggregates.clone();
        aggregates.has_stack_map().then(|| Box::new(move || aggregates.stacks_over_time()) as _)
    }

    /// Sets the function that writes the script's own flame graphs.
    pub fn write_flames(&self, write: WriteFlame) {
        self.sums.write_flame.replace(Some(write));
    }
}
