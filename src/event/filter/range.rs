//! Numbers that the kernel would truncate to the width of the field that they are compared with.

use super::check::{Class, Subject};
use super::{Filter, FilterOperand, Op, Predicate};
use crate::decode::format::{Field, Format};

impl Filter {
    /// Returns whether the kernel would compare with another number than the one that was typed:
    /// `len > 300` with 44 if `len` has 8 bits. As in the kernel, and not as in C, `==` and `!=`
    /// compare the bits of a field of at least 32: 4294967295 equals the -1 of an int.
    pub fn truncates_number(&self, format: &Format) -> bool {
        self.root.has(&|predicate| predicate.truncates_number(format))
    }
}

impl Predicate {
    fn truncates_number(&self, format: &Format) -> bool {
        match (&self.value, self.subject(format)) {
            (FilterOperand::Number { value, .. }, Some(Subject::Field(field, Class::Number))) => {
                !fits(*value, field, self.op)
            }
            _ => false,
        }
    }
}

/// Returns whether a number may be compared with a field in the field's width.
fn fits(value: i128, field: &Field, op: Op) -> bool {
    let bits = 8 * field.size as u32;
    if !(8..=64).contains(&bits) {
        return true;
    }
    let (signed, unsigned) = (-(1i128 << (bits - 1))..1 << (bits - 1), 0..1i128 << bits);
    match op {
        Op::Mask => unsigned.contains(&value) || field.signed && signed.contains(&value),
        // C extends a field of less than an int.
        Op::Equal | Op::Unequal if bits >= 32 => {
            unsigned.contains(&value) || signed.contains(&value)
        }
        _ if field.signed => signed.contains(&value),
        _ => unsigned.contains(&value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_beyond_the_field_is_truncated() {
        let format = Format::parse(
            "name: test\nID: 1\nfield:signed char a; offset:8; size:1; signed:1;\n\
             field:unsigned char b; offset:9; size:1; signed:0;\n\
             field:int e; offset:12; size:4; signed:1;\n\
             field:unsigned int f; offset:16; size:4; signed:0;\n\
             field:unsigned long g; offset:24; size:8; signed:0;\n",
        )
        .unwrap();
        for (filter, truncated) in [
            ("a == -1", false),
            ("a == 255", true),
            ("a & 128", false),
            ("a & 256", true),
            ("b < 256", true),
            ("b <= 255", false),
            ("b == -1", true),
            ("e == -1 || e == 4294967295", false),
            ("e == 4294967416", true),
            ("e < 4294967290", true),
            ("e & 0x80000000", false),
            ("f == -1", false),
            ("f > -1", true),
            ("f < 5000000000", true),
            ("e > 0 && !(b > 300)", true),
            ("g == 0xffffffffffffffff", false),
            ("CPU == 3 && COMM == \"a\"", false),
        ] {
            let parsed = Filter::parse(filter).unwrap();
            assert_eq!(parsed.truncates_number(&format), truncated, "{filter}");
        }
    }
}
