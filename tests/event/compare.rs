//! The kernel's result of filters, compared with perilune's own evaluations, on the same events.

use perilune::event::{
    filter::{
        BoundFilter, Filter, FilterInput,
        split::{Condition, Split, UserCondition},
    },
    kind::{self, Event},
};

use crate::{
    here,
    kernel::{self, Of, Sample, Tracepoint},
};

/// Opens the event unfiltered and once per filter, runs the load, and compares the events that
/// passed with four evaluations of perilune: in Rust on the records; as a predicate in front of a
/// handler; as a C expression compiled to Lua, where C has the same meaning; and each pair of
/// `splits`, a filter that is split and an equivalent one for the kernel alone. Returns the number
/// of events.
pub(crate) fn compare(
    event: &str,
    of: Of,
    filters: &[&str],
    splits: &[(&str, &str)],
    comm: impl Fn(&Sample) -> Vec<u8>,
    load: impl FnOnce(),
) -> usize {
    let described = described(event);
    let format = described.format().unwrap();
    let all = Tracepoint::open(format.id, of, 256).unwrap();
    let open = |filter: Option<&Filter>| {
        let tracepoint = all.join(format.id, of, 256).unwrap();
        filter.into_iter().for_each(|filter| tracepoint.set_filter(&filter.to_kernel()).unwrap());
        tracepoint
    };
    let parsed: Vec<Filter> = filters.iter().map(|text| Filter::parse(text).unwrap()).collect();
    let filtered: Vec<Tracepoint> = parsed.iter().map(|filter| open(Some(filter))).collect();
    let halves: Vec<Halves> = splits
        .iter()
        .map(|(typed, same)| {
            let split = Split::parse(typed, &described).unwrap_or_else(|why| panic!("{why}"));
            assert!(!split.rest.is_empty(), "{typed} is not distinguished");
            (open(split.kernel.as_ref()), split.rest, open(Some(&Filter::parse(same).unwrap())))
        })
        .collect();
    all.enable(true);
    load();
    all.enable(false);

    let everything = all.samples();
    let names: Vec<Vec<u8>> = everything.iter().map(comm).collect();
    let theirs: Vec<_> = filtered.iter().map(|tracepoint| raw(&tracepoint.samples())).collect();
    let bound: Vec<BoundFilter> = parsed.iter().map(|f| f.bind(event, format).unwrap()).collect();
    for ((filter, bound), theirs) in filters.iter().zip(&bound).zip(&theirs) {
        let seen = everything.iter().zip(&names);
        let passed = seen.filter(|(sample, comm)| {
            bound.passes(&FilterInput { raw: &sample.raw, cpu: sample.cpu, comm })
        });
        let ours: Vec<Vec<u8>> = passed.map(|(sample, _)| sample.raw.clone()).collect();
        println!("{event} {filter}: {} of {}", theirs.len(), everything.len());
        assert!(&ours == theirs, "{filter}: perilune: {}, kernel: {}", ours.len(), theirs.len());
    }

    let predicates: Vec<_> = std::iter::zip(&parsed, bound)
        .map(|(filter, bound)| vec![UserCondition::of_kernel(filter, bound)])
        .collect();
    let (passed, kept_back) = here::passing(event, &predicates, &everything, &names);
    for ((filter, passed), theirs) in filters.iter().zip(&passed).zip(&theirs) {
        assert!(&of_indexes(passed, &everything) == theirs, "{filter}: as a predicate");
    }
    let through: usize = theirs.iter().map(Vec::len).sum();
    assert_eq!(kept_back as usize, everything.len() * filters.len() - through);

    let compiled: Vec<_> = std::iter::zip(filters, &theirs)
        .filter_map(|(filter, theirs)| Some((in_c(filter)?, theirs)))
        .collect();
    let predicates: Vec<_> = compiled.iter().map(|(c, _)| expression(c, &described)).collect();
    let (passed, _) = here::passing(event, &predicates, &everything, &names);
    for ((c, theirs), passed) in compiled.iter().zip(&passed) {
        let ours = of_indexes(passed, &everything);
        assert!(&ours == *theirs, "{c}: perilune: {}, kernel: {}", ours.len(), theirs.len());
    }
    assert!(compiled.len() * 3 > filters.len() * 2, "only {} compiled", compiled.len());

    compare_splits(event, splits, &halves, &everything, &names);
    everything.len()
}

/// A filter that is split: the event with the kernel's part, the other part, and the event with an
/// equivalent filter.
type Halves = (Tracepoint, Vec<UserCondition>, Tracepoint);

/// Compares both parts of each filter with its equivalent.
fn compare_splits(
    event: &str,
    splits: &[(&str, &str)],
    halves: &[Halves],
    everything: &[Sample],
    names: &[Vec<u8>],
) {
    for ((typed, same), (tracepoint, rest, whole)) in splits.iter().zip(halves) {
        let received = tracepoint.samples();
        let mut at = everything.iter().zip(names);
        // Both are in order of time, so each received sample is found after the previous one.
        let named = received.iter().map(|one| {
            let found = at.find(|(sample, _)| sample.raw == one.raw);
            found.expect("an event that passed the kernel occurred").1.clone()
        });
        let named: Vec<Vec<u8>> = named.collect();
        let (passed, _) = here::passing(event, std::slice::from_ref(rest), &received, &named);
        let (ours, theirs) = (of_indexes(&passed[0], &received), raw(&whole.samples()));
        println!("{event} {typed}: {} of {} of {}", ours.len(), received.len(), everything.len());
        assert!(ours == theirs, "{typed}: {}, but {} by {same}", ours.len(), theirs.len());
    }
}

fn described(event: &str) -> Event {
    let format = kernel::format(event).unwrap();
    Event::new(event, kind::Tracepoint { format })
}

fn raw(samples: &[Sample]) -> Vec<Vec<u8>> {
    samples.iter().map(|sample| sample.raw.clone()).collect()
}

fn of_indexes(indexes: &[usize], samples: &[Sample]) -> Vec<Vec<u8>> {
    indexes.iter().map(|index| samples[*index].raw.clone()).collect()
}

/// Returns a filter as a C expression. Returns None where C has no equivalent, or another meaning:
/// sets of CPUs, a negated glob, the negation of an operand, a number truncated to the width of the
/// field, and -2^63, whose digits exceed the range in C.
fn in_c(filter: &str) -> Option<String> {
    let other = filter.contains("CPUS")
        || filter.contains("~ \"!")
        || filter.starts_with("!sig ==")
        || filter.contains("4294967306")
        || filter.contains("0x100000008")
        || filter.contains("-9223372036854775808");
    let text = filter.replace("COMM", "_comm").replace("CPU", "_cpu").replace('\'', "\"");
    (!other).then(|| format!("({text}) != 0"))
}

/// Parses a condition of which no part is left to the kernel: all of it is one C expression.
fn expression(text: &str, event: &Event) -> Vec<UserCondition> {
    let rest = Split::parse(text, event).unwrap_or_else(|why| panic!("{why}")).rest;
    assert!(
        matches!(&rest[..], [UserCondition { condition: Condition::Value(_), .. }]),
        "{text}: {rest:?}"
    );
    rest
}
