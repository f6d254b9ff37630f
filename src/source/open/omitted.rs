//! Events of a glob that the kernel refuses: the others are watched without them, and a note names
//! them.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::source::request::Opening;
use crate::sys::refusal::Refusal;

/// Maximum number of names in a note.
const NAMED: usize = 8;

/// Short reason why functions of a glob are omitted; each of them may have a reason of its own.
const NOT_PROBED: &str = "the kernel does not allow probes there";

/// Refused events of globs that have not been reported yet.
#[derive(Default)]
pub(in crate::source) struct OmittedEvents(Vec<OmittedEvent>);

struct OmittedEvent {
    glob: Rc<str>,
    is_function: bool,
    refusal: Refusal,
}

impl OmittedEvents {
    /// Omits an event of a glob if the kernel refuses the event itself.
    ///
    /// # Errors
    /// The refusal, if the event was named exactly or if any other event would be refused as well.
    pub(in crate::source) fn add(
        &mut self,
        opening: &Opening,
        refusal: Refusal,
    ) -> Result<(), Refusal> {
        let is_function = opening.event.kind().is_probe();
        let is_of_event = if is_function { refusal.is_of_place() } else { refusal.of_event };
        match &opening.glob {
            Some(glob) if is_of_event => {
                self.0.push(OmittedEvent { glob: glob.clone(), is_function, refusal });
                Ok(())
            }
            _ => Err(refusal),
        }
    }

    /// Removes all events.
    pub(in crate::source) fn clear(&mut self) {
        self.0.clear();
    }

    /// Removes all events, and returns a remark for each glob and reason. `is_open` returns whether
    /// any event of a glob is open.
    ///
    /// # Errors
    /// The first refusal of a glob, if all its events were refused.
    pub(in crate::source) fn take_remarks(
        &mut self,
        is_open: impl Fn(&Rc<str>) -> bool,
    ) -> anyhow::Result<Vec<String>> {
        let mut reasons: BTreeMap<(Rc<str>, String), Vec<Refusal>> = BTreeMap::new();
        for OmittedEvent { glob, is_function, refusal } in std::mem::take(&mut self.0) {
            if !is_open(&glob) {
                return Err(refusal.into());
            }
            let why = if is_function { NOT_PROBED.to_owned() } else { refusal.why.clone() };
            reasons.entry((glob, why)).or_default().push(refusal);
        }
        let remarks = reasons.iter().map(|((glob, why), refusals)| remark(glob, why, refusals));
        Ok(remarks.collect())
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
