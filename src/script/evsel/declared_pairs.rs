//! Pairs of events that a script has declared: the kernel can measure them if it can evaluate the
//! expressions.

/// Pairs of events, which are added to a latency or to a table of sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredPairs {
    /// Index of the declaration in the script.
    pub number: usize,
    /// The aggregate to which they are added.
    pub target: PairTarget,
    /// Number of the pending with the starts; None if the ends have values.
    pub open: Option<usize>,
    /// The histogram to which the delays are also added, and the columns of its key.
    pub histogram: Option<(usize, Vec<usize>)>,
    /// The events that begin delays.
    pub starts: Vec<PairSide>,
    /// The events that end them, in the order of their handlers.
    pub finishes: Vec<PairSide>,
    /// The events that drop the start of a key.
    pub drops: Vec<PairSide>,
    /// Whether each column of the target is there.
    pub present: Vec<bool>,
    /// The values that a start keeps: `same`, or the number of a column.
    pub fields: Vec<KeptField>,
    /// Further counts.
    pub counts: Vec<DeclaredPairCount>,
    /// Whether keys are threads.
    pub threads: bool,
    /// Whether ends without their start count as unmatched. The first event of a key does not: its
    /// start may be older than the run.
    pub strict: bool,
    /// Nanoseconds; delays of at most this are not added.
    pub longer_ns: Option<i64>,
    /// Nanoseconds; a handler takes the pairs whose delay is longer. None without `than`.
    pub than_ns: Option<i64>,
    /// Whether the kernel may cut long texts with `--where auto` (`cut_texts`).
    pub cut_texts: bool,
    /// Number of starts for which the kernel should have room.
    pub room: Option<usize>,
    /// The note about calls inside of calls.
    pub nested: Option<String>,
    /// Why the pairs need records.
    pub needs: Option<String>,
}

/// The aggregate to which pairs are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairTarget {
    /// The latency with this number: their delays.
    Delays(usize),
    /// A table of counts or sums: a row for each.
    Rows {
        /// Its number.
        table: usize,
        /// The number of sums; they are the last columns.
        sums: usize,
        /// Whether starts are added, too.
        starts: bool,
    },
}

impl DeclaredPairs {
    /// Returns the number of the aggregate to which pairs are added.
    pub fn target_number(&self) -> usize {
        match self.target {
            PairTarget::Delays(number) | PairTarget::Rows { table: number, .. } => number,
        }
    }

    /// Returns the table of a count in the kernel: the rows of pairs are the first one.
    pub fn table_of_count(&self, number: usize) -> Option<usize> {
        match (self.target, number.checked_sub(self.own_counts())) {
            (PairTarget::Rows { table, .. }, None) => Some(table),
            (_, index) => self.counts.get(index?).map(|count| count.table),
        }
    }

    /// Returns the number of counts in the kernel before `counts`.
    pub fn own_counts(&self) -> usize {
        usize::from(matches!(self.target, PairTarget::Rows { .. }))
    }

    /// Returns all events, in the order in which those of one record are used.
    pub fn sides(&self) -> impl Iterator<Item = &PairSide> {
        self.finishes.iter().chain(&self.drops).chain(&self.starts)
    }
}

/// An event of pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairSide {
    /// The evsel, by its index in Lua.
    pub evsel: usize,
    /// Expressions of the key.
    pub keys: Vec<String>,
    /// Expression whose value is added in place of a delay.
    pub value: Option<String>,
    /// Expression that must not be 0.
    pub condition: Option<String>,
    /// Expression that must be equal at both events.
    pub same: Option<String>,
    /// Expressions of columns, by their index.
    pub rows: Vec<Option<String>>,
    /// Whether a start does not replace an earlier one.
    pub once: bool,
    /// Expression that is not 0 if the key of a dropped start is not used again.
    pub last: Option<String>,
}

/// A value that a start keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptField {
    /// The value that must be equal at both events.
    Same,
    /// That of a column, by its index.
    Column(usize),
}

/// A count of some of the events of pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredPairCount {
    /// Number of the table.
    pub table: usize,
    /// The events.
    pub of: PairMoment,
    /// Expression that must not be 0.
    pub condition: Option<String>,
    /// Expressions of the key.
    pub keys: Vec<String>,
}

/// Events of pairs that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairMoment {
    /// Starts.
    Start,
    /// Ends without a start.
    Single,
    /// Ends whose delay was added.
    Pair,
}
