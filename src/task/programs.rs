//! The address spaces of processes and the objects in them, updated from records.

use std::cell::RefCell;
use std::hash::RandomState;
use std::rc::Rc;

use hashbrown::HashMap;

use super::maps::{Mapped, Mapping, Spaces};
use super::objects::{Object, Objects};
use crate::base::report::frame::Space;
use crate::sys::tasks::{Inside, inside};

/// The address spaces of a run and their files. Empty unless mapping records are requested.
#[derive(Default)]
pub struct Programs {
    /// The address spaces.
    pub spaces: Spaces,
    /// The files.
    pub objects: Objects,
    /// Namespace ids of the processes that generate code at run time.
    makers: HashMap<Space, Inside, RandomState>,
}

/// Maximum number of processes in `makers`.
const MAKERS_MAX: usize = 4096;

/// Shared between the source, which updates it, and unwinding and symbols, which read it.
pub type SharedPrograms = Rc<RefCell<Programs>>;

impl Programs {
    /// Handles an MMAP2 record: adds the mapping and opens its file.
    pub fn on_mmap(&mut self, pid: u32, mapped: &Mapped<'_>) {
        let Some(mapping) = self.spaces.on_mmap(pid, mapped) else { return };
        let file = &mapping.file;
        let is_object = file.is_file() && self.objects.hold(&mapping, pid, &self.spaces);
        if !is_object && !file.is_of_kernel() {
            self.note_maker(pid);
        }
    }

    /// Stores the namespace ids of a process that maps memory for generated code, while it exists.
    fn note_maker(&mut self, pid: u32) {
        let Some(space) = self.spaces.known_space_of(pid) else { return };
        if self.makers.contains_key(&space) {
            return;
        }
        if self.makers.len() >= MAKERS_MAX {
            self.makers.retain(|space, _| self.spaces.knows(*space));
        }
        if self.makers.len() < MAKERS_MAX
            && let Some(inside) = inside(pid)
        {
            self.makers.insert(space, inside);
        }
    }

    /// Returns the namespace ids of the process of a space, if it generated code during the run.
    pub fn inside(&self, space: Space) -> Option<Inside> {
        self.makers.get(&space).copied()
    }

    /// Returns whether a space with chains has memory for generated code: an executable mapping
    /// that is neither an ELF file nor code of the kernel. It can be anonymous, have a name, or be
    /// a file in memory (`memfd_create`, shared memory).
    pub fn makes_code(&self, space: Space) -> bool {
        let may_be_made =
            |mapping: &Mapping| !mapping.file.is_of_kernel() && !self.objects.holds(mapping);
        self.spaces.may_have_chains(space) && self.spaces.mappings(space).iter().any(may_be_made)
    }

    /// Returns the space of a process at the current record. The first call reads what records do
    /// not contain and opens the files, since the process may be gone at its next record.
    #[inline]
    pub fn space_of(&mut self, pid: u32) -> Space {
        match self.spaces.ready_space_of(pid) {
            Some(space) => space,
            None => self.open_space(pid),
        }
    }

    /// Returns the space of a process at a time (`CLOCK_MONOTONIC`) for a chain with these user
    /// addresses; None if they may be those of another program that the process has executed since.
    pub fn space_at(&mut self, pid: u32, at_ns: u64, addresses: &[u64]) -> Option<Space> {
        let Some(space) = self.spaces.earlier_space_of(pid, at_ns) else {
            return Some(self.space_of(pid));
        };
        if self.spaces.look_up(space) {
            self.hold_objects(space, pid);
        }
        (!self.spaces.may_be_of_later(pid, space, addresses)).then_some(space)
    }

    #[cold]
    fn open_space(&mut self, pid: u32) -> Space {
        let space = self.spaces.space_of(pid);
        self.hold_objects(space, pid);
        space
    }

    /// Opens the files of a space.
    fn hold_objects(&mut self, space: Space, pid: u32) {
        let mut makes_code = false;
        for mapping in self.spaces.mappings(space) {
            let file = &mapping.file;
            let is_object = file.is_file() && self.objects.hold(mapping, pid, &self.spaces);
            makes_code |= !is_object && !file.is_of_kernel();
        }
        if makes_code {
            self.note_maker(pid);
        }
    }

    /// Returns the mapping of an address, and its object if it is an ELF file and was found.
    pub fn at(&mut self, space: Space, address: u64) -> Option<(Mapping, Option<Rc<Object>>)> {
        let mapping = self.spaces.find(space, address)?.clone();
        let pid = self.spaces.process(space)?;
        let object = self.objects.get(&mapping, pid, &self.spaces);
        Some((mapping, object))
    }

    /// Like [`Programs::at`], for the addresses of a drawing that [`Objects::begin_drawing`] began.
    pub fn at_to_draw(
        &mut self,
        space: Space,
        address: u64,
    ) -> Option<(Mapping, Option<Rc<Object>>)> {
        let mapping = self.spaces.find(space, address)?.clone();
        let pid = self.spaces.process(space)?;
        let object = self.objects.get_to_draw(&mapping, pid, &self.spaces);
        Some((mapping, object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::maps::Identity;

    #[test]
    fn executable_memory_that_is_not_an_elf_file_may_hold_generated_code() {
        let in_memory =
            Identity::Inode { major: 0, minor: 1, inode: u64::MAX, generation: Some(1) };
        let pid = std::process::id();
        for (path, identity, generated) in [
            ("[vdso]", Identity::None, false),
            ("[vsyscall]", Identity::None, false),
            ("//anon", Identity::None, true),
            ("[heap]", Identity::None, true),
            ("[anon:code]", Identity::None, true),
            ("/memfd:doublemapper (deleted)", in_memory, true),
            ("/dev/zero (deleted)", in_memory, true),
        ] {
            let mut programs = Programs::default();
            programs.spaces.on_exec(pid, 0);
            let path_bytes = path.as_bytes();
            let (start, length) = (1 << 40, 4096);
            let mapped = Mapped { start, length, offset: 0, identity, path: path_bytes };
            programs.on_mmap(pid, &mapped);
            let space = programs.space_of(pid);
            assert_eq!(programs.makes_code(space), generated, "{path}");
            assert_eq!(programs.inside(space).is_some(), generated, "{path}");
        }
    }

    #[test]
    fn a_program_and_its_libraries_are_not_generated_code() {
        let mut programs = Programs::default();
        let space = programs.space_of(std::process::id());
        assert!(!programs.spaces.mappings(space).is_empty() && !programs.makes_code(space));
    }
}
