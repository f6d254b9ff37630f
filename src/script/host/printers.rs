//! Loads the files that add printers of events.

use std::path::PathBuf;

use anyhow::Context as _;

use super::Host;
use crate::script::context::printers::PrinterRank;
use crate::script::load::library::{Library, Script};
use crate::script::vm::guard::Phase;

impl Host {
    /// Runs the files in `printers/` of the search path, then the plugins. Returns warnings about
    /// them.
    ///
    /// # Errors
    /// A plugin that cannot be read or does not load.
    pub fn load_printers(
        &self,
        library: &Library,
        plugins: &[PathBuf],
    ) -> anyhow::Result<Vec<String>> {
        let mut warnings = Vec::new();
        for script in library.all_in("printers") {
            if let Err(why) = self.run_printers(library, &script, PrinterRank::Site) {
                warnings.push(format!("{why:#}; skipped"));
            }
        }
        for path in plugins {
            let script = library.at_path(path).context("--plugin")?;
            let before = self.state.borrow().printers.of_rank(PrinterRank::Plugin);
            self.run_printers(library, &script, PrinterRank::Plugin)?;
            if self.state.borrow().printers.of_rank(PrinterRank::Plugin) == before {
                warnings.push(format!("--plugin {}: adds no printer", path.display()));
            }
        }
        Ok(warnings)
    }

    fn run_printers(
        &self,
        library: &Library,
        script: &Script,
        rank: PrinterRank,
    ) -> anyhow::Result<()> {
        self.state.borrow_mut().printers.loading = rank;
        let run = || self.vm.script(&script.chunk_name(), &script.text);
        let ran = self.vm.searching(library, script, || self.guard.run(Phase::Load, run));
        self.state.borrow_mut().printers.loading = PrinterRank::default();
        ran?;
        Ok(())
    }
}
