//! Names the addresses of a live run.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use hashbrown::HashMap;
use std::hash::RandomState;

use super::perf_map::PerfMaps;
use super::{KernelSymbols, ObjectSymbols, OmittedSymbols, Symbolizer};
use crate::base::report::frame::{Frame, Space};
use crate::sys::tasks::living_thread;
use crate::task::maps::{Backing, Mapping};
use crate::task::objects::Object;
use crate::task::programs::{Programs, SharedPrograms};

/// Maximum number of file names that are kept, so that frames share them.
const DSOS_MAX: usize = 4096;

/// Names the addresses of a live run.
pub struct Symbols {
    kernel: Rc<KernelSymbols>,
    programs: SharedPrograms,
    /// By the object's number; dropped with the objects.
    tables: HashMap<u32, ObjectSymbols, RandomState>,
    dropped: u64,
    perf_maps: PerfMaps,
    dsos: HashMap<Rc<Backing>, Rc<str>, RandomState>,
    /// Whether lines and inlined functions are resolved.
    lines: bool,
}

impl Symbols {
    /// Names addresses by the kernel's symbols and by what processes execute. `lines` also resolves
    /// lines and inlined functions.
    pub fn new(kernel: Rc<KernelSymbols>, programs: SharedPrograms, lines: bool) -> Symbols {
        Symbols {
            kernel,
            programs,
            tables: HashMap::default(),
            dropped: 0,
            perf_maps: PerfMaps::default(),
            dsos: HashMap::default(),
            lines,
        }
    }

    fn user(&mut self, space: Space, address: u64, lookup: u64, out: &mut Vec<Frame>) {
        let from = out.len();
        let programs = self.programs.clone();
        let mut programs = programs.borrow_mut();
        let Some((mapping, object)) = programs.at_to_draw(space, lookup) else {
            return out.push(Frame { address, ..Frame::default() });
        };
        let named = match object {
            Some(object) => {
                let tables = self.tables(&programs, space, &mapping, &object);
                tables.frames(mapping.file_offset(lookup), address, address - lookup, out)
            }
            None => {
                let named = self.perf_maps.frame(&programs, space, address, lookup, out);
                if !named {
                    programs.objects.note_nameless(&mapping);
                }
                named
            }
        };
        if !named {
            out.push(Frame { address, ..Frame::default() });
        }
        let dso = self.dso(&mapping.file);
        out[from..].iter_mut().for_each(|frame| frame.dso = Some(dso.clone()));
    }

    fn tables(
        &mut self,
        programs: &Programs,
        space: Space,
        mapping: &Mapping,
        object: &Rc<Object>,
    ) -> &ObjectSymbols {
        if self.dropped != programs.objects.dropped() {
            self.dropped = programs.objects.dropped();
            self.tables.retain(|_, tables| tables.is_used());
        }
        let lines = self.lines;
        self.tables.entry(object.number()).or_insert_with(|| {
            let path = Path::new(OsStr::from_bytes(&mapping.file.path));
            let root_of = |pid: u32| PathBuf::from(format!("/proc/{}/root", living_thread(pid)));
            let alive = programs.spaces.process(space).filter(|_| programs.spaces.lives(space));
            let roots: Vec<PathBuf> =
                alive.map(root_of).into_iter().chain([PathBuf::from("/")]).collect();
            ObjectSymbols::of(object, path, &roots, lines)
        })
    }

    /// Returns what frames show as the file: its path as the process sees it, or a name in
    /// brackets.
    fn dso(&mut self, file: &Rc<Backing>) -> Rc<str> {
        if let Some(known) = self.dsos.get(file) {
            return known.clone();
        }
        let name: Rc<str> = match &*file.path {
            b"" => "[anon]".into(),
            path if path.starts_with(b"//") => "[anon]".into(),
            path => String::from_utf8_lossy(path).into(),
        };
        if self.dsos.len() >= DSOS_MAX {
            self.dsos.clear();
        }
        self.dsos.insert(file.clone(), name.clone());
        name
    }
}

impl Symbolizer for Symbols {
    fn frames(
        &mut self,
        space: Space,
        address: u64,
        kernel: bool,
        caller: bool,
        out: &mut Vec<Frame>,
    ) {
        match kernel {
            true => out.push(self.kernel.frame(address, caller)),
            false => self.user(space, address, address.saturating_sub(caller.into()), out),
        }
    }

    fn on_exit(&mut self, space: Space) {
        let programs = self.programs.borrow();
        if programs.makes_code(space) {
            self.perf_maps.hold(&programs, space);
        }
    }

    fn omitted(&self) -> OmittedSymbols {
        OmittedSymbols { perf_map_bytes: self.perf_maps.skipped(), ksymbols: self.kernel.dropped() }
    }

    fn version(&self) -> u64 {
        let mut programs = self.programs.borrow_mut();
        programs.objects.begin_drawing();
        let of_user_space = self.perf_maps.version(&programs);
        of_user_space.wrapping_add(self.kernel.version())
    }
}
