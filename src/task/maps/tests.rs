//! Records of mappings, forks, execs and exits, and what a process has mapped then.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;

fn mapped(start: u64, length: u64, path: &str) -> Mapped<'_> {
    let identity = Identity::Inode { major: 8, minor: 1, inode: 7, generation: Some(1) };
    Mapped { start, length, offset: 0, identity, path: path.as_bytes() }
}

fn row(start: u64, length: u64, path: &str) -> ProcMapping {
    let path = path.as_bytes().to_vec();
    ProcMapping { start, length, offset: 0, major: 8, minor: 1, inode: 7, path }
}

/// The mappings: first address, one behind the last, offset, path.
fn list(spaces: &Spaces, space: Space) -> Vec<(u64, u64, u64, String)> {
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let row = |m: &Mapping| (m.start, m.end(), m.offset, text(&m.file.path));
    spaces.mappings(space).iter().map(row).collect()
}

/// A /proc in which these processes have these rows, and which of them were read.
fn proc(known: Vec<(u32, Vec<ProcMapping>)>) -> (Spaces, Rc<RefCell<Vec<u32>>>) {
    let queried = Rc::new(RefCell::new(Vec::new()));
    let log = queried.clone();
    let read = move |pid| {
        log.borrow_mut().push(pid);
        known.iter().find(|(known, _)| *known == pid).map(|(_, rows)| rows.clone())
    };
    (Spaces::reading(Box::new(read)), queried)
}

fn silent() -> Spaces {
    proc(Vec::new()).0
}

#[test]
fn a_later_mapping_replaces_what_it_overlaps() {
    let mut spaces = silent();
    spaces.on_exec(10, 0);
    for (start, length, path) in
        [(0x1000, 0x1000, "a"), (0x2000, 0x1000, "b"), (0x3000, 0x1000, "c"), (0x1800, 0x1900, "d")]
    {
        spaces.on_mmap(10, &mapped(start, length, path));
    }
    let space = spaces.space_of(10);
    let expected = [
        (0x1000, 0x1800, 0, "a".to_owned()),
        (0x1800, 0x3100, 0, "d".to_owned()),
        (0x3100, 0x4000, 0x100, "c".to_owned()),
    ];
    assert_eq!(list(&spaces, space), expected);
    spaces.on_mmap(10, &mapped(0x1900, 0x10, "e"));
    let space = spaces.space_of(10);
    let middle = list(&spaces, space)[1..4].to_vec();
    assert_eq!(middle[0], (0x1800, 0x1900, 0, "d".to_owned()));
    assert_eq!(middle[2], (0x1910, 0x3100, 0x110, "d".to_owned()));
    let at = |address| spaces.find(space, address).map(|m| m.file_offset(address));
    assert_eq!(at(0x1911), Some(0x111));
    assert_eq!((at(0xfff), at(0x4000)), (None, None));
}

#[test]
fn a_child_has_its_parents_mappings_until_one_of_them_changes() {
    let mut spaces = silent();
    spaces.on_exec(10, 0);
    spaces.on_mmap(10, &mapped(0x1000, 0x1000, "a"));
    spaces.on_fork(11, 11, 10);
    spaces.on_fork(10, 10, 10);
    spaces.on_mmap(11, &mapped(0x5000, 0x1000, "of the child"));
    spaces.on_mmap(10, &mapped(0x6000, 0x1000, "of the parent"));
    let (parent, child) = (spaces.space_of(10), spaces.space_of(11));
    assert_ne!(parent, child);
    assert!(spaces.find(child, 0x1000).is_some() && spaces.find(child, 0x5000).is_some());
    assert!(spaces.find(child, 0x6000).is_none() && spaces.find(parent, 0x5000).is_none());
    assert_eq!(spaces.total.get(), 4);
}

#[test]
fn an_exec_begins_a_space_and_keeps_the_old_one() {
    let mut spaces = silent();
    spaces.on_exec(10, 0);
    spaces.on_mmap(10, &mapped(0x1000, 0x1000, "old"));
    let old = spaces.space_of(10);
    spaces.on_exec(10, 5);
    spaces.on_mmap(10, &mapped(0x1000, 0x1000, "new"));
    let new = spaces.space_of(10);
    assert_ne!(old, new);
    assert_eq!(list(&spaces, old)[0].3, "old");
    assert_eq!(list(&spaces, new)[0].3, "new");
    spaces.on_exit(10, 10, 6, Vec::new);
    assert_eq!(spaces.space_of(10), new, "an event that is processed late");
    assert!(!spaces.lives(new));
    spaces.on_fork(10, 10, 1);
    assert_ne!(spaces.space_of(10), new, "the id belongs to another process now");
}

#[test]
fn a_space_ends_with_the_last_thread_of_its_process() {
    let mut spaces = silent();
    spaces.on_exec(10, 0);
    spaces.on_mmap(10, &mapped(0x1000, 0x1000, "a"));
    let space = spaces.space_of(10);
    assert_eq!(spaces.on_exit(10, 13, 1, || unreachable!()), None, "the first thread runs");
    assert_eq!(spaces.on_exit(10, 10, 2, || vec![11, 12]), None);
    assert!(spaces.lives(space));
    spaces.on_fork(10, 14, 10);
    spaces.on_mmap(10, &mapped(0x1000, 0x1000, "other code"));
    let later = spaces.space_of(10);
    for tid in [11, 14] {
        assert_eq!(spaces.on_exit(10, tid, 3, || unreachable!()), None);
    }
    assert!(spaces.lives(later) && later != space);
    assert_eq!(spaces.on_exit(10, 12, 4, || unreachable!()), Some(later));
    assert!(!spaces.lives(later));
    spaces.on_exec(20, 0);
    let alone = spaces.space_of(20);
    assert_eq!(spaces.on_exit(20, 20, 5, Vec::new), Some(alone));
}

#[test]
fn other_code_at_a_sampled_address_begins_a_space() {
    let mut spaces = silent();
    spaces.on_exec(10, 0);
    spaces.on_mmap(10, &mapped(0x1000, 0x1000, "first"));
    spaces.on_mmap(10, &mapped(0x1000, 0x1000, "before the first lookup"));
    let early = spaces.space_of(10);
    spaces.on_mmap(10, &mapped(0x3000, 0x1000, "elsewhere"));
    let part = Mapped { offset: 0x800, ..mapped(0x1800, 0x800, "before the first lookup") };
    spaces.on_mmap(10, &part);
    assert_eq!(spaces.space_of(10), early, "the same code, and new code at an unused address");
    spaces.on_mmap(10, &mapped(0x1000, 0x1000, "second"));
    let late = spaces.space_of(10);
    assert_ne!(early, late);
    let at = |space| list(&spaces, space).into_iter().map(|row| row.3).collect::<Vec<_>>();
    assert_eq!(at(early)[0], "before the first lookup");
    assert_eq!(at(late), ["second", "elsewhere"]);
    assert!(spaces.lives(late) && !spaces.lives(early));
}

#[test]
fn earlier_mappings_are_read_once_and_records_take_precedence() {
    let rows = vec![row(0x1000, 0x2000, "read"), row(0x9000, 0x1000, "read, too")];
    let (mut spaces, queried) = proc(vec![(10, rows)]);
    spaces.on_mmap(10, &mapped(0x2000, 0x1000, "recorded"));
    assert!(queried.borrow().is_empty(), "no lookup yet");
    let space = spaces.space_of(10);
    assert_eq!(spaces.space_of(10), space);
    assert_eq!(*queried.borrow(), [10]);
    let paths: Vec<_> = list(&spaces, space).into_iter().map(|row| row.3).collect();
    assert_eq!(paths, ["read", "recorded", "read, too"]);
    assert_eq!(spaces.space_of(0), Space::UNKNOWN);
    assert_eq!(spaces.space_of(u32::MAX), Space::UNKNOWN);
}

#[test]
fn an_ended_process_has_the_mappings_of_its_parent() {
    let (mut spaces, _) = proc(vec![(10, vec![row(0x1000, 0x1000, "of the parent")])]);
    spaces.on_fork(11, 11, 10);
    spaces.on_mmap(11, &mapped(0x5000, 0x1000, "own"));
    spaces.on_fork(12, 12, 11);
    spaces.on_exit(11, 11, 3, Vec::new);
    let space = spaces.space_of(12);
    let paths: Vec<_> = list(&spaces, space).into_iter().map(|row| row.3).collect();
    assert_eq!(paths, ["of the parent", "own"]);
}

#[test]
fn mappings_read_from_a_later_program_are_removed() {
    let (mut spaces, _) = proc(vec![(10, vec![row(0x1000, 0x1000, "of the later program")])]);
    spaces.on_mmap(10, &mapped(0x5000, 0x1000, "recorded"));
    let early = spaces.space_of(10);
    assert_eq!(list(&spaces, early).len(), 2);
    let past = 1;
    spaces.on_exec(10, past);
    let paths: Vec<_> = list(&spaces, early).into_iter().map(|row| row.3).collect();
    assert_eq!(paths, ["recorded"]);
}

#[test]
fn a_running_process_is_read_again_after_a_loss() {
    let (mut spaces, queried) = proc(vec![(10, vec![row(0x1000, 0x1000, "now")])]);
    spaces.on_exec(10, 0);
    spaces.on_mmap(10, &mapped(0x1000, 0x1000, "then"));
    let before = spaces.space_of(10);
    assert!(queried.borrow().is_empty(), "its records are complete");
    spaces.on_lost();
    let since = spaces.space_of(10);
    assert_ne!(before, since, "an exec may have been lost");
    assert_eq!(*queried.borrow(), [10]);
    assert_eq!(list(&spaces, before)[0].3, "then");
    assert_eq!(list(&spaces, since)[0].3, "now");
    assert!(spaces.lives(since) && !spaces.lives(before));
    spaces.on_exec(11, 0);
    spaces.on_mmap(11, &mapped(0x1000, 0x1000, "kept"));
    let (begun, unqueried) = (spaces.next, spaces.known_space_of(11));
    spaces.on_lost();
    assert_eq!(spaces.known_space_of(11), unqueried, "it has no chains");
    assert_eq!(spaces.next, begun + 1, "only 10 was read");
    let unreadable = spaces.space_of(11);
    assert_eq!(list(&spaces, unreadable)[0].3, "kept");
}

#[test]
fn spaces_of_ended_processes_are_bounded_and_those_with_chains_last_longest() {
    let mut spaces = silent();
    spaces.bounds = Bounds { ended: 3, grace: 2, ..spaces.bounds };
    let mut queried = Vec::new();
    for pid in 1..=20 {
        spaces.on_exec(pid, 0);
        spaces.on_mmap(pid, &mapped(0x1000, 0x1000, "a"));
        if pid % 4 == 0 {
            queried.push(spaces.space_of(pid));
        }
        spaces.on_exit(pid, pid, 0, Vec::new);
    }
    let known: Vec<bool> = queried.iter().map(|space| spaces.knows(*space)).collect();
    assert_eq!(known, [false, false, true, true, true]);
    assert_eq!(spaces.entries.len(), 5);
    assert_eq!(spaces.current.len(), 5);
    assert_eq!(spaces.forgotten(), 2);
}

#[test]
fn mappings_are_bounded_and_the_oldest_ended_space_makes_room() {
    let mut spaces = silent();
    spaces.bounds.mappings = 100;
    for pid in 1..=10 {
        spaces.on_exec(pid, 0);
        for at in 0..30 {
            spaces.on_mmap(pid, &mapped(at << 12, 0x1000, "a"));
        }
        spaces.on_exit(pid, pid, 0, Vec::new);
    }
    assert!(spaces.total.get() <= 100);
    assert_eq!(spaces.refused(), 0);
    spaces.on_exec(50, 0);
    for at in 0..200 {
        spaces.on_mmap(50, &mapped(at << 12, 0x1000, "a"));
    }
    assert_eq!(spaces.total.get(), 100);
    assert_eq!(spaces.refused(), 100);
}

#[test]
fn ten_thousand_processes_of_one_program_share_its_files() {
    let mut spaces = silent();
    for pid in 1..=10_000 {
        spaces.on_exec(pid, 0);
        for (at, path) in ["program", "libc", "ld", "[vdso]"].iter().enumerate() {
            spaces.on_mmap(pid, &mapped((at as u64) << 20, 0x1000, path));
        }
        spaces.space_of(pid);
    }
    assert_eq!(spaces.total.get(), 40_000);
    assert_eq!(spaces.refused() + spaces.forgotten(), 0);
    let of = |pid| spaces.mappings(spaces.known_space_of(pid).unwrap())[1].file.clone();
    assert!(Rc::ptr_eq(&of(1), &of(10_000)));
}

#[test]
fn this_process_can_be_read() {
    let mut spaces = Spaces::default();
    let space = spaces.space_of(std::process::id());
    let here = this_process_can_be_read as *const () as u64;
    let program = std::env::current_exe().unwrap();
    let found = spaces.find(space, here).unwrap();
    assert_eq!(&*found.file.path, program.as_os_str().as_encoded_bytes());
    assert_ne!(found.file.identity, Identity::None);
}

#[test]
fn a_late_lookup_finds_the_space_at_its_time() {
    let mut spaces = silent();
    let at = |spaces: &mut Spaces, time| spaces.set_time(time);
    at(&mut spaces, 100);
    spaces.on_fork(10, 10, 1);
    at(&mut spaces, 200);
    spaces.on_exec(10, 200);
    spaces.on_mmap(10, &mapped(0x1000, 0x1000, "first"));
    at(&mut spaces, 300);
    spaces.on_exec(10, 300);
    spaces.on_mmap(10, &mapped(0x1000, 0x1000, "second"));
    let current = spaces.space_of(10);
    assert_eq!(spaces.earlier_space_of(10, 300), None, "the current one");
    let first = spaces.earlier_space_of(10, 299).unwrap();
    assert!(spaces.look_up(first) && !spaces.look_up(first));
    assert_eq!(list(&spaces, first)[0].3, "first");
    let forked = spaces.earlier_space_of(10, 199).unwrap();
    assert!(forked != first && forked != current);
    assert_eq!(spaces.earlier_space_of(10, 50), Some(forked), "nothing older is known");
    assert_eq!(spaces.earlier_space_of(11, 50), None, "an unknown process");
}

#[test]
fn the_space_before_the_first_recorded_exec_is_unknown() {
    let mut spaces = silent();
    spaces.set_time(200);
    spaces.on_exec(10, 200);
    assert_eq!(spaces.earlier_space_of(10, 199), Some(Space::UNKNOWN));
    assert_eq!(spaces.earlier_space_of(10, 200), None);
}

#[test]
fn replaced_code_begins_a_space_before_it_is_looked_up_if_lookups_are_late() {
    let mut spaces = silent();
    spaces.set_late_lookups(true);
    spaces.on_exec(10, 0);
    spaces.set_time(5);
    spaces.on_mmap(10, &mapped(0x1000, 0x1000, "a"));
    spaces.on_mmap(10, &mapped(0x8000, 0x1000, "kept"));
    spaces.set_time(9);
    spaces.on_mmap(10, &mapped(0x1000, 0x1000, "b"));
    let before = spaces.earlier_space_of(10, 8).unwrap();
    assert_eq!(list(&spaces, before)[0].3, "a");
    assert!(spaces.may_be_of_later(10, before, &[0x1010, 0x8010]), "both have code there");
    assert!(!spaces.may_be_of_later(10, before, &[0x8010]), "it is the same code");
    assert!(spaces.may_be_of_later(10, before, &[0x1010, 0x5000]), "neither has code at one");
    assert!(!spaces.may_be_of_later(10, before, &[0x5000]));
}
