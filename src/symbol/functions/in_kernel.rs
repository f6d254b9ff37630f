//! Finds kernel functions that can be probed: in `/proc/kallsyms`, without the blacklisted ones.

use std::ffi::CString;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};

use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::event::kind::function::{CodeLocation, FunctionLocation};
use crate::sys::kernel_functions::function_range;

/// The kernel's functions at one moment.
pub(super) struct KernelFunctions {
    /// Names, sorted; each as often as there are functions with it.
    names: Vec<Box<str>>,
    /// Names that must not be probed, as far as the kernel lists them, sorted.
    forbidden: Vec<Box<str>>,
    /// When they were read.
    read_at: Option<Instant>,
}

/// Age below which they are not read again.
const FRESH: Duration = Duration::from_secs(1);

/// The kernel's list of what must not be probed.
const BLACKLIST: &str = "/sys/kernel/debug/kprobes/blacklist";

impl KernelFunctions {
    /// Reads the functions: 30 to 60 ms, spent in the kernel.
    ///
    /// # Errors
    /// `/proc/kallsyms` cannot be read, or shows no functions.
    pub(super) fn read() -> Result<KernelFunctions> {
        let list = std::fs::read_to_string("/proc/kallsyms")
            .context("failed to read the kernel's functions from /proc/kallsyms")?;
        // debugfs may not be mounted; the kernel's own refusal must then suffice.
        let blacklist = std::fs::read_to_string(BLACKLIST).unwrap_or_default();
        let read_at = Some(Instant::now());
        Ok(KernelFunctions { read_at, ..KernelFunctions::of(&list, &blacklist)? })
    }

    /// Returns whether they were read so recently that they are not read again.
    pub(super) fn is_fresh(&self) -> bool {
        self.read_at.is_some_and(|at| at.elapsed() < FRESH)
    }

    pub(super) fn of(list: &str, blacklist: &str) -> Result<KernelFunctions> {
        // Hidden addresses are all 0, so that the range is empty.
        let init = address_of(list, "_sinittext")..address_of(list, "_einittext");
        let mut names: Vec<Box<str>> =
            list.lines().filter_map(|line| watchable(line, &init)).map(Box::from).collect();
        names.sort_unstable();
        if names.is_empty() {
            bail!("the kernel shows no function names (/proc/kallsyms is empty); run as root");
        }
        // `0xffffffff81000000-0xffffffff81000100 name`
        let forbidden = blacklist.lines().filter_map(|line| line.split_ascii_whitespace().nth(1));
        let mut forbidden: Vec<Box<str>> = forbidden.map(Box::from).collect();
        forbidden.sort_unstable();
        Ok(KernelFunctions { names, forbidden, read_at: None })
    }

    /// Returns a function, or an instruction inside of it. The kernel checks that one begins there.
    ///
    /// # Errors
    /// There is none, or more than one, or it must not be probed, or the offset is outside of it.
    pub(super) fn find(&self, location: CodeLocation<'_>) -> Result<FunctionLocation> {
        let CodeLocation::Function(name, offset) = location else {
            bail!("an address of the kernel is not supported; write kprobe:FUNCTION+OFFSET");
        };
        if self.is_forbidden(name) {
            bail!(
                "the kernel does not allow a probe on this function (kprobes would recurse); watch \
                 a function that calls it"
            );
        }
        match self.count(name) {
            1 => {
                // From an offset behind its end, the kernel would probe the next function.
                if offset > 0
                    && let Some(range) = function_range(name)
                    && offset >= range.end - range.start
                {
                    let size = range.end - range.start;
                    bail!("this function has {size} bytes; use a smaller offset");
                }
                Ok(FunctionLocation::in_kernel(CString::new(name)?, offset))
            }
            _ => Err(self.not_one(name)),
        }
    }

    /// Returns the error for a name that no function or several have.
    pub(super) fn not_one(&self, name: &str) -> anyhow::Error {
        match self.count(name) {
            0 => self.unknown(name),
            several => anyhow!(
                "the kernel has {several} functions of this name and cannot choose one; watch one \
                 that they call or that calls them"
            ),
        }
    }

    /// Returns the names, at most `most`, of the wanted functions that exist once.
    pub(super) fn names(&self, wanted: &dyn Fn(&str) -> bool, most: usize) -> Vec<String> {
        let alone = self.names.chunk_by(|a, b| a == b).filter(|same| same.len() == 1).flatten();
        let may = alone.filter(|name| wanted(name) && !self.is_forbidden(name));
        may.map(ToString::to_string).take(most).collect()
    }

    /// Returns how many functions have this name.
    pub(super) fn count(&self, name: &str) -> usize {
        let first = self.names.partition_point(|other| &**other < name);
        self.names.partition_point(|other| &**other <= name) - first
    }

    fn is_forbidden(&self, name: &str) -> bool {
        self.forbidden.binary_search_by(|other| (**other).cmp(name)).is_ok()
    }

    fn unknown(&self, name: &str) -> anyhow::Error {
        let near = nearest(name, self.names.iter().map(|other| &**other));
        let hint = match near.is_empty() {
            true => "; it may be inlined, or in a module that is not loaded (perilune list \
                     'kprobe:*' shows all)"
                .to_owned(),
            false => did_you_mean(&near),
        };
        anyhow!("the kernel has no function '{name}'{hint}")
    }
}

/// Returns the function of a line of `ADDRESS TYPE NAME [MODULE]`, if the kernel can look it up and
/// still has it. The list keeps functions whose init memory the kernel has freed (`init`). It also
/// has the code made by BPF, ftrace and kprobes, which the kernel does not find by these names.
fn watchable<'a>(line: &'a str, init: &Range<u64>) -> Option<&'a str> {
    let mut columns = line.split_ascii_whitespace();
    let (address, kind, name) = (columns.next()?, columns.next()?, columns.next()?);
    let generated =
        columns.next().is_some_and(|of| of == "[bpf]" || of.starts_with("[__builtin__"));
    let freed = || u64::from_str_radix(address, 16).is_ok_and(|address| init.contains(&address));
    (matches!(kind, "t" | "T" | "w" | "W") && !generated && !freed()).then_some(name)
}

/// Returns the address of a kernel symbol; 0 if there is none.
pub(super) fn address_of(list: &str, symbol: &str) -> u64 {
    let mut columns = list.lines().map(|line| line.split_ascii_whitespace());
    let address = columns
        .find_map(|mut columns| Some((columns.next()?, columns.nth(1)?)).filter(|w| w.1 == symbol));
    address.and_then(|(address, _)| u64::from_str_radix(address, 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> KernelFunctions {
        let list = "0 T vfs_read\n0 t vfs_readv\n0 D vfs_data\n0 t twice\n0 t twice\n0 W weak\n\
            0 t of_module\t[mod]\n0 T int3\n";
        KernelFunctions::of(list, "0x1-0x2\tint3\n").unwrap()
    }

    fn refusal(name: &str) -> String {
        kernel().find(CodeLocation::Function(name, 0)).unwrap_err().to_string()
    }

    #[test]
    fn only_functions_with_a_unique_name_are_found() {
        for name in ["vfs_read", "weak", "of_module"] {
            assert_eq!(
                kernel().find(CodeLocation::Function(name, 0)).unwrap(),
                FunctionLocation::in_kernel(CString::new(name).unwrap(), 0)
            );
        }
        assert_eq!(
            refusal("vfs_raed"),
            "the kernel has no function 'vfs_raed'; did you mean 'vfs_read' or 'vfs_readv'?"
        );
        assert!(refusal("vfs_data").starts_with("the kernel has no function 'vfs_data'"));
        assert!(refusal("twice").starts_with("the kernel has 2 functions of this name"));
        assert!(refusal("int3").starts_with("the kernel does not allow a probe on this function"));
        assert!(KernelFunctions::of("", "").is_err());
    }

    #[test]
    fn freed_init_functions_and_generated_code_are_omitted() {
        let list = "1000 T vfs_read\n2000 T _sinittext\n2000 t first\n2100 T vfs_caches_init\n\
            2200 T _einittext\n2200 T behind\n3000 t bpf_prog_1\t[bpf]\n\
            3100 t ftrace_trampoline\t[__builtin__ftrace]\n3200 t nft_init\t[nf_tables]\n";
        let names =
            |list: &str| KernelFunctions::of(list, "").unwrap().names(&|_| true, 9).join(" ");
        assert_eq!(names(list), "_einittext behind nft_init vfs_read");
        let hidden = "0 T _sinittext\n0 T vfs_caches_init\n0 T _einittext\n0 T vfs_read\n";
        assert_eq!(names(hidden), "_einittext _sinittext vfs_caches_init vfs_read");
    }

    #[test]
    fn only_names_that_can_be_watched_are_listed() {
        let names = |most| kernel().names(&|_| true, most);
        assert_eq!(names(9), ["of_module", "vfs_read", "vfs_readv", "weak"]);
        assert_eq!(names(1), ["of_module"]);
        assert_eq!(kernel().names(&|name| name.starts_with("vfs"), 9), ["vfs_read", "vfs_readv"]);
    }
}
