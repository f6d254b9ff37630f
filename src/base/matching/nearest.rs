//! Suggestions for a misspelt name.

use std::cmp::Reverse;

/// Maximum number of characters that are compared, some tenths of a second: the candidates may come
/// from a file of another user.
const WORK_MAX: usize = 100_000_000;

/// Returns at most three candidates that were plausibly meant, best first; often none.
///
/// One typing error (a letter too many, too few, wrong, or two swapped) per three letters is
/// plausible; so is a word of at least four letters that a candidate contains. Case is ignored, and
/// `-` equals `_`.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let typed = fold(word);
    let length = typed.chars().count();
    let slips = (length / 3).max(1);
    let mut found: Vec<(NameRank, &str)> = Vec::new();
    let mut work = 0;
    for candidate in candidates {
        let known = fold(candidate);
        let known_length = known.chars().count();
        work += length + known_length;
        let rank = if known_length.abs_diff(length) <= slips {
            work += length * known_length;
            let distance = strsim::osa_distance(&typed, &known);
            // One error is not a resemblance if nothing in common is left.
            let close = distance <= slips && distance < length.max(known_length);
            close.then_some(NameRank::Slip(distance, Reverse(common_start(&typed, &known))))
        } else {
            None
        };
        let within = length >= 4 && known.contains(&typed);
        if let Some(rank) = rank.or(within.then_some(NameRank::Within(known_length))) {
            found.push((rank, candidate));
        }
        if work > WORK_MAX {
            break;
        }
    }
    found.sort();
    found.dedup();
    // Drop candidates that are clearly further away than the best one.
    let best = found.first().and_then(|(rank, _)| rank.distance());
    found.retain(|(rank, _)| match (best, rank.distance()) {
        (Some(best), Some(distance)) => distance <= best + 1,
        (best, distance) => best == distance,
    });
    found.into_iter().map(|(_, name)| name).take(3).collect()
}

/// Returns `; did you mean 'A' or 'B'?`, or an empty string.
pub fn did_you_mean(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; did you mean {only}?"),
        Some((last, first)) => format!("; did you mean {} or {last}?", first.join(", ")),
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum NameRank {
    Slip(usize, Reverse<usize>),
    Within(usize),
}

impl NameRank {
    fn distance(&self) -> Option<usize> {
        match self {
            NameRank::Slip(distance, _) => Some(*distance),
            NameRank::Within(_) => None,
        }
    }
}

fn fold(word: &str) -> String {
    word.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

fn common_start(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] =
        ["sched:sched_switch", "sched:sched_wakeup", "sched:sched_waking", "pid", "prio", "comm"];

    fn of(word: &str) -> Vec<&'static str> {
        nearest(word, NAMES.into_iter())
    }

    #[test]
    fn a_typo_finds_the_name() {
        assert_eq!(of("sched:sched_swich"), ["sched:sched_switch"]);
        assert_eq!(of("sched:sched_wakin"), ["sched:sched_waking"]);
        assert_eq!(of("pidd"), ["pid"]);
        assert_eq!(of("pdi"), ["pid"]);
        assert_eq!(of("COMM"), ["comm"]);
        assert_eq!(of("sched:sched-switch")[0], "sched:sched_switch");
    }

    #[test]
    fn a_long_enough_part_finds_the_whole() {
        assert_eq!(of("sched_wak"), ["sched:sched_wakeup", "sched:sched_waking"]);
        assert_eq!(of("pi"), ["pid"]);
    }

    #[test]
    fn a_distant_name_finds_nothing() {
        assert_eq!(of("bandwidth"), [""; 0]);
        assert_eq!(of("x"), [""; 0]);
        assert_eq!(of(""), [""; 0]);
    }

    #[test]
    fn the_suggestion_lists_the_names_found() {
        assert_eq!(did_you_mean(&[]), "");
        assert_eq!(did_you_mean(&["a"]), "; did you mean 'a'?");
        assert_eq!(did_you_mean(&["a", "b", "c"]), "; did you mean 'a', 'b' or 'c'?");
    }
}
