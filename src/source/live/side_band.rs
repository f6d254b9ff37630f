//! Records of a ring that are not samples: changes of tasks and mappings, losses, throttling.

use super::Live;
use crate::decode::record::{self, Record};
use crate::decode::side_band::Mmap2;
use crate::source::open::opened::OpenedSource;
use crate::source::request::Opening;
use crate::source::ring::ids::Ids;
use crate::source::ring::openings::Openings;
use crate::source::ring::watched_tasks::WatchedTasks;
use crate::source::side_record::{SideKinds, SideRecord};
use crate::source::sink::{SideBand, SideBandKind, Sink};
use perf_event_open_sys::bindings as abi;

/// Updates which threads are watched, before a record is handled.
fn note_exec<E>(parsed: &Result<Record<'_>, E>, tasks: Option<&mut WatchedTasks>) {
    match (parsed, tasks) {
        (Ok(Record::Comm(comm)), Some(tasks)) if comm.exec => tasks.on_exec(comm.tid),
        (Ok(Record::Lost(_)), Some(tasks)) => tasks.watch_awaited(),
        _ => {}
    }
}

impl Live {
    /// Handles a record that is not a sample, after everything before it.
    pub(super) fn take_side(&mut self, index: usize, merge_time: Option<u64>, sink: &mut dyn Sink) {
        self.flush(sink);
        let OpenedSource { rings, ids, decoders, side_layout, .. } = &mut self.opened;
        let ring = &mut rings[index];
        let Ok(Some(piece)) = ring.ring.piece(ring.at, ring.head) else { return };
        let position = ring.at;
        ring.at += piece.len() as u64;
        let openings = Openings { ids, decoders, own_pid: self.own_pid };
        let layout = openings.layout_of(&piece).unwrap_or(side_layout);
        let bytes = piece.bytes(&mut ring.scratch);
        let trailer = layout.trailer(bytes);
        if trailer.is_some_and(|trailer| trailer.time > ring.looked_at) {
            // These bytes are not a time.
            return sink.side(SideBand::undecodable(self.clock.since_start(ring.last), ring.cpu));
        }
        // A loss without a time has the latest possible one.
        let untimed = if layout.has_trailer_time() { ring.last } else { ring.looked_at };
        let written = trailer.filter(|_| layout.has_trailer_time()).map(|trailer| trailer.time);
        let stamped = written.unwrap_or(untimed);
        let time = self.clock.since_start(merge_time.unwrap_or(stamped));
        let here = self.watched_cpus.contains(&ring.cpu);
        let side = |what| SideBand { time, cpu: ring.cpu, watched: here, what };
        let parsed = record::parse(bytes, layout);
        note_exec(&parsed, self.tasks.as_mut());
        let is_watched = |tid: u32| self.tasks.as_ref().is_none_or(|tasks| tasks.contains(tid));
        let of = |tid: u32, what| SideBand { watched: here && is_watched(tid), ..side(what) };
        let record = parsed.as_ref().ok();
        let recorded = record.and_then(|r| recorded(r, self.request.side, &self.openings, ids));
        match parsed {
            Ok(Record::Lost(_)) if ring.tasks_only => {
                ring.lost_counts_stale = true;
                sink.side(side(SideBandKind::TasksLost));
            }
            Ok(Record::Lost(lost)) => {
                ring.lost_counts_stale = true;
                let from = self.clock.since_start(ring.last).max(0.0);
                if merge_time.is_none() {
                    // A merge has reported it before.
                    sink.side(side(SideBandKind::LossWindow { from, to: time.max(from) }));
                }
                let lost_of_tasks = ring.owner.lost().map(|lost| lost + ring.owner_lost_before);
                let of_tasks = ring.loss_windows.of_tasks(position, lost_of_tasks, &ring.ring);
                ring.loss_windows.add_lost(lost.lost, stamped);
                sink.side(side(SideBandKind::Lost { count: lost.lost, from, of_tasks }));
            }
            Ok(Record::Throttle(_)) => sink.side(side(SideBandKind::Throttled)),
            Ok(Record::Comm(r)) => {
                let (pid, tid, comm, exec) = (r.pid, r.tid, r.comm, r.exec);
                sink.side(of(tid, SideBandKind::Comm { pid, tid, comm, exec }));
            }
            Ok(Record::Fork(r)) => {
                let (pid, tid, parent_pid, parent_tid) = (r.pid, r.tid, r.ppid, r.ptid);
                let fork = SideBandKind::Fork { pid, tid, parent_pid, parent_tid };
                let fork = of(parent_tid, fork);
                self.tasks.iter_mut().for_each(|tasks| tasks.on_fork(tid, pid, parent_tid));
                sink.side(fork);
            }
            Ok(Record::Exit(r)) => {
                let exit = of(r.tid, SideBandKind::Exit { pid: r.pid, tid: r.tid });
                self.tasks.iter_mut().for_each(|tasks| tasks.on_exit(r.tid));
                let groups = decoders.iter().filter_map(|one| one.counts.as_ref());
                groups.for_each(|group| group.end(r.pid, r.tid, stamped));
                sink.side(exit);
            }
            Ok(Record::Mmap2(r)) => sink.side(of(r.tid, mapped(&r))),
            Ok(Record::Ksymbol(r)) if !r.unregister => sink.side(side(SideBandKind::Made {
                address: r.addr,
                length: r.len,
                bpf: u32::from(r.ksym_type) == abi::PERF_RECORD_KSYMBOL_TYPE_BPF,
                name: r.name,
            })),
            Ok(_) => {}
            Err(_) => sink.side(side(SideBandKind::Undecodable)),
        }
        if let Some(recorded) = recorded {
            let watched = here && is_watched_now(&recorded, self.tasks.as_ref());
            sink.side(SideBand { watched, ..side(SideBandKind::ForCallback(&recorded)) });
        }
        ring.last = ring.last.max(written.unwrap_or(ring.looked_before));
    }
}

fn mapped<'a>(r: &Mmap2<'a>) -> SideBandKind<'a> {
    SideBandKind::Mmap {
        pid: r.pid,
        tid: r.tid,
        address: r.addr,
        length: r.len,
        offset: r.pgoff,
        file: r.file,
        path: r.filename,
    }
}

/// Returns a record that scripts want; None for any other.
fn recorded<'a>(
    record: &Record<'a>,
    wanted: SideKinds,
    openings: &'a [Opening],
    ids: &Ids,
) -> Option<SideRecord<'a>> {
    let event_of = |id| Some(openings.get(ids.get(id)? as usize)?.event.name.as_str());
    SideRecord::of(record, event_of).filter(|one| wanted.contains(one.kind))
}

/// Returns whether a record is about a watched thread, or about none.
fn is_watched_now(record: &SideRecord<'_>, tasks: Option<&WatchedTasks>) -> bool {
    record.tid().is_none_or(|tid| tasks.is_none_or(|tasks| tasks.contains(tid)))
}
