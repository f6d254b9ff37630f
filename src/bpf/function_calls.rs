//! The program that writes a sample for each call of many functions.
//!
//! It is attached to all of them at once, with a number for each (its cookie): the index of the
//! function's first perf event in an array of events, one per function and CPU. The kernel adds to
//! the sample what the event's `sample_type` requests, from the registers at the call. The program
//! always returns 0: `uprobe_multi` before 6.13 passes its result on, and 1 would remove the probe
//! (`uprobe_multi_link_handler()`, kernel/trace/bpf_trace.c).

use super::assembler::BpfRegister::*;
use super::assembler::{AccessSize, Assembler, BpfHelper, JumpIf};
use super::record_output::write_record;

/// File descriptors of the maps of a program.
#[derive(Clone, Copy, Debug)]
pub struct FunctionCallMaps {
    /// An array of one set of counters per CPU
    /// ([`UserTextCounts`](super::user_text::UserTextCounts)).
    pub counts: i32,
    /// The array of perf events to which it writes.
    pub events: i32,
}

/// Returns the program. It writes nothing for the threads `own`, in the kernel's numbers; None if
/// there are too many of them.
pub fn program(maps: FunctionCallMaps, own: &[i32]) -> Option<Vec<u64>> {
    let mut code = Assembler::default();
    let out = code.label();
    code.copy(R6, R1);
    if !own.is_empty() {
        code.call(BpfHelper::CurrentTask);
        code.copy_low(R7, R0);
        for tid in own {
            code.jump_if(JumpIf::Equal, R7, *tid, out);
        }
        code.copy(R1, R6);
    }
    code.call(BpfHelper::AttachCookie);
    code.copy(R8, R0);
    code.call(BpfHelper::ProcessorId);
    code.add(R8, R0);
    // The sample has no raw data, but the kernel requires some.
    code.store_constant(AccessSize::B8, R10, -8, 0);
    code.copy(R1, R6);
    code.set_map(R2, maps.events);
    code.copy(R3, R8);
    code.copy(R4, R10);
    code.add_constant(R4, -8);
    code.set(R5, 8);
    write_record(&mut code, maps.counts, out);
    code.place(out);
    code.set(R0, 0);
    code.exit();
    code.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: FunctionCallMaps = FunctionCallMaps { counts: 4, events: 5 };

    /// Opcodes of a call and of its number: `BPF_JMP | BPF_CALL`.
    fn calls(code: &[u64]) -> Vec<u64> {
        let calls = code.iter().filter(|one| **one & 0xff == 0x85);
        calls.map(|one| one >> 32).collect()
    }

    #[test]
    fn the_event_is_that_of_the_function_and_the_cpu() {
        let code = program(MAPS, &[]).unwrap();
        let (cookie, cpu, output, look_up) = (174, 8, 25, 1);
        assert_eq!(calls(&code), [cookie, cpu, output, look_up]);
        // r6 = r1; call; r8 = r0; call; r8 += r0.
        assert_eq!(code[0], 0x16bf);
        assert_eq!(code[2], 0x08bf);
        assert_eq!(code[4], 0x080f);
        let index = code.iter().position(|one| *one == 0x83bf).unwrap();
        let output = code.iter().position(|one| *one == 0x19_0000_0085).unwrap();
        assert!(index < output, "r3 = r8 before the call");
    }

    #[test]
    fn calls_of_own_threads_are_skipped() {
        let code = program(MAPS, &[77, 78]).unwrap();
        assert_eq!(calls(&code)[0], 14, "the thread comes first");
        let own = |tid: u64| code.iter().position(|one| *one & 0xff == 0x15 && one >> 32 == tid);
        let target = |at: usize| at + 1 + (code[at] >> 16 & 0xffff) as usize;
        assert_eq!(target(own(77).unwrap()), code.len() - 2);
        assert_eq!(target(own(78).unwrap()), code.len() - 2);
    }

    #[test]
    fn every_way_through_the_program_returns_0() {
        let code = program(MAPS, &[77]).unwrap();
        assert_eq!(code[code.len() - 2..], [0xb7, 0x95]);
        assert_eq!(code.iter().filter(|one| **one & 0xff == 0x95).count(), 1, "one exit");
    }
}
