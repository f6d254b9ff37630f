//! Buckets of delays: those of a histogram of two significant digits, as `stat::latency` has them.
//!
//! Delays below 256 ns have buckets of their own; from there on, each power of two has 128. A
//! bucket's number is `128 * shift + (delay >> shift)`, where `shift` leaves 8 bits of the delay.
//! Above [`LONGEST_NS`], where that histogram ends, each power of two is one bucket: the values of
//! other histograms may be larger.

use super::assembler::BpfRegister::{self, *};
use super::assembler::{Assembler, BpfAlu, JumpIf};

/// The longest delay of such a histogram, 4.9 hours.
pub const LONGEST_NS: u64 = 1 << LONGEST_BITS;
const LONGEST_BITS: u32 = 44;
/// The bucket of [`LONGEST_NS`].
const LONGEST_BUCKET: usize = 128 * 37 + 128;

/// Number of buckets.
pub const BUCKETS: usize = LONGEST_BUCKET + (u64::BITS - LONGEST_BITS) as usize;

/// `shift` leaves one bit more of a delay than this.
const PRECISION: u32 = 7;

/// Returns the bucket of a delay.
pub fn bucket_of(ns: u64) -> usize {
    if ns > LONGEST_NS {
        return LONGEST_BUCKET + (ns.ilog2() - LONGEST_BITS) as usize;
    }
    let shift = (ns >> PRECISION | 1).ilog2();
    128 * shift as usize + (ns >> shift) as usize
}

/// Returns the shortest delay of a bucket.
pub fn shortest(bucket: usize) -> u64 {
    if bucket > LONGEST_BUCKET {
        return 1 << (LONGEST_BITS as usize + bucket - LONGEST_BUCKET).min(63);
    }
    let shift = (bucket / 128).saturating_sub(1);
    ((bucket - 128 * shift) as u64) << shift
}

/// Appends instructions that set R3 to the bucket of the delay in R1; they change R1, R2 and R4.
pub(super) fn find_bucket(code: &mut Assembler) {
    let [is_in_range, is_small, found] = [(); 3].map(|()| code.label());
    code.set_long(R2, LONGEST_NS);
    code.jump_if_register(JumpIf::LessEqual, R1, R2, is_in_range);
    code.copy(R2, R1);
    code.alu_constant(BpfAlu::ShiftRight, R2, LONGEST_BITS as i32);
    code.set(R3, 0);
    [16, 8, 4, 2, 1].into_iter().for_each(|bits| shift_if_larger(code, bits));
    code.add_constant(R3, LONGEST_BUCKET as i32);
    code.jump(found);
    code.place(is_in_range);
    // BPF has no instruction that counts zeros: the shift is the sum of halves.
    code.copy(R2, R1);
    code.alu_constant(BpfAlu::ShiftRight, R2, PRECISION as i32);
    code.set(R3, 0);
    code.jump_if(JumpIf::Less, R2, 1 << 8, is_small);
    let end = code.label();
    code.copy(R4, R2);
    code.alu_constant(BpfAlu::ShiftRight, R4, 32);
    code.jump_if(JumpIf::Equal, R4, 0, end);
    shift(code, R2, 32);
    code.place(end);
    [16, 8].into_iter().for_each(|bits| shift_if_larger(code, bits));
    code.place(is_small);
    [4, 2, 1].into_iter().for_each(|bits| shift_if_larger(code, bits));
    code.alu(BpfAlu::ShiftRight, R1, R3);
    code.shift_left(R3, PRECISION as i32);
    code.add(R3, R1);
    code.place(found);
}

fn shift_if_larger(code: &mut Assembler, bits: i32) {
    let end = code.label();
    code.jump_if(JumpIf::Less, R2, 1 << bits, end);
    shift(code, R2, bits);
    code.place(end);
}

fn shift(code: &mut Assembler, value: BpfRegister, bits: i32) {
    code.alu_constant(BpfAlu::ShiftRight, value, bits);
    code.add_constant(R3, bits);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        for bucket in 0..BUCKETS {
            let first = shortest(bucket);
            assert_eq!(bucket_of(first), bucket);
            assert!(bucket == 0 || bucket_of(first - 1) == bucket - 1, "{bucket}");
        }
        assert_eq!(shortest(LONGEST_BUCKET), LONGEST_NS);
        assert_eq!(bucket_of(LONGEST_NS + 1), LONGEST_BUCKET);
        assert_eq!((shortest(BUCKETS - 1), bucket_of(u64::MAX)), (1 << 63, BUCKETS - 1));
    }

    #[test]
    fn a_bucket_is_at_most_a_128th_of_its_delays_wide() {
        for (ns, first, next) in
            [(0, 0, 1), (255, 255, 256), (256, 256, 258), (1000, 1000, 1004), (1 << 43, 1 << 43, 0)]
        {
            assert_eq!(shortest(bucket_of(ns)), first);
            assert!(next == 0 || shortest(bucket_of(ns) + 1) == next, "{ns}");
        }
    }
}
