//! Runs a program under the event source, and resolves the chains of its samples.

use std::ffi::OsString;
use std::rc::Rc;

use perilune::base::event::chain::{self, ChainBuilder};
use perilune::base::report::frame::{Frame, Space};
use perilune::decode::side_band::FileIdentity;
use perilune::event::catalog::Catalog as _;
use perilune::event::sampling::Sampling;
use perilune::run::catalog::MachineCatalog;
use perilune::source::live::Live;
use perilune::source::request::{MappingRecords, Opening, SampleParts, ServedRole, SourceRequest};
use perilune::source::{Batch, SideBand, SideBandKind, Sink, UserStack};
use perilune::symbol::{KernelSymbols, Symbolizer as _, Symbols};
use perilune::sys::child::Workload;
use perilune::sys::cpus::online_cpus;
use perilune::task::maps::{Identity, Mapped};
use perilune::task::programs::SharedPrograms;
use perilune::unwind::Unwinder;

use super::programs::Built;

/// Samples of a program.
pub(crate) struct Seen {
    pub(crate) stacks: Vec<Walked>,
    /// Chains that the source counted as truncated.
    pub(crate) truncated: u64,
}

/// Call chain of one sample.
#[derive(Debug)]
pub(crate) struct Walked {
    /// Functions of the kernel, innermost first.
    pub(crate) kernel: Vec<String>,
    /// Functions of user space, innermost first; `?` without a name.
    pub(crate) user: Vec<String>,
    /// Whether it is marked as truncated.
    pub(crate) cut: bool,
}

/// Runs a program to its end and records this event of it.
///
/// # Errors
/// The program cannot be run, or the event does not exist or cannot be opened.
pub(crate) fn watch(built: &Built, event: &str, sampling: Sampling) -> anyhow::Result<Seen> {
    let mut workload = Workload::prepare(&[OsString::from(&built.path)])?;
    let event = MachineCatalog::default().describe(event)?;
    let roles = vec![ServedRole::unfiltered(0)];
    let opening = Opening {
        event,
        glob: None,
        filter: None,
        sampling,
        parts: SampleParts::ALL,
        roles,
        follows_cgroups: false,
        pairs: None,
    };
    let request = SourceRequest {
        cpus: online_cpus(),
        watched: online_cpus(),
        tasks: Some(vec![workload.pid()]),
        processes: Vec::new(),
        cgroups: None,
        workload: true,
        off: Vec::new(),
        pages: None,
        watermark: 50,
        ordered: true,
        mmap: MappingRecords::WithInodes,
        side: Default::default(),
        watch_self: false,
        own_tids: Vec::new(),
    };
    let mut live = Live::open(vec![opening], &request, 1)?;
    let programs = SharedPrograms::default();
    let names = Symbols::new(Rc::new(KernelSymbols::default()), programs.clone(), false);
    let mut watcher =
        Watcher { programs, names, unwinder: Unwinder::default(), stacks: Vec::new() };
    live.enable_side()?;
    live.enable(true)?;
    workload.start()?;
    workload.wait()?;
    live.disable();
    live.drain(live.now() + 1e9, &mut watcher);
    Ok(Seen { stacks: watcher.stacks, truncated: live.truncated() })
}

struct Watcher {
    programs: SharedPrograms,
    names: Symbols,
    unwinder: Unwinder,
    stacks: Vec<Walked>,
}

impl Sink for Watcher {
    unsafe fn dispatch(&mut self, batch: &mut Batch) {
        for slot in batch.slots() {
            let length = slot.chain_len as usize;
            let chain = match slot.chain.is_null() {
                true => &[],
                // SAFETY: a slot's chain is valid until this returns.
                false => unsafe { std::slice::from_raw_parts(slot.chain, length) },
            };
            let space = self.programs.borrow_mut().space_of(slot.pid);
            let walked = self.walked(space, chain);
            self.stacks.push(walked);
        }
    }

    fn side(&mut self, side: SideBand<'_>) {
        let mut programs = self.programs.borrow_mut();
        match side.what {
            SideBandKind::Fork { pid, tid, parent_pid, .. } => {
                programs.spaces.on_fork(pid, tid, parent_pid);
            }
            SideBandKind::Comm { pid, exec: true, .. } => programs.spaces.on_exec(pid, u64::MAX),
            SideBandKind::Mmap { pid, address, length, offset, file, path, .. } => {
                let identity = match file {
                    FileIdentity::Inode { maj, min, ino, ino_generation } if ino > 0 => {
                        let generation = Some(ino_generation);
                        Identity::Inode { major: maj, minor: min, inode: ino, generation }
                    }
                    _ => Identity::None,
                };
                if let Some(space) = programs.spaces.known_space_of(pid) {
                    self.unwinder.forget_space(space);
                }
                programs.on_mmap(pid, &Mapped { start: address, length, offset, identity, path });
            }
            _ => {}
        }
    }

    fn unwind(&mut self, stack: &UserStack<'_>, frames: &mut ChainBuilder<'_>) {
        self.unwinder.walk(&mut self.programs.borrow_mut(), stack, frames);
    }

    fn stopped(&self) -> bool {
        false
    }
}

impl Watcher {
    fn walked(&mut self, space: Space, chain: &[u64]) -> Walked {
        let mut walked = Walked { kernel: Vec::new(), user: Vec::new(), cut: false };
        let (mut kernel, mut caller) = (false, false);
        for (place, &entry) in chain.iter().enumerate() {
            if let Some(begins_kernel) = chain::begins_kernel(entry) {
                (kernel, caller) = (begins_kernel, false);
                continue;
            }
            if entry == chain::TRUNCATED {
                assert_eq!(place, chain.len() - 1, "the mark is at the end: {chain:x?}");
                walked.cut = true;
                continue;
            }
            let mut frames: Vec<Frame> = Vec::new();
            self.names.frames(space, entry, kernel, caller, &mut frames);
            let all = if kernel { &mut walked.kernel } else { &mut walked.user };
            let name = |frame: Frame| frame.symbol.map_or("?".to_owned(), |name| name.to_string());
            all.extend(frames.into_iter().map(name));
            caller = true;
        }
        walked
    }
}
