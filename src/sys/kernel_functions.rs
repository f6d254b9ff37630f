//! Addresses of kernel functions, from /proc/kallsyms, which shows them to root.

use std::ops::Range;

/// Returns the addresses of the function, up to the next symbol; None if the kernel hides them, or
/// has no such function.
pub fn function_range(name: &str) -> Option<Range<u64>> {
    range_in(&std::fs::read_to_string("/proc/kallsyms").ok()?, name)
}

fn range_in(kallsyms: &str, name: &str) -> Option<Range<u64>> {
    // `ffffffff81000000 T _text`, which a module in brackets may follow.
    let symbols = || {
        kallsyms.lines().filter_map(|line| {
            let mut columns = line.split_ascii_whitespace();
            let address = u64::from_str_radix(columns.next()?, 16).ok()?;
            columns.next().filter(|kind| matches!(*kind, "t" | "T" | "w" | "W"))?;
            Some((address, columns.next()?))
        })
    };
    let start = symbols().find(|(_, symbol)| *symbol == name)?.0;
    let end = symbols().map(|(address, _)| address).filter(|address| *address > start).min()?;
    (start > 0).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "ffffffff81000000 T first\nffffffff81000100 t other\n\
        ffffffff81000100 t alias\nffffffff81000040 d data\nffffffffc0000000 t far\t[module]\n";

    #[test]
    fn a_function_ends_where_the_next_one_begins() {
        let range = |name| range_in(SYMBOLS, name);
        assert_eq!(range("first"), Some(0xffff_ffff_8100_0000..0xffff_ffff_8100_0100));
        assert_eq!(range("other"), Some(0xffff_ffff_8100_0100..0xffff_ffff_c000_0000));
        assert_eq!(range("data"), None);
        assert_eq!(range("none"), None);
        assert_eq!(range_in("0000000000000000 T first\n0000000000000000 T b\n", "first"), None);
    }
}
