//! Monitors whose events another monitor takes, as a tree below the script of the run: which roles
//! each has declared, and which event it emits.

use crate::event::rate::SamplingRate;

/// Maximum number of monitors that are nested in each other.
const DEPTH_MAX: usize = 4;

/// The sources of a run. A number of a source counts from 1; 0 is the script itself.
#[derive(Default)]
pub struct Sources {
    /// Names of the monitors whose `init` is running, the outermost first.
    names: Vec<String>,
    /// Sources whose `init` is running, the outermost first.
    open: Vec<OpenSource>,
    /// Depth of each source below the script, from 1.
    depths: Vec<u8>,
    /// Source that declared each role.
    owners: Vec<usize>,
    /// Source that emits the events of each role; 0 for an event that is opened.
    makers: Vec<usize>,
    /// Whether one needs its events in order of time.
    pub ordered: bool,
    /// The smallest `--watermark` of a source.
    pub watermark: Option<u8>,
}

/// A source whose `init` is running.
#[derive(Clone, Debug)]
pub(in crate::script) struct OpenSource {
    /// Its number.
    number: usize,
    /// Number of evsels and of roles before.
    pub(in crate::script) declared: usize,
    pub(in crate::script) roles: usize,
    /// The run's sampling rate, to be restored.
    pub(in crate::script) rate: Option<SamplingRate>,
}

impl Sources {
    /// Begins the `init` of a script that is not a source.
    pub(in crate::script) fn begin_script(&mut self, name: &str) {
        self.end_script();
        self.names.push(name.to_owned());
    }

    /// Ends the `init` of a script or a typed line, also one that was stopped.
    pub(in crate::script) fn end_script(&mut self) {
        self.names.clear();
        self.open.clear();
    }

    /// Returns whether the `init` of a source is running.
    pub(in crate::script) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Begins the `init` of a source.
    ///
    /// # Errors
    /// The monitor would be the source of its own events, or too many are nested.
    pub(in crate::script) fn begin(
        &mut self,
        name: &str,
        declared: usize,
        roles: usize,
        rate: Option<SamplingRate>,
    ) -> Result<(), String> {
        if self.names.iter().any(|open| open == name) {
            let chain = self.names.join(" takes ");
            return Err(format!(
                "{name}: a monitor cannot take its own events ({chain} takes {name}); name \
                 another monitor"
            ));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(format!("{name}: at most {DEPTH_MAX} monitors can be nested"));
        }
        self.names.push(name.to_owned());
        self.depths.push(self.open.len() as u8 + 1);
        let number = self.depths.len();
        self.open.push(OpenSource { number, declared, roles, rate });
        Ok(())
    }

    /// Ends the `init` of the innermost source.
    pub(in crate::script) fn end(&mut self) -> Option<OpenSource> {
        self.names.pop();
        self.open.pop()
    }

    /// Records that the script whose `init` is running has declared roles, up to this number.
    pub(super) fn own(&mut self, roles: usize) {
        let owner = self.open.last().map_or(0, |open| open.number);
        self.owners.resize(roles.max(self.owners.len()), owner);
        self.makers.resize(self.owners.len(), 0);
    }

    /// Records the last role as the event of a source.
    pub(super) fn made_by(&mut self, source: &OpenSource) {
        if let Some(maker) = self.makers.last_mut() {
            *maker = source.number;
        }
    }

    /// Forgets the roles from this number on.
    pub(super) fn truncate(&mut self, roles: usize) {
        self.owners.truncate(roles);
        self.makers.truncate(roles);
    }

    /// Returns the roles that a source has declared itself.
    pub(in crate::script) fn roles_of(&self, source: &OpenSource) -> Vec<usize> {
        self.owned(source.number).collect()
    }

    fn owned(&self, number: usize) -> impl Iterator<Item = usize> {
        let owned = self.owners.iter().enumerate().filter(move |(_, owner)| **owner == number);
        owned.map(|(role, _)| role)
    }

    /// Returns a role, and if a source emits its events, the roles of that source.
    pub(super) fn with_source(&self, role: usize) -> Vec<usize> {
        let (mut all, mut at) = (vec![role], 0);
        while let Some(role) = all.get(at) {
            match self.makers.get(*role) {
                None | Some(0) => {}
                Some(maker) => all.extend(self.owned(*maker)),
            }
            at += 1;
        }
        all
    }

    /// Returns the largest depth of a source; 0 without sources.
    #[inline]
    pub(in crate::script) fn deepest(&self) -> u8 {
        self.depths.iter().copied().max().unwrap_or(0)
    }

    /// Returns the depth of each role: 0 for a role of the script itself.
    pub(in crate::script) fn depths(&self) -> Vec<u8> {
        let depth = |owner: &usize| owner.checked_sub(1).map_or(0, |source| self.depths[source]);
        self.owners.iter().map(depth).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_owns_the_roles_that_it_declares() {
        let mut sources = Sources::default();
        sources.begin_script("multi-trace");
        sources.own(1);
        sources.begin("trace", 1, 1, None).unwrap();
        sources.begin("profile", 1, 1, None).unwrap();
        sources.own(2);
        let profile = sources.end().unwrap();
        assert_eq!(sources.roles_of(&profile), [1]);
        sources.own(3);
        sources.made_by(&profile);
        let trace = sources.end().unwrap();
        assert_eq!(sources.roles_of(&trace), [2]);
        sources.own(4);
        sources.made_by(&trace);
        assert_eq!(sources.depths(), [0, 2, 1, 0]);
        assert_eq!((sources.deepest(), sources.with_source(3)), (2, vec![3, 2, 1]));
    }

    #[test]
    fn a_monitor_cannot_be_its_own_source() {
        let mut sources = Sources::default();
        sources.begin_script("trace");
        sources.begin("profile", 0, 0, None).unwrap();
        let why = sources.begin("trace", 0, 0, None).unwrap_err();
        assert!(why.contains("trace takes profile takes trace"), "{why}");
    }
}
