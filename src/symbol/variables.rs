//! Names of variables in the memory of running processes: `queue_lock`, `libc.so.6+0x1d3c60`.
//!
//! The mappings of the process lead to the file, whose symbol tables, or those of its debug file,
//! have the name. The memory of a variable that starts as zeros (`.bss`) lies behind the pages of
//! the file and belongs to none. The kernel is asked at each call, so the caller keeps the answers.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use hashbrown::HashMap;
use std::hash::RandomState;

use super::debug_file;
use super::demangle::DemangledNames;
use crate::decode::elf::symbols::{ElfSymbolKind, SymbolTable};
use crate::decode::elf::{Elf, LOAD, Segment, WRITABLE};
use crate::sys::maps::{self, ProcMapping};
use crate::sys::tasks::living_thread;
use crate::task::objects::Object;

/// Maximum number of files whose variables are kept; beyond it all are dropped.
const FILES_MAX: usize = 256;

/// Maximum number of variables of a file that are kept: those of the largest programs.
const VARIABLES_MAX: usize = 1 << 20;

/// The variables of the files that processes have mapped, read when they are first looked up.
#[derive(Default)]
pub struct ProcessVariables {
    files: HashMap<FileKey, Option<Rc<FileVariables>>, RandomState>,
}

/// Device and inode of a file, as `/proc/PID/maps` shows them.
type FileKey = (u32, u32, u64);

/// The variables of a file.
struct FileVariables {
    object: Object,
    /// File name without its folder.
    name: String,
    /// Sorted by address: address before relocation, size, name.
    variables: Vec<(u64, u64, Rc<str>)>,
}

impl ProcessVariables {
    /// Returns the name of the memory at an address of a process: `NAME` or `NAME+0x8` of a
    /// variable, `FILE+0x1230` (an address before relocation) of a file without a symbol for it,
    /// `/PATH+0x40` of a mapped file (an offset), or the kernel's name of the region: `[heap]`.
    /// None of other memory, and if there is no such process.
    pub fn name(&mut self, pid: u32, address: u64) -> Option<String> {
        let pid = living_thread(pid);
        let rows = maps::all(pid).ok()?;
        let at = rows.iter().position(|row| (row.start..row.end()).contains(&address))?;
        let row = &rows[at];
        if row.inode != 0 {
            let of_program = self.variable(pid, row, address);
            let offset = row.offset.wrapping_add(address - row.start);
            return of_program
                .or_else(|| Some(format!("{}+{offset:#x}", String::from_utf8_lossy(&row.path))));
        }
        // `.bss`: the segment begins in the file and ends behind its pages.
        let before = at.checked_sub(1).map(|before| &rows[before]);
        let before = before.filter(|before| before.inode != 0 && before.end() == row.start);
        if let Some(name) = before.and_then(|before| self.variable(pid, before, address)) {
            return Some(name);
        }
        row.path.starts_with(b"[").then(|| String::from_utf8_lossy(&row.path).into_owned())
    }

    /// Returns the name of an address in, or behind, a mapping of an ELF file; None if no writable
    /// segment of the file contains it.
    fn variable(&mut self, pid: u32, row: &ProcMapping, address: u64) -> Option<String> {
        let key = (row.major, row.minor, row.inode);
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&key) {
            self.files.clear();
        }
        let file =
            self.files.entry(key).or_insert_with(|| FileVariables::read(pid, row).map(Rc::new));
        let file = file.clone()?;
        let linked = file.address_of(row, address)?;
        Some(file.name_of(linked))
    }
}

impl FileVariables {
    /// Opens the file of a mapping, and reads its variables; None if it is not an ELF file.
    fn read(pid: u32, row: &ProcMapping) -> Option<FileVariables> {
        let mapped = format!("/proc/{pid}/map_files/{:x}-{:x}", row.start, row.end());
        let object = Object::open(Path::new(&mapped), 0).or_else(|| {
            // The first path needs a privilege; the second one may lead to another file.
            let object = Object::open(&below_root(pid, &row.path), 0)?;
            (object.inode() == Some(row.inode)).then_some(object)
        })?;
        let path = PathBuf::from(String::from_utf8_lossy(&row.path).into_owned());
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut variables = Vec::new();
        let names = DemangledNames::default();
        let roots = [PathBuf::from(format!("/proc/{pid}/root")), PathBuf::from("/")];
        let is_stripped = Elf::new(object.bytes())?.symbols(SymbolTable::All).next().is_none();
        let apart = is_stripped.then(|| debug_file::find(&object, &path, &roots)).flatten();
        for of in apart.iter().chain([&object]) {
            let Some(elf) = Elf::new(of.bytes()) else { continue };
            let all = elf.symbols(SymbolTable::All).chain(elf.symbols(SymbolTable::Dynamic));
            let all =
                all.filter(|symbol| symbol.kind == ElfSymbolKind::Variable && symbol.size > 0);
            variables.extend(all.take(VARIABLES_MAX).map(|symbol| {
                let text = String::from_utf8_lossy(symbol.name);
                let plain = text.split_once('@').map_or(&*text, |(plain, _)| plain);
                (symbol.address, symbol.size, names.of_function(plain))
            }));
        }
        // Of several names of one variable, the first in alphabetical order.
        variables.sort_unstable();
        variables.dedup_by_key(|variable| variable.0);
        Some(FileVariables { object, name, variables })
    }

    /// Returns the address before relocation of a byte in, or behind, a mapping of the file.
    fn address_of(&self, row: &ProcMapping, address: u64) -> Option<u64> {
        let elf = Elf::new(self.object.bytes())?;
        let inside = row.offset.checked_add(address.checked_sub(row.start)?)?;
        let data = elf.segments().filter(|s| s.kind == LOAD && s.flags & WRITABLE != 0);
        let holds = |s: &Segment| inside.checked_sub(s.offset).is_some_and(|by| by < s.size);
        // The memory of a segment that is read-only after relocation is padded to a whole page,
        // over the offsets of the next one.
        let segment = data.filter(holds).max_by_key(|segment| segment.offset)?;
        segment.address.checked_add(inside - segment.offset)
    }

    /// Returns the name of an address before relocation.
    fn name_of(&self, address: u64) -> String {
        let behind = self.variables.partition_point(|variable| variable.0 <= address);
        let variable = behind.checked_sub(1).map(|at| &self.variables[at]);
        match variable {
            Some((start, size, name)) if address - start < *size => match address - start {
                0 => name.to_string(),
                offset => format!("{name}+{offset:#x}"),
            },
            _ => format!("{}+{address:#x}", self.name),
        }
    }
}

/// Returns a path as the process sees it.
fn below_root(pid: u32, path: &[u8]) -> PathBuf {
    let path = String::from_utf8_lossy(path);
    Path::new(&format!("/proc/{pid}/root")).join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::sys::mapped_file::MappedFile;

    #[used]
    static STARTS_AS_ZEROS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
    #[used]
    static STARTS_WITH_DATA: [AtomicU64; 4] = [const { AtomicU64::new(7) }; 4];

    fn name(address: u64) -> Option<String> {
        ProcessVariables::default().name(std::process::id(), address)
    }

    #[test]
    fn variables_have_their_names_and_offsets() {
        for (variable, expected) in
            [(&STARTS_AS_ZEROS, "STARTS_AS_ZEROS"), (&STARTS_WITH_DATA, "STARTS_WITH_DATA")]
        {
            let address = variable.as_ptr() as u64;
            variable[0].store(7, Ordering::Relaxed);
            let found = name(address).unwrap();
            assert!(found.contains(expected) && !found.contains('+'), "{found}");
            let inside = name(address + 8).unwrap();
            assert_eq!(inside, format!("{found}+0x8"));
        }
    }

    #[test]
    fn other_memory_has_the_name_of_its_file_or_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [1; 100]).unwrap();
        let map = MappedFile::open(file.path()).unwrap();
        let place = file.path().canonicalize().unwrap();
        assert_eq!(name(map.as_ptr() as u64 + 0x40), Some(format!("{}+0x40", place.display())));
        assert_eq!(name(8), None);
        assert_eq!(ProcessVariables::default().name(u32::MAX, 8), None);
    }
}
