//! Printers: functions of scripts that format events in place of the runtime.

use std::collections::BTreeMap;

use mlua::Function;

/// Printers by event, and the rank of the file that is being run.
#[derive(Default)]
pub(in crate::script) struct Printers {
    by_event: BTreeMap<String, (PrinterRank, Function)>,
    /// Rank of the file that is being run.
    pub(in crate::script) loading: PrinterRank,
}

/// Origin of a printer; the greater one takes precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::script) enum PrinterRank {
    /// A monitor that ships with the runtime.
    Bundled,
    /// A file of the search path.
    Site,
    /// A monitor of the user, or typed text.
    #[default]
    Monitor,
    /// A file that the user named.
    Plugin,
}

impl Printers {
    /// Adds a printer, unless there is one that takes precedence.
    pub(in crate::script) fn add(&mut self, event: String, function: Function) {
        let rank = self.loading;
        if self.by_event.get(&event).is_none_or(|(before, _)| *before <= rank) {
            self.by_event.insert(event, (rank, function));
        }
    }

    /// Sets the rank of the printers that a monitor's `init` adds from now on; those of a bundled
    /// monitor rank lowest.
    pub(in crate::script) fn set_rank(&mut self, is_bundled: bool) {
        self.loading = if is_bundled { PrinterRank::Bundled } else { PrinterRank::Monitor };
    }

    /// Returns the printer of an event.
    pub(in crate::script) fn of(&self, event: &str) -> Option<&Function> {
        self.by_event.get(event).map(|(_, function)| function)
    }

    /// Returns the number of printers of a rank.
    pub(in crate::script) fn of_rank(&self, rank: PrinterRank) -> usize {
        self.by_event.values().filter(|(of, _)| *of == rank).count()
    }
}
