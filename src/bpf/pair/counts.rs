//! Writes the counts in the programs of pairs.

use super::layout::PairLayout;
use super::writer::PairWriter;
use super::{PairCount, PairSum};
use crate::bpf::assembler::BpfRegister::*;
use crate::bpf::assembler::{AccessSize, JumpIf};
use crate::bpf::count::{add_to_sum, find_row, find_table};
use crate::bpf::expression::ExpressionWriter;
use crate::bpf::map_access::{INDEX_AT, look_up_at};

impl PairWriter<'_> {
    pub(super) fn counts(&mut self, counts: &[PairCount]) -> Option<()> {
        counts.iter().try_for_each(|count| self.count(count))
    }

    /// Adds to a count. Changes R8.
    fn count(&mut self, count: &PairCount) -> Option<()> {
        let [found, next] = [(); 2].map(|()| self.code.label());
        if let Some(condition) = &count.condition {
            ExpressionWriter::new(self.code).condition(condition, next)?;
        }
        find_table(self.code, self.maps.tables, next);
        let row = self.stack.row;
        let tag = i32::try_from(PairLayout::tag(count.number)).ok()?;
        self.code.store_constant(AccessSize::B8, R10, row, tag);
        self.store_row(&count.key)?;
        find_row(self.code, row, self.layout.row_bytes(), self.maps.added, found);
        self.find_rest(self.layout.rest_rows());
        self.code.add_constant(R1, i32::try_from(1 + count.number).ok()?);
        self.code.store(AccessSize::B4, R10, INDEX_AT, R1);
        look_up_at(self.code, self.maps.rest, INDEX_AT);
        self.code.jump_if(JumpIf::Equal, R0, 0, next);
        self.code.place(found);
        self.code.copy(R8, R0);
        self.code.load(AccessSize::B8, R1, R8, 0);
        self.code.add_constant(R1, 1);
        self.code.store(AccessSize::B8, R8, 0, R1);
        self.add_sums(count)?;
        self.code.place(next);
        Some(())
    }

    /// Adds the values of a count to the sums of the row in R8.
    fn add_sums(&mut self, count: &PairCount) -> Option<()> {
        let layout = self.layout.counts.get(count.number)?;
        for (column, sum) in count.sums.iter().enumerate() {
            if layout.constant(column).is_some() {
                continue;
            }
            let of = match sum {
                PairSum::Own(value, of) => {
                    ExpressionWriter::new(self.code).value(value)?;
                    of
                }
                PairSum::Kept(index, of) => {
                    let at = self.kept_at(*index)?;
                    self.code.load(AccessSize::B8, R1, R10, at);
                    of
                }
            };
            add_to_sum(self.code, layout.sum_at(column), of.signed)?;
        }
        Some(())
    }
}
