//! Measures the cost of interning a call chain (a script's `e._stack` without the two nanoseconds
//! of the call), and of drawing the ids as a flame graph.
//!
//! Each pass interns 1024 chains of 20 frames, 700 of them different unless stated otherwise.

use std::rc::Rc;

use divan::{Bencher, counter::ItemsCount};
use perilune::base::event::chain::{KERNEL, USER};
use perilune::base::report::flame::Flame;
use perilune::base::report::frame::{Frame, Space};
use perilune::output::{folded, svg};
use perilune::stack::{
    Stacks,
    fold::{Fold, FoldedStack},
    naming::Naming,
};
use perilune::symbol::Symbolizer;

const CALLS: usize = 1024;
const FRAMES: usize = 20;

fn main() {
    divan::main();
}

/// Returns chains that differ only in the middle frame and the last one, so that a comparison must
/// read them to the end.
fn chains(different: usize) -> Vec<Vec<u64>> {
    let chain = |n: usize| {
        let mut chain = vec![-128_i64 as u64];
        chain.extend((0..FRAMES as u64).map(|i| 0xffff_ffff_8100_0000 + i * 4096));
        chain[FRAMES / 2] += n as u64 % 64;
        chain[FRAMES] += n as u64 / 64;
        chain
    };
    (0..CALLS).map(|i| chain(i * 7 % different)).collect()
}

#[divan::bench(args = [1, 700])]
fn known(bencher: Bencher<'_, '_>, different: usize) {
    let (mut stacks, chains) = (Stacks::default(), chains(different));
    bencher.counter(ItemsCount::new(CALLS)).bench_local(|| {
        chains.iter().map(|chain| stacks.intern(chain, || Space::UNKNOWN)).sum::<u64>()
    });
}

#[divan::bench]
fn new(bencher: Bencher<'_, '_>) {
    let chains = chains(CALLS);
    bencher.counter(ItemsCount::new(CALLS)).with_inputs(Stacks::default).bench_local_refs(
        |stacks| chains.iter().map(|chain| stacks.intern(chain, || Space::UNKNOWN)).sum::<u64>(),
    );
}

/// Function names as long as those of C++.
struct LongNames;

impl Symbolizer for LongNames {
    fn frames(&mut self, _: Space, address: u64, kernel: bool, _: bool, out: &mut Vec<Frame>) {
        let symbol = format!("namespace::of_module_{}::function_{address:x}(int)", address % 97);
        out.push(Frame { address, symbol: Some(Rc::from(symbol)), kernel, ..Frame::default() });
    }
}

/// Folds, writes and draws a hundred thousand stacks of 30 frames, 20 of the process and 10 of the
/// kernel. They form a tree: many stacks share the outer frames, few share the inner ones.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn drawn(bencher: Bencher<'_, '_>) {
    const STACKS: u64 = 100_000;
    let mut stacks = Stacks::default();
    let stack = |leaf: u64| {
        let address = |depth: u64| {
            let breadth = (leaf >> 17u64.saturating_sub(depth)).wrapping_mul(0x9e37_79b9) % 1000;
            0x40_0000 + depth * 0x10_0000 + breadth * 16
        };
        let mut chain = vec![KERNEL];
        chain.extend((20..30).rev().map(|depth| (1 << 63) | (address(depth) % 0x1000_0000)));
        chain.push(USER);
        chain.extend((0..20).rev().map(address));
        stacks.intern(&chain, || Space(1))
    };
    let ids: Vec<u64> = (0..STACKS).map(stack).collect();
    bencher.counter(ItemsCount::new(STACKS)).bench_local(|| {
        let mut naming = Naming::new(Box::new(LongNames));
        let mut fold = Fold::new(&stacks, &mut naming, Flame::new("", "samples"));
        ids.iter().for_each(|&id| {
            let folded = FoldedStack { roots: vec!["server"], id, joined: None };
            fold.add(&folded, 1 + id % 100);
        });
        let (flame, mut picture) = (fold.finish(), Vec::new());
        folded::write(&flame, &mut std::io::sink()).expect("nothing is written");
        svg::write(&flame, &svg::Caption::default(), &mut picture).expect("memory takes it all");
        picture
    });
}
