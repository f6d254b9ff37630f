//! A model of paired events: random events, and the rows and counters that the programs must have.

use std::collections::{BTreeMap, BTreeSet};

use perilune::bpf::bucket;
use perilune::bpf::pair::layout::PairCounter;

use super::machine::Maps;
use super::{EXEC, EXIT, Variant};

/// A random number generator with a fixed seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % n
    }

    /// Returns a time until the next event: of any length, and sometimes negative, as between two
    /// CPUs.
    pub(super) fn step(&mut self) -> i64 {
        match self.below(40) {
            0..5 => -(self.below(400) as i64),
            5 => (self.below(u64::from(u32::MAX)) << 13) as i64,
            n => self.below(1 << (n / 2 + 6)) as i64,
        }
    }
}

/// An event of the load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Happening {
    pub(super) kind: u64,
    pub(super) time: i64,
    pub(super) thread: u64,
    pub(super) cpu: u64,
    pub(super) id: i64,
    pub(super) ret: i64,
    pub(super) pointer: u64,
}

impl Happening {
    pub(super) fn record(&self) -> Vec<u8> {
        let words = [0, self.id.cast_unsigned(), self.ret.cast_unsigned(), self.pointer];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

pub(super) fn load(random: &mut Random, events: usize) -> Vec<Happening> {
    let mut time = 1 << 50;
    let mut happen = || {
        time += random.step();
        Happening {
            kind: random.below(50),
            time,
            thread: 1000 + random.below(6),
            cpu: random.below(3),
            id: [EXIT, EXEC, 0, 1, 39, 39][random.below(6) as usize],
            ret: [-4097, -4096, -4095, -11, -1, 0, 7][random.below(7) as usize],
            pointer: 0xffff_8880_0000_0000 + random.below(8),
        }
    };
    (0..events).map(|_| happen()).collect()
}

/// Rows by key, and counters, as the programs must fill them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    /// Count, sum, least and greatest delay.
    pub(super) rows: BTreeMap<Vec<u64>, [u64; 4]>,
    pub(super) open: BTreeMap<u64, (i64, i64, u64)>,
    pub(super) counters: BTreeMap<&'static str, u64>,
    /// The keys for which the map of starts has an element.
    pub(super) known: BTreeSet<u64>,
}

impl Expected {
    pub(super) fn add(&mut self, counter: &'static str) {
        *self.counters.entry(counter).or_default() += 1;
    }

    pub(super) fn count(&mut self, number: u64, key: &[u64]) {
        let mut words = vec![(1 << 16) + number];
        words.extend(key);
        words.resize(4, 0);
        self.rows.entry(words).or_insert([0, 0, u64::MAX, 0])[0] += 1;
    }

    pub(super) fn start(&mut self, key: u64, at: &Happening, once: bool) {
        if once && self.open.contains_key(&key) {
            return;
        }
        self.add("starts");
        if once {
            self.add("joint");
        }
        self.known.insert(key);
        if self.open.insert(key, (at.time, at.id, at.cpu)).is_some() {
            self.add("unmatched");
        }
        if at.id == EXIT {
            self.count(1, &[at.id.cast_unsigned(), 2]);
        }
    }

    pub(super) fn finish(&mut self, key: u64, at: &Happening, of: Variant) {
        let id = at.id.cast_unsigned();
        let Some((time, started, cpu)) = self.open.remove(&key) else {
            self.add("singles");
            if of.strict && !self.known.insert(key) {
                self.add("startless");
            }
            if at.id == EXEC {
                let quotient = id.checked_div(at.ret.cast_unsigned());
                if quotient.is_none() {
                    self.add("undefined");
                }
                self.count(2, &[quotient.unwrap_or(0)]);
            }
            return;
        };
        let delay = at.time - time;
        if of.strict && started != at.id {
            self.add("startless");
        }
        if of.longer_ns.is_some_and(|longer| delay <= longer) || started != at.id {
            return self.add("unrecorded");
        }
        let Ok(delay) = u64::try_from(delay) else {
            self.add("disordered");
            self.add("unrecorded");
            return self.count_error(at);
        };
        let key = vec![bucket::bucket_of(delay) as u64, id, cpu, 0];
        let row = self.rows.entry(key).or_insert([0, 0, u64::MAX, 0]);
        *row = [row[0] + 1, row[1] + delay, row[2].min(delay), row[3].max(delay)];
        if delay > bucket::LONGEST_NS {
            self.add("clamped");
        }
        self.count_error(at);
    }

    pub(super) fn drop_start(&mut self, key: u64, at: &Happening) {
        if self.open.remove(&key).is_some() {
            self.add("dropped");
        }
        if at.ret != 0 {
            self.known.remove(&key);
        }
    }

    pub(super) fn count_error(&mut self, at: &Happening) {
        if at.ret < 0 && at.ret > -4096 {
            self.count(0, &[at.id.cast_unsigned(), at.ret.cast_unsigned(), at.thread]);
        }
    }
}

/// Returns the maps as the model has them.
pub(super) fn found(maps: &Maps) -> Expected {
    let mut expected = Expected::default();
    for (key, row) in &maps.table {
        assert_eq!(row[2], 0, "the delays of the load add up to less than 2^64 ns");
        let least = !row[3];
        expected.rows.insert(key.clone(), [row[0], row[1], least, row[4]]);
    }
    for (key, start) in maps.starts.iter().filter(|(_, start)| start[0] > 0) {
        let start = (start[0].cast_signed(), start[1].cast_signed(), start[2]);
        expected.open.insert(key[0], start);
    }
    expected.known = maps.starts.keys().map(|key| key[0]).collect();
    let counters = [
        ("starts", PairCounter::Starts),
        ("unmatched", PairCounter::Unmatched),
        ("evicted", PairCounter::Evicted),
        ("exited", PairCounter::Exited),
        ("singles", PairCounter::Singles),
        ("disordered", PairCounter::Disordered),
        ("clamped", PairCounter::Clamped),
        ("unrecorded", PairCounter::Unrecorded),
        ("dropped", PairCounter::Dropped),
        ("joint", PairCounter::Joint),
        ("startless", PairCounter::Startless),
    ];
    let counted = |counter| maps.counters[0][counter as usize] + maps.counters[1][counter as usize];
    let counters = counters.map(|(name, counter)| (name, counted(counter)));
    expected.counters =
        counters.into_iter().chain([("undefined", maps.undefined)]).filter(|c| c.1 > 0).collect();
    expected
}
