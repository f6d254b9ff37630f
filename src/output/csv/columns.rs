//! Columns that rows of different kinds share: a row has values for some of them.

use std::collections::HashMap;

/// Columns in the order in which they were added.
#[derive(Default)]
pub(super) struct SharedColumns {
    names: Vec<String>,
    /// The columns of each name: several if a row has several values of this name.
    by_name: HashMap<String, Vec<usize>>,
}

/// The columns of the values of one kind of row.
#[derive(Default)]
pub(super) struct RowLayout {
    /// The column and the index of each value, ascending by column.
    order: Vec<(usize, usize)>,
}

impl SharedColumns {
    /// Returns the names of the columns.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns the number of columns.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the layout of rows whose values have these names, and adds the columns that are
    /// missing.
    pub(super) fn lay_out(&mut self, names: impl Iterator<Item: AsRef<str>>) -> RowLayout {
        let mut order: Vec<(usize, usize)> = Vec::new();
        for (value, name) in names.enumerate() {
            let name = name.as_ref();
            let is_free = |column: &usize| !order.iter().any(|(taken, _)| taken == column);
            let known = self.by_name.get(name).and_then(|all| all.iter().copied().find(is_free));
            let column = known.unwrap_or_else(|| self.add(name));
            order.push((column, value));
        }
        order.sort_unstable();
        RowLayout { order }
    }

    fn add(&mut self, name: &str) -> usize {
        let column = self.names.len();
        self.names.push(name.to_owned());
        self.by_name.entry(name.to_owned()).or_default().push(column);
        column
    }
}

impl RowLayout {
    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Appends the cells of a row of `columns` columns, each with a comma. `push` appends the value
    /// with an index. Cells without a value are empty; they cost no more than their comma.
    pub(super) fn push_row(
        &self,
        out: &mut Vec<u8>,
        columns: usize,
        mut push: impl FnMut(&mut Vec<u8>, usize),
    ) {
        let mut at = 0;
        for &(column, value) in &self.order {
            push_commas(out, column.saturating_sub(at));
            push(out, value);
            at = column + 1;
        }
        push_commas(out, columns.saturating_sub(at));
    }
}

fn push_commas(out: &mut Vec<u8>, count: usize) {
    out.resize(out.len() + count, b',');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_name_share_a_column_except_within_a_row() {
        let mut columns = SharedColumns::default();
        let row = |columns: &mut SharedColumns, names: &[&str]| {
            let layout = columns.lay_out(names.iter());
            let mut out = Vec::new();
            layout.push_row(&mut out, columns.len(), |out, value| {
                out.extend_from_slice(names[value].as_bytes());
                out.push(b',');
            });
            String::from_utf8(out).unwrap()
        };
        assert_eq!(row(&mut columns, &["a", "b", "a"]), "a,b,a,");
        assert_eq!(row(&mut columns, &["c", "b"]), ",b,,c,");
        assert_eq!(row(&mut columns, &["a", "a", "a"]), "a,,a,,a,");
        assert_eq!(columns.names().collect::<Vec<_>>(), ["a", "b", "a", "c", "a"]);
    }
}
