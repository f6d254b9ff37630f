//! `PERF_SAMPLE_DATA_SRC`: the parts of `union perf_mem_data_src` as text.
//!
//! Source: `PERF_MEM_*` in `include/uapi/linux/perf_event.h`.

/// A part of a data source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPart {
    /// Kind of access: `load`, `store`.
    Op,
    /// Where the data was found: `L3 hit`, `remote RAM`.
    Level,
    /// Result of the snoop of other caches.
    Snoop,
    /// How the address was translated: `L1 TLB hit`.
    Tlb,
    /// Whether the access was locked.
    Lock,
}

/// Bits of one member: its offset, and the names of its bits from the lowest on.
type Member = (u32, &'static [&'static str]);

const OP: Member = (0, &["", "load", "store", "prefetch", "exec"]);
const SNOOP: Member = (19, &["", "none", "hit", "miss", "hit modified"]);
const LOCK: Member = (24, &["", "locked"]);
const TLB: Member = (26, &["", "hit", "miss", "L1", "L2", "walker", "fault"]);
const SNOOP_X: Member = (38, &["forwarded", "peer"]);

/// `mem_lvl`: before `mem_lvl_num` was added in 4.14, and beside it for compatibility.
const LEVEL: Member = (
    5,
    &[
        "",
        "hit",
        "miss",
        "L1",
        "LFB",
        "L2",
        "L3",
        "RAM",
        "remote RAM 1 hop",
        "remote RAM 2 hops",
        "remote cache 1 hop",
        "remote cache 2 hops",
        "I/O",
        "uncached",
    ],
);

/// `mem_lvl_num`, bits 33 to 36.
fn level_number(number: u64) -> Option<&'static str> {
    Some(match number {
        1 => "L1",
        2 => "L2",
        3 => "L3",
        4 => "L4",
        5 => "L2 MHB",
        6 => "memory-side cache",
        7 => "L0",
        8 => "uncached",
        9 => "CXL",
        10 => "I/O",
        11 => "any cache",
        12 => "LFB",
        13 => "RAM",
        14 => "PMEM",
        _ => return None,
    })
}

impl MemoryPart {
    /// Appends the part of a data source as text: the kernel's names, `n/a` if the PMU did not
    /// report it.
    pub fn push(self, value: u64, out: &mut Vec<u8>) {
        let start = out.len();
        match self {
            MemoryPart::Op => push_bits(value, OP, out),
            MemoryPart::Level => push_level(value, out),
            MemoryPart::Snoop => {
                push_bits(value, SNOOP, out);
                push_bits(value, SNOOP_X, out);
            }
            MemoryPart::Tlb => push_bits(value, TLB, out),
            MemoryPart::Lock => push_bits(value, LOCK, out),
        }
        if out.len() == start {
            out.extend_from_slice(b"n/a");
        }
    }
}

/// Appends the level by its number, with `remote` and whether it was a hit; without a number, the
/// bits of `mem_lvl`.
fn push_level(value: u64, out: &mut Vec<u8>) {
    let Some(name) = level_number(value >> 33 & 0xf) else { return push_bits(value, LEVEL, out) };
    if value >> 37 & 1 != 0 {
        push_name("remote", out);
    }
    push_name(name, out);
    let (at, names) = LEVEL;
    push_bits(value, (at, &names[..3]), out);
}

fn push_bits(value: u64, (at, names): Member, out: &mut Vec<u8>) {
    for (bit, name) in names.iter().enumerate() {
        if !name.is_empty() && value >> (at + bit as u32) & 1 != 0 {
            push_name(name, out);
        }
    }
}

fn push_name(name: &str, out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(b' ');
    }
    out.extend_from_slice(name.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event_open_sys::bindings as abi;

    fn text(part: MemoryPart, value: u64) -> String {
        let mut out = Vec::new();
        part.push(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// Returns a data source whose members are as the macro `PERF_MEM_S` sets them.
    fn source(members: &[(u32, u32)]) -> u64 {
        members.iter().fold(0, |all, (bits, shift)| all | u64::from(*bits) << shift)
    }

    #[test]
    fn each_part_has_the_names_of_its_bits() {
        let value = source(&[
            (abi::PERF_MEM_OP_LOAD, abi::PERF_MEM_OP_SHIFT),
            (abi::PERF_MEM_LVL_HIT | abi::PERF_MEM_LVL_L3, abi::PERF_MEM_LVL_SHIFT),
            (abi::PERF_MEM_SNOOP_HITM, abi::PERF_MEM_SNOOP_SHIFT),
            (abi::PERF_MEM_SNOOPX_FWD, abi::PERF_MEM_SNOOPX_SHIFT),
            (abi::PERF_MEM_TLB_HIT | abi::PERF_MEM_TLB_L2, abi::PERF_MEM_TLB_SHIFT),
            (abi::PERF_MEM_LOCK_LOCKED, abi::PERF_MEM_LOCK_SHIFT),
        ]);
        assert_eq!(text(MemoryPart::Op, value), "load");
        assert_eq!(text(MemoryPart::Level, value), "hit L3");
        assert_eq!(text(MemoryPart::Snoop, value), "hit modified forwarded");
        assert_eq!(text(MemoryPart::Tlb, value), "hit L2");
        assert_eq!(text(MemoryPart::Lock, value), "locked");
    }

    #[test]
    fn the_number_of_the_level_precedes_its_bits() {
        let value = source(&[
            (abi::PERF_MEM_LVL_HIT | abi::PERF_MEM_LVL_REM_RAM1, abi::PERF_MEM_LVL_SHIFT),
            (abi::PERF_MEM_LVLNUM_RAM, abi::PERF_MEM_LVLNUM_SHIFT),
            (abi::PERF_MEM_REMOTE_REMOTE, abi::PERF_MEM_REMOTE_SHIFT),
        ]);
        assert_eq!(text(MemoryPart::Level, value), "remote RAM hit");
    }

    #[test]
    fn a_part_that_the_pmu_did_not_report_is_not_available() {
        // PERF_MEM_NA: the kernel's value for an event without a data source.
        let none = source(&[
            (abi::PERF_MEM_OP_NA, abi::PERF_MEM_OP_SHIFT),
            (abi::PERF_MEM_LVL_NA, abi::PERF_MEM_LVL_SHIFT),
            (abi::PERF_MEM_SNOOP_NA, abi::PERF_MEM_SNOOP_SHIFT),
            (abi::PERF_MEM_LOCK_NA, abi::PERF_MEM_LOCK_SHIFT),
            (abi::PERF_MEM_TLB_NA, abi::PERF_MEM_TLB_SHIFT),
            (abi::PERF_MEM_LVLNUM_NA, abi::PERF_MEM_LVLNUM_SHIFT),
        ]);
        for part in [
            MemoryPart::Op,
            MemoryPart::Level,
            MemoryPart::Snoop,
            MemoryPart::Tlb,
            MemoryPart::Lock,
        ] {
            assert_eq!(text(part, none), "n/a", "{part:?}");
            assert_eq!(text(part, 0), "n/a", "{part:?}");
        }
    }
}
