//! Addresses of the kernel's functions and variables, by name, in `/proc/kallsyms`. Without
//! `CONFIG_KALLSYMS_ALL` it has only a few variables.

use anyhow::{Context as _, Result, anyhow, bail};

use super::in_kernel::address_of;
use crate::base::kernel::address::is_kernel_address;
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::event::kind::breakpoint::FoundSymbol;

/// A line of the list.
struct KernelSymbol<'a> {
    address: u64,
    is_code: bool,
    name: &'a str,
}

/// Reads the list.
///
/// # Errors
/// It cannot be read.
pub(super) fn read() -> Result<String> {
    std::fs::read_to_string("/proc/kallsyms")
        .context("failed to read the kernel's symbols from /proc/kallsyms")
}

/// Returns the symbol of that name.
///
/// # Errors
/// There is none, or more than one, or its address is hidden or cannot be watched.
pub(super) fn find(list: &str, name: &str) -> Result<FoundSymbol> {
    let mut found: Vec<KernelSymbol<'_>> = all(list).filter(|s| s.name == name).collect();
    found.dedup_by_key(|symbol| symbol.address);
    let symbol = match &found[..] {
        [symbol] => symbol,
        [] => return Err(unknown(list, name)),
        several => bail!(
            "the kernel has {} symbols of this name; write the address of one of them, which \
             /proc/kallsyms shows",
            several.len()
        ),
    };
    if symbol.address == 0 {
        bail!(
            "the kernel hides its addresses from this user; run as root, with kernel.kptr_restrict \
             at most 1"
        );
    }
    // `__per_cpu_start` is 0 on x86 before 6.15, and the symbols are offsets.
    let per_cpu = address_of(list, "__per_cpu_start")..address_of(list, "__per_cpu_end");
    if !is_kernel_address(symbol.address) || per_cpu.contains(&symbol.address) {
        bail!(
            "it is a per-CPU variable, whose address differs between CPUs; watch the address of \
             one CPU's copy: mem:0xADDRESS"
        );
    }
    Ok(FoundSymbol { address: symbol.address, size: 0, is_code: symbol.is_code, loaded: None })
}

/// Returns the wanted names, at most `most`, sorted.
pub(super) fn names(list: &str, wanted: &dyn Fn(&str) -> bool, most: usize) -> Vec<String> {
    let mut names: Vec<&str> = all(list).map(|symbol| symbol.name).filter(|n| wanted(n)).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(most);
    names.into_iter().map(str::to_owned).collect()
}

/// Returns the symbols of the lines `ADDRESS TYPE NAME [MODULE]`.
fn all(list: &str) -> impl Iterator<Item = KernelSymbol<'_>> {
    list.lines().filter_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let address = u64::from_str_radix(columns.next()?, 16).ok()?;
        let is_code = matches!(columns.next()?, "t" | "T" | "w" | "W");
        Some(KernelSymbol { address, is_code, name: columns.next()? })
    })
}

fn unknown(list: &str, name: &str) -> anyhow::Error {
    let near = nearest(name, all(list).map(|symbol| symbol.name));
    let hint = match near.is_empty() {
        true => {
            "; kernels without CONFIG_KALLSYMS_ALL do not list variables: write an address, as \
                 in mem:0xADDRESS"
                .to_owned()
        }
        false => did_you_mean(&near),
    };
    anyhow!("the kernel has no symbol '{name}'{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "0000000000000000 A __per_cpu_start\n\
                        0000000000001000 A runqueues\n\
                        0000000000002000 A __per_cpu_end\n\
                        ffffffff81000000 T vfs_read\n\
                        ffffffff82000000 D jiffies\n\
                        ffffffffc0000000 d state\t[one]\n\
                        ffffffffc0001000 d state\t[two]\n";

    #[test]
    fn a_symbol_has_its_address() {
        let of = |name| find(LIST, name).map(|s| (s.address, s.is_code)).unwrap();
        assert_eq!(of("jiffies"), (0xffff_ffff_8200_0000, false));
        assert_eq!(of("vfs_read"), (0xffff_ffff_8100_0000, true));
        assert_eq!(
            names(LIST, &|name| name.contains('s'), 3),
            ["__per_cpu_start", "jiffies", "runqueues"]
        );
    }

    #[test]
    fn a_symbol_without_an_address_of_its_own_is_refused_with_the_reason() {
        let why = |list: &str, name| find(list, name).unwrap_err().to_string();
        assert!(why(LIST, "state").starts_with("the kernel has 2 symbols of this name"));
        assert!(why(LIST, "runqueues").starts_with("it is a per-CPU variable"));
        assert_eq!(
            why(LIST, "jifies"),
            "the kernel has no symbol 'jifies'; did you mean 'jiffies'?"
        );
        let hidden = "0000000000000000 D jiffies\n";
        assert!(why(hidden, "jiffies").starts_with("the kernel hides its addresses"));
    }
}
