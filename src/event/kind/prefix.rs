//! Prefixes of names: `kprobe:`, `uprobe:`, `mem:`. Behind one, a name has a syntax of its own and
//! is looked up on the machine instead of being listed.

use crate::base::text::fault::Fault;

/// A prefix of names, and what other modules need to know about the names behind it.
pub struct NamePrefix {
    /// The prefix, without its colon.
    pub prefix: &'static str,
    /// Returns how many bytes of the text behind the prefix belong to a name whatever they contain:
    /// a FILE and the like. The rest of the name ends at the first `/`, `,` or `|`.
    pub extent: fn(&str) -> Result<usize, Fault>,
    /// Whether samples have fields, so that a filter follows the name instead of attributes.
    pub has_fields: bool,
    /// The class of its samples for editors.
    pub class: &'static str,
}

impl NamePrefix {
    /// Returns the text behind the prefix and its colon; None if the text does not begin with it.
    pub fn behind<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.strip_prefix(self.prefix)?.strip_prefix(':')
    }
}
