//! Names of the kernel's addresses, from `/proc/kallsyms` and the records of symbols that come and go.
//!
//! The list is opened at the first question. It stands for the kernel as it was then; BPF programs and other code that is
//! made later is known by its KSYMBOL records, a module that comes later has no names.

mod kallsyms;
mod kept;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::rc::Rc;

use anyhow::Context as _;

use super::made::{Made, MadeSymbol};
use crate::base::frame::Frame;
use crate::decode::print::Symbol;
use kallsyms::Kallsyms;
use kept::Kept;

/// The kernel's symbols, read when they are first asked for.
#[derive(Default)]
pub struct KernelSymbols {
    list: OnceCell<Kallsyms>,
    made: RefCell<Made>,
    dsos: RefCell<Dsos>,
    trouble: RefCell<Option<String>>,
}

/// What frames name as their file: the kernel itself, and each module.
struct Dsos {
    kernel: Rc<str>,
    modules: HashMap<String, Rc<str>>,
}

impl KernelSymbols {
    /// The symbol that an address lies in or behind, without the offset; None below the first and where nothing is known.
    pub fn name(&self, address: u64) -> Option<&str> {
        self.list().name(address)
    }

    /// The symbol that an address lies in, as the kernel itself would name it: none between its own parts.
    pub fn find(&self, address: u64) -> Option<Symbol<'_>> {
        self.list().find(address)
    }

    /// A KSYMBOL record: code was made.
    pub fn on_made(&self, symbol: &MadeSymbol<'_>) {
        self.made.borrow_mut().take(symbol);
    }

    /// Changes when an address may have another name than before.
    pub fn version(&self) -> u64 {
        self.made.borrow().taken()
    }

    /// The frame of an address in a call chain. `caller`: the address is one to return to.
    pub fn frame(&self, address: u64, caller: bool) -> Frame {
        let asked = address.saturating_sub(u64::from(caller));
        let mut frame = Frame { address, kernel: true, ..Frame::default() };
        if let Some((start, name, dso)) = self.made.borrow().find(asked) {
            frame.offset = address - start;
            (frame.symbol, frame.dso) = (Some(name), Some(dso));
            return frame;
        }
        let found = self.find(asked);
        frame.dso = Some(self.dsos.borrow_mut().of(found.and_then(|symbol| symbol.module)));
        if let Some(symbol) = found {
            frame.symbol = Some(symbol.name.into());
            frame.offset = address - asked + symbol.offset;
        }
        frame
    }

    /// Why there are no names, the first time that it is asked.
    pub fn take_trouble(&self) -> Option<String> {
        self.trouble.take()
    }

    fn list(&self) -> &Kallsyms {
        self.list.get_or_init(|| {
            open().unwrap_or_else(|why| {
                self.trouble.replace(Some(format!("names of the kernel: {why:#}")));
                Kallsyms::default()
            })
        })
    }
}

impl Default for Dsos {
    fn default() -> Dsos {
        Dsos { kernel: "[kernel]".into(), modules: HashMap::new() }
    }
}

impl Dsos {
    fn of(&mut self, module: Option<&str>) -> Rc<str> {
        let Some(module) = module else { return self.kernel.clone() };
        if let Some(known) = self.modules.get(module) {
            return known.clone();
        }
        let dso: Rc<str> = format!("[{module}]").into();
        self.modules.insert(module.to_owned(), dso.clone());
        dso
    }
}

fn open() -> anyhow::Result<Kallsyms> {
    let list = File::open("/proc/kallsyms").context("failed to open /proc/kallsyms")?;
    // A kernel that loads no modules has no such file.
    let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
    let list = Kallsyms::new(Box::new(list), modules).keep(Kept::of_this_boot());
    anyhow::ensure!(
        !list.is_empty(),
        "the kernel hides its addresses; run as root, or set kernel.kptr_restrict to 0 or 1"
    );
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> KernelSymbols {
        let list = "ffff1000 T first\nffff2000 t later\nffff2800 T _etext\nffff3000 t of_a_module\t[module]\n\
            ffff4000 t last\t[other]\n";
        let list = Kallsyms::new(Box::new(list.as_bytes()), String::new());
        KernelSymbols { list: OnceCell::from(list), ..KernelSymbols::default() }
    }

    #[test]
    fn a_caller_lies_in_the_function_in_front_of_the_address() {
        let kernel = known();
        let named = |address, caller| {
            let frame = kernel.frame(address, caller);
            assert!(frame.kernel && frame.address == address);
            (frame.symbol.unwrap().to_string(), frame.offset, frame.dso.unwrap().to_string())
        };
        let in_kernel = |name: &str, offset| (name.to_owned(), offset, "[kernel]".to_owned());
        assert_eq!(named(0xffff_2000, false), in_kernel("later", 0));
        assert_eq!(named(0xffff_2000, true), in_kernel("first", 0x1000));
        assert_eq!(named(0xffff_3004, false).2, "[module]");
        let unnamed = kernel.frame(0x1000, false);
        assert_eq!((unnamed.symbol, unnamed.dso.as_deref()), (None, Some("[kernel]")));
    }

    #[test]
    fn what_was_made_later_stands_above_the_list() {
        let kernel = known();
        let program =
            MadeSymbol { address: 0xffff_1800, length: 0x100, bpf: true, name: b"bpf_prog_x" };
        kernel.on_made(&program);
        let frame = kernel.frame(0xffff_1810, false);
        assert_eq!(frame.symbol.as_deref(), Some("bpf_prog_x"));
        assert_eq!((frame.offset, frame.dso.as_deref()), (0x10, Some("[bpf]")));
        assert_eq!(kernel.frame(0xffff_1900, false).symbol.as_deref(), Some("first"));
        let before = kernel.version();
        kernel.on_made(&MadeSymbol { name: b"bpf_prog_y", ..program });
        assert_ne!(kernel.version(), before, "who remembers names has to ask again");
        assert_eq!(kernel.frame(0xffff_1810, false).symbol.as_deref(), Some("bpf_prog_y"));
    }
}
