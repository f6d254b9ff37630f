//! Values as parameters of SQL.

use crate::base::event::value::Value;
use crate::base::text::digits;
use crate::base::text::message::utf8;
use rusqlite::types::{ToSql, ToSqlOutput, Value as Owned, ValueRef};
use std::borrow::Cow;

/// A field's value. SQLite has signed 64-bit integers only: larger unsigned values are their
/// negative counterparts; an array is text, `[1,2]`.
pub(super) struct SqlParameter<'a>(pub(super) Value<'a>);

impl ToSql for SqlParameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let integer = |value: i64| ToSqlOutput::Owned(Owned::Integer(value));
        Ok(match &self.0 {
            Value::Int(value) => integer(*value),
            Value::Uint(value) | Value::Pointer(value) => integer(value.cast_signed()),
            Value::Float(value) => ToSqlOutput::Owned(Owned::Real(*value)),
            Value::Text(text) => text_parameter(text),
            Value::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Value::Array { .. } => {
                let mut text = vec![b'['];
                for (i, element) in self.0.elements().enumerate() {
                    if i > 0 {
                        text.push(b',');
                    }
                    digits::push_i128(&mut text, element);
                }
                text.push(b']');
                ToSqlOutput::Owned(Owned::Text(String::from_utf8_lossy(&text).into_owned()))
            }
        })
    }
}

/// Returns text as a parameter. Bytes that are not UTF-8 are escaped as `\xNN`: SQLite stores any
/// bytes, but other programs fail to read such a column.
pub(super) fn text_parameter(text: &[u8]) -> ToSqlOutput<'_> {
    match utf8(text) {
        Cow::Borrowed(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        Cow::Owned(text) => ToSqlOutput::Owned(Owned::Text(text)),
    }
}

/// Returns a name in quotes, as SQL takes any name.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
