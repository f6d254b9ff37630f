//! The functions of the kernel.

use std::ffi::CString;
use std::ops::Range;

use anyhow::{Context as _, Result, anyhow, bail};

use crate::base::nearest::{did_you_mean, nearest};
use crate::event::function::Place;

/// What the kernel tells of its functions, at one moment.
pub(super) struct Kernel {
    /// Names, sorted; one as often as there are functions of that name.
    names: Vec<Box<str>>,
    /// Those that may not be probed, as far as it tells, sorted.
    forbidden: Vec<Box<str>>,
}

/// Where the kernel tells what may not be probed.
const BLACKLIST: &str = "/sys/kernel/debug/kprobes/blacklist";

impl Kernel {
    /// Reads them: 30 to 60 ms, the kernel's own time.
    pub(super) fn read() -> Result<Kernel> {
        let list = std::fs::read_to_string("/proc/kallsyms")
            .context("failed to read the kernel's functions from /proc/kallsyms")?;
        // debugfs may not be mounted, and then the kernel's own refusal has to do.
        let blacklist = std::fs::read_to_string(BLACKLIST).unwrap_or_default();
        Kernel::of(&list, &blacklist)
    }

    pub(super) fn of(list: &str, blacklist: &str) -> Result<Kernel> {
        // Hidden addresses are all 0, and then nothing lies in between.
        let init = at(list, "_sinittext")..at(list, "_einittext");
        let mut names: Vec<Box<str>> =
            list.lines().filter_map(|line| watchable(line, &init)).map(Box::from).collect();
        names.sort_unstable();
        if names.is_empty() {
            bail!("the kernel tells no function's name (/proc/kallsyms is empty); run as root");
        }
        // `0xffffffff81000000-0xffffffff81000100 name`
        let forbidden = blacklist.lines().filter_map(|line| line.split_ascii_whitespace().nth(1));
        let mut forbidden: Vec<Box<str>> = forbidden.map(Box::from).collect();
        forbidden.sort_unstable();
        Ok(Kernel { names, forbidden })
    }

    /// The function of that name.
    pub(super) fn find(&self, name: &str) -> Result<Place> {
        let first = self.names.partition_point(|other| &**other < name);
        let behind = self.names.partition_point(|other| &**other <= name);
        if self.is_forbidden(name) {
            bail!(
                "the kernel may not be probed there (kprobes would run into themselves); watch a function that calls it"
            );
        }
        match behind - first {
            1 => Ok(Place::Kernel(CString::new(name)?)),
            0 => Err(self.unknown(name)),
            several => bail!(
                "the kernel has {several} functions of this name, and takes none of them for it; watch one that they call or that calls them"
            ),
        }
    }

    /// Those that are wanted and of which there is one.
    pub(super) fn names(&self, wanted: &dyn Fn(&str) -> bool, most: usize) -> Vec<String> {
        let alone = self.names.chunk_by(|a, b| a == b).filter(|same| same.len() == 1).flatten();
        let may = alone.filter(|name| wanted(name) && !self.is_forbidden(name));
        may.map(ToString::to_string).take(most).collect()
    }

    fn is_forbidden(&self, name: &str) -> bool {
        self.forbidden.binary_search_by(|other| (**other).cmp(name)).is_ok()
    }

    fn unknown(&self, name: &str) -> anyhow::Error {
        let near = nearest(name, self.names.iter().map(|other| &**other));
        let hint = match near.is_empty() {
            true => "; it may be inlined, or in a module that is not loaded (perilune list 'kprobe:*' shows all)".to_owned(),
            false => did_you_mean(&near),
        };
        anyhow!("the kernel has no function '{name}'{hint}")
    }
}

/// The function of a line of `ADDRESS TYPE NAME [MODULE]`, if the kernel can look it up and still has it. Lines stay of those that only
/// its start needed, whose memory it has given back (`init`); and what BPF, ftrace and kprobes made has names here, by which it finds
/// nothing.
fn watchable<'a>(line: &'a str, init: &Range<u64>) -> Option<&'a str> {
    let mut words = line.split_ascii_whitespace();
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let made = words.next().is_some_and(|of| of == "[bpf]" || of.starts_with("[__builtin__"));
    let gone = || u64::from_str_radix(address, 16).is_ok_and(|address| init.contains(&address));
    (matches!(kind, "t" | "T" | "w" | "W") && !made && !gone()).then_some(name)
}

/// The address of a symbol of the kernel; 0 of one that there is not.
fn at(list: &str, symbol: &str) -> u64 {
    let mut words = list.lines().map(|line| line.split_ascii_whitespace());
    let address =
        words.find_map(|mut words| Some((words.next()?, words.nth(1)?)).filter(|w| w.1 == symbol));
    address.and_then(|(address, _)| u64::from_str_radix(address, 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Kernel {
        let list = "0 T vfs_read\n0 t vfs_readv\n0 D vfs_data\n0 t twice\n0 t twice\n0 W weak\n\
            0 t of_module\t[mod]\n0 T int3\n";
        Kernel::of(list, "0x1-0x2\tint3\n").unwrap()
    }

    fn refusal(name: &str) -> String {
        kernel().find(name).unwrap_err().to_string()
    }

    #[test]
    fn a_function_is_one_that_the_kernel_names_once() {
        for name in ["vfs_read", "weak", "of_module"] {
            assert_eq!(kernel().find(name).unwrap(), Place::Kernel(CString::new(name).unwrap()));
        }
        assert_eq!(
            refusal("vfs_raed"),
            "the kernel has no function 'vfs_raed'; did you mean 'vfs_read' or 'vfs_readv'?"
        );
        assert!(refusal("vfs_data").starts_with("the kernel has no function 'vfs_data'"));
        assert!(refusal("twice").starts_with("the kernel has 2 functions of this name"));
        assert!(refusal("int3").starts_with("the kernel may not be probed there"));
        assert!(Kernel::of("", "").is_err());
    }

    #[test]
    fn what_the_kernel_has_given_back_or_made_is_no_function() {
        let list = "1000 T vfs_read\n2000 T _sinittext\n2000 t first\n2100 T vfs_caches_init\n2200 T _einittext\n\
            2200 T behind\n3000 t bpf_prog_1\t[bpf]\n3100 t ftrace_trampoline\t[__builtin__ftrace]\n\
            3200 t nft_init\t[nf_tables]\n";
        let names = |list: &str| Kernel::of(list, "").unwrap().names(&|_| true, 9).join(" ");
        assert_eq!(names(list), "_einittext behind nft_init vfs_read");
        let hidden = "0 T _sinittext\n0 T vfs_caches_init\n0 T _einittext\n0 T vfs_read\n";
        assert_eq!(names(hidden), "_einittext _sinittext vfs_caches_init vfs_read");
    }

    #[test]
    fn names_are_those_that_can_be_watched() {
        let names = |most| kernel().names(&|_| true, most);
        assert_eq!(names(9), ["of_module", "vfs_read", "vfs_readv", "weak"]);
        assert_eq!(names(1), ["of_module"]);
        assert_eq!(kernel().names(&|name| name.starts_with("vfs"), 9), ["vfs_read", "vfs_readv"]);
    }
}
