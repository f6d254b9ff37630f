//! Numbers of events and records that the kernel dropped, or that arrived incomplete.

use std::ops::Range;

use super::{Live, SideLost};
use crate::source::request::Opening;
use crate::sys::perf::PerfEvent;

const FORMAT_LOST: u64 = perf_event_open_sys::bindings::PERF_FORMAT_LOST as u64;

impl Live {
    /// Returns how many events the kernel dropped so far, by its own count per event; None if it
    /// does not count them (before 6.0). A reading costs an interrupt on another CPU, so during a
    /// run the counts are read only after a ring was nearly full; with `all`, at the end, always.
    pub fn lost(&mut self, all: bool) -> Option<u64> {
        let first =
            self.opened.events.iter().find(|open| !self.openings[open.opening].sampling.count);
        let closed: u64 = self.opened.rings.iter().map(|ring| ring.lost_of_closed).sum();
        let Some(first) = first else {
            self.lost_seen = self.lost_seen.max(closed);
            return (closed > 0).then_some(self.lost_seen);
        };
        if first.event.attr().get("read_format").unwrap_or(0) & FORMAT_LOST == 0 {
            return None;
        }
        if !all && !self.opened.rings.iter().any(|r| r.lost_counts_stale) {
            return Some(self.lost_seen);
        }
        let lost_of = |event: &PerfEvent| event.lost().unwrap_or(0);
        self.lost_by_opening.clear();
        self.lost_by_opening.resize(self.openings.len(), 0);
        for open in &self.opened.events {
            if let Some(lost) = self.lost_by_opening.get_mut(open.opening) {
                *lost += lost_of(&open.event);
            }
        }
        let total: u64 = self.lost_by_opening.iter().sum();
        for ring in &mut self.opened.rings {
            ring.lost_counts_stale = false;
        }
        let of_rings = |tasks_only: bool| {
            let rings = self.opened.rings.iter().filter(|ring| ring.tasks_only == tasks_only);
            rings.map(|ring| ring.lost_of_tasks().unwrap_or(0)).sum()
        };
        self.side_lost = SideLost { beside_events: of_rings(false), alone: of_rings(true) };
        self.lost_seen = self.lost_seen.max(total + closed);
        Some(self.lost_seen)
    }

    /// Returns how many events of these roles the kernel dropped, as of the last [`Live::lost`];
    /// None if it does not count them. Events that were closed with their CPU count for each role.
    pub fn lost_of_roles(&self, roles: Range<usize>) -> Option<u64> {
        let first = self.opened.events.first()?;
        if first.event.attr().get("read_format").unwrap_or(0) & FORMAT_LOST == 0 {
            return None;
        }
        let is_own =
            |opening: &Opening| opening.named().any(|role| roles.contains(&(role as usize)));
        let openings = self.openings.iter().zip(&self.lost_by_opening);
        let own: u64 = openings.filter(|(opening, _)| is_own(opening)).map(|(_, lost)| lost).sum();
        let closed: u64 = self.opened.rings.iter().map(|ring| ring.lost_of_closed).sum();
        Some(own + closed)
    }

    /// Returns how many records of tasks were lost, as of the last [`Live::lost`]; names may then
    /// be stale.
    pub fn side_lost(&self) -> u64 {
        self.side_lost.beside_events + self.side_lost.alone
    }

    /// Returns how many of them were lost from rings that events write to, too.
    pub fn side_lost_beside_events(&self) -> u64 {
        self.side_lost.beside_events
    }

    /// Returns the number of events whose order across rings could not be restored.
    pub fn disordered(&self) -> u64 {
        self.order.as_ref().map_or(0, |order| order.counts().disordered)
    }

    /// Returns how many chains so far contain only the inner part of their stack.
    pub fn truncated(&self) -> u64 {
        self.batch().truncated()
    }
}
