//! The protobuf encoding, appended to a buffer: fields of messages in any order of nesting, without
//! a tree of messages.
//!
//! The encoding is that of <https://protobuf.dev/programming-guides/encoding/>.

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
    encode_varint(u64::from(field) << 3 | BYTES, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a `string`; bytes that are not UTF-8 become U+FFFD.
#[inline]
pub(super) fn put_text(out: &mut Vec<u8>, field: u32, text: &[u8]) {
    match std::str::from_utf8(text) {
        Ok(_) => put_bytes(out, field, text),
        Err(_) => put_bytes(out, field, String::from_utf8_lossy(text).as_bytes()),
    }
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
        expected.extend([0x1a, 3, 0xef, 0xbf, 0xbd, 0x21, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        assert_eq!(out, expected);
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
