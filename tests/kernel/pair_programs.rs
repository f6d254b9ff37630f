//! Programs of pairs with random expressions: the verifier accepts all of them.

use perilune::bpf::argument_record::with_context;
use perilune::bpf::bucket::BUCKETS;
use perilune::bpf::count::{CountLayout, CountedEvent};
use perilune::bpf::integer::{IntegerNode, IntegerWidth};
use perilune::bpf::key::{KeyPart, KeyShape, PartShape};
use perilune::bpf::pair::layout::{LongLayout, PAIR_COUNTERS, PairLayout};
use perilune::bpf::pair::long::{CopiedFields, LongPairs};
use perilune::bpf::pair::{
    EndedThread, PairCount, PairDrop, PairFinish, PairMaps, PairPart, PairStart, PairSum,
    PairedEvent, RowPart, end_program,
};
use perilune::bpf::record_text::TextLocation;
use perilune::bpf::task_scope::TaskScope;
use perilune::decode::format::{Field, Format};
use perilune::event::expr::in_kernel::KernelExpr;
use perilune::sys::bpf::{
    BpfMap, BpfMapType, BpfProgram, BpfProgramType, CountTable, TableSlots, cpu_numbers,
};

use crate::counting::{FORMAT, can_count, chance::Chance};
use crate::live::live_tests;

live_tests! {
    the_verifier_accepts_pairs_of_random_expressions,
}

/// Number of random pairs of each kind, and of values.
const PAIRS: usize = 150;

const SIGNED: IntegerWidth = IntegerWidth { bits: 64, signed: true };

/// Random expressions over the fields of a format.
struct Expressions {
    format: Format,
    chance: Chance,
    n: u32,
    /// Whether ends write records of long pairs.
    writes: bool,
}

impl Expressions {
    fn node(&mut self) -> IntegerNode {
        loop {
            self.n += 1;
            let (text, _) = self.chance.tree(1 + self.n % 4);
            if let Ok(KernelExpr::Integer(node, _)) = KernelExpr::parse(&text, &self.format) {
                return node;
            }
        }
    }

    fn parts(&mut self, n: usize) -> Vec<KeyPart> {
        (0..n).map(|_| KeyPart::Integer(self.node())).collect()
    }

    fn row_parts(&mut self, n: usize) -> Vec<RowPart> {
        self.parts(n).into_iter().map(RowPart::Own).collect()
    }

    /// Returns a count with sums of values of the event and of these kept ones.
    fn count(&mut self, number: usize, kept: &[usize]) -> Vec<PairCount> {
        let (key, condition) = (self.row_parts(2), Some(self.node()));
        let own = (kept.len()..2).map(|_| PairSum::Own(self.node(), IntegerWidth::ULONG));
        let kept = kept.iter().map(|kept| PairSum::Kept(*kept, SIGNED));
        vec![PairCount { number, condition, key, sums: kept.chain(own).collect() }]
    }

    /// Returns a start, an end and a drop; only some ends have conditions.
    fn pair(&mut self) -> [PairPart; 3] {
        let start = PairStart {
            kept: self.parts(2),
            counts: self.count(0, &[]),
            once: self.n.is_multiple_of(2),
            is_end: self.n.is_multiple_of(3),
            copied: self.writes.then(|| self.copied(1)),
        };
        let finish = PairFinish {
            value: None,
            same: (self.n % 3 == 1).then(|| (self.node(), 0)),
            row: (!self.n.is_multiple_of(7))
                .then(|| vec![RowPart::Own(KeyPart::Integer(self.node())), RowPart::Kept(1)]),
            longer_ns: (self.n % 5 > 2).then_some(1 << 20),
            counts: self.count(1, &[1]),
            singles: if self.n % 2 == 1 { self.count(2, &[]) } else { Vec::new() },
            strict: self.n % 4 > 1,
            long: self.writes.then(|| LongPairs { than_ns: 1 << 30, copied: self.copied(2) }),
        };
        let drop = PairDrop { last: self.n.is_multiple_of(2).then(|| self.node()) };
        [PairPart::Start(start), PairPart::Finish(finish), PairPart::Drop(drop)]
    }

    /// Returns fields of the format, as many as there is room for.
    fn copied(&self, side: i32) -> CopiedFields {
        let has_text = !self.n.is_multiple_of(3);
        let end = if has_text { 40 } else { 60 };
        let is_copied = |field: &&Field| !field.common && field.offset < end;
        let own = self.format.fields.iter().filter(is_copied);
        let fields = own.map(|field| (field.offset, field.size)).collect();
        let texts = has_text.then_some(TextLocation { at: 40, from: 0 });
        let copied = CopiedFields { side, fields, texts: texts.into_iter().collect() };
        assert_eq!(copied.bytes(), 56, "also with a text");
        copied
    }

    /// Returns an event with a value in place of a delay.
    fn value(&mut self) -> PairPart {
        let row = Some(self.row_parts(2));
        let counts = self.count(1, &[]);
        PairPart::Finish(PairFinish {
            value: Some(self.node()),
            row,
            counts,
            ..PairFinish::default()
        })
    }
}

fn the_verifier_accepts_pairs_of_random_expressions() {
    can_count();
    let numbers = |words: usize| KeyShape { parts: vec![PartShape::INTEGER; words] };
    let format = Format::parse(FORMAT).expect("a format");
    let chance = Chance(0x1357_9bdf_0246_8ace);
    let mut random = Expressions { format, chance, n: 0, writes: false };
    for (in_place, writes) in [(true, false), (false, false), (true, true), (false, true)] {
        random.writes = writes;
        let bytes = random.copied(0).bytes();
        let layout = PairLayout {
            pair: numbers(1),
            kept: numbers(2),
            row: numbers(2),
            counts: vec![CountLayout { key: numbers(2), sums: 2, ..CountLayout::default() }; 3],
            in_place,
            long: writes.then_some(LongLayout { start: bytes, finish: bytes }),
        };
        let array = |bytes: usize, entries: usize| {
            BpfMap::create(BpfMapType::PerCpuArray, bytes, entries).expect("an array")
        };
        let table = CountTable::create(layout.key_bytes(), layout.row_bytes(), 8).expect("a table");
        let tables = TableSlots::create(&table).expect("an array of maps");
        let (pair, start) = (layout.pair.bytes(), layout.start_bytes());
        let starts = CountTable::shared_by_cpus(pair, start, 8, false).expect("a table");
        let active = BpfMap::create(BpfMapType::Array, 4, 1).expect("an array");
        let cpus = cpu_numbers().expect("the number of CPUs");
        let records = BpfMap::create(BpfMapType::PerfEventArray, 4, cpus).expect("an array");
        let arrays = [
            array(layout.row_bytes(), 2 * layout.rest_rows()),
            array(8, 2 * BUCKETS),
            array(8 * PAIR_COUNTERS.len(), 2),
            array(8, 1),
            array(8, 2),
        ];
        let [rest, rest_buckets, counters, undefined, added] =
            arrays.each_ref().map(BpfMap::number);
        let maps = PairMaps {
            tables: tables.number(),
            starts: starts.number(),
            active: active.number(),
            added,
            rest,
            rest_buckets,
            counters,
            undefined,
            records: records.number(),
            scope: TaskScope::default(),
        };
        let load = |code: &[u64], what: &str| {
            let code = with_context(code).expect("a program");
            if let Err(why) = BpfProgram::load(BpfProgramType::Tracepoint, &code) {
                panic!("{what}: {why}");
            }
        };
        for of in [EndedThread::Current, EndedThread::Before(24)] {
            load(&end_program(&layout, maps, of).expect("a program"), "end");
        }
        let mut loaded = 0;
        while loaded < 3 * PAIRS {
            for part in random.pair().into_iter().chain([random.value()]) {
                let event = CountedEvent { key: random.parts(1), ..CountedEvent::default() };
                let event = PairedEvent { event, part };
                // Some expressions are too large.
                let Some(code) = event.program(&layout, maps, |_, _| ()) else { continue };
                load(&code, &format!("{event:?}"));
                loaded += 1;
            }
        }
    }
}
