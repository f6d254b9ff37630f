//! The known names that a misspelt word was probably meant to be.

use std::cmp::Reverse;

/// At most three candidates that are plausibly what was meant, the likeliest first; often none.
///
/// A typing slip (a letter too many, too few, wrong, or two swapped) in every third letter is
/// plausible; so is a word that a candidate contains whole, if it is long enough to mean something.
/// Case and the choice between `-` and `_` count as little.
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let typed = fold(word);
    let length = typed.chars().count();
    let slips = (length / 3).max(1);
    let mut found: Vec<(Rank, &str)> = Vec::new();
    for candidate in candidates {
        let known = fold(candidate);
        let known_length = known.chars().count();
        let rank = if known_length.abs_diff(length) <= slips {
            let distance = strsim::osa_distance(&typed, &known);
            // One slip is no resemblance when it leaves nothing in common.
            let close = distance <= slips && distance < length.max(known_length);
            close.then_some(Rank::Slip(distance, Reverse(common_start(&typed, &known))))
        } else {
            None
        };
        let within = length >= 4 && known.contains(&typed);
        if let Some(rank) = rank.or(within.then_some(Rank::Within(known_length))) {
            found.push((rank, candidate));
        }
    }
    found.sort();
    found.dedup();
    // Beside a close one, what is further away only distracts.
    let best = found.first().and_then(|(rank, _)| rank.distance());
    found.retain(|(rank, _)| match (best, rank.distance()) {
        (Some(best), Some(distance)) => distance <= best + 1,
        (best, distance) => best == distance,
    });
    found.into_iter().map(|(_, name)| name).take(3).collect()
}

/// `; did you mean 'A' or 'B'?`, or nothing.
pub fn did_you_mean(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; did you mean {only}?"),
        Some((last, first)) => format!("; did you mean {} or {last}?", first.join(", ")),
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Slip(usize, Reverse<usize>),
    Within(usize),
}

impl Rank {
    fn distance(&self) -> Option<usize> {
        match self {
            Rank::Slip(distance, _) => Some(*distance),
            Rank::Within(_) => None,
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
    fn a_slip_finds_the_name() {
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
    fn what_is_far_away_finds_nothing() {
        assert_eq!(of("bandwidth"), [""; 0]);
        assert_eq!(of("x"), [""; 0]);
        assert_eq!(of(""), [""; 0]);
    }

    #[test]
    fn the_question_lists_what_was_found() {
        assert_eq!(did_you_mean(&[]), "");
        assert_eq!(did_you_mean(&["a"]), "; did you mean 'a'?");
        assert_eq!(did_you_mean(&["a", "b", "c"]), "; did you mean 'a', 'b' or 'c'?");
    }
}
