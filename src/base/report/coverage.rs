//! Coverage of a report: the number of events, and everything that was missed, counted by reason.

/// Counts of one interval, or of the whole run. Not shown if perfect; see [`Coverage::is_perfect`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Events that reached a handler.
    pub events: u64,
    /// Events that were received and then rejected by the user-space part of a filter. They are not
    /// missing from the report; they are counted because they cost time.
    pub filtered: u64,
    /// Events that the kernel dropped because a ring was full.
    pub lost: u64,
    /// Number of times that the kernel throttled an event.
    pub throttled: u64,
    /// Records that could not be decoded, or were too short for their format.
    pub undecodable: u64,
    /// Pairs without a partner: a second begin before the end.
    pub unmatched: u64,
    /// Open states dropped because events were lost while they were open.
    pub unsafe_: u64,
    /// Open states dropped because their task ended.
    pub exited: u64,
    /// Keys folded into `(evicted)` because a table reached its memory bound, and open states
    /// dropped for the same reason.
    pub evicted: u64,
    /// Call chains cut at the depth limit.
    pub truncated: u64,
    /// Events whose order across rings could not be restored.
    pub disordered: u64,
    /// Expressions whose value C does not define, such as a division by zero: each counted as 0.
    pub undefined: u64,
    /// Handler errors.
    pub errors: u64,
    /// Counters that shared their hardware with others, so their values are scaled.
    pub multiplexed: u64,
    /// Latencies beyond the range of the percentiles, which count them as the longest of the range;
    /// total and max are exact.
    pub clamped: u64,
    /// Events that the kernel counted and neither wrote to a ring nor counted as lost.
    pub undelivered: u64,
    /// Log records, intervals and points that the receiver of `--otlp` did not get.
    pub unsent: u64,
    /// Events that left no record to stay within `--budget`: others stand for them.
    /// None without a budget.
    pub thinned: Option<u64>,
    /// Starts of relations and states. Each is paired, still open, or one of `unmatched`,
    /// `unsafe_`, `exited` and `evicted`.
    pub starts: u64,
    /// Starts that are open now.
    pub open: u64,
}

impl Coverage {
    /// Returns name and count of each problem, in display order; zeros included.
    pub fn problems(&self) -> [(&'static str, u64); 15] {
        [
            ("lost", self.lost),
            ("throttled", self.throttled),
            ("undecodable", self.undecodable),
            ("unmatched", self.unmatched),
            ("unsafe", self.unsafe_),
            ("exited", self.exited),
            ("evicted", self.evicted),
            ("truncated", self.truncated),
            ("disordered", self.disordered),
            ("undefined", self.undefined),
            ("errors", self.errors),
            ("multiplexed", self.multiplexed),
            ("clamped", self.clamped),
            ("undelivered", self.undelivered),
            ("unsent", self.unsent),
        ]
    }

    /// Returns the problems and, with a budget, the events that it has thinned.
    pub fn gaps(&self) -> Vec<(&'static str, u64)> {
        let thinned = self.thinned.map(|count| ("thinned", count));
        self.problems().into_iter().chain(thinned).collect()
    }

    /// Returns whether nothing was missed.
    pub fn is_perfect(&self) -> bool {
        self.gaps().iter().all(|(_, n)| *n == 0)
    }

    /// Returns the number of starts that were dropped without an end: their share is missing from
    /// the tables.
    pub fn unpaired(&self) -> u64 {
        self.unmatched + self.unsafe_
    }

    /// Returns the difference from `before`, an earlier state of the same counts.
    pub fn since(&self, before: &Coverage) -> Coverage {
        Coverage {
            events: self.events.saturating_sub(before.events),
            filtered: self.filtered.saturating_sub(before.filtered),
            lost: self.lost.saturating_sub(before.lost),
            throttled: self.throttled.saturating_sub(before.throttled),
            undecodable: self.undecodable.saturating_sub(before.undecodable),
            unmatched: self.unmatched.saturating_sub(before.unmatched),
            unsafe_: self.unsafe_.saturating_sub(before.unsafe_),
            exited: self.exited.saturating_sub(before.exited),
            evicted: self.evicted.saturating_sub(before.evicted),
            truncated: self.truncated.saturating_sub(before.truncated),
            disordered: self.disordered.saturating_sub(before.disordered),
            undefined: self.undefined.saturating_sub(before.undefined),
            errors: self.errors.saturating_sub(before.errors),
            multiplexed: self.multiplexed.saturating_sub(before.multiplexed),
            clamped: self.clamped.saturating_sub(before.clamped),
            undelivered: self.undelivered.saturating_sub(before.undelivered),
            unsent: self.unsent.saturating_sub(before.unsent),
            thinned: self.thinned.map(|n| n.saturating_sub(before.thinned.unwrap_or(0))),
            // States that were open at `before` may have missed their ends, too.
            starts: self.starts.saturating_sub(before.starts) + before.open,
            open: self.open,
        }
    }
}
