//! The columns of a table as the schema of a file has them.

use super::column::ParquetColumn;
use super::column_kind::ColumnKind;
use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::Result;
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

impl ParquetColumn {
    /// Returns its type in the schema of a file.
    ///
    /// # Errors
    /// The name cannot be a column's name.
    pub(super) fn schema(&self) -> Result<TypePtr> {
        let scalar = |name: &str, required: bool| {
            let (physical, logical, converted) = match self.kind {
                ColumnKind::Bool => (Physical::BOOLEAN, None, ConvertedType::NONE),
                ColumnKind::Double => (Physical::DOUBLE, None, ConvertedType::NONE),
                ColumnKind::Bytes => (Physical::BYTE_ARRAY, None, ConvertedType::NONE),
                ColumnKind::Text | ColumnKind::Texts => {
                    (Physical::BYTE_ARRAY, Some(LogicalType::String), ConvertedType::UTF8)
                }
                ColumnKind::Uint | ColumnKind::Uints => {
                    (Physical::INT64, Some(LogicalType::integer(64, false)), ConvertedType::UINT_64)
                }
                ColumnKind::Time => {
                    let time = LogicalType::timestamp(true, TimeUnit::MICROS);
                    (Physical::INT64, Some(time), ConvertedType::TIMESTAMP_MICROS)
                }
                _ => (Physical::INT64, None, ConvertedType::NONE),
            };
            let repetition = if required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
            let built = Type::primitive_type_builder(name, physical).with_repetition(repetition);
            built.with_logical_type(logical).with_converted_type(converted).build().map(Arc::new)
        };
        if !self.kind.is_list() {
            return scalar(&self.name, self.required);
        }
        let element = match self.kind {
            ColumnKind::Buckets => {
                let part = |name| {
                    let part = Type::primitive_type_builder(name, Physical::INT64);
                    part.with_repetition(Repetition::REQUIRED).build().map(Arc::new)
                };
                let parts = vec![part("low")?, part("high")?, part("count")?];
                group("element", Repetition::REQUIRED, parts, None)?
            }
            _ => scalar("element", true)?,
        };
        let list = group("list", Repetition::REPEATED, vec![element], None)?;
        group(&self.name, Repetition::OPTIONAL, vec![list], Some(LogicalType::List))
    }

    /// Returns the paths of its columns of integers that `parquet` encodes.
    pub(super) fn integer_paths(&self) -> Vec<Vec<String>> {
        use ColumnKind::{Buckets, Ints, Uints};
        let path = |parts: &[&str]| {
            [self.name.as_str()].iter().chain(parts).map(|part| (*part).to_owned()).collect()
        };
        match self.kind {
            Ints | Uints => vec![path(&["list", "element"])],
            Buckets => ["low", "high", "count"].map(|part| path(&["list", "element", part])).into(),
            _ => Vec::new(),
        }
    }

    /// Returns the number of columns of plain values that it has in a file.
    pub(super) fn leaves(&self) -> usize {
        match self.kind {
            ColumnKind::Unknown => 0,
            ColumnKind::Buckets => 3,
            _ => 1,
        }
    }
}

fn group(
    name: &str,
    repetition: Repetition,
    fields: Vec<TypePtr>,
    logical: Option<LogicalType>,
) -> Result<TypePtr> {
    let converted = logical.as_ref().map_or(ConvertedType::NONE, |_| ConvertedType::LIST);
    let built = Type::group_type_builder(name).with_repetition(repetition).with_fields(fields);
    built.with_logical_type(logical).with_converted_type(converted).build().map(Arc::new)
}
