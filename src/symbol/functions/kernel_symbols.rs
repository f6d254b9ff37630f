//! Addresses of the kernel's functions and variables, by name, in `/proc/kallsyms`. Without
//! `CONFIG_KALLSYMS_ALL` it has only a few variables.

use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

use crate::base::kernel::address::is_kernel_address;
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::event::kind::breakpoint::FoundSymbol;

/// The kernel's symbols at one moment.
pub(super) struct KernelSymbolIndex {
    text: String,
    /// All symbols, by name.
    sorted: Vec<KernelSymbol>,
    read_at: Instant,
}

/// A line of the list.
#[derive(Clone)]
struct KernelSymbol {
    name: Range<u32>,
    address: u64,
    is_code: bool,
}

/// Age at which the list is read again: modules come and go.
const FRESH: Duration = Duration::from_secs(2);
/// Maximum size of the list in bytes; that of a large kernel has 15 MB.
const TEXT_MAX: usize = 1 << 30;

impl KernelSymbolIndex {
    /// Returns the list in `cache` if it is fresh, else reads it: about 100 ms.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn cached(
        cache: &mut Option<Rc<KernelSymbolIndex>>,
    ) -> Result<Rc<KernelSymbolIndex>> {
        match &*cache {
            Some(known) if known.read_at.elapsed() < FRESH => Ok(known.clone()),
            _ => {
                let text = std::fs::read_to_string("/proc/kallsyms")
                    .context("failed to read the kernel's symbols from /proc/kallsyms")?;
                Ok(cache.insert(Rc::new(KernelSymbolIndex::of(text))).clone())
            }
        }
    }

    /// Parses lines of `ADDRESS TYPE NAME [MODULE]`.
    fn of(mut text: String) -> KernelSymbolIndex {
        if text.len() > TEXT_MAX {
            text = String::new();
        }
        let mut sorted: Vec<KernelSymbol> =
            text.lines().filter_map(|line| symbol_in(line, &text)).collect();
        sorted.sort_by(|a, b| name_in(&text, a).cmp(name_in(&text, b)));
        KernelSymbolIndex { text, sorted, read_at: Instant::now() }
    }

    /// Returns the symbol of that name.
    ///
    /// # Errors
    /// There is none, or more than one, or its address is hidden or cannot be watched.
    pub(super) fn find(&self, name: &str) -> Result<FoundSymbol> {
        let mut found = self.named(name).to_vec();
        found.dedup_by_key(|symbol| symbol.address);
        let symbol = match &found[..] {
            [symbol] => symbol,
            [] => return Err(self.unknown(name)),
            several => bail!(
                "the kernel has {} symbols of this name; write the address of one of them, which \
                 /proc/kallsyms shows",
                several.len()
            ),
        };
        if symbol.address == 0 {
            bail!(
                "the kernel hides its addresses from this user; run as root, with \
                 kernel.kptr_restrict at most 1"
            );
        }
        // `__per_cpu_start` is 0 on x86 before 6.15, and the symbols are offsets.
        let limit = |name| self.named(name).first().map_or(0, |symbol| symbol.address);
        let per_cpu = limit("__per_cpu_start")..limit("__per_cpu_end");
        if !is_kernel_address(symbol.address) || per_cpu.contains(&symbol.address) {
            bail!(
                "it is a per-CPU variable, whose address differs between CPUs; watch the address \
                 of one CPU's copy: mem:0xADDRESS"
            );
        }
        Ok(FoundSymbol { address: symbol.address, size: 0, is_code: symbol.is_code, loaded: None })
    }

    /// Returns the wanted names of symbols that can be watched, at most `most`, sorted. Functions
    /// can only be watched by a kernel with kprobes (arch/x86/kernel/hw_breakpoint.c).
    pub(super) fn names(&self, wanted: &dyn Fn(&str) -> bool, most: usize) -> Vec<String> {
        let with_code = !self.named("register_kprobe").is_empty();
        let usable = self.sorted.iter().filter(|symbol| with_code || !symbol.is_code);
        let mut names: Vec<&str> =
            usable.map(|symbol| name_in(&self.text, symbol)).filter(|name| wanted(name)).collect();
        names.dedup();
        names.truncate(most);
        names.into_iter().map(str::to_owned).collect()
    }

    fn named(&self, name: &str) -> &[KernelSymbol] {
        let first = self.sorted.partition_point(|symbol| name_in(&self.text, symbol) < name);
        let behind = self.sorted.partition_point(|symbol| name_in(&self.text, symbol) <= name);
        &self.sorted[first..behind]
    }

    fn unknown(&self, name: &str) -> anyhow::Error {
        let near = nearest(name, self.sorted.iter().map(|symbol| name_in(&self.text, symbol)));
        let is_code = |name: &&&str| self.named(name).iter().all(|symbol| symbol.is_code);
        // A function does not replace a variable.
        let may_be_hidden = near.iter().all(|name| is_code(&name));
        let variables = match may_be_hidden && self.named("init_task").is_empty() {
            true => {
                "; this kernel lists no variables (no CONFIG_KALLSYMS_ALL): write the address of \
                 one, as in mem:0xADDRESS"
            }
            false => "",
        };
        anyhow!("the kernel has no symbol '{name}'{}{variables}", did_you_mean(&near))
    }
}

/// Returns the symbol of a line, which is a part of `text`.
fn symbol_in(line: &str, text: &str) -> Option<KernelSymbol> {
    let mut columns = line.split_ascii_whitespace();
    let address = u64::from_str_radix(columns.next()?, 16).ok()?;
    let is_code = matches!(columns.next()?, "t" | "T" | "w" | "W");
    let name = columns.next()?;
    let start = u32::try_from(name.as_ptr() as usize - text.as_ptr() as usize).ok()?;
    let end = start + u32::try_from(name.len()).ok()?;
    Some(KernelSymbol { name: start..end, address, is_code })
}

fn name_in<'a>(text: &'a str, symbol: &KernelSymbol) -> &'a str {
    &text[symbol.name.start as usize..symbol.name.end as usize]
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
        let list = KernelSymbolIndex::of(LIST.to_owned());
        let of = |name| list.find(name).map(|s| (s.address, s.is_code)).unwrap();
        assert_eq!(of("jiffies"), (0xffff_ffff_8200_0000, false));
        assert_eq!(of("vfs_read"), (0xffff_ffff_8100_0000, true));
        assert_eq!(
            list.names(&|name| name.contains('s'), 3),
            ["__per_cpu_start", "jiffies", "runqueues"]
        );
    }

    #[test]
    fn functions_are_listed_if_the_kernel_has_kprobes() {
        let names = |list: String| {
            KernelSymbolIndex::of(list)
                .names(&|name| name.contains("ji") || name.contains("vfs"), 9)
        };
        assert_eq!(names(LIST.to_owned()), ["jiffies"]);
        let with = format!("{LIST}ffffffff81000010 T register_kprobe\n");
        assert_eq!(names(with), ["jiffies", "vfs_read"]);
    }

    #[test]
    fn a_symbol_without_an_address_of_its_own_is_refused_with_the_reason() {
        let why = |list: &str, name| {
            KernelSymbolIndex::of(list.to_owned()).find(name).unwrap_err().to_string()
        };
        assert!(why(LIST, "state").starts_with("the kernel has 2 symbols of this name"));
        assert!(why(LIST, "runqueues").starts_with("it is a per-CPU variable"));
        assert_eq!(
            why(LIST, "jifies"),
            "the kernel has no symbol 'jifies'; did you mean 'jiffies'?"
        );
        let functions = "ffffffff81000000 T jiffies_read\n";
        assert!(why(functions, "jiffies_rea").contains("'jiffies_read'?; this kernel lists no"));
        let all = format!("{functions}ffffffff82000000 D init_task\n");
        assert!(why(&all, "jiffies_rea").ends_with("did you mean 'jiffies_read'?"));
        let hidden = "0000000000000000 D jiffies\n";
        assert!(why(hidden, "jiffies").starts_with("the kernel hides its addresses"));
    }
}
