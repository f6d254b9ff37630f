//! Raw events: `r` and a hexadecimal number, an event in the CPU's own encoding.

use perf_event_open_sys::bindings as abi;

use super::named::NameFamily;

/// The names of raw events; none is listed.
pub(super) const FAMILY: NameFamily = NameFamily {
    type_: abi::PERF_TYPE_RAW,
    category: "hardware",
    table: &[],
    composed: Vec::new,
    config_of,
};

fn config_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r').filter(|d| d.chars().all(|c| c.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_event_is_hexadecimal() {
        assert_eq!(config_of("r1a8"), Some(0x1a8));
        assert_eq!(config_of("r"), None);
        assert_eq!(config_of("rcu"), None);
    }
}
