//! What it costs to turn a call chain into its id: a script's `e._stack`, without the two nanoseconds of the call.
//!
//! Each pass interns 1024 chains of 20 frames, of 700 different ones unless said otherwise.

use divan::{Bencher, counter::ItemsCount};
use perilune::{base::frame::Space, stack::Stacks};

const CALLS: usize = 1024;
const FRAMES: usize = 20;

fn main() {
    divan::main();
}

/// Chains that differ in one place: what a comparison has to look at to the end.
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
