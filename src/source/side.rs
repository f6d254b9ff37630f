//! Records of a ring that are no samples: tasks that come and go, losses, throttling.

use super::live::Live;
use super::{Happening, Side, Sink};
use crate::decode::record::{self, Record};
use perf_event_open_sys::bindings as abi;

/// So many threads that ended are still watched: far more than can be on their last way out, far fewer than it takes
/// for a number to be given anew.
const ENDED: usize = 1024;

impl Live {
    /// Takes a record that is no sample, once everything before it was handled.
    pub(super) fn take_side(&mut self, index: usize, mended: Option<u64>, sink: &mut dyn Sink) {
        self.flush(sink);
        let ring = &mut self.opened.rings[index];
        let Ok(Some(piece)) = ring.ring.piece(ring.at, ring.head) else { return };
        let position = ring.at;
        ring.at += piece.len() as u64;
        let bytes = piece.bytes(&mut ring.scratch);
        let trailer = self.opened.side_layout.trailer(bytes);
        let stamped = trailer.map_or(ring.last, |t| t.time);
        let time = self.clock.since_start(mended.unwrap_or(stamped));
        let side = |what| Side { time, cpu: ring.cpu, what };
        match record::parse(bytes, &self.opened.side_layout) {
            Ok(Record::Lost(lost)) => {
                ring.suspect = true;
                let from = self.clock.since_start(ring.last).max(0.0);
                if mended.is_none() {
                    // Merged, it was told before.
                    sink.side(side(Happening::Hole { from, to: time.max(from) }));
                }
                let of_tasks = ring.holes.of_tasks(position, &ring.owner, &ring.ring);
                ring.holes.took(lost.lost, stamped);
                sink.side(side(Happening::Lost { count: lost.lost, from, of_tasks }));
            }
            Ok(Record::Throttle(_)) => sink.side(side(Happening::Throttled)),
            Ok(Record::Comm(r)) => sink.side(side(Happening::Comm {
                pid: r.pid,
                tid: r.tid,
                comm: r.comm,
                exec: r.exec,
            })),
            Ok(Record::Fork(r)) => {
                if let Some(tasks) = &mut self.tasks
                    && tasks.contains(&r.ptid)
                {
                    tasks.insert(r.tid);
                }
                sink.side(side(Happening::Fork {
                    pid: r.pid,
                    tid: r.tid,
                    parent_pid: r.ppid,
                    parent_tid: r.ptid,
                }));
            }
            Ok(Record::Exit(r)) => {
                if let Some(tasks) = &mut self.tasks {
                    self.ended.push_back(r.tid);
                    if self.ended.len() > ENDED {
                        self.ended.pop_front().map(|tid| tasks.remove(&tid));
                    }
                }
                sink.side(side(Happening::Exit { pid: r.pid, tid: r.tid }));
            }
            Ok(Record::Mmap2(r)) => sink.side(side(Happening::Mmap {
                pid: r.pid,
                tid: r.tid,
                address: r.addr,
                length: r.len,
                offset: r.pgoff,
                file: r.file,
                path: r.filename,
            })),
            Ok(Record::Ksymbol(r)) if !r.unregister => sink.side(side(Happening::Made {
                address: r.addr,
                length: r.len,
                bpf: u32::from(r.ksym_type) == abi::PERF_RECORD_KSYMBOL_TYPE_BPF,
                name: r.name,
            })),
            Ok(_) => {}
            Err(_) => sink.side(side(Happening::Undecodable)),
        }
        ring.last = ring.last.max(stamped);
    }
}
