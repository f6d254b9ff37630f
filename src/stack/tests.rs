//! Interning, the limit, and sweeps.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

const KERNEL: u64 = -128_i64 as u64;
const USER: u64 = -512_i64 as u64;

fn kernel(n: u64) -> [u64; 3] {
    [KERNEL, u64::MAX << 40 | n, u64::MAX << 40]
}

#[test]
fn equal_chains_have_one_id() {
    let mut stacks = Stacks::default();
    let id = stacks.intern(&kernel(1), || Space(1));
    assert_ne!(stacks.intern(&kernel(2), || Space(1)), id);
    assert_eq!(stacks.intern(&kernel(1), || Space(1)), id);
    assert_eq!(stacks.chain(id), Some((Space::UNKNOWN, &kernel(1)[..])));
    assert_eq!(stacks.len(), 2);
}

#[test]
fn user_frames_belong_to_their_process_and_kernel_frames_to_all() {
    let mut stacks = Stacks::default();
    let chain = [KERNEL, u64::MAX << 40, USER, 0x1000];
    let (one, two) = (stacks.intern(&chain, || Space(1)), stacks.intern(&chain, || Space(2)));
    assert_ne!(one, two);
    assert_eq!(stacks.chain(two).map(|found| found.0), Some(Space(2)));
    assert_eq!(stacks.intern(&kernel(1), || Space(1)), stacks.intern(&kernel(1), || Space(2)));
}

#[test]
fn the_empty_chain_has_its_own_id() {
    let mut stacks = Stacks::new(0);
    assert_eq!(stacks.intern(&[], || Space(7)), EMPTY);
    assert_eq!(stacks.chain(EMPTY), Some((Space::UNKNOWN, &[][..])));
    assert_eq!((stacks.chain(OTHER), stacks.overflowed()), (None, 0));
}

#[test]
fn at_the_bound_new_chains_become_other_and_are_counted() {
    let mut stacks = Stacks::new(2 * (24 + OVERHEAD));
    let ids = [1, 2].map(|n| stacks.intern(&kernel(n), || Space(1)));
    assert_eq!([3, 4].map(|n| stacks.intern(&kernel(n), || Space(1))), [OTHER; 2]);
    assert_eq!([1, 2].map(|n| stacks.intern(&kernel(n), || Space(1))), ids);
    assert_eq!(stacks.overflowed(), 2);
}

#[test]
fn swept_ids_are_unknown_and_never_reused() {
    let mut stacks = Stacks::new(2 * (24 + OVERHEAD));
    let [a, b] = [1, 2].map(|n| stacks.intern(&kernel(n), || Space(1)));
    assert!(stacks.wants_sweep());
    assert_eq!(stacks.sweep(&mut [0.5, b as f64, -1.0, f64::NAN, 1e300]), 1);
    assert_eq!(stacks.chain(a), None);
    assert_eq!(stacks.chain(b), Some((Space::UNKNOWN, &kernel(2)[..])));
    let c = stacks.intern(&kernel(3), || Space(1));
    assert!(c > b);
    assert_eq!(stacks.chain(c), Some((Space::UNKNOWN, &kernel(3)[..])));
    assert_eq!(stacks.intern(&kernel(2), || Space(1)), b);
}

#[test]
fn a_sweep_that_frees_nothing_is_not_repeated_at_once() {
    let mut stacks = Stacks::new(100 * (24 + OVERHEAD));
    let mut ids: Vec<f64> =
        (0..60).map(|n| stacks.intern(&kernel(n), || Space(1)) as f64).collect();
    assert!(stacks.wants_sweep());
    assert_eq!(stacks.sweep(&mut ids), 0);
    assert!(!stacks.wants_sweep());
}

proptest! {
    /// Compares with a map: whatever is interned and swept, an id has its original chain or none.
    #[test]
    fn an_id_never_changes_its_chain(
        steps in prop::collection::vec((0u64..40, 0usize..6, any::<bool>()), 0..300),
    ) {
        let mut stacks = Stacks::default();
        let mut given: HashMap<u64, Vec<u64>> = HashMap::new();
        for (n, len, sweep) in steps {
            let chain: Vec<u64> = (0..len as u64).map(|i| n * 7 + i).collect();
            let id = stacks.intern(&chain, || Space(3));
            let before = given.entry(id).or_insert_with(|| chain.clone());
            prop_assert_eq!(&*before, &chain);
            if sweep && n % 5 == 0 {
                let mut used: Vec<f64> =
                    given.keys().filter(|id| **id % 3 == 0).map(|id| *id as f64).collect();
                stacks.sweep(&mut used);
            }
            for (id, chain) in &given {
                if let Some((_, held)) = stacks.chain(*id) {
                    prop_assert_eq!(held, &chain[..]);
                } else {
                    prop_assert!(id % 3 != 0);
                }
            }
        }
    }
}
