//! What processes execute: their address spaces and the objects in them, as one thing that records feed.

use std::cell::RefCell;
use std::hash::RandomState;
use std::rc::Rc;

use hashbrown::HashMap;

use super::maps::{Mapped, Mapping, Spaces};
use super::objects::{Object, Objects};
use crate::base::frame::Space;
use crate::sys::tasks::{Inside, inside};

/// The address spaces of a run and the files in them. It fills only where records of mappings are asked for.
#[derive(Default)]
pub struct Programs {
    /// What is mapped where.
    pub spaces: Spaces,
    /// The files.
    pub objects: Objects,
    /// What those processes are to themselves that make code while they run.
    makers: HashMap<Space, Inside, RandomState>,
}

/// Makers of code that are remembered.
const MAKERS_MAX: usize = 4096;

/// What the source fills, unwinding walks, and names are looked up in.
pub type Shared = Rc<RefCell<Programs>>;

impl Programs {
    /// An MMAP2 record: the mapping, and its file while it can be found.
    pub fn on_mmap(&mut self, pid: u32, mapped: &Mapped<'_>) {
        let Some(mapping) = self.spaces.on_mmap(pid, mapped) else { return };
        if mapping.file.is_file() {
            self.objects.hold(&mapping, pid, &self.spaces);
        } else if mapping.file.is_anonymous() {
            self.note_maker(pid);
        }
    }

    /// A process has mapped memory to put code into: who it is is looked up while it lives.
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

    /// What the process of a space was to itself, if it made code there while it was watched.
    pub fn inside(&self, space: Space) -> Option<Inside> {
        self.makers.get(&space).copied()
    }

    /// Whether a space that chains were taken in has memory that its process puts code into.
    pub fn makes_code(&self, space: Space) -> bool {
        self.spaces.was_asked(space)
            && self.spaces.mappings(space).iter().any(|mapping| mapping.file.is_anonymous())
    }

    /// The space that a process lives in at the record that is being handled. At the first question, what records have not
    /// told is read, and the files are opened: the process may be gone when the next one comes.
    #[inline]
    pub fn space_of(&mut self, pid: u32) -> Space {
        match self.spaces.ready_space_of(pid) {
            Some(space) => space,
            None => self.meet(pid),
        }
    }

    #[cold]
    fn meet(&mut self, pid: u32) -> Space {
        let space = self.spaces.space_of(pid);
        for mapping in self.spaces.mappings(space) {
            if mapping.file.is_file() {
                self.objects.hold(mapping, pid, &self.spaces);
            }
        }
        space
    }

    /// What is mapped at an address, and the object behind it if there is one and it can be found.
    pub fn at(&mut self, space: Space, address: u64) -> Option<(Mapping, Option<Rc<Object>>)> {
        let mapping = self.spaces.find(space, address)?.clone();
        let pid = self.spaces.process(space)?;
        let object = self.objects.get(&mapping, pid, &self.spaces);
        Some((mapping, object))
    }

    /// The same for one of the many addresses of a drawing, which [`Objects::begin_drawing`] has begun.
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
