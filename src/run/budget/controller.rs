//! Decides how far events are thinned so that a run stays within its budget: a pure function of the
//! load and of prices, without I/O.
//!
//! It raises N at once when the cost reaches the limit, and lowers it only when the lower one would
//! have been enough for two to four seconds, with room to spare. A load that comes and goes within
//! that time therefore does not make it oscillate.
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
/// The part of the limit for samples if skipped events exceed the limit alone.
const SAMPLES_PART: f64 = 0.05;
/// Own CPU time per sample before the first reading.
const OWN_NS: f64 = 500.0;
/// Samples in a reading that is mostly the price of samples.
const MANY: f64 = 20_000.0;

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
    one_in: u64,
    /// When a lower N began to be enough, and the highest N that was needed since.
    calm: Option<(f64, u64)>,
    /// Whether skipped events alone exceed the limit.
    is_hopeless: bool,
}

impl Controller {
    pub(super) fn new(share: f64, prices: Prices) -> Controller {
        let (own, fixed, one_in) = (OWN_NS, 0.0, 1);
        Controller { share, prices, own, fixed, one_in, calm: None, is_hopeless: false }
    }

    /// Returns the current N: one event in N is sampled.
    pub(super) fn one_in(&self) -> u64 {
        self.one_in
    }

    /// Returns whether the events exceed the limit even if none of them is sampled.
    pub(super) fn is_hopeless(&self) -> bool {
        self.is_hopeless
    }

    /// Returns what events cost in the kernel, in nanoseconds.
    pub(super) fn kernel_ns(&self, load: &Load) -> f64 {
        let skipped = (load.events - load.samples).max(0.0);
        load.samples * self.prices.record + skipped * self.prices.skipped
    }

    /// Learns from the own CPU time during a load of about a second.
    pub(super) fn learn(&mut self, load: &Load, own_ns: f64) {
        if load.samples > 0.0 {
            let price = own_ns / load.samples;
            if price < self.own {
                self.own = price;
            } else if load.samples >= MANY {
                self.own = (self.own + price) / 2.0;
            }
        }
        let rest = (own_ns - self.own * load.samples).max(0.0);
        self.fixed = (self.fixed + rest / load.capacity.max(1.0)) / 2.0;
    }

    /// Decides at the time `now`, in nanoseconds, after a load since the last decision. Returns a
    /// new N, if it changes.
    pub(super) fn decide(&mut self, now: f64, load: &Load) -> Option<u64> {
        let limit = self.share * load.capacity;
        let before = self.one_in;
        let cost = self.kernel_ns(load) + load.samples * self.own + self.fixed * load.capacity;
        if cost > PRESSED * limit {
            self.calm = None;
            let (needed, is_hopeless) = self.needed(load, TARGET);
            self.is_hopeless |= is_hopeless;
            self.one_in = needed.max(before);
        } else {
            self.relax(now, load);
        }
        (self.one_in != before).then_some(self.one_in)
    }

    /// Lowers N if a lower one has been enough for long.
    fn relax(&mut self, now: f64, load: &Load) {
        let (needed, _) = self.needed(load, CALM);
        if needed >= self.one_in {
            self.calm = None;
            return;
        }
        let (since, most) = self.calm.map_or((now, needed), |(at, most)| (at, most.max(needed)));
        self.calm = Some((since, most));
        if now - since >= CALM_NS {
            // Small steps are not worth a change.
            if most == 1 || most as f64 <= 0.8 * self.one_in as f64 {
                self.one_in = most;
            }
            self.calm = None;
        }
    }

    /// Returns the lowest N with which a load would cost this part of the limit, and whether no N
    /// is high enough.
    fn needed(&self, load: &Load, part: f64) -> (u64, bool) {
        let limit = part * self.share * load.capacity;
        let least = load.events * self.prices.skipped + self.fixed * load.capacity;
        let samples = load.events * (self.prices.record + self.own - self.prices.skipped).max(0.0);
        let room = limit - least;
        let floor = SAMPLES_PART * limit;
        let needed = samples / room.max(floor).max(f64::MIN_POSITIVE);
        let one_in = match needed {
            ..=1.0 => 1,
            _ => (needed.ceil() as u64).clamp(LEAST, MOST),
        };
        (one_in, one_in > 1 && limit / part < least)
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
