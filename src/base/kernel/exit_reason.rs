//! Exit reasons of KVM guests: names of the numbers in `kvm:kvm_exit`, by the CPU's virtualization
//! extension.
//!
//! From the vendors' manuals: Intel's Software Developer's Manual, volume 3, appendix "VMX Basic
//! Exit Reasons", and AMD's Architecture Programmer's Manual, volume 2, appendix "SVM Intercept
//! Exit Codes". The spelling is that of KVM's tracepoints and tools.

/// A CPU's virtualization extension; 1 and 2 in the field `isa`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// Intel's.
    Vmx,
    /// AMD's.
    Svm,
}

/// Returns the name of an exit reason; its number in hexadecimal if it has no name.
pub fn name(isa: Isa, reason: u32) -> String {
    let known = match isa {
        // The upper half has flags: bit 31 is a failed entry.
        Isa::Vmx => VMX.get((reason & 0xffff) as usize).copied().unwrap_or(""),
        Isa::Svm => svm(reason),
    };
    match (isa, known) {
        (Isa::Svm, "") => numbered(reason).unwrap_or_else(|| format!("{reason:#x}")),
        (Isa::Vmx, "") => format!("{reason:#x}"),
        _ => known.to_owned(),
    }
}

/// Names by number; empty where the manual reserves the number.
const VMX: [&str; 80] = [
    "EXCEPTION_NMI",
    "EXTERNAL_INTERRUPT",
    "TRIPLE_FAULT",
    "INIT_SIGNAL",
    "SIPI_SIGNAL",
    "IO_SMI",
    "OTHER_SMI",
    "INTERRUPT_WINDOW",
    "NMI_WINDOW",
    "TASK_SWITCH",
    "CPUID",
    "GETSEC",
    "HLT",
    "INVD",
    "INVLPG",
    "RDPMC",
    "RDTSC",
    "RSM",
    "VMCALL",
    "VMCLEAR",
    "VMLAUNCH",
    "VMPTRLD",
    "VMPTRST",
    "VMREAD",
    "VMRESUME",
    "VMWRITE",
    "VMXOFF",
    "VMXON",
    "CR_ACCESS",
    "DR_ACCESS",
    "IO_INSTRUCTION",
    "MSR_READ",
    "MSR_WRITE",
    "INVALID_STATE",
    "MSR_LOAD_FAIL",
    "",
    "MWAIT_INSTRUCTION",
    "MONITOR_TRAP_FLAG",
    "",
    "MONITOR_INSTRUCTION",
    "PAUSE_INSTRUCTION",
    "MCE_DURING_VMENTRY",
    "",
    "TPR_BELOW_THRESHOLD",
    "APIC_ACCESS",
    "EOI_INDUCED",
    "GDTR_IDTR",
    "LDTR_TR",
    "EPT_VIOLATION",
    "EPT_MISCONFIG",
    "INVEPT",
    "RDTSCP",
    "PREEMPTION_TIMER",
    "INVVPID",
    "WBINVD",
    "XSETBV",
    "APIC_WRITE",
    "RDRAND",
    "INVPCID",
    "VMFUNC",
    "ENCLS",
    "RDSEED",
    "PML_FULL",
    "XSAVES",
    "XRSTORS",
    "PCONFIG",
    "SPP_EVENT",
    "UMWAIT",
    "TPAUSE",
    "LOADIWKEY",
    "ENCLV",
    "",
    "ENQCMD_PASID",
    "ENQCMDS_PASID",
    "BUS_LOCK",
    "NOTIFY",
    "SEAMCALL",
    "TDCALL",
    "RDMSRLIST",
    "WRMSRLIST",
];

/// Names by number, from 0x60.
const SVM: [&str; 71] = [
    "interrupt",
    "nmi",
    "smi",
    "init",
    "vintr",
    "cr0_sel_write",
    "read_idtr",
    "read_gdtr",
    "read_ldtr",
    "read_tr",
    "write_idtr",
    "write_gdtr",
    "write_ldtr",
    "write_tr",
    "rdtsc",
    "rdpmc",
    "pushf",
    "popf",
    "cpuid",
    "rsm",
    "iret",
    "swint",
    "invd",
    "pause",
    "hlt",
    "invlpg",
    "invlpga",
    "io",
    "msr",
    "task_switch",
    "ferr_freeze",
    "shutdown",
    "vmrun",
    "hypercall",
    "vmload",
    "vmsave",
    "stgi",
    "clgi",
    "skinit",
    "rdtscp",
    "icebp",
    "wbinvd",
    "monitor",
    "mwait",
    "mwait_conditional",
    "xsetbv",
    "rdpru",
    "efer_write_trap",
    "cr0_write_trap",
    "cr1_write_trap",
    "cr2_write_trap",
    "cr3_write_trap",
    "cr4_write_trap",
    "cr5_write_trap",
    "cr6_write_trap",
    "cr7_write_trap",
    "cr8_write_trap",
    "cr9_write_trap",
    "cr10_write_trap",
    "cr11_write_trap",
    "cr12_write_trap",
    "cr13_write_trap",
    "cr14_write_trap",
    "cr15_write_trap",
    "invlpgb",
    "invlpgb_illegal",
    "invpcid",
    "mcommit",
    "tlbsync",
    "buslock",
    "idle_hlt",
];

fn svm(reason: u32) -> &'static str {
    match reason {
        0x400 => "npf",
        0x401 => "avic_incomplete_ipi",
        0x402 => "avic_unaccelerated_access",
        0x403 => "vmgexit",
        u32::MAX => "invalid",
        0x60.. => SVM.get(reason as usize - 0x60).copied().unwrap_or(""),
        _ => "",
    }
}

/// Returns the name of an access to a control or debug register, or of an exception, which have
/// ranges of numbers.
fn numbered(reason: u32) -> Option<String> {
    let n = reason & 0xf;
    Some(match reason {
        0x00..=0x0f => format!("read_cr{n}"),
        0x10..=0x1f => format!("write_cr{n}"),
        0x20..=0x2f => format!("read_dr{n}"),
        0x30..=0x3f => format!("write_dr{n}"),
        0x40..=0x5f => format!("exception_{}", reason - 0x40),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_reasons_match_the_manuals() {
        for (number, expected) in [
            (1, "EXTERNAL_INTERRUPT"),
            (12, "HLT"),
            (18, "VMCALL"),
            (32, "MSR_WRITE"),
            (40, "PAUSE_INSTRUCTION"),
            (48, "EPT_VIOLATION"),
            (0x8000_0021, "INVALID_STATE"),
            (52, "PREEMPTION_TIMER"),
            (62, "PML_FULL"),
            (74, "BUS_LOCK"),
            (79, "WRMSRLIST"),
            (38, "0x26"),
            (99, "0x63"),
        ] {
            assert_eq!(name(Isa::Vmx, number), expected, "{number}");
        }
        for (number, expected) in [
            (0, "read_cr0"),
            (0x13, "write_cr3"),
            (0x4e, "exception_14"),
            (0x60, "interrupt"),
            (0x72, "cpuid"),
            (0x78, "hlt"),
            (0x7b, "io"),
            (0x7c, "msr"),
            (0x81, "hypercall"),
            (0x8d, "xsetbv"),
            (0x8f, "efer_write_trap"),
            (0x93, "cr3_write_trap"),
            (0xa0, "invlpgb"),
            (0xa6, "idle_hlt"),
            (0x400, "npf"),
            (0x404, "0x404"),
            (u32::MAX, "invalid"),
        ] {
            assert_eq!(name(Isa::Svm, number), expected, "{number:#x}");
        }
    }
}
