//! Explains why the kernel refused a hardware breakpoint.
//!
//! Source: hw_breakpoint_parse() and reserve_bp_slot() in kernel/events/hw_breakpoint.c, and
//! arch/x86/kernel/hw_breakpoint.c.

use crate::base::kernel::address::is_kernel_address;

use super::{Attr, Privileges, b};

/// `HW_BREAKPOINT_X` of include/uapi/linux/hw_breakpoint.h.
const EXECUTE: u32 = 4;

/// Returns the reason and the fix; None if it is one that other events have, too.
pub(super) fn breakpoint(attr: &Attr, errno: i32, facts: &Privileges) -> Option<&'static str> {
    let raw = attr.as_raw();
    if raw.type_ != b::PERF_TYPE_BREAKPOINT {
        return None;
    }
    let of_kernel = attr.get("bp_addr").is_some_and(is_kernel_address);
    Some(match errno {
        libc::ENOSPC => {
            "all hardware breakpoints are in use (x86 has four per CPU; a mapped ring keeps its \
             own); watch fewer addresses, or stop the process that uses them"
        }
        libc::EACCES | libc::EPERM if of_kernel && !facts.perfmon => {
            "permission denied; only root (CAP_SYS_ADMIN) may watch addresses of the kernel: \
                 run as root"
        }
        libc::EPERM if of_kernel => {
            "permission denied; watching addresses of the kernel needs CAP_SYS_ADMIN"
        }
        libc::EINVAL if of_kernel && raw.exclude_kernel() == 1 => {
            "an address of the kernel is accessed by the kernel only; omit `u`"
        }
        libc::EINVAL if of_kernel && raw.bp_type & EXECUTE != 0 => {
            "the kernel does not allow an execution breakpoint here: it has no kprobes \
             (CONFIG_KPROBES), or their blacklist contains the address; use a tracepoint"
        }
        libc::EINVAL if of_kernel => {
            "the kernel does not allow breakpoints at this address: its own debug exception would \
             access it; watch another one"
        }
        _ => return None,
    })
}
