//! Decides how far events are thinned so that a run stays within its budget: a pure function of the
//! load and of prices, without I/O.
//!
//! It raises N at once when the cost reaches the limit, and lowers it only when the lower one would
//! have been enough for two to four seconds, with room to spare. A load that comes and goes within
//! that time therefore does not make it oscillate. If events that are only counted would take most
//! of the limit, they are on during a part of the time.
//!
//! The CPU time of the process is not a function of the load alone: a report costs milliseconds at
//! once. It is read once a second and split into a price per sample and a fixed rate; between two
//! readings, the cost is predicted from the events and samples.

/// Costs of an event for the traced tasks in the kernel, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prices {
    /// An event with a record.
    pub(super) record: f64,
    /// An event that is only counted.
    pub(super) skipped: f64,
    /// A system call while its events are off, but open.
    pub(super) off: f64,
    /// Whether events are counted in the kernel instead of recorded.
    pub(super) are_counts: bool,
    /// The part of the first two that is not the run time of the programs that count: system calls
    /// take the kernel's slow path.
    pub(super) slow_path: f64,
}

impl Prices {
    /// Returns the prices of events that the kernel counts: of the program where it counts one, and
    /// where it does not, because only one in N is; both with the cost of the `slow_path`.
    pub(super) fn of_counts(counted: f64, skipped: f64, slow_path: f64) -> Prices {
        let (record, skipped) = (counted + slow_path, skipped + slow_path);
        Prices { record, skipped, off: 0.0, are_counts: true, slow_path }
    }

    /// Returns the same prices with these ones of the program; None keeps the one before.
    pub(super) fn of_program(self, counted: Option<f64>, skipped: Option<f64>) -> Prices {
        let [before, skipped_before] = [self.record, self.skipped].map(|ns| ns - self.slow_path);
        let counted = counted.unwrap_or(before);
        let skipped = skipped.unwrap_or(counted * skipped_before / before.max(1.0));
        Prices::of_counts(counted, skipped.min(counted), self.slow_path)
    }

    /// Returns the cost of so many events, of which some have a record or are counted, in
    /// nanoseconds.
    pub(super) fn of_events(&self, events: f64, samples: f64) -> f64 {
        samples * self.record + (events - samples).max(0.0) * self.skipped
    }

    /// Returns the same prices, if the mean of a program is `ns` where this share of the events is
    /// counted.
    pub(super) fn scaled_to(self, ns: f64, share: f64) -> Prices {
        let [counted, skipped] = [self.record, self.skipped].map(|ns| ns - self.slow_path);
        let by = ns / (share * counted + (1.0 - share) * skipped).max(1.0);
        Prices::of_counts(by * counted, by * skipped, self.slow_path)
    }
}

/// Events of a time span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// CPU time that the watched CPUs had, in nanoseconds.
    pub(super) capacity: f64,
    /// Events that the kernel counted.
    pub(super) events: f64,
    /// Events that it wrote a sample of.
    pub(super) samples: f64,
    /// Those of the events that are system calls.
    pub(super) calls: f64,
    /// System calls while their events were off, as estimated from the others.
    pub(super) off: f64,
}

/// The part of the limit that N is raised to, and the part that a lower N must stay within.
const TARGET: f64 = 0.8;
const CALM: f64 = 0.65;
/// The part of the limit from which N is raised.
const PRESSED: f64 = 0.95;
/// Nanoseconds for which a lower N must have been enough; counted anew each time.
const CALM_NS: f64 = 2e9;
/// Lowest N above 1. A load that repeats each N events would be sampled always at the same place,
/// and short patterns are common: entry and exit, the calls of a loop.
const LEAST: u64 = 7;
/// Highest N.
const MOST: u64 = 1 << 20;
/// The part of the room that skipped events may take; beyond it, events are on in slices of time.
const SKIPPED_PART: f64 = 0.8;
/// Smallest part of the limit that is used, whatever the process costs.
const LEAST_PART: f64 = 0.05;
/// Time constant, in readings, of the fixed rate. The first second of a run, in which scripts are
/// compiled, and the second of a report must not count for more than they take.
const FIXED_READINGS: f64 = 4.0;
/// Number of readings over which an excess is saved.
const SAVING: f64 = 4.0;
/// Largest excess that is saved, in limits of a reading: one expensive report does not thin events
/// for long.
const MOST_SAVED: f64 = 2.0;
/// Highest number of parts of the time of which events are on during one.
const MOST_PARTS: u64 = 200;
/// Own CPU time per sample before the first reading: of one that is counted, and of one that is
/// printed.
pub(super) const COUNTED_NS: f64 = 500.0;
pub(super) const PRINTED_NS: f64 = 4000.0;
/// Samples in a reading that is mostly the price of samples, by a report and in the time before the
/// first one.
const MANY: f64 = 20_000.0;
const MANY_EARLY: f64 = 500.0;

/// How far events are thinned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Thinning {
    /// N: of so many events that are counted, one is sampled.
    pub(super) one_in: u64,
    /// Events are on during one part of the time in so many.
    pub(super) one_in_time: u64,
}

impl Thinning {
    /// Each event is sampled.
    pub(super) const NONE: Thinning = Thinning { one_in: 1, one_in_time: 1 };

    /// Returns the stronger of two. Slices of time save more than any N.
    fn stronger(self, other: Thinning) -> Thinning {
        let strength = |one: &Thinning| (one.one_in_time, one.one_in);
        std::cmp::max_by_key(self, other, strength)
    }

    /// Returns whether the change from another, stronger one is worth it.
    fn is_much_weaker(self, before: Thinning) -> bool {
        let is_much_less = |now: u64, before: u64| now == 1 || now as f64 <= 0.8 * before as f64;
        if self.one_in_time == before.one_in_time {
            return is_much_less(self.one_in, before.one_in);
        }
        is_much_less(self.one_in_time, before.one_in_time)
    }
}

/// The state of the decision.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    /// Limit, as a share of the capacity.
    share: f64,
    prices: Prices,
    /// Own CPU time per sample, in nanoseconds.
    own: f64,
    /// Own CPU time beside that, as a share of the capacity.
    fixed: f64,
    /// CPU time that events have taken beyond the limit, in nanoseconds, and the share of the
    /// capacity that is saved to make up for it.
    excess: f64,
    saved: f64,
    thinning: Thinning,
    /// When less began to be enough, and the most that was needed since.
    calm: Option<(f64, Thinning)>,
    /// Whether no thinning is enough.
    is_hopeless: bool,
    most_parts: u64,
}

impl Controller {
    /// Begins with a share of the capacity as the limit, and the `own` CPU time per sample that is
    /// assumed before the first reading.
    pub(super) fn new(share: f64, prices: Prices, own: f64) -> Controller {
        Controller {
            share,
            prices,
            own,
            fixed: 0.0,
            excess: 0.0,
            saved: 0.0,
            thinning: Thinning::NONE,
            calm: None,
            is_hopeless: false,
            most_parts: 1,
        }
    }

    /// Returns the prices.
    pub(super) fn prices(&self) -> Prices {
        self.prices
    }

    /// Continues with other prices.
    pub(super) fn set_prices(&mut self, prices: Prices) {
        self.prices = prices;
    }

    /// Returns the number of parts of the time of which events were on in one, at most so far.
    pub(super) fn most_parts(&self) -> u64 {
        self.most_parts
    }

    /// Returns how far events are thinned now.
    pub(super) fn thinning(&self) -> Thinning {
        self.thinning
    }

    /// Returns whether the run exceeds the limit however far its events are thinned.
    pub(super) fn is_hopeless(&self) -> bool {
        self.is_hopeless
    }

    /// Returns what events cost in the kernel, in nanoseconds.
    pub(super) fn kernel_ns(&self, load: &Load) -> f64 {
        self.prices.of_events(load.events, load.samples) + load.off * self.prices.off
    }

    /// Learns from the own CPU time during a load of about a second, or `is_early` of the start
    /// of a run.
    pub(super) fn learn(&mut self, load: &Load, own_ns: f64, is_early: bool) {
        if load.samples > 0.0 && !self.prices.are_counts {
            let price = own_ns / load.samples;
            if price < self.own {
                self.own = price;
            } else if load.samples >= if is_early { MANY_EARLY } else { MANY } {
                self.own = (self.own + price) / 2.0;
            }
        }
        let of_samples = self.own * load.samples;
        if !is_early {
            let rest = (own_ns - of_samples).max(0.0);
            let share = rest / load.capacity.max(1.0);
            self.fixed += (share - self.fixed) / FIXED_READINGS;
        }
        let (limit, kernel_ns) = (self.share * load.capacity, self.kernel_ns(load));
        // To thin events makes up only for their own cost.
        let excess = (own_ns + kernel_ns - limit).min(kernel_ns + of_samples);
        self.excess = (self.excess + excess).clamp(0.0, f64::MAX);
        if !is_early {
            self.excess = self.excess.min(MOST_SAVED * limit);
            self.saved = self.excess / SAVING / load.capacity.max(1.0);
        }
    }

    /// Decides at the time `now`, in nanoseconds, after a load since the last decision: of several
    /// slices, if events are on in slices of time. Returns the new thinning, if it changes.
    pub(super) fn decide(&mut self, now: f64, load: &Load) -> Option<Thinning> {
        let before = self.thinning;
        let off = load.off * self.prices.off;
        let (limit, _) = avoidable(self.share * load.capacity, off);
        let own = load.samples * self.own;
        let cost = self.kernel_ns(load) + own + (self.fixed + self.saved) * load.capacity;
        if cost - off > PRESSED * limit {
            self.calm = None;
            let (needed, is_hopeless) = self.needed(load, TARGET);
            self.is_hopeless |= is_hopeless;
            self.thinning = before.stronger(needed);
        } else {
            self.relax(now, load);
        }
        self.most_parts = self.most_parts.max(self.thinning.one_in_time);
        (self.thinning != before).then_some(self.thinning)
    }

    /// Thins less if that has been enough for long.
    fn relax(&mut self, now: f64, load: &Load) {
        let (needed, _) = self.needed(load, CALM);
        if self.thinning.stronger(needed) == needed {
            self.calm = None;
            return;
        }
        let (since, most) =
            self.calm.map_or((now, needed), |(at, most)| (at, most.stronger(needed)));
        self.calm = Some((since, most));
        if now - since >= CALM_NS {
            if most.is_much_weaker(self.thinning) {
                self.thinning = most;
            }
            self.calm = None;
        }
    }

    /// Returns the least thinning with which a load would cost this part of the limit, and whether
    /// none is enough.
    fn needed(&self, load: &Load, part: f64) -> (Thinning, bool) {
        let limit = part * self.share * load.capacity;
        let unreduced = (limit - self.fixed * load.capacity).max(LEAST_PART * limit);
        let unreduced = unreduced.max(f64::MIN_POSITIVE);
        let room = (unreduced - self.saved * load.capacity).max(unreduced / 2.0);
        // All events: slices contain only a part of them.
        let events = load.events * self.thinning.one_in_time as f64;
        let (skipped, sample) =
            (self.prices.skipped, (self.prices.record + self.own - self.prices.skipped).max(0.0));
        let rest = room - events * skipped;
        let reports_exceed = self.fixed >= self.share;
        // Errors of a number that is one in N of counts could not be stated: sums of squares of
        // values are not counted. In slices, their differences state them.
        let is_exact = self.prices.are_counts && events * self.prices.record <= room;
        if is_exact || !self.prices.are_counts && rest >= (1.0 - SKIPPED_PART) * room {
            let one_in = match events * sample / rest {
                _ if is_exact => 1,
                ..=1.0 => 1,
                needed => (needed.ceil() as u64).clamp(LEAST, MOST),
            };
            return (Thinning { one_in, one_in_time: 1 }, one_in > 1 && reports_exceed);
        }
        // Samples cost half as much as the other events of a slice: more of them would shorten the
        // slices, and fewer save little.
        let one_in = ((2.0 * sample / skipped).ceil() as u64).clamp(LEAST, MOST);
        let calls = load.calls * self.thinning.one_in_time as f64;
        let off = calls * self.prices.off;
        let (rest, _) = avoidable(room, off);
        let on = events * (skipped + sample / one_in as f64) - off;
        let parts = (on / rest).ceil();
        let one_in_time = (parts as u64).clamp(2, MOST_PARTS);
        // The share that is saved for some seconds does not count.
        let (most, exceeds) = avoidable(unreduced, off);
        let exceeds = exceeds || on / most > MOST_PARTS as f64;
        (Thinning { one_in, one_in_time }, reports_exceed || exceeds)
    }
}

/// Returns what is left of a limit after a cost that no thinning avoids, and whether that exceeds
/// it: the rest of the run then takes as much as it would without.
fn avoidable(limit: f64, unavoidable: f64) -> (f64, bool) {
    match limit - unavoidable {
        rest if rest > 0.0 => (rest, false),
        _ => (limit, true),
    }
}

/// Returns `N` primes from `from` on. A prime N does not stay in step with patterns of other
/// lengths, and CPUs with different ones not with the same pattern.
pub(super) fn primes<const N: usize>(from: u64) -> [u64; N] {
    let is_prime =
        |n: &u64| *n >= 2 && (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    let mut found = (from..).filter(is_prime);
    // There is always a next prime.
    std::array::from_fn(|_| found.next().unwrap_or(from))
}

#[cfg(test)]
mod tests;
