//! Plans the parts of the events of pairs: what a start keeps, and what is counted.

use super::Reason;
use super::pair_plan::{PairPlan, PlannedSide, integer, shape, typed_integer, unsigned};
use crate::bpf::count::CountLayout;
use crate::bpf::integer::IntegerWidth;
use crate::bpf::key::{KeyPart, KeyShape};
use crate::bpf::pair::long::LongPairs;
use crate::bpf::pair::{PairCount, PairDrop, PairFinish, PairPart, PairStart, PairSum, RowPart};
use crate::decode::format::Format;
use crate::script::evsel::declared_pairs::{KeptField, PairMoment, PairSide, PairTarget};

/// The number of the count of the pairs themselves.
const PAIRS: usize = 0;

impl PairPlan<'_> {
    pub(super) fn start(
        &mut self,
        of: PlannedSide<'_>,
        format: &Format,
    ) -> Result<PairPart, Reason> {
        let side = of.side;
        let (mut kept, mut types) = (Vec::new(), Vec::new());
        for field in &self.declared.fields {
            let text = match field {
                KeptField::Same => side.same.as_ref(),
                KeptField::Column(column) => own(side, *column),
            };
            let text = text.ok_or("a value is missing")?;
            kept.push(self.part(text, format)?);
            types.push(match field {
                KeptField::Column(column) if *column >= self.keys() => {
                    Some(typed_integer(text, format)?.1)
                }
                _ => None,
            });
        }
        self.layout.kept = shape(&self.layout.kept, KeyShape::of(&kept))?;
        self.add_types(types)?;
        let mut counts = self.counts(PairMoment::Start, format)?;
        if let PairTarget::Rows { starts: true, .. } = self.declared.target {
            counts.push(self.row(side, format, |_| None)?);
        }
        let is_end = self.declared.finishes.iter().any(|end| end.evsel == side.evsel);
        let copied = self.copied(of, format)?;
        Ok(PairPart::Start(PairStart { kept, counts, once: side.once, is_end, copied }))
    }

    pub(super) fn drop_start(
        &mut self,
        of: PlannedSide<'_>,
        format: &Format,
    ) -> Result<PairPart, Reason> {
        let last = of.side.last.as_ref().map(|text| integer(text, format)).transpose()?;
        self.removes_ended |= last.is_some();
        Ok(PairPart::Drop(PairDrop { last }))
    }

    pub(super) fn finish(
        &mut self,
        of: PlannedSide<'_>,
        format: &Format,
    ) -> Result<PairPart, Reason> {
        let side = of.side;
        let fields = &self.declared.fields;
        let kept = |wanted: KeptField| fields.iter().position(|field| *field == wanted);
        let same = match (&side.same, kept(KeptField::Same)) {
            (Some(text), Some(index)) => Some((integer(text, format)?, index)),
            _ => None,
        };
        let (mut counts, singles) =
            (self.counts(PairMoment::Pair, format)?, self.counts(PairMoment::Single, format)?);
        let of_column = |column| kept(KeptField::Column(column));
        let row = match self.declared.target {
            PairTarget::Delays(_) => {
                let row = self.key(side, format, of_column)?;
                self.layout.row = shape(&self.layout.row, self.shape_of(&row))?;
                Some(row)
            }
            PairTarget::Rows { .. } => {
                counts.push(self.row(side, format, of_column)?);
                None
            }
        };
        let longer_ns = self.declared.longer_ns;
        let value = side.value.as_ref().map(|text| unsigned(text, format)).transpose()?;
        let long = self.declared.than_ns.zip(self.copied(of, format)?);
        let long = long.map(|(than_ns, copied)| LongPairs { than_ns, copied });
        let strict = self.declared.strict;
        let finish = PairFinish { value, same, row, longer_ns, counts, singles, strict, long };
        Ok(PairPart::Finish(finish))
    }

    /// Returns the number of columns that are not sums.
    fn keys(&self) -> usize {
        let sums = match self.declared.target {
            PairTarget::Delays(_) => 0,
            PairTarget::Rows { sums, .. } => sums,
        };
        self.declared.present.len().saturating_sub(sums)
    }

    /// Adds the types of the kept values of a start; the sums of all starts have the same sign.
    fn add_types(&mut self, types: Vec<Option<IntegerWidth>>) -> Result<(), Reason> {
        let is_signed = |of: &Option<IntegerWidth>| of.map(|of| of.signed);
        let known = self.kept_types.iter().map(is_signed);
        if !self.kept_types.is_empty() && !known.eq(types.iter().map(is_signed)) {
            return Err("only some of its summed values may be negative".to_owned());
        }
        self.kept_types = types;
        Ok(())
    }

    /// Returns the key of an event: its own values, and kept ones, whose index `kept` returns for a
    /// column.
    fn key(
        &self,
        side: &PairSide,
        format: &Format,
        kept: impl Fn(usize) -> Option<usize>,
    ) -> Result<Vec<RowPart>, Reason> {
        let is_present = |column: &usize| self.declared.present.get(*column) == Some(&true);
        let columns = (0..self.keys()).filter(is_present);
        let value = |column| match (own(side, column), kept(column)) {
            (Some(text), None) => Ok(RowPart::Own(self.part(text, format)?)),
            (None, Some(index)) => Ok(RowPart::Kept(index)),
            _ => Err(DIFFERENT.to_owned()),
        };
        columns.map(value).collect()
    }

    /// Returns the count of an event in the row of the pairs; `kept` is as for [`PairPlan::key`].
    fn row(
        &mut self,
        side: &PairSide,
        format: &Format,
        kept: impl Fn(usize) -> Option<usize>,
    ) -> Result<PairCount, Reason> {
        let key = self.key(side, format, &kept)?;
        let sum = |column| match (own(side, column), kept(column)) {
            (Some(text), None) => {
                let (value, of) = typed_integer(text, format)?;
                Ok(PairSum::Own(value, of))
            }
            (None, Some(index)) => {
                let of = self.kept_types.get(index).copied().flatten();
                Ok(PairSum::Kept(index, of.unwrap_or(IntegerWidth::ULONG)))
            }
            _ => Err(DIFFERENT.to_owned()),
        };
        let sums = (self.keys()..self.declared.present.len()).map(sum);
        let sums = sums.collect::<Result<Vec<_>, Reason>>()?;
        self.add_count(PairCount { number: PAIRS, condition: None, key, sums })
    }

    /// Returns the declared counts of events of one kind.
    fn counts(&mut self, of: PairMoment, format: &Format) -> Result<Vec<PairCount>, Reason> {
        let declared = self.declared;
        let all = declared.counts.iter().enumerate().filter(|(_, count)| count.of == of);
        let mut counts = Vec::new();
        for (index, count) in all {
            let key = count.keys.iter().map(|text| Ok(RowPart::Own(self.part(text, format)?)));
            let key = key.collect::<Result<Vec<_>, Reason>>()?;
            let condition = count.condition.as_ref().map(|text| integer(text, format));
            let (number, condition) = (declared.own_counts() + index, condition.transpose()?);
            counts.push(self.add_count(PairCount { number, condition, key, sums: Vec::new() })?);
        }
        Ok(counts)
    }

    /// Adds the shape of a count to the layout.
    fn add_count(&mut self, count: PairCount) -> Result<PairCount, Reason> {
        let new = self.shape_of(&count.key);
        let all = self.declared.own_counts() + self.declared.counts.len();
        self.layout.counts.resize(all, CountLayout::default());
        if let Some(known) = self.layout.counts.get_mut(count.number) {
            known.key = shape(&known.key, new)?;
            known.sums = count.sums.len();
        }
        Ok(count)
    }

    fn shape_of(&self, key: &[RowPart]) -> KeyShape {
        let parts = key.iter().filter_map(|part| match part {
            RowPart::Own(part) => Some(KeyPart::shape(part)),
            RowPart::Kept(index) => self.layout.kept.parts.get(*index).copied(),
        });
        KeyShape { parts: parts.collect() }
    }
}

/// Returns the expression of an event for a column.
fn own(side: &PairSide, column: usize) -> Option<&String> {
    side.rows.get(column).and_then(Option::as_ref)
}

/// Why the ends do not share a table.
const DIFFERENT: &str = "its ends have different columns";
