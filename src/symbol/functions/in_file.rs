//! Finds the code of a function in a program or library: by its symbols, DWARF or USDT notes.

mod demangled;
mod instruction;
mod located;
mod not_elf;
mod parameters;
mod symbols;
mod usdt;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, Result, anyhow, bail};

use self::located::located;
use self::not_elf::not_elf;
use super::super::{debug_file, minidebuginfo};
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::text::units::counted;
use crate::decode::dwarf::{DwarfIndex, NoPrototype};
use crate::decode::elf::Elf;
use crate::decode::elf::symbols::{ElfFunction, SymbolTable};
use crate::event::kind::function::{CodeLocation, FunctionLocation, FunctionName, ProbeKind};
use crate::sys::code::Code;
use crate::sys::mapped_file::{Links, open_regular};
use crate::task::objects::Object;

/// An open file with functions.
pub(super) struct ProgramFile {
    /// Name as typed by the user.
    name: String,
    /// Path that it leads to.
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
    object: Object,
    code: Rc<Code>,
    /// The file with the symbols that were stripped from this one.
    apart: Option<Object>,
    /// Debug information of the file and of the other one.
    units: [OnceCell<Result<DwarfIndex, NoPrototype>>; 2],
}

/// All entries of one name.
#[derive(Default)]
struct Entries {
    /// Distinct addresses, ascending; those of the current version, if there is one.
    addresses: Vec<u64>,
    superseded: bool,
    chooses: bool,
}

/// Maximum number of names compared with an unknown one: some tenths of a second.
const COMPARED_MAX: usize = 200_000;

/// Collects this many times the requested number of names, since some turn out not to be usable.
const COLLECTED: usize = 8;

const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
/// `EM_X86_64` or `EM_AARCH64`.
const MACHINE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };

impl ProgramFile {
    /// Opens the file that a user calls `name`: a path, or a program that a shell would find.
    ///
    /// # Errors
    /// The file does not exist or cannot be read, or it is not a 64-bit program or library of this
    /// machine's architecture.
    pub(super) fn open(name: &str) -> Result<ProgramFile> {
        // Such a name could not be printed and parsed again.
        if name.chars().any(char::is_control) || name.contains('"') && name.contains('\'') {
            bail!(
                "the file name has control characters or both kinds of quotes; use another path to \
                 the file"
            );
        }
        let path = located(name)?;
        let file = open_regular(&path, Links::Followed).map_err(|why| refused(&path, &why))?;
        let metadata = file.metadata().context("failed to read the file's metadata")?;
        let shown = path.display();
        // Opens this very file, whatever its path leads to by now.
        let held = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let object = Object::open(&held, 0).ok_or_else(|| not_elf(&path, &file))?;
        let elf = Elf::new(object.bytes()).context("the file is no longer an ELF file")?;
        if !elf.is_wide() {
            bail!(
                "{shown} is a 32-bit program, whose functions get their arguments on the stack and \
                 not in registers; watch its system calls instead"
            );
        }
        if elf.machine() != MACHINE {
            bail!("{shown} is for another architecture; use a file that this machine can execute");
        }
        if !matches!(elf.kind(), ET_EXEC | ET_DYN) {
            bail!(
                "{shown} is neither a program nor a library; name the one that it was linked into"
            );
        }
        if elf.section(".text").is_some_and(|text| text.bytes.is_none()) {
            bail!("{shown} has symbols but no code; name the program itself");
        }
        let mut program = ProgramFile {
            name: name.to_owned(),
            file: (metadata.dev(), metadata.ino()),
            code: Rc::new(Code::of(file)?),
            apart: None,
            units: Default::default(),
            object,
            path,
        };
        program.apart = program.symbols_apart();
        Ok(program)
    }

    /// Returns the name as typed by the user.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether that name still leads to this file, and the file was not changed.
    pub(super) fn is(&self, name: &str) -> bool {
        let same = |path: PathBuf| {
            std::fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == self.file)
        };
        self.name == name && self.code.is_intact() && located(name).is_ok_and(same)
    }

    /// Finds a function, an instruction or a USDT probe. A function has the name of its symbol, or
    /// its name in the source.
    ///
    /// # Errors
    /// The file has no such function or several, the name is that of an IFUNC, or the symbol does
    /// not point to code; or the errors of [`ProgramFile::inside`] and [`ProgramFile::usdt`].
    pub(super) fn find(&self, named: &FunctionName) -> Result<FunctionLocation> {
        let found = self.find_symbol(named);
        match found.is_err() && named.kind != ProbeKind::Usdt {
            true => self.with_symbol(named)?.map_or(found, |named| self.find_symbol(&named)),
            false => found,
        }
    }

    fn find_symbol(&self, named: &FunctionName) -> Result<FunctionLocation> {
        match named.location() {
            _ if named.kind == ProbeKind::Usdt => self.usdt(named),
            CodeLocation::Function(name, 0) => {
                let start = self.entry(name)?;
                let mut location = self.inside(Some(name), start, 0)?;
                self.add_parameters(named, start, &mut location)?;
                Ok(location)
            }
            _ if named.paths().is_some() => {
                bail!("only a FUNCTION by its name has parameters; omit the parentheses")
            }
            CodeLocation::Function(name, offset) => {
                self.inside(Some(name), self.entry(name)?, offset)
            }
            CodeLocation::Address(address) => self.at_address(address),
        }
    }

    /// Returns the address at which a function begins.
    fn entry(&self, name: &str) -> Result<u64> {
        let mut found = Entries::default();
        let wanted = name.as_bytes();
        self.each(&mut |function| {
            if function.name == wanted {
                found.take(function);
            }
            true
        });
        if found.chooses {
            return Err(self.chosen(name));
        }
        match *found.addresses {
            [address] => Ok(address),
            [] => Err(self.unknown(name)),
            _ => bail!(
                "{} has {} functions of this name, which cannot be distinguished; watch one that \
                 they call or that calls them",
                self.path.display(),
                found.addresses.len()
            ),
        }
    }

    /// Returns at most `most` names: wanted functions that exist once, or wanted USDT probes.
    ///
    /// # Errors
    /// The file has none.
    pub(super) fn names(
        &self,
        kind: ProbeKind,
        wanted: &dyn Fn(&str) -> bool,
        most: usize,
    ) -> Result<Vec<String>> {
        if kind == ProbeKind::Usdt {
            return self.usdt_names(wanted, most);
        }
        let mut found: BTreeMap<&str, Entries> = BTreeMap::new();
        let enough = most.saturating_mul(COLLECTED);
        let mut any = false;
        self.each(&mut |function| {
            any = true;
            if let Ok(name) = std::str::from_utf8(function.name)
                && !name.contains(char::is_control)
                && wanted(name)
            {
                found.entry(name).or_default().take(function);
            }
            found.len() < enough
        });
        if !any {
            return Err(self.no_symbols());
        }
        found.retain(|_, f| match *f.addresses {
            [address] => !f.chooses && self.is_probeable(address),
            _ => false,
        });
        Ok(found.into_keys().map(str::to_owned).take(most).collect())
    }

    /// Calls `take` with each function until it returns false.
    fn each<'a>(&'a self, take: &mut dyn FnMut(ElfFunction<'a>) -> bool) {
        for (elf, table) in self.tables() {
            for mut function in elf.functions(table) {
                function.name = without_version(function.name);
                if !take(function) {
                    return;
                }
            }
        }
    }

    /// Returns the symbol tables of the file and of its debug file.
    fn tables(&self) -> impl Iterator<Item = (Elf<'_>, SymbolTable)> {
        let own =
            [(Some(&self.object), SymbolTable::All), (Some(&self.object), SymbolTable::Dynamic)];
        let tables = own.into_iter().chain([(self.apart.as_ref(), SymbolTable::All)]);
        tables.filter_map(|(object, table)| Some((elf(object?)?, table)))
    }

    /// Returns the file with all symbols of a stripped one.
    fn symbols_apart(&self) -> Option<Object> {
        if has_symbol_table(&self.object)? {
            return None;
        }
        let (root, inside) = rooted(&self.path);
        debug_file::find(&self.object, &inside, &[root])
            .or_else(|| minidebuginfo::unpack(&self.object))
    }

    fn no_symbols(&self) -> anyhow::Error {
        anyhow!(
            "{} has no function symbols (it was stripped); install its debug symbols, or use a \
             file that was not stripped",
            self.path.display()
        )
    }

    fn unknown(&self, name: &str) -> anyhow::Error {
        let mut names: Vec<&str> = Vec::new();
        self.each(&mut |function| {
            names.extend(std::str::from_utf8(function.name));
            names.len() < COMPARED_MAX
        });
        if names.is_empty() {
            return self.no_symbols();
        }
        // `f.constprop.0`
        let clone = |of: &&str| of.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        let clones: Vec<_> = names.iter().copied().filter(clone).take(3).collect();
        let near = if clones.is_empty() { nearest(name, names.into_iter()) } else { clones };
        let file = self.path.display();
        let hint = match near.is_empty() {
            false => did_you_mean(&near),
            true if self.apart.is_none() && has_symbol_table(&self.object) == Some(false) => {
                "; all but its exported symbols were stripped: install its debug symbols".to_owned()
            }
            true => format!(
                "; it may be inlined wherever it is called (perilune list 'uprobe:{}:*' shows all)",
                self.name
            ),
        };
        anyhow!("{file} has no function '{name}'{hint}")
    }

    /// Returns the error for the name of an IFUNC.
    fn chosen(&self, name: &str) -> anyhow::Error {
        let mut variants = Vec::new();
        let plain = name.trim_start_matches('_');
        self.each(&mut |function| {
            let variant = std::str::from_utf8(function.name).ok();
            let is = |other: &&str| {
                let rest = other.trim_start_matches('_').strip_prefix(plain);
                !function.chooses && rest.is_some_and(|rest| rest.starts_with('_'))
            };
            variants.extend(variant.filter(is).map(str::to_owned));
            true
        });
        variants.sort_unstable();
        variants.dedup();
        let instead = match variants.is_empty() {
            true => "install its debug symbols, which have their names".to_owned(),
            false => format!("watch these: {}", brief(&variants)),
        };
        anyhow!(
            "{} selects one of several functions for this name, by the CPU, when a program starts \
             (IFUNC); {instead}",
            self.path.display()
        )
    }
}

impl Entries {
    fn take(&mut self, function: ElfFunction<'_>) {
        self.chooses |= function.chooses;
        if function.superseded && !self.superseded && !self.addresses.is_empty() {
            return;
        }
        if self.superseded && !function.superseded {
            self.addresses.clear();
        }
        self.superseded = function.superseded;
        if let Err(at) = self.addresses.binary_search(&function.address) {
            self.addresses.insert(at, function.address);
        }
    }
}

/// Returns the name without a default version, which a linker uses for a name without a version.
fn without_version(name: &[u8]) -> &[u8] {
    name.windows(2).position(|two| two == b"@@").map_or(name, |at| &name[..at])
}

fn elf(object: &Object) -> Option<Elf<'_>> {
    // The file is untrusted: everything is read within its bounds, whatever it contains.
    Elf::new(object.bytes())
}

/// Returns the root directory that a path is below, and the path inside: a process's root for
/// `/proc/PID/root/…`, else perilune's.
fn rooted(path: &Path) -> (PathBuf, PathBuf) {
    let mut parts = path.components();
    let root: PathBuf = parts.by_ref().take(4).collect();
    match root.starts_with("/proc") && root.ends_with("root") {
        true => (root, Path::new("/").join(parts.as_path())),
        false => {
            (PathBuf::from("/"), std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
        }
    }
}

fn refused(path: &Path, why: &std::io::Error) -> anyhow::Error {
    let inside = match path.is_absolute() {
        true => format!("/proc/PID/root{}", path.display()),
        false => "/proc/PID/root/PATH".to_owned(),
    };
    let shown = path.display();
    match why.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => anyhow!(
            "there is no file {shown}; use a path that exists here, or {inside} for a container"
        ),
        ErrorKind::PermissionDenied => {
            anyhow!("permission denied on {shown}; run as root")
        }
        ErrorKind::Other => anyhow!("{shown} is not a regular file; name a program or a library"),
        _ => anyhow!("failed to open {shown}: {why}; name a program or a library"),
    }
}

/// Returns whether a file has its whole symbol table; None if it is not an ELF file.
fn has_symbol_table(object: &Object) -> Option<bool> {
    Some(elf(object)?.functions(SymbolTable::All).next().is_some())
}

fn brief(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {}", counted(more as u64, "other")),
    };
    format!("{}{more}", names[..names.len().min(SHOWN)].join(", "))
}
