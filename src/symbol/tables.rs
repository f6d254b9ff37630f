//! The names in one object: of its own symbol tables, or, where those were stripped, of its debug file.
//!
//! blazesym reads them: `.symtab`, MiniDebugInfo, `.dynsym`, and with `lines` the DWARF that tells lines and inlined functions.
//! It is given the files that are held, not their paths, and is dropped with them. Without `lines` DWARF is not looked at:
//! that of a large program takes seconds and gigabytes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use blazesym::symbolize::source::{Elf as ElfSource, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};

use super::debug_file;
use crate::base::frame::Frame;
use crate::decode::elf::Elf;
use crate::task::objects::Object;

/// What names the addresses of one object.
pub struct Tables {
    symbolizer: Symbolizer,
    /// Files to ask, in this order.
    sources: Vec<Asked>,
}

/// A file with symbols; it is held as long as blazesym reads it.
struct Asked {
    object: Rc<Object>,
    source: Source<'static>,
}

impl Tables {
    /// Those of an object that its process calls `path`; its debug file is looked for below `roots`. With `lines`, lines and
    /// inlined functions are told.
    pub fn of(object: &Rc<Object>, path: &Path, roots: &[PathBuf], lines: bool) -> Tables {
        let symbolizer = Symbolizer::builder()
            .enable_auto_reload(false)
            .enable_code_info(lines)
            .enable_inlined_fns(lines)
            .build();
        let mut sources = Vec::new();
        let complete = has(object, if lines { DEBUG_INFO } else { SYMBOLS });
        if !complete && let Some(debug) = debug_file::find(object, path, roots) {
            sources.push(Asked::new(Rc::new(debug), lines));
        }
        sources.push(Asked::new(object.clone(), lines));
        Tables { symbolizer, sources }
    }

    /// Whether anybody else holds the object, too.
    pub(super) fn is_used(&self) -> bool {
        self.sources.last().is_some_and(|own| Rc::strong_count(&own.object) > 1)
    }

    /// Appends the functions that a byte of the file lies in, the innermost first; false if none is known. `asked` is the
    /// address that the frames show, so many bytes behind the one that is looked up.
    pub fn frames(&self, offset: u64, asked: u64, behind: u64, out: &mut Vec<Frame>) -> bool {
        // The object's own segments place it; a debug file keeps the addresses, but not the bytes.
        let Some(own) = self.sources.last().filter(|own| own.object.is_intact()) else {
            return false;
        };
        let Some(address) = Elf::new(own.object.bytes()).and_then(|elf| elf.address_of(offset))
        else {
            return false;
        };
        self.sources.iter().any(|source| {
            let Some(sym) = self.ask(source, address) else { return false };
            let frame = |name: &str, line: Option<&CodeInfo<'_>>, inlined| Frame {
                address: asked,
                symbol: Some(name.into()),
                offset: (address + behind).saturating_sub(sym.addr),
                inlined,
                line: line.and_then(line_of),
                ..Frame::default()
            };
            let inlined = sym.inlined.iter().rev();
            out.extend(inlined.map(|f| frame(&f.name, f.code_info.as_ref(), true)));
            out.push(frame(&sym.name, sym.code_info.as_deref(), false));
            true
        })
    }

    fn ask(&self, asked: &Asked, address: u64) -> Option<Sym<'_>> {
        let ask = || self.symbolizer.symbolize_single(&asked.source, Input::VirtOffset(address));
        // It computes with what the file says, which may be anything: with overflow checks that can be a panic.
        let found = catch_unwind(AssertUnwindSafe(ask)).ok()?.ok()?;
        let Symbolized::Sym(sym) = found else { return None };
        // A symbol without a size reaches to the next one, but not into another section: `_init` is not the PLT.
        let covers = sym.size.is_some_and(|size| size > 0) || {
            let elf = Elf::new(asked.object.bytes())?;
            elf.sections().any(|(_, section)| {
                let inside = |a: u64| a.wrapping_sub(section.address) < section.size;
                section.address != 0 && inside(sym.addr) && inside(address)
            })
        };
        (covers && !sym.name.is_empty()).then_some(sym)
    }
}

impl Asked {
    fn new(object: Rc<Object>, lines: bool) -> Asked {
        let mut source = ElfSource::new(object.path());
        source.debug_syms = lines && has(&object, DEBUG_INFO);
        Asked { object, source: Source::Elf(source) }
    }
}

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

fn line_of(info: &CodeInfo<'_>) -> Option<(Rc<str>, u32)> {
    let path = info.to_path();
    Some((path.to_string_lossy().into(), info.line?))
}
