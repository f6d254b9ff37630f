//! Remarks for the user about events that differ from what was requested. Each is made once; events
//! that differ for the same reason share one.

use std::collections::BTreeSet;

/// Remarks that were not taken yet.
#[derive(Default)]
pub(in crate::script) struct EventRemarks {
    texts: Vec<String>,
    /// Names of events that are sampled in user mode only, and of those that are counted.
    in_user_mode: [Vec<String>; 2],
    /// Reasons why optional events are not opened, and the names of these events.
    omitted: Vec<(String, Vec<String>)>,
    /// Why the first optional event could not be looked up.
    first_missing: Option<String>,
    /// Everything that was added before.
    known: BTreeSet<String>,
}

impl EventRemarks {
    /// Adds a remark.
    pub(super) fn add(&mut self, text: String) {
        if self.known.insert(text.clone()) {
            self.texts.push(text);
        }
    }

    /// Adds an event whose kernel part was refused, under its name in user mode.
    pub(super) fn add_in_user_mode(&mut self, name: &str, is_counted: bool) {
        if self.known.insert(name.to_owned()) {
            self.in_user_mode[usize::from(is_counted)].push(name.to_owned());
        }
    }

    /// Adds an optional event that is not opened, and why.
    pub(super) fn add_omitted(&mut self, name: &str, why: &str) {
        if !self.known.insert(format!("{name}: {why}")) {
            return;
        }
        let at = self.omitted.iter().position(|(other, _)| other == why).unwrap_or_else(|| {
            self.omitted.push((why.to_owned(), Vec::new()));
            self.omitted.len() - 1
        });
        self.omitted[at].1.push(name.to_owned());
    }

    /// Adds the reason why an optional event could not be looked up. It is not a remark: another
    /// event usually takes its place.
    pub(super) fn add_missing(&mut self, why: String) {
        self.first_missing.get_or_insert(why);
    }

    /// Returns the first reason why events were omitted, with their names.
    pub(in crate::script) fn first_omitted(&self) -> Option<String> {
        self.omitted.first().map(|(why, names)| format!("{}: {why}", names.join(", ")))
    }

    /// Returns why the first optional event could not be looked up.
    pub(in crate::script) fn first_missing(&self) -> Option<&str> {
        self.first_missing.as_deref()
    }

    /// Removes and returns the remarks.
    pub(in crate::script) fn take(&mut self) -> Vec<String> {
        let mut all = std::mem::take(&mut self.texts);
        let in_user_mode = std::mem::take(&mut self.in_user_mode);
        for (names, done) in in_user_mode.into_iter().zip(["sampled", "counted"]) {
            if !names.is_empty() {
                all.push(format!(
                    "{}: this user may not watch the kernel, so only user mode is {done}; run as \
                     root, or set kernel.perf_event_paranoid to 1 or less, to include it",
                    names.join(", ")
                ));
            }
        }
        for (why, names) in std::mem::take(&mut self.omitted) {
            all.push(format!("omitted {}: {why}", names.join(", ")));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_could_not_be_looked_up_is_a_reason_and_not_a_remark() {
        let mut remarks = EventRemarks::default();
        remarks.add_missing("tracefs: permission denied".to_owned());
        remarks.add_missing("no event 'a:b'".to_owned());
        assert_eq!(remarks.first_missing(), Some("tracefs: permission denied"));
        assert!(remarks.take().is_empty());
    }

    #[test]
    fn events_that_differ_for_one_reason_share_a_remark() {
        let mut remarks = EventRemarks::default();
        remarks.add("a remark".to_owned());
        for name in ["page-faults:u", "minor-faults:u", "page-faults:u"] {
            remarks.add_in_user_mode(name, true);
        }
        for name in ["context-switches", "cpu-migrations"] {
            remarks.add_omitted(name, "permission denied");
        }
        let texts = remarks.take();
        assert_eq!(texts[0], "a remark");
        let begin = "page-faults:u, minor-faults:u: this user may not watch the kernel, so only \
                     user mode is counted;";
        assert!(texts[1].starts_with(begin), "{texts:?}");
        assert_eq!(texts[2], "omitted context-switches, cpu-migrations: permission denied");
        remarks.add("a remark".to_owned());
        remarks.add_in_user_mode("page-faults:u", true);
        assert!(remarks.take().is_empty());
    }
}
