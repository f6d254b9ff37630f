//! Frames of a recording: it has their names, to which addresses are assigned here.

use std::collections::HashMap;
use std::rc::Rc;

use crate::base::report::frame::{Frame, Space};
use crate::base::text::stack_style::parse_frame;
use crate::source::replay::{RecordedEntry, RecordingLine, Replay};
use crate::stack::naming::Naming;
use crate::symbol::Symbolizer;

/// The first of the addresses that stand for the recording's frame names.
const FRAMES: u64 = 0xffff_ffff_0000_0000;

/// The recording's frames as addresses, and the call chain of each entry in these addresses.
pub(super) struct Frames {
    names: Rc<Vec<Frame>>,
    chains: Vec<Vec<u64>>,
}

/// The frames of a recording, found by the addresses that stand for them.
pub(super) struct RecordedFrames(Rc<Vec<Frame>>);

impl Symbolizer for RecordedFrames {
    fn frames(
        &mut self,
        _space: Space,
        address: u64,
        kernel: bool,
        _caller: bool,
        out: &mut Vec<Frame>,
    ) {
        let known = address.checked_sub(FRAMES).and_then(|at| self.0.get(at as usize));
        out.push(known.cloned().unwrap_or(Frame { address, kernel, ..Frame::default() }));
    }
}

impl Frames {
    /// Reads the frames of a recording.
    pub(super) fn of(replay: &Replay) -> Self {
        let (mut names, mut known) = (Vec::new(), HashMap::new());
        let mut address = |name: &String| {
            *known.entry(name.clone()).or_insert_with(|| {
                names.push(parse_frame(name));
                FRAMES + names.len() as u64 - 1
            })
        };
        let chain =
            |entry: &RecordingLine, address: &mut dyn FnMut(&String) -> u64| match &entry.what {
                RecordedEntry::Event { stack, .. } => stack.iter().map(address).collect(),
                _ => Vec::new(),
            };
        let chains = replay.entries().iter().map(|e| chain(e, &mut address)).collect();
        Frames { names: Rc::new(names), chains }
    }

    /// Returns the call chain of the entry at `index`.
    pub(super) fn chain_of(&self, index: usize) -> &[u64] {
        &self.chains[index]
    }

    /// Returns the names for the addresses that stand for them.
    pub(super) fn naming(&self) -> Naming {
        Naming::new(Box::new(RecordedFrames(self.names.clone())))
    }
}
