//! Names in one object: from its own symbol tables or, if those were stripped, from its debug file.
//!
//! blazesym reads them: `.symtab`, `.dynsym` and, with `lines`, the DWARF data about lines and
//! inlined functions. It gets the open files or their copies, not their paths, and is dropped with
//! them. Without `lines`, DWARF is not read: that of a large program takes seconds and gigabytes.
//! With it, a function keeps its name from the symbol tables: DWARF has the parts into which
//! compilers split a function (`main.cold`, `f.constprop.0`) under the name of the whole, or not at
//! all.
//!
//! A function without a symbol is named by the place where it begins, which the unwind tables of a
//! stripped file have: `[app+0x1230]`.
//!
//! Any user can create an object. DWARF is therefore not read from an object that leads blazesym to
//! other files by their paths (a link, an alternate or supplementary file), nor from one with
//! compressed sections, unless it belongs to root; and names have a maximum size.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use blazesym::symbolize::source::{Elf as ElfSource, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};

use super::demangle::DemangledNames;
use super::ranges::Ranges;
use super::{debug_file, minidebuginfo};
use crate::base::report::frame::Frame;
use crate::decode::elf::unwind_index::function_start;
use crate::decode::elf::{COMPRESSED, Elf};
use crate::sys::catch_panic::quietly;
use crate::task::objects::Object;

/// Names the addresses of one object.
pub struct ObjectSymbols {
    symbolizer: Symbolizer,
    /// Converts file offsets to addresses.
    own: Rc<Object>,
    /// Files to query, in this order.
    sources: Vec<SymbolFile>,
    /// Name of the file, without its folder.
    file: String,
    /// Names that frames share.
    names: DemangledNames,
    /// Cache of the answers of the first source, without lines: from a function's start to the last
    /// of its addresses that was looked up. The source returns the symbol with the nearest start
    /// before an address, so it would return the same one in between (or, if only one of two tables
    /// has a part of the function, name that part). The rest of the function may belong to another
    /// symbol.
    cache: RefCell<Ranges<Rc<str>>>,
}

/// Maximum number of cached functions of an object.
const CACHE_MAX: usize = 1 << 16;

/// A file with symbols; it is kept open as long as blazesym reads it.
struct SymbolFile {
    object: Rc<Object>,
    symbols: Source<'static>,
    /// The same with DWARF, if that is read.
    lines: Option<Source<'static>>,
}

impl ObjectSymbols {
    /// Returns the tables of an object that its process sees as `path`; its debug file is searched
    /// below `roots`. With `lines`, lines and inlined functions are resolved.
    pub fn of(object: &Rc<Object>, path: &Path, roots: &[PathBuf], lines: bool) -> ObjectSymbols {
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
            sources.push(SymbolFile::new(Rc::new(debug), lines));
        }
        let packed = sources.is_empty()
            && !complete
            && !has(object, SYMBOLS)
            && minidebuginfo::is_in(object);
        let unpacked =
            packed.then(|| [minidebuginfo::unpack(object), minidebuginfo::dynamic_only(object)]);
        match unpacked {
            Some(both) => {
                sources
                    .extend(both.into_iter().flatten().map(|o| SymbolFile::new(Rc::new(o), false)));
            }
            None => sources.push(SymbolFile::new(object.clone(), lines)),
        }
        ObjectSymbols {
            symbolizer,
            own: object.clone(),
            sources,
            file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            names: DemangledNames::default(),
            cache: RefCell::default(),
        }
    }

    /// Returns whether the object is referenced elsewhere, too.
    pub(super) fn is_used(&self) -> bool {
        let ours =
            self.sources.iter().filter(|source| Rc::ptr_eq(&source.object, &self.own)).count();
        Rc::strong_count(&self.own) > 1 + ours
    }

    /// Returns whether the file has not been written to since it was opened.
    pub fn is_intact(&self) -> bool {
        self.own.is_intact()
    }

    /// Appends the functions that contain a byte of the file, the innermost first; returns false if
    /// none is known. `shown` is the address that the frames show, `behind` bytes after the one
    /// that is looked up. The caller must ensure that the file has not been written to
    /// ([`ObjectSymbols::is_intact`]).
    pub fn frames(&self, offset: u64, shown: u64, behind: u64, out: &mut Vec<Frame>) -> bool {
        // The object's own segments give the address; a debug file has the same addresses, but not
        // the bytes.
        let elf = Elf::new(self.own.bytes());
        let address = elf.and_then(|elf| elf.address_of(offset));
        address.is_some_and(|address| self.frames_at(address, shown, behind, out))
    }

    /// Like [`ObjectSymbols::frames`], for an address in the object itself, before relocation. The
    /// same condition applies.
    pub fn frames_at(&self, address: u64, shown: u64, behind: u64, out: &mut Vec<Frame>) -> bool {
        self.frames_by_symbol(address, shown, behind, out)
            || self.frame_by_range(address, shown, behind, out)
    }

    /// Appends the function without a symbol that contains an address, as `[app+0x1230]`, where
    /// 0x1230 is its first address; returns false if the unwind tables have none.
    fn frame_by_range(&self, address: u64, shown: u64, behind: u64, out: &mut Vec<Frame>) -> bool {
        let elf = Elf::new(self.own.bytes());
        let Some(start) = elf.and_then(|elf| function_start(&elf, address)) else { return false };
        let symbol = Some(Rc::from(format!("[{}+{start:#x}]", self.file)));
        let offset = address.wrapping_add(behind).saturating_sub(start);
        out.push(Frame { address: shown, symbol, offset, ..Frame::default() });
        true
    }

    fn frames_by_symbol(
        &self,
        address: u64,
        shown: u64,
        behind: u64,
        out: &mut Vec<Frame>,
    ) -> bool {
        if let Some((start, name)) = self.cache.borrow().find(address) {
            let (symbol, offset) =
                (Some(name.clone()), address.wrapping_add(behind).saturating_sub(start));
            out.push(Frame { address: shown, symbol, offset, ..Frame::default() });
            return true;
        }
        self.sources.iter().enumerate().any(|(number, source)| {
            let covers = |sym: &Sym<'_>| source.covers(sym, address);
            let plain = self.ask(&source.symbols, address).filter(covers);
            let detailed = source.lines.as_ref().and_then(|lines| self.ask(lines, address));
            // blazesym returns neither start nor size of a function in several parts.
            let detailed = detailed.filter(|detailed| plain.is_some() || covers(detailed));
            let Some(sym) = plain.as_ref().or(detailed.as_ref()) else { return false };
            let frame = |name: &str, line: Option<&CodeInfo<'_>>, inlined| Frame {
                address: shown,
                symbol: Some(self.names.of_function(name)),
                offset: address.wrapping_add(behind).saturating_sub(sym.addr),
                inlined,
                line: line.and_then(|line| self.line_of(line)),
                ..Frame::default()
            };
            if let Some(detailed) = &detailed {
                let inlined = detailed.inlined.iter().rev().take(INLINED_MAX);
                out.extend(inlined.map(|f| frame(&f.name, f.code_info.as_ref(), true)));
            }
            let line = detailed.as_ref().and_then(|detailed| detailed.code_info.as_deref());
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
        let mut cache = self.cache.borrow_mut();
        if cache.len() >= CACHE_MAX {
            *cache = Ranges::default();
        }
        cache.put(start, address.saturating_sub(start) + 1, name.clone());
    }

    fn ask(&self, source: &Source<'static>, address: u64) -> Option<Sym<'_>> {
        let ask = || self.symbolizer.symbolize_single(source, Input::VirtOffset(address));
        // blazesym computes with untrusted values from the file: with overflow checks it may panic.
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

impl SymbolFile {
    fn new(object: Rc<Object>, lines: bool) -> SymbolFile {
        let source = |debug_syms| {
            let mut source = ElfSource::new(object.path());
            source.debug_syms = debug_syms;
            Source::Elf(source)
        };
        let lines = lines && has(&object, DEBUG_INFO) && has_plain_dwarf(&object);
        SymbolFile { symbols: source(false), lines: lines.then(|| source(true)), object }
    }

    /// Returns whether an address belongs to the symbol that was found for it.
    fn covers(&self, sym: &Sym<'_>, address: u64) -> bool {
        // A symbol without a size reaches to the next one, but not into another section: `_init`
        // does not include the PLT.
        sym.size.is_some_and(|size| size > 0)
            || Elf::new(self.object.bytes()).is_some_and(|elf| {
                elf.sections().any(|(_, section)| {
                    let inside = |a: u64| a.wrapping_sub(section.address) < section.size;
                    section.address != 0 && inside(sym.addr) && inside(address)
                })
            })
    }
}

/// Maximum number of functions inlined at one address; more of the outermost are omitted.
const INLINED_MAX: usize = 256;

/// Maximum unpacked size of an object's compressed sections, in bytes.
const UNPACKED_MAX: u64 = 1 << 30;

const SYMBOLS: &[&str] = &[".symtab"];
/// blazesym does not read `.zdebug_info`, the compressed form before the gABI's: the debug file may
/// have the other one.
const DEBUG_INFO: &[&str] = &[".debug_info"];

/// Returns whether the file has bytes of one of these sections.
fn has(object: &Object, names: &[&str]) -> bool {
    let Some(elf) = Elf::new(object.bytes()) else { return false };
    elf.sections().any(|(name, section)| {
        section.bytes.is_some_and(|bytes| !bytes.is_empty())
            && names.iter().any(|wanted| wanted.as_bytes() == name)
    })
}

/// Returns whether reading the object's DWARF opens no other file and needs only limited memory.
fn has_plain_dwarf(object: &Object) -> bool {
    const ELSEWHERE: &[&str] = &[".gnu_debuglink", ".gnu_debugaltlink", ".debug_sup"];
    let Some(elf) = Elf::new(object.bytes()) else { return false };
    let (mut unpacked, mut leads_elsewhere) = (0_u64, false);
    for (name, section) in elf.sections() {
        leads_elsewhere |= ELSEWHERE.iter().any(|other| other.as_bytes() == name);
        if section.flags & COMPRESSED != 0 || name.starts_with(b".zdebug") {
            // A compressed section declares its unpacked size, which need not be true.
            let declared =
                section.bytes.map_or(0, |bytes| elf.unpacked_size(bytes).unwrap_or(u64::MAX));
            unpacked = unpacked.saturating_add(declared);
        }
    }
    !leads_elsewhere && (unpacked == 0 || object.is_roots() && unpacked <= UNPACKED_MAX)
}
