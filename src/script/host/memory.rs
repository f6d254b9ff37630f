//! Memory limits of the script and of its aggregates.

use anyhow::ensure;

use super::Host;
use crate::base::report::draw::Level;
use crate::base::text::units::human_bytes;
use crate::source::Batch;

/// Which warnings about full tables were given.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullWarnings {
    /// The aggregates have used their memory.
    of_budget: bool,
    /// A table of the kernel had no room for a key.
    of_kernel_table: bool,
}

impl Host {
    /// Sets the memory limit of the script, in bytes; 0 leaves it unchanged.
    ///
    /// # Errors
    /// The limit is too low to start with.
    pub(in crate::script) fn limit_memory(&self, bytes: usize) -> anyhow::Result<()> {
        // Twice what is used before the first event; with less, no handler would complete.
        let least = (self.vm.used_memory() * 2).next_multiple_of(1 << 20);
        ensure!(
            bytes == 0 || bytes >= least,
            "--lua-mem: {} is too little: the runtime and the script hold {} before the first \
             event; use --lua-mem {} or more",
            human_bytes(bytes as u64),
            human_bytes(self.vm.used_memory() as u64),
            human_bytes(least as u64)
        );
        if bytes == 0 { Ok(()) } else { self.vm.limit_memory(bytes) }
    }

    /// Sets the memory limit of all aggregates together, in bytes; 0 leaves it unchanged.
    pub(in crate::script) fn limit_aggregates(&self, bytes: usize) {
        if bytes > 0 {
            self.sums.budget.set_size(bytes);
        }
    }

    /// Warns once that the aggregates' memory budget refused a request.
    pub(in crate::script) fn note_full_budget(&mut self) {
        let budget = &self.sums.budget;
        if budget.refused() == 0 || std::mem::replace(&mut self.full_warnings.of_budget, true) {
            return;
        }
        let text = format!(
            "tables and pending states have used their {}: keys are folded or evicted, and \
             counted; raise --aggregate-mem",
            human_bytes(budget.size() as u64)
        );
        self.context.note(Level::Warning, &text);
    }

    /// Warns once that a table of the kernel had no room for a key.
    pub(super) fn note_full_table(&mut self) {
        if !std::mem::replace(&mut self.full_warnings.of_kernel_table, true) {
            self.context.note(
                Level::Warning,
                "a table in the kernel had no room for some new keys, whose events are counted \
                 together (evicted): it grows as it is read, and --where user has room for more \
                 new keys at once",
            );
        }
    }

    /// Switches all handlers off and lifts the memory limit, so that the script can still report.
    /// `batch` is the batch after which the limit was found exceeded.
    pub(in crate::script) fn out_of_memory(&mut self, batch: &Batch) {
        let mut roles: Vec<usize> = batch.slots().iter().map(|slot| slot.ev as usize).collect();
        roles.sort_unstable();
        roles.dedup();
        let places = self.dispatch.places_of(&roles);
        self.dispatch.clear_all();
        let limit = human_bytes(self.vm.memory_limit() as u64);
        self.vm.lift_memory_limit();
        self.failed(&format!(
            "{places}the script's memory is full ({limit}; --lua-mem raises the limit); its \
             handlers are switched off"
        ));
        self.state.borrow_mut().stop.get_or_insert_with(String::new);
    }
}
