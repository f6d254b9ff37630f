//! The protobuf encoding, appended to a buffer: fields of messages in any order of nesting, without
//! a tree of messages.
//!
//! The encoding is that of <https://protobuf.dev/programming-guides/encoding/>.

use std::borrow::Cow;

use crate::base::text::message::utf8_bytes;
use prost::encoding::encode_varint;

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;

/// Appends an unsigned integer, a bool or an enum.
#[inline]
pub(super) fn put_uint(out: &mut Vec<u8>, field: u32, value: u64) {
    encode_varint(u64::from(field) << 3 | VARINT, out);
    encode_varint(value, out);
}

/// Appends an `int32` or `int64`, which are sign-extended to 64 bits.
#[inline]
pub(super) fn put_int(out: &mut Vec<u8>, field: u32, value: i64) {
    put_uint(out, field, value as u64);
}

/// Appends a `double`.
pub(super) fn put_double(out: &mut Vec<u8>, field: u32, value: f64) {
    encode_varint(u64::from(field) << 3 | FIXED64, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends `bytes`, or an encoded message.
#[inline]
pub(super) fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_length(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends the beginning of a field whose bytes follow.
#[inline]
pub(super) fn put_length(out: &mut Vec<u8>, field: u32, length: usize) {
    encode_varint(u64::from(field) << 3 | BYTES, out);
    encode_varint(length as u64, out);
}

/// Appends a `string`; each byte that is not UTF-8 becomes `\xNN`.
#[inline]
pub(super) fn put_text(out: &mut Vec<u8>, field: u32, text: &[u8]) {
    put_bytes(out, field, &utf8(text));
}

#[inline]
fn utf8(text: &[u8]) -> Cow<'_, [u8]> {
    // A test of whole words, which almost every text passes.
    if text.is_ascii() { Cow::Borrowed(text) } else { utf8_bytes(text) }
}

/// Appends a message that `fill` writes. Its length takes one byte; a message of 128 bytes or more
/// is moved to make room for the others.
#[inline]
pub(super) fn put_message(out: &mut Vec<u8>, field: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    encode_varint(u64::from(field) << 3 | BYTES, out);
    let start = out.len() + 1;
    out.push(0);
    fill(out);
    let length = out.len() - start;
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => {
            if let Some(place) = out.get_mut(start - 1) {
                *place = short;
            }
        }
        _ => widen(out, start, length),
    }
}

/// Writes fields into a slice. The compiler keeps the position in a register, while each byte that
/// is appended to a vector waits for the vector's length in memory: an event has 45 of them.
///
/// A field that does not fit is omitted, which [`FieldWriter::end`] reports.
pub(super) struct FieldWriter<'r> {
    room: &'r mut [u8],
    at: usize,
}

impl<'r> FieldWriter<'r> {
    pub(super) fn new(room: &'r mut [u8]) -> FieldWriter<'r> {
        FieldWriter { room, at: 0 }
    }

    /// Returns the number of bytes that were written, or None if they did not fit.
    #[inline]
    pub(super) fn end(self) -> Option<usize> {
        (self.at <= self.room.len()).then_some(self.at)
    }

    /// Writes a field as [`put_uint`] does.
    #[inline(always)]
    pub(super) fn uint(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3 | VARINT);
        self.varint(value);
    }

    /// Writes a field as [`put_text`] does.
    #[inline(always)]
    pub(super) fn text(&mut self, field: u32, text: &[u8]) {
        let text = &*utf8(text);
        self.varint(u64::from(field) << 3 | BYTES);
        self.varint(text.len() as u64);
        self.bytes(text);
    }

    /// Writes a message as [`put_message`] does.
    #[inline(always)]
    pub(super) fn message(&mut self, field: u32, fill: impl FnOnce(&mut FieldWriter<'r>)) {
        self.varint(u64::from(field) << 3 | BYTES);
        let start = self.at + 1;
        self.at = start;
        fill(self);
        let length = self.at - start;
        if length < 0x80
            && let Some(place) = self.room.get_mut(start - 1)
        {
            *place = length as u8;
        } else {
            self.widen(start, length);
        }
    }

    /// Moves the message at `start` to make room for its length.
    #[cold]
    fn widen(&mut self, start: usize, length: usize) {
        let mut wide = Vec::with_capacity(10);
        encode_varint(length as u64, &mut wide);
        let end = self.at;
        self.at += wide.len() - 1;
        if self.at <= self.room.len() {
            self.room.copy_within(start..end, start - 1 + wide.len());
            self.room[start - 1..][..wide.len()].copy_from_slice(&wide);
        }
    }

    #[inline(always)]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    #[inline(always)]
    fn byte(&mut self, byte: u8) {
        if let Some(place) = self.room.get_mut(self.at) {
            *place = byte;
        }
        self.at += 1;
    }

    #[inline(always)]
    fn bytes(&mut self, bytes: &[u8]) {
        let (start, end) = (self.at, self.at + bytes.len());
        self.at = end;
        let Some(room) = self.room.get_mut(start..end) else { return };
        match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            // Two loads instead of a call of memcpy: names of tasks have at most 15 bytes.
            (Some(first), Some(last)) if bytes.len() <= 16 => {
                room[..8].copy_from_slice(first);
                let tail = room.len() - 8;
                room[tail..].copy_from_slice(last);
            }
            _ => room.copy_from_slice(bytes),
        }
    }
}

/// Replaces the byte before `start` by the length of what follows.
#[cold]
fn widen(out: &mut Vec<u8>, start: usize, length: usize) {
    let mut wide = Vec::with_capacity(10);
    encode_varint(length as u64, &mut wide);
    out.splice(start - 1..start, wide);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_bytes_of_the_specification() {
        let mut out = Vec::new();
        put_uint(&mut out, 1, 150);
        put_int(&mut out, 2, -1);
        put_text(&mut out, 3, b"testing");
        put_text(&mut out, 3, b"\xff");
        put_double(&mut out, 4, 1.0);
        let mut expected = vec![0x08, 0x96, 0x01, 0x10];
        expected.extend([0xff; 9]);
        expected.extend([0x01, 0x1a, 7]);
        expected.extend(b"testing");
        expected.extend([0x1a, 4]);
        expected.extend(br"\xff");
        expected.extend([0x21, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        assert_eq!(out, expected);
    }

    #[test]
    fn a_field_writer_writes_what_a_vector_gets() {
        for length in [0, 7, 8, 15, 16, 17, 127, 128, 300, 16_384] {
            let text: Vec<u8> = (0..length).map(|i| i as u8 | 0x40).collect();
            let mut expected = Vec::new();
            put_message(&mut expected, 2, |out| {
                put_uint(out, 1, u64::MAX);
                put_message(out, 300, |out| put_text(out, 3, &text));
            });
            for room in [0, 5, expected.len() - 1, expected.len(), expected.len() + 9] {
                let mut bytes = vec![0; room];
                let mut writer = FieldWriter::new(&mut bytes);
                writer.message(2, |out| {
                    out.uint(1, u64::MAX);
                    out.message(300, |out| out.text(3, &text));
                });
                let end = writer.end();
                assert_eq!(end, (room >= expected.len()).then_some(expected.len()), "{length}");
                if let Some(end) = end {
                    assert_eq!(bytes[..end], expected, "{length}");
                }
            }
        }
    }

    #[test]
    fn messages_of_any_length_have_their_length_in_front() {
        for length in [0, 127, 128, 16_383, 16_384, 3_000_000] {
            let mut out = Vec::new();
            put_message(&mut out, 5, |out| out.resize(out.len() + length, 7));
            let mut expected = vec![0x2a];
            encode_varint(length as u64, &mut expected);
            expected.resize(expected.len() + length, 7);
            assert!(out == expected, "{length}");
        }
    }
}
