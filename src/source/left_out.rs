//! Events of a glob that the kernel refuses: the others are watched without them, and a note names
//! them.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::open::{OpenedSource, Opening};
use crate::sys::refusal::Refusal;

/// Maximum number of names in a note.
const NAMED: usize = 8;

/// Short reason why functions of a glob are omitted; each of them may have a reason of its own.
const NOT_PROBED: &str = "the kernel does not allow probes there";

/// An event of a glob that the kernel refused.
pub(super) struct LeftOut {
    glob: Rc<str>,
    is_function: bool,
    refusal: Refusal,
}

impl OpenedSource {
    /// Omits an event of a glob if the kernel refuses the event itself.
    ///
    /// # Errors
    /// The refusal, if the event was named exactly or if any other event would be refused as well.
    pub(super) fn omit(&mut self, opening: &Opening, refusal: Refusal) -> Result<(), Refusal> {
        let is_function = opening.event.function().is_some();
        let is_of_event = if is_function { refusal.is_of_place() } else { refusal.of_event };
        match &opening.glob {
            Some(glob) if is_of_event => {
                self.left_out.push(LeftOut { glob: glob.clone(), is_function, refusal });
                Ok(())
            }
            _ => Err(refusal),
        }
    }

    /// Adds a remark for each glob and reason with the omitted events.
    ///
    /// # Errors
    /// The first refusal of a glob, if all its events were refused.
    pub(super) fn report_omitted(&mut self, openings: &[Opening]) -> anyhow::Result<()> {
        let mut reasons: BTreeMap<(Rc<str>, String), Vec<Refusal>> = BTreeMap::new();
        for LeftOut { glob, is_function, refusal } in std::mem::take(&mut self.left_out) {
            let mut open = self.events.iter().map(|open| &openings[open.opening]);
            if !open.any(|opening| opening.glob.as_ref() == Some(&glob)) {
                return Err(refusal.into());
            }
            let why = if is_function { NOT_PROBED.to_owned() } else { refusal.why.clone() };
            reasons.entry((glob, why)).or_default().push(refusal);
        }
        let remarks = reasons.iter().map(|((glob, why), refusals)| remark(glob, why, refusals));
        self.remarks.extend(remarks);
        Ok(())
    }
}

/// Returns a remark such as `irq_vectors:*: omitted irq_work_exit: the kernel does not …`.
fn remark(glob: &str, why: &str, refusals: &[Refusal]) -> String {
    let name = |refusal: &Refusal| refusal.what.rsplit(':').next().unwrap_or_default().to_owned();
    let names: Vec<String> = refusals.iter().take(NAMED).map(name).collect();
    let more = match refusals.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{glob}: omitted {}{more}: {why}", names.join(", "))
}
