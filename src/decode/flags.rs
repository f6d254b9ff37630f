//! The flags column of an event line, from `common_flags` and `common_preempt_count`, in ftrace's
//! letters.
//!
//! Bits are those of the kernel's `enum trace_flag_type`, letters those of its latency format
//! (Documentation/trace/ftrace.rst).

const IRQS_OFF: u8 = 0x01;
const NEED_RESCHED_LAZY: u8 = 0x02;
const NEED_RESCHED: u8 = 0x04;
const HARDIRQ: u8 = 0x08;
const SOFTIRQ: u8 = 0x10;
const PREEMPT_RESCHED: u8 = 0x20;
const NMI: u8 = 0x40;
const BH_OFF: u8 = 0x80;

/// Shown for an event without these fields.
pub const UNKNOWN: [u8; 4] = *b"....";

/// Returns the letters for interrupts, need for rescheduling and context, and the depth of disabled
/// preemption.
pub fn letters(flags: u8, preempt_count: u8) -> [u8; 4] {
    let has = |bits| flags & bits == bits;
    let interrupts = match (has(IRQS_OFF), has(BH_OFF)) {
        (true, true) => b'D',
        (true, false) => b'd',
        (false, true) => b'b',
        (false, false) => b'.',
    };
    let resched = match (has(NEED_RESCHED), has(NEED_RESCHED_LAZY), has(PREEMPT_RESCHED)) {
        (true, true, true) => b'B',
        (true, false, true) => b'N',
        (false, true, true) => b'L',
        (true, true, false) => b'b',
        (true, false, false) => b'n',
        (false, true, false) => b'l',
        (false, false, true) => b'p',
        (false, false, false) => b'.',
    };
    let context = match (has(NMI), has(HARDIRQ), has(SOFTIRQ)) {
        (true, true, _) => b'Z',
        (true, false, _) => b'z',
        (false, true, true) => b'H',
        (false, true, false) => b'h',
        (false, false, true) => b's',
        (false, false, false) => b'.',
    };
    let depth = match preempt_count & 0xf {
        0 => b'.',
        n @ 1..=9 => b'0' + n,
        n => b'a' + n - 10,
    };
    [interrupts, resched, context, depth]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_those_of_the_latency_format() {
        for (flags, count, expected) in [
            (0, 0, "...."),
            (IRQS_OFF, 0, "d..."),
            (IRQS_OFF | HARDIRQ, 1, "d.h1"),
            (NEED_RESCHED | PREEMPT_RESCHED, 0, ".N.."),
            (BH_OFF | SOFTIRQ, 0x21, "b.s1"),
            (NMI | HARDIRQ | IRQS_OFF | BH_OFF | NEED_RESCHED_LAZY, 12, "DlZc"),
        ] {
            assert_eq!(std::str::from_utf8(&letters(flags, count)), Ok(expected));
        }
    }
}
