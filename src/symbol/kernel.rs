//! Names of the kernel's addresses, from `/proc/kallsyms` and KSYMBOL records.
//!
//! The list is opened at the first lookup, and describes the kernel at that time. BPF programs and
//! other code generated later are known from their KSYMBOL records; a module loaded later has no
//! names.

mod kallsyms;
mod kallsyms_cache;

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::rc::Rc;

use anyhow::Context as _;

use super::ksymbols::{Ksymbol, KsymbolTable};
use crate::base::report::frame::Frame;
use crate::decode::print::Symbol;
use kallsyms::Kallsyms;
use kallsyms_cache::KallsymsCache;

/// The kernel's symbols, read at the first lookup.
#[derive(Default)]
pub struct KernelSymbols {
    list: OnceCell<Kallsyms>,
    generated: RefCell<KsymbolTable>,
    dsos: RefCell<Dsos>,
    error: RefCell<Option<String>>,
}

/// Names that frames show as their file: the kernel itself, and each module.
struct Dsos {
    kernel: Rc<str>,
    modules: HashMap<String, Rc<str>>,
}

impl KernelSymbols {
    /// Returns the symbol at or before an address, without the offset; None below the first symbol,
    /// and if nothing is known.
    pub fn name(&self, address: u64) -> Option<&str> {
        self.list().name(address)
    }

    /// Returns the symbol that contains an address, as the kernel itself would name it; None
    /// between its parts.
    pub fn find(&self, address: u64) -> Option<Symbol<'_>> {
        self.list().find(address)
    }

    /// Handles a KSYMBOL record: code was generated.
    pub fn on_ksymbol(&self, symbol: &Ksymbol<'_>) {
        self.generated.borrow_mut().add(symbol);
    }

    /// Returns a number that changes when an address may have another name than before.
    pub fn version(&self) -> u64 {
        self.generated.borrow().added()
    }

    /// Returns how many symbols of generated code were dropped because of the limit.
    pub fn dropped(&self) -> u64 {
        self.generated.borrow().dropped()
    }

    /// Returns the frame of an address in a call chain. With `caller`, it is a return address.
    pub fn frame(&self, address: u64, caller: bool) -> Frame {
        let looked_up = address.saturating_sub(u64::from(caller));
        let mut frame = Frame { address, kernel: true, ..Frame::default() };
        if let Some((start, name, dso)) = self.generated.borrow().find(looked_up) {
            frame.offset = address - start;
            (frame.symbol, frame.dso) = (Some(name), Some(dso));
            return frame;
        }
        let found = self.find(looked_up);
        frame.dso = Some(self.dsos.borrow_mut().of(found.and_then(|symbol| symbol.module)));
        if let Some(symbol) = found {
            frame.symbol = Some(symbol.name.into());
            frame.offset = address - looked_up + symbol.offset;
        }
        frame
    }

    /// Returns why there are no names, at the first call only.
    pub fn take_error(&self) -> Option<String> {
        self.error.take()
    }

    fn list(&self) -> &Kallsyms {
        self.list.get_or_init(|| {
            open().unwrap_or_else(|why| {
                self.error.replace(Some(format!("kernel symbols: {why:#}")));
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
    // A kernel without support for modules does not have this file.
    let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
    let list = Kallsyms::new(Box::new(list), modules).with_cache(KallsymsCache::of_this_boot());
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
        let list = "ffff1000 T first\nffff2000 t later\nffff2800 T _etext\n\
            ffff3000 t of_a_module\t[module]\nffff4000 t last\t[other]\n";
        let list = Kallsyms::new(Box::new(list.as_bytes()), String::new());
        KernelSymbols { list: OnceCell::from(list), ..KernelSymbols::default() }
    }

    #[test]
    fn a_return_address_belongs_to_the_function_before_it() {
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
    fn generated_code_takes_precedence_over_the_list() {
        let kernel = known();
        let program =
            Ksymbol { address: 0xffff_1800, length: 0x100, bpf: true, name: b"bpf_prog_x" };
        kernel.on_ksymbol(&program);
        let frame = kernel.frame(0xffff_1810, false);
        assert_eq!(frame.symbol.as_deref(), Some("bpf_prog_x"));
        assert_eq!((frame.offset, frame.dso.as_deref()), (0x10, Some("[bpf]")));
        assert_eq!(kernel.frame(0xffff_1900, false).symbol.as_deref(), Some("first"));
        let before = kernel.version();
        kernel.on_ksymbol(&Ksymbol { name: b"bpf_prog_y", ..program });
        assert_ne!(kernel.version(), before, "cached names must be looked up again");
        assert_eq!(kernel.frame(0xffff_1810, false).symbol.as_deref(), Some("bpf_prog_y"));
    }
}
