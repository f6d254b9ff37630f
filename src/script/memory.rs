//! What a script may hold, and what becomes of one that holds it.

use anyhow::ensure;

use super::host::Host;
use crate::base::draw::Level;
use crate::base::units::human_bytes;
use crate::source::Batch;

impl Host {
    /// Sets what the script may hold; 0 leaves it as it is.
    pub(super) fn limit_memory(&self, bytes: usize) -> anyhow::Result<()> {
        // As much again as is there before the first event; with less, no handler would come to its end.
        let least = (self.vm.used_memory() * 2).next_multiple_of(1 << 20);
        ensure!(
            bytes == 0 || bytes >= least,
            "--lua-mem: {} is too little: the runtime and the script hold {} before the first event; \
             write --lua-mem {} or more",
            human_bytes(bytes as u64),
            human_bytes(self.vm.used_memory() as u64),
            human_bytes(least as u64)
        );
        if bytes == 0 { Ok(()) } else { self.vm.limit_memory(bytes) }
    }

    /// Sets what all aggregates together may take; 0 leaves it as it is.
    pub(super) fn limit_aggregates(&self, bytes: usize) {
        if bytes > 0 {
            self.sums.budget.set_size(bytes);
        }
    }

    /// Says once that aggregates have asked in vain for more memory.
    pub(super) fn note_full_budget(&mut self) {
        let budget = &self.sums.budget;
        if budget.refused() == 0 || std::mem::replace(&mut self.said_full, true) {
            return;
        }
        let text = format!(
            "tables and pending states have used their {}: keys are folded or evicted, and counted; raise --aggregate-mem",
            human_bytes(budget.size() as u64)
        );
        self.shared.with(|context| context.note(Level::Warning, &text));
    }

    /// Switches every handler off and frees what the script holds too much of, so that it can still report. `batch`
    /// is the one behind which that was seen.
    pub(super) fn out_of_memory(&mut self, batch: &Batch) {
        let mut roles: Vec<usize> = batch.slots().iter().map(|slot| slot.ev as usize).collect();
        roles.sort_unstable();
        roles.dedup();
        let places = self.dispatch.places_of(&roles);
        self.dispatch.clear_all();
        let limit = human_bytes(self.vm.memory_limit() as u64);
        self.vm.lift_memory_limit();
        self.failed(&format!(
            "{places}the script's memory is full ({limit}; --lua-mem raises the limit); its handlers are switched off"
        ));
        self.state.borrow_mut().stop.get_or_insert_with(String::new);
    }
}
