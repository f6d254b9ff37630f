//! Fallback for attributes that this kernel is too old for: which features are dropped, and in
//! which order.
//!
//! An old kernel refuses what it does not know: fields beyond its structure with `E2BIG` (it writes
//! its own size back), reserved bits with `EINVAL`, without naming them. Therefore the features of
//! [`RUNGS`] are dropped, newest first, until the kernel accepts the rest; then each feature
//! dropped on the way is tried again alone, so that only those stay dropped that the kernel really
//! refuses. The caller that opened the event reports their names, once.
//!
//! The list contains only features that a report can do without. A bit that decides *what is
//! counted* (`exclude_*`, `inherit_thread`, `write_backward`, `sigtrap`, `config3`, …) is never
//! dropped: the open then fails.

use super::attr::Attr;
use libc::{E2BIG, EINVAL};
use perf_event_open_sys::bindings as b;

/// The opened object, the attr in force, and the names of the dropped features.
#[derive(Debug)]
pub(super) struct Accepted<T> {
    pub(super) opened: T,
    pub(super) attr: Attr,
    pub(super) dropped: Vec<&'static str>,
}

/// Opens with as much of `wanted` as the kernel accepts.
///
/// `open` gets the attr (it may write back `size`, as the kernel does) and returns the errno.
///
/// # Errors
/// The first errno that no fallback handles, if it is not `EINVAL`; else `EINVAL`.
pub(super) fn descend<T>(
    wanted: &Attr,
    mut open: impl FnMut(&mut Attr) -> Result<T, i32>,
) -> Result<Accepted<T>, i32> {
    let mut base = *wanted;
    let mut too_big = Vec::new();
    let first = match try_open(&mut base, &mut too_big, &mut open) {
        Err(EINVAL) => EINVAL,
        Err(errno) => return Err(errno),
        Ok(opened) => return Ok(Accepted { opened, attr: base, dropped: too_big }),
    };

    let rungs: Vec<&Fallback> = RUNGS.iter().filter(|r| r.applies(&base)).collect();
    let mut landed = None;
    let mut down = 0;
    while landed.is_none() {
        let Some(gone) = rungs.get(..down + 1) else { return Err(first) };
        down += 1;
        let mut attr = without(&base, gone);
        match open(&mut attr) {
            Ok(opened) => landed = Some((opened, attr)),
            Err(EINVAL) => {}
            Err(errno) => return Err(errno),
        }
    }
    let (mut opened, mut attr) = landed.ok_or(first)?;

    // The last rung made the difference; those before it may have been dropped in vain.
    let mut gone: Vec<&Fallback> = rungs.get(..down).unwrap_or_default().to_vec();
    for candidate in rungs.iter().take(down.saturating_sub(1)) {
        let kept: Vec<&Fallback> =
            gone.iter().copied().filter(|r| !std::ptr::eq(*r, *candidate)).collect();
        let mut fuller = without(&base, &kept);
        if let Ok(better) = open(&mut fuller) {
            (opened, attr, gone) = (better, fuller, kept);
        }
    }
    let dropped = too_big.into_iter().chain(gone.iter().map(|r| r.name)).collect();
    Ok(Accepted { opened, attr, dropped })
}

/// Opens; on `E2BIG`, drops the fields beyond the kernel's structure and tries once more.
fn try_open<T>(
    attr: &mut Attr,
    dropped: &mut Vec<&'static str>,
    open: &mut impl FnMut(&mut Attr) -> Result<T, i32>,
) -> Result<T, i32> {
    let size = attr.as_raw().size;
    let mut written_back = *attr;
    let errno = match open(&mut written_back) {
        Ok(opened) => return Ok(opened),
        Err(errno) => errno,
    };
    let kernel_size = written_back.as_raw().size;
    if errno != E2BIG || kernel_size < b::PERF_ATTR_SIZE_VER0 || kernel_size >= size {
        return Err(errno);
    }
    let beyond = attr.nonzero_beyond(kernel_size);
    if !beyond.iter().all(|name| DISPENSABLE.contains(name)) {
        return Err(errno);
    }
    for name in &beyond {
        // Cannot fail: the name is from the table, and the value is zero.
        let _ = attr.set(name, 0);
    }
    let raw = attr.raw();
    raw.size = kernel_size;
    for (sample, field) in [
        (b::PERF_SAMPLE_REGS_USER, "sample_regs_user"),
        (b::PERF_SAMPLE_STACK_USER, "sample_stack_user"),
        (b::PERF_SAMPLE_BRANCH_STACK, "branch_sample_type"),
        (b::PERF_SAMPLE_REGS_INTR, "sample_regs_intr"),
        (b::PERF_SAMPLE_AUX, "aux_sample_size"),
    ] {
        if beyond.contains(&field) {
            raw.sample_type &= !u64::from(sample);
        }
    }
    if beyond.contains(&"clockid") {
        raw.set_use_clockid(0);
    }
    dropped.extend(beyond);
    open(&mut attr.clone())
}

/// Fields beyond the first published structure that a report can do without.
const DISPENSABLE: &[&str] = &[
    "branch_sample_type",
    "sample_regs_user",
    "sample_stack_user",
    "clockid",
    "sample_regs_intr",
    "aux_watermark",
    "sample_max_stack",
    "aux_sample_size",
];

fn without(attr: &Attr, rungs: &[&Fallback]) -> Attr {
    let mut attr = *attr;
    for rung in rungs {
        rung.drop_from(&mut attr);
    }
    attr
}

struct Fallback {
    /// The feature's name in messages.
    name: &'static str,
    what: What,
}

enum What {
    /// A field of the structure, by the rung's name.
    Field,
    /// Bits of `sample_type`.
    Sample(u32),
    /// Bits of `read_format`.
    Read(u32),
}

impl Fallback {
    fn applies(&self, attr: &Attr) -> bool {
        match self.what {
            What::Field => attr.get(self.name).is_some_and(|value| value != 0),
            What::Sample(bits) => attr.as_raw().sample_type & u64::from(bits) != 0,
            What::Read(bits) => attr.as_raw().read_format & u64::from(bits) != 0,
        }
    }

    /// Drops the feature, and the fields that have no meaning without it.
    fn drop_from(&self, attr: &mut Attr) {
        match self.what {
            What::Field => {
                // Cannot fail: the name is from the table, and the value is zero.
                let _ = attr.set(self.name, 0);
                if self.name == "use_clockid" {
                    attr.raw().clockid = 0;
                }
            }
            What::Sample(bits) => {
                let raw = attr.raw();
                raw.sample_type &= !u64::from(bits);
                match bits {
                    // Records must still identify their event, even if at another offset.
                    b::PERF_SAMPLE_IDENTIFIER => raw.sample_type |= u64::from(b::PERF_SAMPLE_ID),
                    b::PERF_SAMPLE_REGS_INTR => raw.sample_regs_intr = 0,
                    b::PERF_SAMPLE_AUX => raw.aux_sample_size = 0,
                    _ => {}
                }
            }
            What::Read(bits) => attr.raw().read_format &= !u64::from(bits),
        }
    }
}

const fn field(name: &'static str) -> Fallback {
    Fallback { name, what: What::Field }
}

const fn sample(name: &'static str, bits: u32) -> Fallback {
    Fallback { name, what: What::Sample(bits) }
}

/// The features that may be dropped, newest first, with the kernel version that introduced each.
const RUNGS: &[Fallback] = &[
    field("defer_output"),    // 6.19
    field("defer_callchain"), // 6.19
    Fallback { name: "PERF_FORMAT_LOST", what: What::Read(b::PERF_FORMAT_LOST) }, // 6.0
    field("build_id"),        // 5.12
    sample("PERF_SAMPLE_WEIGHT_STRUCT", b::PERF_SAMPLE_WEIGHT_STRUCT), // 5.12
    sample("PERF_SAMPLE_CODE_PAGE_SIZE", b::PERF_SAMPLE_CODE_PAGE_SIZE), // 5.11
    sample("PERF_SAMPLE_DATA_PAGE_SIZE", b::PERF_SAMPLE_DATA_PAGE_SIZE), // 5.11
    field("text_poke"),       // 5.9
    field("cgroup"),          // 5.7
    sample("PERF_SAMPLE_CGROUP", b::PERF_SAMPLE_CGROUP), // 5.7
    sample("PERF_SAMPLE_AUX", b::PERF_SAMPLE_AUX), // 5.5
    field("bpf_event"),       // 5.1
    field("ksymbol"),         // 5.1
    sample("PERF_SAMPLE_PHYS_ADDR", b::PERF_SAMPLE_PHYS_ADDR), // 4.14
    // 4.13, with `inherit`
    Fallback { name: "PERF_FORMAT_GROUP", what: What::Read(b::PERF_FORMAT_GROUP) },
    field("namespaces"),                                           // 4.12
    field("sample_max_stack"),                                     // 4.8
    field("context_switch"),                                       // 4.3
    field("use_clockid"),                                          // 4.1
    sample("PERF_SAMPLE_REGS_INTR", b::PERF_SAMPLE_REGS_INTR),     // 3.19
    field("comm_exec"),                                            // 3.16
    field("mmap2"),                                                // 3.16
    sample("PERF_SAMPLE_TRANSACTION", b::PERF_SAMPLE_TRANSACTION), // 3.13
    sample("PERF_SAMPLE_IDENTIFIER", b::PERF_SAMPLE_IDENTIFIER),   // 3.12
    sample("PERF_SAMPLE_DATA_SRC", b::PERF_SAMPLE_DATA_SRC),       // 3.10
    sample("PERF_SAMPLE_WEIGHT", b::PERF_SAMPLE_WEIGHT),           // 3.10
];

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that knows only these parts of the ABI.
    fn kernel(
        size: u32,
        known: impl Fn(&Attr) -> bool,
    ) -> impl FnMut(&mut Attr) -> Result<Attr, i32> {
        move |attr| {
            if !attr.nonzero_beyond(size).is_empty() {
                attr.raw().size = size;
                return Err(E2BIG);
            }
            if known(attr) { Ok(*attr) } else { Err(EINVAL) }
        }
    }

    fn modern() -> Attr {
        let mut attr = Attr::tracepoint(1);
        for (name, value) in [
            ("sample_type", u64::from(b::PERF_SAMPLE_IDENTIFIER | b::PERF_SAMPLE_CGROUP)),
            ("read_format", u64::from(b::PERF_FORMAT_LOST | b::PERF_FORMAT_ID)),
            ("build_id", 1),
            ("use_clockid", 1),
            ("clockid", 1),
            ("sample_max_stack", 64),
            ("mmap2", 1),
        ] {
            attr.set(name, value).unwrap();
        }
        attr
    }

    #[test]
    fn a_kernel_that_supports_everything_drops_nothing() {
        let landed = descend(&modern(), kernel(144, |_| true)).unwrap();
        assert!(landed.dropped.is_empty());
        assert_eq!(landed.attr.nonzero(), modern().nonzero());
    }

    #[test]
    fn only_refused_fields_are_dropped() {
        let no_clock = |attr: &Attr| attr.get("use_clockid") == Some(0);
        let landed = descend(&modern(), kernel(144, no_clock)).unwrap();
        assert_eq!(landed.dropped, ["use_clockid"]);
        assert_eq!(landed.attr.get("clockid"), Some(0));
        assert_eq!(landed.attr.get("build_id"), Some(1));
        assert_eq!(landed.opened.nonzero(), landed.attr.nonzero());
    }

    #[test]
    fn kernel_3_10_gets_the_fields_that_it_supports() {
        let old = |attr: &Attr| {
            let raw = attr.as_raw();
            raw.sample_type < u64::from(b::PERF_SAMPLE_IDENTIFIER)
                && raw.read_format & u64::from(b::PERF_FORMAT_LOST) == 0
                && ["build_id", "use_clockid", "mmap2"].iter().all(|n| attr.get(n) == Some(0))
        };
        let landed = descend(&modern(), kernel(b::PERF_ATTR_SIZE_VER3, old)).unwrap();
        assert_eq!(
            landed.dropped,
            [
                "sample_max_stack",
                "PERF_FORMAT_LOST",
                "build_id",
                "PERF_SAMPLE_CGROUP",
                "use_clockid",
                "mmap2",
                "PERF_SAMPLE_IDENTIFIER",
            ]
        );
        assert_eq!(landed.attr.get("size"), Some(u64::from(b::PERF_ATTR_SIZE_VER3)));
        assert_eq!(landed.attr.get("sample_type"), Some(u64::from(b::PERF_SAMPLE_ID)));
    }

    #[test]
    fn fields_that_change_the_meaning_are_never_dropped() {
        let mut attr = Attr::counter(4, 0);
        attr.set("config3", 1).unwrap();
        assert_eq!(descend(&attr, kernel(128, |_| true)).unwrap_err(), E2BIG);

        let mut attr = modern();
        attr.set("inherit_thread", 1).unwrap();
        let refuses = |attr: &Attr| attr.get("inherit_thread") == Some(0);
        assert_eq!(descend(&attr, kernel(144, refuses)).unwrap_err(), EINVAL);
    }

    #[test]
    fn the_errno_of_a_later_attempt_is_returned() {
        let refused = descend(&modern(), |attr: &mut Attr| -> Result<(), i32> {
            if attr.get("build_id") == Some(1) { Err(EINVAL) } else { Err(libc::EACCES) }
        });
        assert_eq!(refused.unwrap_err(), libc::EACCES);
    }
}
