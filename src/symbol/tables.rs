//! The names in one object: of its own symbol tables, or, where those were stripped, of its debug file.
//!
//! blazesym reads them: `.symtab`, `.dynsym`, and with `lines` the DWARF that tells lines and inlined functions.
//! It is given the files that are held, not their paths, and is dropped with them. Without `lines` DWARF is not looked at:
//! that of a large program takes seconds and gigabytes. With it, a function keeps the name that the symbol tables have:
//! DWARF knows the parts that compilers make of one (`main.cold`, `f.constprop.0`) by the name of the whole, or not at all.
//!
//! Anybody can make an object. So there is no DWARF from one that leads blazesym to other files by their paths (a link, an
//! alternate or supplementary file), nor from one with packed sections, unless it is root's; and names have a limit.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use blazesym::symbolize::source::{Elf as ElfSource, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};

use super::ranges::Ranges;
use super::spelling::Spellings;
use super::{debug_file, mini};
use crate::base::frame::Frame;
use crate::decode::elf::{COMPRESSED, Elf};
use crate::sys::quiet::quietly;
use crate::task::objects::Object;

/// What names the addresses of one object.
pub struct Tables {
    symbolizer: Symbolizer,
    /// Places the addresses.
    own: Rc<Object>,
    /// Files to ask, in this order.
    sources: Vec<Asked>,
    /// Names that frames share.
    names: Spellings,
    /// What the first of the sources has told, without lines: from a function's start to the last of its addresses that it
    /// was asked for. What it tells of an address is the symbol with the nearest start before it, so that in between it would
    /// tell the same (or, where only one of two tables knows a part of the function, name that part); the rest of the function
    /// may be another's.
    told: RefCell<Ranges<Rc<str>>>,
}

/// Functions of an object that are remembered.
const TOLD_MAX: usize = 1 << 16;

/// A file with symbols; it is held as long as blazesym reads it.
struct Asked {
    object: Rc<Object>,
    symbols: Source<'static>,
    /// The same with DWARF, where that is read.
    lines: Option<Source<'static>>,
}

impl Tables {
    /// Those of an object that its process calls `path`; its debug file is looked for below `roots`. With `lines`, lines and
    /// inlined functions are told.
    pub fn of(object: &Rc<Object>, path: &Path, roots: &[PathBuf], lines: bool) -> Tables {
        let symbolizer = Symbolizer::builder()
            .enable_auto_reload(false)
            .enable_code_info(lines)
            .enable_inlined_fns(lines)
            .enable_demangling(false)
            .set_debug_dirs(Some(std::iter::empty::<PathBuf>()))
            .build();
        let mut sources = Vec::new();
        let complete = has(object, if lines { DEBUG_INFO } else { SYMBOLS });
        if !complete && let Some(debug) = debug_file::find(object, path, roots) {
            sources.push(Asked::new(Rc::new(debug), lines));
        }
        let packed =
            sources.is_empty() && !complete && !has(object, SYMBOLS) && mini::is_in(object);
        let unpacked = packed.then(|| [mini::unpack(object), mini::dynamic_only(object)]);
        match unpacked {
            Some(both) => {
                sources.extend(both.into_iter().flatten().map(|o| Asked::new(Rc::new(o), false)));
            }
            None => sources.push(Asked::new(object.clone(), lines)),
        }
        Tables {
            symbolizer,
            own: object.clone(),
            sources,
            names: Spellings::default(),
            told: RefCell::default(),
        }
    }

    /// Whether anybody else holds the object, too.
    pub(super) fn is_used(&self) -> bool {
        let ours = self.sources.iter().filter(|asked| Rc::ptr_eq(&asked.object, &self.own)).count();
        Rc::strong_count(&self.own) > 1 + ours
    }

    /// Whether nobody has written to the file since it was opened.
    pub fn is_intact(&self) -> bool {
        self.own.is_intact()
    }

    /// Appends the functions that a byte of the file lies in, the innermost first; false if none is known. `asked` is the
    /// address that the frames show, so many bytes behind the one that is looked up. The caller sees to it that nobody has
    /// written to the file ([`Tables::is_intact`]).
    pub fn frames(&self, offset: u64, asked: u64, behind: u64, out: &mut Vec<Frame>) -> bool {
        // The object's own segments place it; a debug file keeps the addresses, but not the bytes.
        let elf = Elf::new(self.own.bytes());
        let address = elf.and_then(|elf| elf.address_of(offset));
        address.is_some_and(|address| self.frames_at(address, asked, behind, out))
    }

    /// The same of an address as the object itself counts them, before it is moved; with the same care.
    pub fn frames_at(&self, address: u64, asked: u64, behind: u64, out: &mut Vec<Frame>) -> bool {
        if let Some((start, name)) = self.told.borrow().find(address) {
            let (symbol, offset) =
                (Some(name.clone()), address.wrapping_add(behind).saturating_sub(start));
            out.push(Frame { address: asked, symbol, offset, ..Frame::default() });
            return true;
        }
        self.sources.iter().enumerate().any(|(number, source)| {
            let covers = |sym: &Sym<'_>| source.covers(sym, address);
            let plain = self.ask(&source.symbols, address).filter(covers);
            let told = source.lines.as_ref().and_then(|lines| self.ask(lines, address));
            // Of a function in several parts blazesym tells neither start nor size.
            let told = told.filter(|told| plain.is_some() || covers(told));
            let Some(sym) = plain.as_ref().or(told.as_ref()) else { return false };
            let frame = |name: &str, line: Option<&CodeInfo<'_>>, inlined| Frame {
                address: asked,
                symbol: Some(self.names.of_function(name)),
                offset: address.wrapping_add(behind).saturating_sub(sym.addr),
                inlined,
                line: line.and_then(|line| self.line_of(line)),
                ..Frame::default()
            };
            if let Some(told) = &told {
                let inlined = told.inlined.iter().rev().take(INLINED_MAX);
                out.extend(inlined.map(|f| frame(&f.name, f.code_info.as_ref(), true)));
            }
            let line = told.as_ref().and_then(|told| told.code_info.as_deref());
            let frame = frame(&sym.name, line, false);
            if number == 0
                && source.lines.is_none()
                && let Some(name) = &frame.symbol
            {
                self.remember(sym.addr, address, name);
            }
            out.push(frame);
            true
        })
    }

    fn remember(&self, start: u64, address: u64, name: &Rc<str>) {
        let mut told = self.told.borrow_mut();
        if told.len() >= TOLD_MAX {
            *told = Ranges::default();
        }
        told.put(start, address.saturating_sub(start) + 1, name.clone());
    }

    fn ask(&self, source: &Source<'static>, address: u64) -> Option<Sym<'_>> {
        let ask = || self.symbolizer.symbolize_single(source, Input::VirtOffset(address));
        // It computes with what the file says, which may be anything: with overflow checks that can be a panic.
        match quietly(ask)?.ok()? {
            Symbolized::Sym(sym) if !sym.name.is_empty() => Some(sym),
            _ => None,
        }
    }

    fn line_of(&self, info: &CodeInfo<'_>) -> Option<(Rc<str>, u32)> {
        let line = info.line?;
        Some((self.names.of_file(&info.to_path().to_string_lossy()), line))
    }
}

impl Asked {
    fn new(object: Rc<Object>, lines: bool) -> Asked {
        let source = |debug_syms| {
            let mut source = ElfSource::new(object.path());
            source.debug_syms = debug_syms;
            Source::Elf(source)
        };
        let lines = lines && has(&object, DEBUG_INFO) && has_plain_dwarf(&object);
        Asked { symbols: source(false), lines: lines.then(|| source(true)), object }
    }

    /// Whether an address belongs to a symbol that was found for it.
    fn covers(&self, sym: &Sym<'_>, address: u64) -> bool {
        // One without a size reaches to the next one, but not into another section: `_init` is not the PLT.
        sym.size.is_some_and(|size| size > 0)
            || Elf::new(self.object.bytes()).is_some_and(|elf| {
                elf.sections().any(|(_, section)| {
                    let inside = |a: u64| a.wrapping_sub(section.address) < section.size;
                    section.address != 0 && inside(sym.addr) && inside(address)
                })
            })
    }
}

/// Functions that are inlined at one address; the outermost of more are left out.
const INLINED_MAX: usize = 256;

/// Bytes that an object's packed sections may have when unpacked.
const UNPACKED_MAX: u64 = 1 << 30;

const SYMBOLS: &[&str] = &[".symtab"];
const DEBUG_INFO: &[&str] = &[".debug_info", ".zdebug_info"];

/// Whether the file has bytes of one of these sections.
fn has(object: &Object, names: &[&str]) -> bool {
    let Some(elf) = Elf::new(object.bytes()) else { return false };
    elf.sections().any(|(name, section)| {
        section.bytes.is_some_and(|bytes| !bytes.is_empty())
            && names.iter().any(|wanted| wanted.as_bytes() == name)
    })
}

/// Whether reading the object's DWARF leads to no other file and takes no more room than the file tells.
fn has_plain_dwarf(object: &Object) -> bool {
    const ELSEWHERE: &[&str] = &[".gnu_debuglink", ".gnu_debugaltlink", ".debug_sup"];
    let Some(elf) = Elf::new(object.bytes()) else { return false };
    let (mut unpacked, mut leads_elsewhere) = (0_u64, false);
    for (name, section) in elf.sections() {
        leads_elsewhere |= ELSEWHERE.iter().any(|other| other.as_bytes() == name);
        if section.flags & COMPRESSED != 0 || name.starts_with(b".zdebug") {
            // What a packed section has in front tells how large it will be, and need not be true.
            let told =
                section.bytes.map_or(0, |bytes| elf.unpacked_size(bytes).unwrap_or(u64::MAX));
            unpacked = unpacked.saturating_add(told);
        }
    }
    !leads_elsewhere && (unpacked == 0 || object.is_roots() && unpacked <= UNPACKED_MAX)
}
