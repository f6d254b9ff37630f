//! How the address spaces and the objects in them are kept up with the records of a run that takes stacks.

use super::host::Host;
use crate::decode::side_band::MappedFile;
use crate::source::{Happening, Side};
use crate::symbol::MadeSymbol;
use crate::task::maps::{Identity, Mapped};

impl Host {
    /// Follows what a record says of a process's mappings. A run without stacks follows nothing.
    pub(super) fn follow(&mut self, side: &Side<'_>) {
        self.shared.with(|context| {
            let Some(programs) = &context.programs else { return };
            let mut programs = programs.borrow_mut();
            // What was found for its addresses holds for the mappings before.
            let stale = match side.what {
                Happening::Mmap { pid, .. } | Happening::Comm { pid, exec: true, .. } => Some(pid),
                Happening::Exit { pid, tid } => (pid == tid).then_some(pid),
                _ => None,
            };
            let stale = stale.and_then(|pid| programs.spaces.known_space_of(pid));
            if let Some(space) = stale {
                context.unwinder.forget_space(space);
            }
            let now = || context.clock.clock_ns(side.time);
            match side.what {
                Happening::Fork { pid, parent_pid, .. } => programs.spaces.on_fork(pid, parent_pid),
                Happening::Comm { pid, exec: true, .. } => programs.spaces.on_exec(pid, now()),
                // The first thread's: the others of its process nearly always went before it.
                Happening::Exit { pid, tid } if pid == tid => programs.spaces.on_exit(pid, now()),
                Happening::Mmap { pid, address, length, offset, file, path, .. } => {
                    let (start, identity) = (address, identity(file));
                    programs.on_mmap(pid, &Mapped { start, length, offset, identity, path });
                }
                Happening::Made { address, length, bpf, name } => {
                    context.symbols.on_made(&MadeSymbol { address, length, bpf, name });
                }
                Happening::Lost { of_tasks: true, .. } | Happening::TasksLost => {
                    programs.spaces.on_lost();
                    context.unwinder.forget();
                }
                _ => {}
            }
            drop(programs);
            if let (Happening::Exit { .. }, Some(space)) = (side.what, stale) {
                context.naming.borrow_mut().on_exit(space);
            }
        });
    }
}

fn identity(file: MappedFile<'_>) -> Identity {
    match file {
        MappedFile::Inode { ino: 0, .. } => Identity::None,
        MappedFile::Inode { maj, min, ino, ino_generation } => {
            Identity::Inode { major: maj, minor: min, inode: ino, generation: Some(ino_generation) }
        }
        MappedFile::BuildId(id) => Identity::of_build_id(id).unwrap_or(Identity::None),
    }
}
