//! Opens many functions of a file, or of the kernel, by one BPF link instead of a probe for each.
//!
//! The program of the link ([`crate::bpf::function_calls`]) writes to a `bpf-output` event per
//! function and CPU. These have the attributes that the events of the probes would have, so ids,
//! decoding, losses and switching on and off are the same; only the count of an event stays 0. A
//! probe takes about 85 ms to close, a link of 300 functions less than one probe.
//!
//! If the kernel refuses the link, the functions get probes as if there were no links. A function
//! whose values the kernel reads into a record always has a probe.

use std::ffi::CStr;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Weak};

use crate::base::text::units::counted;
use crate::bpf::function_calls::{self, FunctionCallMaps};
use crate::bpf::user_text::{COUNTS_BYTES, UserTextCounts};
use crate::source::request::{Opening, SourceRequest};
use crate::sys::bpf::{
    BpfLink, BpfMap, BpfMapType, BpfProgram, LinkedFunctions, OutputArray, cpu_numbers,
};
use crate::sys::dynamic_event::ProbePoint;
use crate::sys::errno::errno;
use crate::sys::probe_type::ProbeType;
use crate::sys::refusal::{Refusal, RefusedCall};

/// Minimum number of functions for a link.
const LINKED_MIN: usize = 2;

/// Maximum number of functions of a link: each has a file per CPU.
const LINKED_MAX: usize = 4096;

/// The links of a run.
#[derive(Default)]
pub(in crate::source) struct FunctionLinks {
    counts: Option<BpfMap>,
    links: Vec<Weak<BpfLink>>,
    /// How the functions were opened, and why not by a link.
    pub(in crate::source) notes: Vec<String>,
}

/// Functions that one link can have.
struct LinkedGroup<'a> {
    place: LinkPlace,
    /// Their locations, each with the index of its opening.
    points: Vec<(usize, ProbePoint<'a>)>,
}

/// Properties that the functions of a link share.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LinkPlace {
    /// Device and inode of the file; None for the kernel.
    file: Option<(u64, u64)>,
    at_return: bool,
    /// Whether calls of this process are omitted.
    hides_self: bool,
}

/// For each opening, the array in which the program of its link finds its events; None if it has no
/// link.
pub(in crate::source) type LinkedArrays = Vec<Option<Arc<OutputArray>>>;

impl FunctionLinks {
    /// Attaches a link for each file, or the kernel, of which at least [`LINKED_MIN`] functions are
    /// opened. `is_open` marks the openings that have events already; none if it is empty.
    pub(in crate::source) fn attach(
        &mut self,
        openings: &[Opening],
        request: &SourceRequest,
        is_open: &[bool],
    ) -> LinkedArrays {
        let mut arrays = vec![None; openings.len()];
        for group in groups(openings, request, is_open) {
            let count = counted(group.points.len() as u64, "function");
            let what = group.place.name();
            let attached = self.attach_group(&group, request, &mut arrays);
            self.notes.push(match attached {
                Ok(()) => format!("{what}: one BPF link for {count}"),
                Err(why) => format!("{what}: a probe for each of {count}: {why}"),
            });
        }
        arrays
    }

    fn attach_group(
        &mut self,
        group: &LinkedGroup<'_>,
        request: &SourceRequest,
        arrays: &mut LinkedArrays,
    ) -> Result<(), Refusal> {
        let refused = |errno| Refusal::new("BPF", RefusedCall::Bpf(""), errno);
        let counts = match self.counts.take() {
            Some(counts) => counts,
            None => BpfMap::create(BpfMapType::PerCpuArray, COUNTS_BYTES, 1)?,
        };
        let counts = self.counts.insert(counts).number();
        let cpus = cpu_numbers().map_err(|why| refused(errno(&why)))?;
        let entries = cpus * group.points.len();
        let events = Arc::new(BpfMap::create(BpfMapType::PerfEventArray, 4, entries)?);
        let maps = FunctionCallMaps { counts, events: events.number() };
        let own = if group.place.hides_self { &request.own_tids[..] } else { &[] };
        let code = function_calls::program(maps, own).ok_or_else(|| refused(libc::E2BIG))?;
        let points = group.points.iter().map(|(_, point)| point);
        let offsets: Vec<u64> = points.clone().map(|point| point.sites[0].offset).collect();
        let names: Vec<&CStr> = points.map(|point| point.place).collect();
        let functions = match (group.place.file, names.first()) {
            (Some(_), Some(path)) => LinkedFunctions::File(path, &offsets),
            _ => LinkedFunctions::Kernel(&names),
        };
        let program = BpfProgram::load(functions.program_type(), &code)?;
        let cookies: Vec<u64> = (0..offsets.len()).map(|index| (index * cpus) as u64).collect();
        let link = BpfLink::create(program, functions, &cookies, group.place.at_return)
            .map_err(|why| refused(errno(&why)))?;
        let link = Arc::new(link);
        self.links.retain(|link| link.strong_count() > 0);
        self.links.push(Arc::downgrade(&link));
        for (index, (at, _)) in group.points.iter().enumerate() {
            let first = (index * cpus) as u32;
            let entries = first..first + cpus as u32;
            let array = OutputArray { map: events.clone(), entries, link: Some(link.clone()) };
            arrays[*at] = Some(Arc::new(array));
        }
        Ok(())
    }

    /// Returns the number of calls without a sample so far that nothing else shows.
    pub(in crate::source) fn failed(&self) -> u64 {
        let values = self.counts.as_ref().and_then(|counts| counts.of_cpus(0).ok());
        let failed = UserTextCounts::of_cpus(&values.unwrap_or_default()).failed;
        let links = self.links.iter().filter_map(Weak::upgrade);
        failed + links.map(|link| link.misses().unwrap_or(0)).sum::<u64>()
    }
}

impl LinkPlace {
    fn name(self) -> &'static str {
        match (self.file, self.at_return) {
            (Some(_), false) => "uprobe",
            (Some(_), true) => "uretprobe",
            (None, false) => "kprobe",
            (None, true) => "kretprobe",
        }
    }
}

/// Returns the groups of openings that can have a link each.
fn groups<'a>(
    openings: &'a [Opening],
    request: &SourceRequest,
    is_open: &[bool],
) -> Vec<LinkedGroup<'a>> {
    let mut groups: Vec<LinkedGroup<'a>> = Vec::new();
    for (at, opening) in openings.iter().enumerate() {
        let is_new = is_open.get(at) != Some(&true);
        let Some(point) = linkable(opening).filter(|_| is_new) else { continue };
        let hides_self = !request.watch_self && !opening.sampling.all_tasks;
        let Some(place) = place_of(&point, hides_self) else { continue };
        // The kernel should not have to read the code from the disk. A file that was modified is
        // refused when the event is opened.
        if opening.event.kind().prepare().is_err() {
            continue;
        }
        match groups.iter_mut().find(|group| group.place == place) {
            Some(group) => group.points.push((at, point)),
            None => groups.push(LinkedGroup { place, points: vec![(at, point)] }),
        }
    }
    groups.retain(|group| (LINKED_MIN..=LINKED_MAX).contains(&group.points.len()));
    groups
}

/// Returns None if the file does not exist.
fn place_of(point: &ProbePoint<'_>, hides_self: bool) -> Option<LinkPlace> {
    let file = match point.type_ {
        ProbeType::Uprobe => {
            let file = std::fs::metadata(point.place.to_str().ok()?).ok()?;
            Some((file.dev(), file.ino()))
        }
        _ => None,
    };
    Some(LinkPlace { file, at_return: point.at_return, hides_self })
}

/// Returns the location of an opening's event if a program can write its samples.
fn linkable(opening: &Opening) -> Option<ProbePoint<'_>> {
    let (event, sampling) = (&opening.event, &opening.sampling);
    let point = event.kind().probe()?;
    let [site] = point.sites else { return None };
    let is_plain = event.kind().raw_format().is_none() && site.semaphore.is_none();
    let is_entry = point.type_ == ProbeType::Uprobe || site.offset == 0;
    let is_writable = event.is_writable_by_program(sampling) && sampling.cgroup.is_none();
    (is_plain && is_entry && is_writable).then_some(point)
}
