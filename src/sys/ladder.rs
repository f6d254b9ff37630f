//! How an attr that this kernel is too old for becomes one that it takes: what is dropped, in which order.
//!
//! An old kernel refuses what it does not know: fields beyond its structure with `E2BIG` (it writes its own
//! size back), reserved bits with `EINVAL`, without saying which. So the features of [`RUNGS`] go newest
//! first until the kernel agrees; then each one that went on the way is tried again alone, so that only what
//! is really refused stays away. What is left is reported by name, once, by whoever opened the event.
//!
//! Only what a report can do without stands here. A bit that decides *what is counted* (`exclude_*`,
//! `inherit_thread`, `write_backward`, `sigtrap`, `config3`, …) is never dropped: then the refusal stands.

use super::attr::Attr;
use libc::{E2BIG, EINVAL};
use perf_event_open_sys::bindings as b;

/// What came of it: the opened thing, the attr in force, and the names of what was dropped.
#[derive(Debug)]
pub(super) struct Landed<T> {
    pub(super) opened: T,
    pub(super) attr: Attr,
    pub(super) dropped: Vec<&'static str>,
}

/// Opens with as much of `wanted` as the kernel takes.
///
/// `open` gets the attr (its `size` may be written back, as the kernel does) and returns the errno.
///
/// # Errors
/// The errno that explains most: the last that is not `EINVAL`, else the first one.
pub(super) fn descend<T>(
    wanted: &Attr,
    mut open: impl FnMut(&mut Attr) -> Result<T, i32>,
) -> Result<Landed<T>, i32> {
    let mut base = *wanted;
    let mut too_big = Vec::new();
    let first = match try_open(&mut base, &mut too_big, &mut open) {
        Err(EINVAL) => EINVAL,
        Err(errno) => return Err(errno),
        Ok(opened) => return Ok(Landed { opened, attr: base, dropped: too_big }),
    };

    let rungs: Vec<&Rung> = RUNGS.iter().filter(|r| r.applies(&base)).collect();
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

    // The last rung is what helped; the ones above it may have gone for nothing.
    let mut gone: Vec<&Rung> = rungs.get(..down).unwrap_or_default().to_vec();
    for candidate in rungs.iter().take(down.saturating_sub(1)) {
        let kept: Vec<&Rung> =
            gone.iter().copied().filter(|r| !std::ptr::eq(*r, *candidate)).collect();
        let mut fuller = without(&base, &kept);
        if let Ok(better) = open(&mut fuller) {
            (opened, attr, gone) = (better, fuller, kept);
        }
    }
    let dropped = too_big.into_iter().chain(gone.iter().map(|r| r.name)).collect();
    Ok(Landed { opened, attr, dropped })
}

/// Opens; on `E2BIG` takes away, once, what lies beyond the kernel's structure.
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
        // A name from the table and a zero: it cannot be refused.
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

fn without(attr: &Attr, rungs: &[&Rung]) -> Attr {
    let mut attr = *attr;
    for rung in rungs {
        rung.drop_from(&mut attr);
    }
    attr
}

struct Rung {
    /// How the user reads it.
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

impl Rung {
    fn applies(&self, attr: &Attr) -> bool {
        match self.what {
            What::Field => attr.get(self.name).is_some_and(|value| value != 0),
            What::Sample(bits) => attr.as_raw().sample_type & u64::from(bits) != 0,
            What::Read(bits) => attr.as_raw().read_format & u64::from(bits) != 0,
        }
    }

    /// Takes the feature away, and what has no meaning without it.
    fn drop_from(&self, attr: &mut Attr) {
        match self.what {
            What::Field => {
                // A name from the table and a zero: it cannot be refused.
                let _ = attr.set(self.name, 0);
                if self.name == "use_clockid" {
                    attr.raw().clockid = 0;
                }
            }
            What::Sample(bits) => {
                let raw = attr.raw();
                raw.sample_type &= !u64::from(bits);
                match bits {
                    // An event's records must still name it, if at another place.
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

const fn field(name: &'static str) -> Rung {
    Rung { name, what: What::Field }
}

const fn sample(name: &'static str, bits: u32) -> Rung {
    Rung { name, what: What::Sample(bits) }
}

/// The features that may go, newest first, with the kernel that brought each.
const RUNGS: &[Rung] = &[
    field("defer_output"),    // 6.19
    field("defer_callchain"), // 6.19
    Rung { name: "PERF_FORMAT_LOST", what: What::Read(b::PERF_FORMAT_LOST) }, // 6.0
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
    Rung { name: "PERF_FORMAT_GROUP", what: What::Read(b::PERF_FORMAT_GROUP) },
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
    fn a_kernel_that_knows_everything_drops_nothing() {
        let landed = descend(&modern(), kernel(144, |_| true)).unwrap();
        assert!(landed.dropped.is_empty());
        assert_eq!(landed.attr.nonzero(), modern().nonzero());
    }

    #[test]
    fn only_what_is_refused_is_dropped() {
        let no_clock = |attr: &Attr| attr.get("use_clockid") == Some(0);
        let landed = descend(&modern(), kernel(144, no_clock)).unwrap();
        assert_eq!(landed.dropped, ["use_clockid"]);
        assert_eq!(landed.attr.get("clockid"), Some(0));
        assert_eq!(landed.attr.get("build_id"), Some(1));
        assert_eq!(landed.opened.nonzero(), landed.attr.nonzero());
    }

    #[test]
    fn a_kernel_3_10_gets_what_it_can_take() {
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
    fn what_decides_the_meaning_is_never_dropped() {
        let mut attr = Attr::counter(4, 0);
        attr.set("config3", 1).unwrap();
        assert_eq!(descend(&attr, kernel(128, |_| true)).unwrap_err(), E2BIG);

        let mut attr = modern();
        attr.set("inherit_thread", 1).unwrap();
        let refuses = |attr: &Attr| attr.get("inherit_thread") == Some(0);
        assert_eq!(descend(&attr, kernel(144, refuses)).unwrap_err(), EINVAL);
    }

    #[test]
    fn an_errno_met_on_the_way_explains_more_than_the_first() {
        let refused = descend(&modern(), |attr: &mut Attr| -> Result<(), i32> {
            if attr.get("build_id") == Some(1) { Err(EINVAL) } else { Err(libc::EACCES) }
        });
        assert_eq!(refused.unwrap_err(), libc::EACCES);
    }
}
