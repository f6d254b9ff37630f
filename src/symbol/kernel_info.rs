//! The running kernel, as the text of events needs it; each file is read at its first use.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::KernelSymbols;
use crate::base::text::unescape::unescape;
use crate::decode::btf::Enumerators;
use crate::decode::print::{KernelData, Symbol};
use crate::sys::mapped_file::KERNEL_TYPES;

/// The running kernel.
pub struct RunningKernel {
    hz: u32,
    tracefs: PathBuf,
    symbols: Rc<KernelSymbols>,
    texts: OnceCell<HashMap<u64, Box<[u8]>>>,
    enumerators: OnceCell<Enumerators>,
}

impl RunningKernel {
    /// Returns the kernel with `hz` ticks per second (0 if unknown), its tracefs directory and its
    /// symbols.
    pub fn new(hz: u32, tracefs: &Path, symbols: Rc<KernelSymbols>) -> RunningKernel {
        RunningKernel {
            hz,
            tracefs: tracefs.to_owned(),
            symbols,
            texts: OnceCell::new(),
            enumerators: OnceCell::new(),
        }
    }
}

impl KernelData for RunningKernel {
    fn hz(&self) -> u32 {
        self.hz
    }

    fn enumerator(&self, name: &str) -> Option<i64> {
        // Without BTF, the few formats that need it are shown as `name=value`.
        let read = || std::fs::read(KERNEL_TYPES).unwrap_or_default();
        self.enumerators.get_or_init(|| Enumerators::parse(&read())).get(name)
    }

    fn symbol(&self, address: u64) -> Option<Symbol<'_>> {
        self.symbols.find(address)
    }

    fn text(&self, address: u64) -> Option<&[u8]> {
        let read = || std::fs::read(self.tracefs.join("printk_formats")).unwrap_or_default();
        self.texts.get_or_init(|| texts(&read())).get(&address).map(|text| &text[..])
    }
}

/// Parses lines of `0xADDRESS : "text"`; line breaks, quotes and backslashes in a text are escaped.
fn texts(list: &[u8]) -> HashMap<u64, Box<[u8]>> {
    const ESCAPES: &[(&[u8], u8)] =
        &[(b"\\n", b'\n'), (b"\\t", b'\t'), (b"\\\"", b'"'), (b"\\\\", b'\\')];
    let line = |line: &[u8]| {
        let line = std::str::from_utf8(line).ok()?;
        let (address, text) = line.split_once(" : ")?;
        let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
        let text = text.strip_prefix('"')?.strip_suffix('"')?;
        Some((address, unescape(text.as_bytes(), ESCAPES).into()))
    };
    list.split(|byte| *byte == b'\n').filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_strings_are_found_by_their_address() {
        let list = b"0xffffffff8281a585 : \"rcu_preempt\"\n\
                     0x10 : \"a\\n\\\"b\\\"\"\nnonsense\n0xzz : \"\"\n";
        let texts = texts(list);
        assert_eq!(texts.len(), 2);
        assert_eq!(&*texts[&0xffff_ffff_8281_a585], b"rcu_preempt");
        assert_eq!(&*texts[&0x10], b"a\n\"b\"");
    }
}
