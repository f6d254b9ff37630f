//! Instructions that write a record to a perf event, and count what could not be written.

use super::assembler::BpfRegister::*;
use super::assembler::{AccessSize, Assembler, BpfHelper, JumpIf, Label};

/// Offset in the counters of the number of records that could not be written.
pub(super) const FAILED_AT: i16 = 0;

/// `ENOENT`: the array has no event for this CPU, which is not watched.
const NOT_ON_THIS_CPU: i32 = 2;
/// `EOPNOTSUPP`: the event of this CPU is off.
const NOT_ENABLED: i32 = 95;
/// `ENOSPC`, counted by `PERF_FORMAT_LOST`.
pub(super) const RING_IS_FULL: i32 = 28;

/// Writes the record that R1 to R5 describe, the arguments of `bpf_perf_event_output`. A failure
/// that nothing else shows is counted in the map `counts`. Jumps to `out` or ends before it.
pub(super) fn write_record(code: &mut Assembler, counts: i32, out: Label) {
    code.call(BpfHelper::PerfOutput);
    code.jump_if(JumpIf::SignedGreaterEqual, R0, 0, out);
    for uncounted in [NOT_ON_THIS_CPU, NOT_ENABLED, RING_IS_FULL] {
        code.jump_if(JumpIf::Equal, R0, -uncounted, out);
    }
    increment(code, counts, FAILED_AT);
}

/// Sets R0 to the address of this CPU's value in an array of one entry; 0 never happens, but has to
/// be checked. Changes R1 to R5.
pub(super) fn look_up(code: &mut Assembler, map: i32) {
    code.store_constant(AccessSize::B4, R10, -4, 0);
    code.set_map(R1, map);
    code.copy(R2, R10);
    code.add_constant(R2, -4);
    code.call(BpfHelper::MapLookup);
}

/// Adds 1 to a counter; changes R0 to R5.
fn increment(code: &mut Assembler, counts: i32, counter: i16) {
    let end = code.label();
    look_up(code, counts);
    code.jump_if(JumpIf::Equal, R0, 0, end);
    code.load(AccessSize::B8, R1, R0, counter);
    code.add_constant(R1, 1);
    code.store(AccessSize::B8, R0, counter, R1);
    code.place(end);
}
