//! Events of a glob that the kernel refuses: the others are watched without them, and a note names
//! them.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::open::{Opened, Opening};
use crate::sys::refusal::Refusal;

/// Names that a note gives.
const NAMED: usize = 8;

/// Why a function of a glob is left out, in short: each of many may have a reason of its own.
const NOT_PROBED: &str = "the kernel does not let them be probed";

/// An event of a glob that the kernel refused.
pub(super) struct LeftOut {
    glob: Rc<str>,
    is_function: bool,
    refusal: Refusal,
}

impl Opened {
    /// Leaves out an event of a glob that the kernel refuses for what it is.
    ///
    /// # Errors
    /// The refusal, if the event is named exactly, or if any other event would be refused as well.
    pub(super) fn leave_out(&mut self, opening: &Opening, refusal: Refusal) -> Result<(), Refusal> {
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

    /// Adds a remark for each glob and reason with the events that were left out.
    ///
    /// # Errors
    /// The first refusal of a glob all of whose events were refused.
    pub(super) fn tell_left_out(&mut self, openings: &[Opening]) -> anyhow::Result<()> {
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

/// `irq_vectors:*: left out irq_work_exit: the kernel does not let …`.
fn remark(glob: &str, why: &str, refusals: &[Refusal]) -> String {
    let name = |refusal: &Refusal| refusal.what.rsplit(':').next().unwrap_or_default().to_owned();
    let names: Vec<String> = refusals.iter().take(NAMED).map(name).collect();
    let more = match refusals.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{glob}: left out {}{more}: {why}", names.join(", "))
}
