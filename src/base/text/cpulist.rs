//! CPU lists in the notation of the kernel: `0-3,8,10-11`.
//!
//! `/sys/devices/system/cpu/online` and the argument of `-C` use it. Parsing accepts any input and
//! is bounded: the list never holds more than twice [`MOST`] numbers.

use anyhow::{Result, bail, ensure};

/// Upper limit on the number of CPUs, one more than the largest CPU number. Linux supports at most
/// 8192 today.
pub const MOST: u32 = 65536;

/// Returns the CPUs of a list, sorted, without duplicates. Blank text is an empty list, as in
/// sysfs.
///
/// # Errors
/// A part is not a CPU number below [`MOST`], or a range is reversed.
pub fn parse(text: &str) -> Result<Vec<u32>> {
    let mut cpus = Vec::new();
    if text.trim().is_empty() {
        return Ok(cpus);
    }
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (number(low, text)?, number(high, text)?);
        ensure!(
            low <= high,
            "CPU list `{text}`: the range {low}-{high} is reversed; use {high}-{low}"
        );
        cpus.extend(low..=high);
        // Overlapping ranges may repeat numbers: deduplicate while the list grows to keep it
        // bounded.
        if cpus.len() > MOST as usize {
            cpus.sort_unstable();
            cpus.dedup();
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Returns the text of a list, with two or more consecutive CPUs as a range: `0-3,8,10-11`. `cpus`
/// must be sorted, as returned by [`parse`].
pub fn format(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, high)) if high.checked_add(1) == Some(cpu) => *high = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let words: Vec<String> = ranges
        .into_iter()
        .map(|(low, high)| if low == high { low.to_string() } else { format!("{low}-{high}") })
        .collect();
    words.join(",")
}

/// Parses one CPU number of the list `whole`.
fn number(text: &str, whole: &str) -> Result<u32> {
    let text = text.trim();
    let whole = whole.trim();
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    ensure!(digits, "CPU list `{whole}`: `{text}` is not a CPU number; for example 0-3,8");
    match text.parse::<u32>() {
        Ok(cpu) if cpu < MOST => Ok(cpu),
        _ => bail!("CPU list `{whole}`: CPU {text} exceeds the largest CPU number, {}", MOST - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_and_single_cpus_are_sorted_and_unique() {
        assert_eq!(parse("0-3,8,10-11").unwrap(), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("0-1,4,6-7\n").unwrap(), [0, 1, 4, 6, 7]);
        assert_eq!(parse("0\n").unwrap(), [0]);
        assert_eq!(parse(" 8, 2-3,0-2\n").unwrap(), [0, 1, 2, 3, 8]);
        assert!(parse("\n").unwrap().is_empty());
    }

    #[test]
    fn a_list_error_names_the_invalid_part() {
        let error = |text| parse(text).unwrap_err().to_string();
        assert_eq!(error("0-3,x"), "CPU list `0-3,x`: `x` is not a CPU number; for example 0-3,8");
        assert_eq!(error("3-1"), "CPU list `3-1`: the range 3-1 is reversed; use 1-3");
        assert!(error("1,,2").contains("`` is not a CPU number"));
        assert!(error("-1").contains("is not a CPU number"));
        assert!(error("+1").contains("is not a CPU number"));
        assert!(error("0-4294967295").contains("exceeds the largest CPU number, 65535"));
        assert!(error("99999999999999999999").contains("exceeds the largest CPU number"));
    }

    #[test]
    fn many_full_ranges_stay_within_the_bound() {
        let text = vec!["0-65535"; 200].join(",");
        assert_eq!(parse(&text).unwrap().len(), MOST as usize);
    }

    proptest! {
        #[test]
        fn any_text_gives_a_list_or_an_error(text in "[0-9,\\- x]{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn a_formatted_list_reads_back(cpus in proptest::collection::btree_set(0u32..200, 0..80)) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            prop_assert_eq!(parse(&format(&cpus)).unwrap(), cpus);
        }
    }
}
