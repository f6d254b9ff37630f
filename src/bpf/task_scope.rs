//! Limits a program to events of some tasks, and the programs that keep the set of these tasks
//! true.
//!
//! The set is a map from threads to which of their events count. A program at `task:task_newtask`
//! adds the children of its members, workers of io_uring included. It runs before the child does,
//! so no event of a child is missed. A thread that exits stays until the kernel frees it: it is
//! still switched and woken while it exits. Threads are also removed when their number is used
//! again: that of a thread that executes a program, and is not the first of its process, stays
//! until then.

use super::assembler::BpfRegister::{self, *};
use super::assembler::{AccessSize, Assembler, BpfAlu, BpfHelper, JumpIf, Label};
use super::expression::{CGROUP_AT, CONTEXT, THREAD};

/// The tasks whose events a program sees; without a limit, all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskScope {
    /// File descriptor of the map of watched threads.
    pub threads: Option<i32>,
    /// File descriptor of the array of watched control groups, and their number.
    pub cgroups: Option<(i32, u32)>,
}

/// The maps of the programs that follow tasks.
#[derive(Clone, Copy, Debug)]
pub struct FollowedTasksMaps {
    /// The threads, each with [`WAITING`], [`WATCHED`] or a value with [`EXITED`].
    pub threads: i32,
    /// An array per CPU: the number of children for which the map had no room.
    pub unfollowed: i32,
}

/// A thread whose events count from its next exec on.
pub const WAITING: u32 = 0;
/// A thread whose events count.
pub const WATCHED: u32 = 1;
/// The value of an exited thread is this bit and the lower 32 bits of its task's address, which is
/// aligned. Only events of others about it count. A thread that executes a program takes the number
/// of the first one of its process, which has exited (`de_thread()` in fs/exec.c): its own address
/// is another one, and its events count.
pub const EXITED: u32 = 2;

/// Offsets from R10 of a key and of a value, 4 bytes each: below what a program has stored before.
const KEY_AT: i16 = CGROUP_AT - 8;
const VALUE_AT: i16 = KEY_AT - 4;

impl TaskScope {
    /// Appends instructions that jump to `out` if the current task, whose thread is in [`THREAD`],
    /// is not watched. They change R0 to R5.
    pub fn check(&self, code: &mut Assembler, out: Label) {
        if let Some(threads) = self.threads {
            let inside = code.label();
            find(code, threads, out);
            code.load(AccessSize::B4, R1, R0, 0);
            code.jump_if(JumpIf::Equal, R1, WATCHED.cast_signed(), inside);
            code.jump_if(JumpIf::Equal, R1, WAITING.cast_signed(), out);
            code.store(AccessSize::B4, R10, VALUE_AT, R1);
            find_exited(code);
            code.load(AccessSize::B4, R2, R10, VALUE_AT);
            code.jump_if_register(JumpIf::Equal, R1, R2, out);
            code.place(inside);
        }
        if let Some((groups, count)) = self.cgroups {
            let inside = code.label();
            for index in 0..count {
                code.set_map(R1, groups);
                code.set(R2, index.cast_signed());
                code.call(BpfHelper::CurrentUnderCgroup);
                code.jump_if(JumpIf::Equal, R0, 1, inside);
            }
            code.jump(out);
            code.place(inside);
        }
    }

    /// Appends instructions that jump to `out` if events about the thread with the number in R1 do
    /// not count. They change R0 to R5. Control groups are not checked.
    pub fn check_thread(&self, code: &mut Assembler, out: Label) {
        if let Some(threads) = self.threads {
            find_number(code, threads, R1, out);
            code.load(AccessSize::B4, R1, R0, 0);
            code.jump_if(JumpIf::Equal, R1, WAITING.cast_signed(), out);
        }
    }
}

impl FollowedTasksMaps {
    /// Returns the program for task_newtask, whose record has the new thread at `child_at`.
    pub fn at_new_task(&self, child_at: i16) -> Option<Vec<u64>> {
        let mut code = Assembler::default();
        let [out, unwatched] = [(); 2].map(|()| code.label());
        find_thread(&mut code);
        find(&mut code, self.threads, unwatched);
        code.load(AccessSize::B4, R1, R0, 0);
        let is_child = code.label();
        code.jump_if(JumpIf::LessEqual, R1, WATCHED.cast_signed(), is_child);
        code.set(R1, WATCHED.cast_signed());
        code.place(is_child);
        code.store(AccessSize::B4, R10, VALUE_AT, R1);
        self.key(&mut code, child_at);
        code.copy(R3, R10);
        code.add_constant(R3, VALUE_AT.into());
        code.set(R4, 0);
        code.call(BpfHelper::MapUpdate);
        code.jump_if(JumpIf::Equal, R0, 0, out);
        code.store_constant(AccessSize::B4, R10, KEY_AT, 0);
        look_up(&mut code, self.unfollowed);
        code.jump_if(JumpIf::Equal, R0, 0, out);
        code.load(AccessSize::B8, R1, R0, 0);
        code.add_constant(R1, 1);
        code.store(AccessSize::B8, R0, 0, R1);
        code.jump(out);
        // A watched thread may have had the number before.
        code.place(unwatched);
        self.key(&mut code, child_at);
        code.call(BpfHelper::MapDelete);
        end(code, out)
    }

    /// Returns the program for sched_process_exit, which the kernel calls before it closes the
    /// thread's perf events.
    pub fn at_exit(&self) -> Option<Vec<u64>> {
        let mut code = Assembler::default();
        let out = code.label();
        find_thread(&mut code);
        find(&mut code, self.threads, out);
        code.load(AccessSize::B4, R1, R0, 0);
        code.jump_if(JumpIf::Equal, R1, WAITING.cast_signed(), out);
        code.copy(R8, R0);
        find_exited(&mut code);
        code.store(AccessSize::B4, R8, 0, R1);
        end(code, out)
    }

    /// Returns the program for sched_process_free, whose record has the thread at `thread_at`. With
    /// `after_exit`, [`FollowedTasksMaps::at_exit`] runs, too, and a thread that has not exited is
    /// one with a number that is used again.
    pub fn at_free(&self, thread_at: i16, after_exit: bool) -> Option<Vec<u64>> {
        let mut code = Assembler::default();
        let out = code.label();
        code.copy(CONTEXT, R1);
        self.key(&mut code, thread_at);
        if after_exit {
            code.call(BpfHelper::MapLookup);
            code.jump_if(JumpIf::Equal, R0, 0, out);
            code.load(AccessSize::B4, R1, R0, 0);
            code.jump_if(JumpIf::LessEqual, R1, WATCHED.cast_signed(), out);
            arguments(&mut code, self.threads);
        }
        code.call(BpfHelper::MapDelete);
        end(code, out)
    }

    /// Returns the program for task_rename. An exec renames its task just after the kernel has
    /// enabled the task's perf events that wait for it (`begin_new_exec()` in fs/exec.c).
    pub fn at_rename(&self) -> Option<Vec<u64>> {
        let mut code = Assembler::default();
        let out = code.label();
        find_thread(&mut code);
        find(&mut code, self.threads, out);
        code.store_constant(AccessSize::B4, R0, 0, WATCHED.cast_signed());
        end(code, out)
    }

    /// Sets R1 to the map and R2 to the thread at this offset of the record.
    fn key(&self, code: &mut Assembler, thread_at: i16) {
        code.load(AccessSize::B4, R1, CONTEXT, thread_at);
        code.store(AccessSize::B4, R10, KEY_AT, R1);
        arguments(code, self.threads);
    }
}

/// Begins a program that needs the current thread.
fn find_thread(code: &mut Assembler) {
    code.copy(CONTEXT, R1);
    code.call(BpfHelper::CurrentTask);
    code.copy_low(THREAD, R0);
}

/// Sets R1 to the value that the current thread has when it has exited.
fn find_exited(code: &mut Assembler) {
    code.call(BpfHelper::CurrentTaskAddress);
    code.copy_low(R1, R0);
    code.alu_constant(BpfAlu::Or, R1, EXITED.cast_signed());
}

/// Sets R0 to the value of the current thread; jumps to `absent` if it has none.
fn find(code: &mut Assembler, threads: i32, absent: Label) {
    find_number(code, threads, THREAD, absent);
}

/// Sets R0 to the value of the thread in a register; jumps to `absent` if it has none.
fn find_number(code: &mut Assembler, threads: i32, thread: BpfRegister, absent: Label) {
    code.store(AccessSize::B4, R10, KEY_AT, thread);
    look_up(code, threads);
    code.jump_if(JumpIf::Equal, R0, 0, absent);
}

fn look_up(code: &mut Assembler, map: i32) {
    arguments(code, map);
    code.call(BpfHelper::MapLookup);
}

/// Sets R1 to a map and R2 to the key.
fn arguments(code: &mut Assembler, map: i32) {
    code.set_map(R1, map);
    code.copy(R2, R10);
    code.add_constant(R2, KEY_AT.into());
}

fn end(mut code: Assembler, out: Label) -> Option<Vec<u64>> {
    code.place(out);
    code.set(R0, 1);
    code.exit();
    code.finish()
}
