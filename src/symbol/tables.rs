//! The names in one object: of its own symbol tables, or, where those were stripped, of its debug file.
//!
//! blazesym reads them: `.symtab`, `.dynsym`, and with `lines` the DWARF that tells lines and inlined functions.
//! It is given the files that are held, not their paths, and is dropped with them. Without `lines` DWARF is not looked at:
//! that of a large program takes seconds and gigabytes.
//!
//! Anybody can make an object. So there is no DWARF from one that leads blazesym to other files by their paths (a link, an
//! alternate or supplementary file), nor from one with packed sections, unless it is root's; and names have a limit.

use hashbrown::HashSet;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use blazesym::symbolize::source::{Elf as ElfSource, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};

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
    names: RefCell<HashSet<Rc<str>>>,
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
        Tables { symbolizer, own: object.clone(), sources, names: RefCell::default() }
    }

    /// Whether anybody else holds the object, too.
    pub(super) fn is_used(&self) -> bool {
        let ours = self.sources.iter().filter(|asked| Rc::ptr_eq(&asked.object, &self.own)).count();
        Rc::strong_count(&self.own) > 1 + ours
    }

    /// Appends the functions that a byte of the file lies in, the innermost first; false if none is known. `asked` is the
    /// address that the frames show, so many bytes behind the one that is looked up.
    pub fn frames(&self, offset: u64, asked: u64, behind: u64, out: &mut Vec<Frame>) -> bool {
        // The object's own segments place it; a debug file keeps the addresses, but not the bytes.
        let own = Some(&self.own).filter(|own| own.is_intact());
        let elf = own.and_then(|own| Elf::new(own.bytes()));
        let Some(address) = elf.and_then(|elf| elf.address_of(offset)) else { return false };
        self.sources.iter().any(|source| {
            let Some(sym) = self.ask(source, address) else { return false };
            let frame = |name: &str, line: Option<&CodeInfo<'_>>, inlined| Frame {
                address: asked,
                symbol: Some(self.name(name)),
                offset: address.wrapping_add(behind).saturating_sub(sym.addr),
                inlined,
                line: line.and_then(|line| self.line_of(line)),
                ..Frame::default()
            };
            let inlined = sym.inlined.iter().rev().take(INLINED_MAX);
            out.extend(inlined.map(|f| frame(&f.name, f.code_info.as_ref(), true)));
            out.push(frame(&sym.name, sym.code_info.as_deref(), false));
            true
        })
    }

    fn ask(&self, asked: &Asked, address: u64) -> Option<Sym<'_>> {
        let ask = || self.symbolizer.symbolize_single(&asked.source, Input::VirtOffset(address));
        // It computes with what the file says, which may be anything: with overflow checks that can be a panic.
        let found = quietly(ask)?.ok()?;
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

    /// A name, shared with all frames that have it, and cut if it is too long.
    fn name(&self, name: &str) -> Rc<str> {
        let mut names = self.names.borrow_mut();
        if let Some(known) = names.get(name) {
            return known.clone();
        }
        let shared: Rc<str> = match name.len() > NAME_MAX {
            true => format!("{}…", beginning(name)).into(),
            false => name.into(),
        };
        if name.len() > NAME_MAX
            && let Some(known) = names.get(&shared)
        {
            return known.clone();
        }
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        names.insert(shared.clone());
        shared
    }

    fn line_of(&self, info: &CodeInfo<'_>) -> Option<(Rc<str>, u32)> {
        let line = info.line?;
        Some((self.name(&info.to_path().to_string_lossy()), line))
    }
}

impl Asked {
    fn new(object: Rc<Object>, lines: bool) -> Asked {
        let mut source = ElfSource::new(object.path());
        source.debug_syms = lines && has(&object, DEBUG_INFO) && has_plain_dwarf(&object);
        Asked { object, source: Source::Elf(source) }
    }
}

/// Bytes of a name; what is longer is cut.
const NAME_MAX: usize = 1 << 10;

/// Names of an object that are shared.
const NAMES_MAX: usize = 1 << 16;

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

/// As much of a long name as is kept.
fn beginning(name: &str) -> &str {
    let end = (0..=NAME_MAX).rev().find(|at| name.is_char_boundary(*at));
    name.get(..end.unwrap_or(0)).unwrap_or(name)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once_and_has_an_end() {
        let program = Object::open(Path::new("/proc/self/exe"), 1).unwrap();
        let tables = Tables::of(&Rc::new(program), Path::new("program"), &[], false);
        assert!(!tables.is_used());
        let long = "ä".repeat(1 << 20);
        let (first, again) = (tables.name(&long), tables.name(&long));
        assert!(Rc::ptr_eq(&first, &again));
        assert_eq!(*first, *("ä".repeat(NAME_MAX / 2) + "…"));
        assert_eq!(&*tables.name("short"), "short");
    }
}
