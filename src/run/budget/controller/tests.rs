//! Synthetic loads: steady ones, steps, bursts, and machines of different sizes.

use super::*;

const PRICES: Prices =
    Prices { record: 170.0, skipped: 50.0, off: 10.0, are_counts: false, slow_path: 0.0 };
/// Nanoseconds of a decision's window.
const WINDOW: f64 = 1e8;

/// A machine under a load of events: what a run would cost there, and how often N changes.
struct Machine {
    cpus: f64,
    controller: Controller,
    now: f64,
    own: f64,
    spent: f64,
    since_reading: (Load, f64),
    changes: Vec<u64>,
    /// Whether its events are system calls.
    has_calls: bool,
}

impl Machine {
    fn new(cpus: f64, share: f64) -> Machine {
        let controller = Controller::new(share, PRICES, COUNTED_NS);
        let (now, spent, own) = (0.0, 0.0, 200.0);
        let since_reading = (Load::default(), 0.0);
        let (changes, has_calls) = (Vec::new(), false);
        Machine { cpus, controller, now, own, spent, since_reading, changes, has_calls }
    }

    /// Runs a second of `rate` events per second. Every second a report costs `report_ns`.
    fn second(&mut self, rate: f64, report_ns: f64) {
        for window in 0..10 {
            let thinning = self.controller.thinning();
            let events = rate * WINDOW / 1e9 / thinning.one_in_time as f64;
            let samples = events / thinning.one_in as f64;
            let calls = if self.has_calls { events } else { 0.0 };
            let off = calls * (thinning.one_in_time - 1) as f64;
            let load = Load { capacity: self.cpus * WINDOW, events, samples, calls, off };
            let own = samples * self.own + if window == 9 { report_ns } else { 0.0 };
            self.spent += own + self.controller.kernel_ns(&load);
            let (sum, sum_own) = &mut self.since_reading;
            sum.capacity += load.capacity;
            sum.events += load.events;
            sum.samples += load.samples;
            sum.calls += load.calls;
            sum.off += load.off;
            *sum_own += own;
            self.now += WINDOW;
            if let Some(thinning) = self.controller.decide(self.now, &load) {
                self.changes.push(thinning.one_in * thinning.one_in_time);
            }
        }
        let (sum, own) = std::mem::take(&mut self.since_reading);
        self.controller.learn(&sum, own, false);
    }

    /// Returns the cost since the last call, as a share of the capacity of this many seconds.
    fn cost(&mut self, seconds: f64) -> f64 {
        std::mem::take(&mut self.spent) / (self.cpus * seconds * 1e9)
    }
}

#[test]
fn a_light_load_is_never_thinned() {
    let mut machine = Machine::new(2.0, 0.01);
    (0..60).for_each(|_| machine.second(20_000.0, 2e6));
    assert_eq!((&machine.changes[..], machine.controller.thinning()), (&[][..], Thinning::NONE));
}

#[test]
fn a_heavy_load_is_thinned_at_once_and_stays_within_the_budget() {
    for (cpus, rate) in [(2.0, 300_000.0), (8.0, 1e6), (256.0, 3e7)] {
        let mut machine = Machine::new(cpus, 0.01);
        machine.second(rate, 1e6);
        assert!(machine.controller.thinning() != Thinning::NONE, "{cpus}");
        machine.cost(1.0);
        (0..30).for_each(|_| machine.second(rate, 1e6));
        let cost = machine.cost(30.0);
        assert!(cost < 0.0101 && cost > 0.005, "{cpus} CPUs: {cost}");
        assert!(machine.changes.len() <= 3, "{:?}", machine.changes);
    }
}

#[test]
fn the_first_change_comes_with_the_first_decision() {
    let mut controller = Controller::new(0.01, PRICES, COUNTED_NS);
    let load = Load { capacity: 2e7, events: 20_000.0, samples: 20_000.0, calls: 0.0, off: 0.0 };
    assert!(controller.decide(1e7, &load).is_some_and(|to| to.one_in >= LEAST));
}

#[test]
fn n_is_lowered_some_seconds_after_the_load_has_ended() {
    let mut machine = Machine::new(2.0, 0.01);
    (0..5).for_each(|_| machine.second(300_000.0, 1e6));
    let thinned = machine.changes.len();
    machine.second(1000.0, 1e6);
    assert_eq!(machine.changes.len(), thinned, "too soon");
    (0..4).for_each(|_| machine.second(1000.0, 1e6));
    assert_eq!(machine.controller.thinning(), Thinning::NONE);
    assert_eq!(machine.changes.len(), thinned + 1);
}

#[test]
fn bursts_do_not_make_it_oscillate() {
    let mut machine = Machine::new(2.0, 0.01);
    for second in 0..60 {
        machine.second(if second % 2 == 0 { 300_000.0 } else { 1000.0 }, 1e6);
    }
    assert!(machine.changes.len() <= 3, "{:?}", machine.changes);
}

#[test]
fn a_load_at_the_threshold_does_not_make_it_oscillate() {
    for rate in (20..120).map(|rate| f64::from(rate) * 1000.0) {
        let mut machine = Machine::new(2.0, 0.01);
        for second in 0..60 {
            // 3 % more or less.
            machine.second(rate * (1.0 + 0.03 * f64::from(second % 3 - 1)), 1e6);
        }
        assert!(machine.changes.len() <= 3, "{rate}: {:?}", machine.changes);
    }
}

#[test]
fn an_expensive_report_does_not_thin_events_forever() {
    let mut machine = Machine::new(2.0, 0.01);
    machine.second(1000.0, 5e8);
    (0..20).for_each(|_| machine.second(1000.0, 1e6));
    assert_eq!(machine.controller.thinning(), Thinning::NONE);
}

#[test]
fn a_cost_beyond_the_limit_is_saved_in_the_following_seconds() {
    for rate in [300_000.0, 1e7] {
        let mut machine = Machine::new(2.0, 0.01);
        (0..10).for_each(|_| machine.second(rate, 1e6));
        machine.cost(1.0);
        // The limit of two seconds beside the events.
        machine.second(rate, 4e7);
        (0..9).for_each(|_| machine.second(rate, 1e6));
        let cost = machine.cost(10.0);
        assert!(cost < 0.0101 && cost > 0.004, "{rate}: {cost}");
        (0..9).for_each(|_| machine.second(rate, 1e6));
        machine.cost(1.0);
        (0..9).for_each(|_| machine.second(rate, 1e6));
        let cost = machine.cost(9.0);
        assert!(cost > 0.0055, "{rate}: {cost}, though nothing is left to be saved");
    }
}

#[test]
fn a_busy_first_second_does_not_shorten_slices_for_long() {
    let mut machine = Machine::new(2.0, 0.01);
    // The process takes the whole limit in the first second, and a third of it in the others.
    machine.second(1000.0, 2e7);
    let parts: Vec<u64> = (0..10)
        .map(|_| {
            machine.second(2e6, 6e6);
            machine.controller.thinning().one_in_time
        })
        .collect();
    let needed = 2e6 * PRICES.skipped / (0.3 * 0.01 * 2e9);
    assert!(parts.iter().all(|parts| (*parts as f64) < 2.0 * needed), "{parts:?}: {needed}");
    machine.cost(11.0);
    (0..20).for_each(|_| machine.second(2e6, 6e6));
    let cost = machine.cost(20.0);
    assert!(cost < 0.0101, "{cost}");
}

#[test]
fn only_the_excess_of_events_is_saved() {
    let mut controller = Controller::new(0.02, PRICES, COUNTED_NS);
    let load = Load { capacity: 2e9, events: 5000.0, samples: 5000.0, ..Load::default() };
    controller.learn(&load, 2e8, false);
    assert!(controller.saved > 0.0 && controller.saved < 0.05 * 0.02, "{}", controller.saved);
    controller.learn(&load, 1e6, false);
    assert_eq!(controller.saved, 0.0);
}

#[test]
fn extreme_costs_leave_numbers_in_range() {
    for own_ns in [0.0, 1e18, f64::MAX] {
        let mut controller = Controller::new(0.01, PRICES, COUNTED_NS);
        let load = Load { capacity: 2e9, events: 1e6, samples: 1e6, ..Load::default() };
        controller.learn(&load, own_ns, false);
        controller.decide(1e9, &load);
        let Thinning { one_in, one_in_time } = controller.thinning();
        assert!(
            (1..=MOST).contains(&one_in) && (1..=MOST_PARTS).contains(&one_in_time),
            "{own_ns}"
        );
    }
}

#[test]
fn events_that_cost_too_much_unsampled_are_on_for_a_part_of_the_time() {
    for (cpus, rate) in [(2.0, 2e6), (2.0, 2e7), (256.0, 2e8)] {
        let mut machine = Machine::new(cpus, 0.01);
        machine.second(rate, 1e6);
        machine.cost(1.0);
        (0..30).for_each(|_| machine.second(rate, 1e6));
        let (cost, thinning) = (machine.cost(30.0), machine.controller.thinning());
        assert!(thinning.one_in_time > 1 && thinning.one_in >= LEAST, "{rate}: {thinning:?}");
        assert!(cost < 0.0101 && cost > 0.005, "{rate}: {cost}");
        assert!(machine.changes.len() <= 6 && !machine.controller.is_hopeless());
        (0..10).for_each(|_| machine.second(10_000.0, 1e6));
        assert_eq!(machine.controller.thinning(), Thinning::NONE, "{rate}");
    }
}

#[test]
fn a_run_that_exceeds_the_budget_in_any_case_is_reported() {
    let mut machine = Machine::new(2.0, 0.0001);
    (0..5).for_each(|_| machine.second(2e7, 1e3));
    assert!(machine.controller.is_hopeless());
    let mut enough = Machine::new(2.0, 0.01);
    (0..5).for_each(|_| enough.second(2e7, 1e6));
    assert!(!enough.controller.is_hopeless());
    let mut reports = Machine::new(2.0, 0.01);
    (0..5).for_each(|_| reports.second(10_000.0, 1e8));
    assert!(reports.controller.is_hopeless(), "reports alone exceed it");
}

#[test]
fn extreme_loads_give_an_n_in_range() {
    for events in [0.0, 1.0, 1e18, f64::INFINITY, f64::NAN] {
        for capacity in [0.0, 1.0, 1e18] {
            let mut controller = Controller::new(0.01, PRICES, COUNTED_NS);
            controller.learn(
                &Load { capacity, events, samples: events, calls: 0.0, off: 0.0 },
                1e9,
                false,
            );
            controller
                .decide(1e9, &Load { capacity, events, samples: events, calls: 0.0, off: 0.0 });
            let Thinning { one_in, one_in_time } = controller.thinning();
            let in_range = (1..=MOST).contains(&one_in) && (1..=MOST_PARTS).contains(&one_in_time);
            assert!(in_range, "{events} {capacity}");
        }
    }
}

#[test]
fn primes_follow_the_lowest_n_that_is_needed() {
    assert_eq!(primes::<3>(7), [7, 11, 13]);
    assert_eq!(primes::<2>(98), [101, 103]);
    assert_eq!(primes::<1>(MOST), [1_048_583]);
}

#[test]
fn calls_between_slices_are_part_of_the_cost_and_shorten_slices() {
    let mut machine = Machine::new(2.0, 0.01);
    let parts_of = |machine: &mut Machine, rate: f64| {
        (0..30).for_each(|_| machine.second(rate, 1e6));
        machine.controller.thinning().one_in_time
    };
    let parts = parts_of(&mut machine, 1e6);
    assert!(parts > 1 && !machine.controller.is_hopeless(), "{parts}");
    machine.has_calls = true;
    let with_calls = parts_of(&mut machine, 1e6);
    machine.cost(60.0);
    parts_of(&mut machine, 1e6);
    let cost = machine.cost(30.0);
    assert!(with_calls > parts && cost > 0.005 && cost < 0.0101, "{parts} {with_calls} {cost}");
    // Four million calls a second cost twice the limit while the events are off.
    let most = parts_of(&mut machine, 4e6);
    assert!(machine.controller.is_hopeless());
    machine.cost(1.0);
    let calm = parts_of(&mut machine, 4e5);
    assert!(calm < most && machine.cost(30.0) < 0.0101, "{calm} after {most}");
}

#[test]
fn counts_in_the_kernel_are_exact_or_in_slices() {
    let mut controller = Controller::new(0.01, Prices::of_counts(100.0, 30.0, 0.0), 0.0);
    let load =
        |events: f64, samples: f64| Load { capacity: 2e9, events, samples, ..Load::default() };
    assert_eq!(controller.decide(0.0, &load(100_000.0, 100_000.0)), None, "half of the limit");
    // Of a second of 2,000,000 events, one in LEAST is counted: 80 ms, of which 16 are wanted.
    let thinning = Thinning { one_in: LEAST, one_in_time: 5 };
    assert_eq!(controller.decide(1e9, &load(2e6, 2e6)), Some(thinning));
    let of_slices = load(2e6 / 5.0, 2e6 / 5.0 / LEAST as f64);
    assert_eq!(controller.decide(2e9, &of_slices), None);
    assert!(controller.kernel_ns(&of_slices) < 0.85 * 0.01 * 2e9);
    let before = controller.prices();
    controller.set_prices(before.scaled_to(2.0 * (100.0 + 6.0 * 30.0) / 7.0, 1.0 / 7.0));
    assert!((controller.prices().record - 200.0).abs() < 1e-6);
    assert_eq!(controller.decide(3e9, &of_slices).map(|now| now.one_in_time), Some(10));
    for second in 4..8 {
        controller.decide(f64::from(second) * 1e9, &load(1000.0, 200.0));
    }
    assert_eq!(controller.thinning(), Thinning::NONE);
}

#[test]
fn what_is_measured_of_programs_leaves_the_rest_of_a_price() {
    let prices = Prices::of_counts(80.0, 20.0, 60.0);
    assert_eq!((prices.record, prices.skipped), (140.0, 80.0));
    // The mean of a program is twice as long as assumed.
    let scaled = prices.scaled_to(64.0, 0.2);
    assert_eq!((scaled.record, scaled.skipped), (220.0, 100.0));
    let looked = prices.of_program(Some(40.0), None);
    assert_eq!((looked.record, looked.skipped), (100.0, 70.0));
    assert_eq!(prices.of_program(None, Some(90.0)), Prices::of_counts(80.0, 80.0, 60.0));
}
