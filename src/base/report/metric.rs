//! The measurements of an interval, from which metrics are made: all rows of a table, without the
//! limits and the layout of what is printed.

/// How the values of a column become metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetricKind {
    /// By its cells: text is a label, a number is a gauge, a stack is omitted.
    #[default]
    Inferred,
    /// A value that adds up over the intervals.
    Counter,
    /// A value that replaces that of the last interval.
    Gauge,
    /// A part of the key.
    Label,
    /// Not exported.
    Omitted,
}

impl MetricKind {
    /// Returns the kind with this name, as scripts write it.
    pub fn named(name: &str) -> Option<MetricKind> {
        Some(match name {
            "counter" => MetricKind::Counter,
            "gauge" => MetricKind::Gauge,
            "label" => MetricKind::Label,
            "none" => MetricKind::Omitted,
            _ => return None,
        })
    }
}

/// The measurements of one table.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricTable {
    /// The table's name in JSON.
    pub name: String,
    /// Names of the labels.
    pub labels: Vec<String>,
    /// Keys of the columns of numbers, with the unit last, and whether each is a counter or a
    /// gauge.
    pub columns: Vec<(String, MetricKind)>,
    /// The name and the shape of the distribution that each row has, if any.
    pub distribution: Option<(String, DistributionShape)>,
    /// Whether rows with equal labels are parts of one row and add up. Otherwise a gauge of a
    /// repeated row gets a label with its number.
    pub adds_up: bool,
    /// The rows.
    pub rows: Vec<MetricRow>,
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricRow {
    /// A value for each label.
    pub labels: Vec<String>,
    /// A value for each column; None for an empty cell.
    pub values: Vec<Option<f64>>,
    /// The distribution.
    pub distribution: Option<Distribution>,
}

/// The buckets of a distribution.
#[derive(Clone, Debug, PartialEq)]
pub enum DistributionShape {
    /// Durations in nanoseconds, each bucket with a value that represents it within 1 %.
    Durations,
    /// Other values, represented likewise.
    Values,
    /// Buckets with a highest value, of at most this number, in a unit that may be empty.
    Buckets {
        /// Number of buckets.
        most: usize,
        /// Unit of the bounds.
        unit: String,
    },
}

/// The distribution of the values of one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// A value and a count for each bucket that is not empty: the value that represents the bucket,
    /// or its highest value (infinity for the last one).
    pub buckets: Vec<(f64, u64)>,
}
