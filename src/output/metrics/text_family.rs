//! A family as OpenMetrics text, written directly: with a call for each part of each label,
//! encoding would take most of a scrape.
//!
//! The lines are those of prometheus-client; a test compares the two.

use super::names::base_name;
use super::store::{Bound, FamilyShape, MetricFamily, SeriesValue};
use crate::base::text::digits;

/// Largest integer below which all integers are exact in a double.
const EXACT: f64 = (1u64 << 53) as f64;

/// Appends a family.
pub(super) fn push_family(page: &mut Vec<u8>, name: &str, family: &MetricFamily) {
    match family.shape {
        FamilyShape::Counter => {
            push_head(page, name, family, "counter");
            push_numbers(page, &format!("{name}_total"), family, push_count);
        }
        FamilyShape::Gauge => {
            push_head(page, name, family, "gauge");
            push_numbers(page, name, family, push_f64);
        }
        FamilyShape::Exponential(_) | FamilyShape::Buckets => {
            push_head(page, name, family, "histogram");
            push_histograms(page, name, family);
        }
    }
}

fn push_head(page: &mut Vec<u8>, name: &str, family: &MetricFamily, kind: &str) {
    let (help, unit) = (&family.help, family.unit);
    push(page, &["# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"]);
    if base_name(name, unit).1 {
        push(page, &["# UNIT ", name, " ", unit, "\n"]);
    }
}

/// Appends a line for each series.
fn push_numbers(
    page: &mut Vec<u8>,
    name: &str,
    family: &MetricFamily,
    push_number: fn(&mut Vec<u8>, f64),
) {
    for (labels, value) in &family.series {
        if let SeriesValue::Number(value) = value {
            push(page, &[name, "{", labels.text(), "} "]);
            push_number(page, *value);
            page.push(b'\n');
        }
    }
}

/// Appends sum, count and buckets of each series.
fn push_histograms(page: &mut Vec<u8>, name: &str, family: &MetricFamily) {
    let bounds = family.bounds();
    // The beginning of each bucket's line, up to its bound.
    let mut heads: Vec<String> = Vec::new();
    let mut buckets = Vec::new();
    for (labels, value) in &family.series {
        let labels = labels.text();
        let (count, sum) = match (value, family.shape) {
            (
                SeriesValue::Exponential { count, sum, buckets: from },
                FamilyShape::Exponential(powers),
            ) => {
                from.classic(powers, &mut buckets);
                (*count, *sum)
            }
            (SeriesValue::Buckets { count, sum, buckets: from }, _) => {
                buckets.clear();
                let count_of = |bound| from.get(&Bound(bound)).copied().unwrap_or(0);
                buckets.extend(bounds.iter().map(|bound| (*bound, count_of(*bound))));
                (*count, *sum)
            }
            _ => continue,
        };
        push(page, &[name, "_sum{", labels, "} "]);
        push_f64(page, sum);
        push(page, &["\n", name, "_count{", labels, "} "]);
        digits::push_u64(page, count);
        page.push(b'\n');
        // All series of a family have the same bounds.
        if heads.is_empty() {
            heads.extend(buckets.iter().map(|(bound, _)| bucket_head(name, *bound)));
        }
        let separator = if labels.is_empty() { "" } else { "," };
        let mut cumulative = 0;
        for (head, (_, count)) in heads.iter().zip(&buckets) {
            cumulative += count;
            push(page, &[head, separator, labels, "} "]);
            digits::push_u64(page, cumulative);
            page.push(b'\n');
        }
    }
}

fn bucket_head(name: &str, bound: f64) -> String {
    let mut number = dtoa::Buffer::new();
    let bound = if bound == f64::INFINITY { "+Inf" } else { number.format(bound) };
    format!("{name}_bucket{{le=\"{bound}\"")
}

fn push(page: &mut Vec<u8>, parts: &[&str]) {
    parts.iter().for_each(|part| page.extend_from_slice(part.as_bytes()));
}

fn push_f64(page: &mut Vec<u8>, value: f64) {
    page.extend_from_slice(dtoa::Buffer::new().format(value).as_bytes());
}

/// Appends the value of a counter: an integer if it is one.
fn push_count(page: &mut Vec<u8>, value: f64) {
    if is_integer(value) {
        digits::push_u64(page, value as u64);
    } else {
        push_f64(page, value);
    }
}

/// Returns whether a counter is an integer that a double represents exactly.
pub(super) fn is_integer(count: f64) -> bool {
    count.fract() == 0.0 && count <= EXACT
}
