//! Sizes of rings: one limit for all of them together, and the kernel's limit for each.
//!
//! Two limits apply. [`TOTAL`] keeps a machine with many CPUs from using gigabytes for rings. The
//! kernel limits the memory that a user may lock (`perf_event_mlock_kb` per CPU, then
//! `RLIMIT_MEMLOCK`); that limit is shared with other tools, so it is found by trying. A smaller
//! ring loses events sooner, so a note reports that it shrank.

use super::machine;
use super::perf::PerfEvent;
use super::refusal::Refusal;
use super::ring::Ring;
use crate::base::text::units::counted;

/// Maximum size of all rings of a run together, in bytes.
pub const TOTAL: usize = 256 << 20;

/// Data pages of a ring, and a note for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// A power of two, at least one.
    pub count: usize,
    /// A sentence, if there are fewer than requested.
    pub note: Option<String>,
}

/// A mapped ring, perhaps smaller than requested.
pub struct Fitted {
    /// The ring.
    pub ring: Ring,
    /// Its data pages.
    pub pages: usize,
    /// A sentence, if there are fewer than requested.
    pub note: Option<String>,
}

/// Returns the data pages for each of `rings` rings if `wanted` were requested: rounded up to a
/// power of two, and at most [`TOTAL`] together.
pub fn pages_for(wanted: usize, rings: usize) -> Pages {
    within(wanted, rings, machine::page_size(), TOTAL)
}

impl Ring {
    /// Maps a ring of `pages` data pages, or the largest smaller one that may be locked.
    ///
    /// # Errors
    /// Not even one page may be locked, or the event cannot have a ring.
    pub fn map_largest(owner: &PerfEvent, pages: usize) -> Result<Fitted, Refusal> {
        let wanted = pages.max(1);
        let mut count = power_of_two(wanted);
        loop {
            match Ring::map(owner, count) {
                Ok(ring) => {
                    let note = (count < wanted).then(|| locked(wanted, count));
                    return Ok(Fitted { ring, pages: count, note });
                }
                Err(refusal) if lacks_memory(&refusal) && count > 1 => count /= 2,
                Err(refusal) => return Err(refusal),
            }
        }
    }
}

fn within(wanted: usize, rings: usize, page: usize, total: usize) -> Pages {
    let wanted = power_of_two(wanted.max(1));
    let each = (total / page.max(1) / rings.max(1)).max(1);
    let most = 1 << each.ilog2();
    if wanted <= most {
        return Pages { count: wanted, note: None };
    }
    let note = format!(
        "rings shrunk from {wanted} to {} each: {rings} rings are limited to {} MiB together; \
         watch fewer CPUs for larger rings",
        counted(most as u64, "page"),
        total >> 20
    );
    Pages { count: most, note: Some(note) }
}

/// Returns the next power of two, or the largest one.
fn power_of_two(pages: usize) -> usize {
    pages.checked_next_power_of_two().unwrap_or(1 << (usize::BITS - 1))
}

fn lacks_memory(refusal: &Refusal) -> bool {
    [libc::EPERM, libc::ENOMEM].contains(&refusal.errno)
}

fn locked(wanted: usize, count: usize) -> String {
    format!(
        "ring shrunk from {wanted} to {}, the limit of locked memory; raise perf_event_mlock_kb, \
         or run as root",
        counted(count as u64, "page")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_rounded_up_to_a_power_of_two() {
        for (wanted, count) in [(0, 1), (1, 1), (2, 2), (3, 4), (512, 512), (513, 1024)] {
            assert_eq!(within(wanted, 2, 4096, TOTAL), Pages { count, note: None });
        }
    }

    #[test]
    fn many_rings_share_the_bound() {
        let pages = within(512, 1024, 4096, TOTAL);
        assert_eq!(pages.count, 64);
        assert_eq!(
            pages.note.unwrap(),
            "rings shrunk from 512 to 64 pages each: 1024 rings are limited to 256 MiB together; \
             watch fewer CPUs for larger rings"
        );
        for (wanted, rings) in [(usize::MAX, 1), (1, usize::MAX), (usize::MAX, usize::MAX), (7, 0)]
        {
            let count = within(wanted, rings, 4096, TOTAL).count;
            assert!(count.is_power_of_two(), "{wanted} pages for {rings} rings are {count}");
        }
    }
}
