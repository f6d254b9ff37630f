//! Files that are taken for what processes execute, and files that are not.

use super::*;
use crate::sys::maps::executable;
use crate::task::maps::Mapped;

/// The spaces with this process in them, and the mapping of its program.
fn this_program() -> (Spaces, u32, Mapping) {
    let (mut spaces, pid) = (Spaces::default(), std::process::id());
    let space = spaces.space_of(pid);
    let here = this_program as *const () as u64;
    let mapping = spaces.find(space, here).unwrap().clone();
    (spaces, pid, mapping)
}

/// The same mapping of another file.
fn mapping_of(spaces: &mut Spaces, pid: u32, identity: Identity, path: &str) -> Mapping {
    let mapped =
        Mapped { start: 1 << 40, length: 4096, offset: 0, identity, path: path.as_bytes() };
    spaces.on_mmap(pid, &mapped).unwrap()
}

#[test]
fn a_process_leads_to_its_own_program() {
    let (spaces, pid, mapping) = this_program();
    let mut objects = Objects::default();
    let object = objects.get(&mapping, pid, &spaces).unwrap();
    let program = std::env::current_exe().unwrap();
    assert_eq!(object.bytes(), std::fs::read(program).unwrap());
    assert!(object.is_intact());
    let again = objects.get(&mapping, pid, &spaces).unwrap();
    assert!(Rc::ptr_eq(&object, &again));
}

#[test]
fn an_overwritten_file_is_another_object_from_the_next_drawing_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    let (mut spaces, pid, _) = this_program();
    let found = MappedFile::open(&path).unwrap().inode().unwrap();
    let (major, minor, inode) = (found.major, found.minor, found.number);
    let identity = Identity::Inode { major, minor, inode, generation: None };
    let mapping = mapping_of(&mut spaces, pid, identity, path.to_str().unwrap());
    let mut objects = Objects::default();
    objects.begin_drawing();
    let object = objects.get_to_draw(&mapping, pid, &spaces).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&bytes[..], b"more"].concat()).unwrap();
    let again = objects.get_to_draw(&mapping, pid, &spaces).unwrap();
    assert!(Rc::ptr_eq(&object, &again), "one drawing checks it once");
    objects.begin_drawing();
    let other = objects.get_to_draw(&mapping, pid, &spaces).unwrap();
    assert_eq!((other.bytes().len(), objects.dropped()), (bytes.len() + 4, 1));
}

#[test]
fn a_file_of_another_inode_or_generation_is_not_used() {
    let (mut spaces, pid, mapping) = this_program();
    let Identity::Inode { major, minor, inode, .. } = mapping.file.identity else { unreachable!() };
    let path = String::from_utf8_lossy(&mapping.file.path).into_owned();
    let object = Objects::default().get(&mapping, pid, &spaces).unwrap();
    let generation_now = object.held.generation().map(u64::from);
    let with = |inode, generation| Identity::Inode { major, minor, inode, generation };
    let wrong = generation_now.map(|generation| with(inode, Some(generation + 1)));
    for identity in [Some(with(inode + 1, None)), wrong].into_iter().flatten() {
        let other = mapping_of(&mut spaces, pid, identity, &path);
        let mut objects = Objects::default();
        assert!(objects.get(&other, pid, &spaces).is_none(), "{identity:?}");
        assert_eq!(objects.missing.len(), 1, "the failure is cached");
        let until = |objects: &Objects| objects.missing.values().next().unwrap().until_ns;
        let first = until(&objects);
        objects.hold(&other, pid, &spaces);
        assert_eq!(until(&objects), first, "no new attempt yet");
        objects.missing.values_mut().for_each(|missed| missed.until_ns = 0);
        objects.hold(&other, pid, &spaces);
        let missed = objects.missing.values().next().unwrap();
        assert_eq!(missed.pause_ns, 2 * PAUSE_MIN_NS);
    }
    let right = mapping_of(&mut spaces, pid, with(inode, generation_now), &path);
    assert!(Objects::default().get(&right, pid, &spaces).is_some());
}

#[test]
fn a_file_too_large_to_be_copied_is_counted_with_this_reason() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let directory = tempfile::tempdir().unwrap();
    let (mut spaces, pid, _) = this_program();
    let mut objects = Objects::default();
    for (name, mode, large) in [("large", 0o777, 1), ("text", 0o755, 0)] {
        let path = directory.path().join(name);
        let file = std::fs::File::create(&path).unwrap();
        file.set_len((256 << 20) + 1).unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
        let device = file.metadata().unwrap().dev();
        let (major, minor) = (libc::major(device), libc::minor(device));
        let inode = file.metadata().unwrap().ino();
        let identity = Identity::Inode { major, minor, inode, generation: None };
        let mapping = mapping_of(&mut spaces, pid, identity, path.to_str().unwrap());
        assert!(objects.get_to_draw(&mapping, pid, &spaces).is_none());
        objects.note_nameless(&mapping);
        let (count, one) = objects.nameless(NamelessReason::TooLarge);
        assert_eq!((count, one.is_some()), (1, true), "{name}");
        assert_eq!(objects.nameless(NamelessReason::NotFound).0, 1 - large, "{name}");
    }
}

#[test]
fn the_vdso_is_an_object() {
    let (mut spaces, pid, _) = this_program();
    let row = executable(pid).unwrap().into_iter().find(|row| row.path == b"[vdso]").unwrap();
    let space = spaces.space_of(pid);
    let mapping = spaces.find(space, row.start).unwrap().clone();
    let object = Objects::default().get(&mapping, pid, &spaces).unwrap();
    assert!(Elf::new(object.bytes()).unwrap().section(".dynsym").is_some());
}

#[test]
fn mappings_without_an_elf_file_have_no_object() {
    let (mut spaces, pid, _) = this_program();
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("text");
    std::fs::write(&text, "no program").unwrap();
    let held = MappedFile::open(&text).unwrap();
    let found = held.inode().unwrap();
    let identity = Identity::Inode {
        major: found.major,
        minor: found.minor,
        inode: found.number,
        generation: None,
    };
    let mut objects = Objects::default();
    for (identity, path) in [
        (identity, text.to_str().unwrap()),
        (Identity::None, "//anon"),
        (Identity::None, "[heap]"),
        (Identity::None, ""),
    ] {
        let mapping = mapping_of(&mut spaces, pid, identity, path);
        assert!(objects.get(&mapping, pid, &spaces).is_none(), "{path}");
    }
}

#[test]
fn a_file_replaces_another_only_from_the_same_user_or_from_root_with_equal_bytes() {
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let small = &bytes[..bytes.len().min(COMPARED_MAX)];
    let mut forged = small.to_vec();
    *forged.last_mut().unwrap() ^= 1;
    let object = |bytes: &[u8], writer| {
        let held = MappedFile::of_bytes(c"object", bytes).unwrap();
        Object { writer, ..Object::of(held, 0).unwrap() }
    };
    let (root, user, other) = (Some(0), Some(1000), Some(1001));
    for (of, held, writer, shares) in [
        (root, small, root, true),
        (root, &forged, root, true),
        (root, small, user, true),
        (root, &forged, user, false),
        (root, &forged, None, false),
        (user, small, root, false),
        (user, small, user, true),
        (user, small, other, false),
        (None, small, None, false),
        (None, small, root, false),
    ] {
        let stands = object(small, of).stands_for(&object(held, writer));
        assert_eq!(stands, shares, "{of:?} for {writer:?}");
    }
}

#[test]
fn one_build_is_one_object_and_the_least_used_are_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let (mut spaces, pid, mapping) = this_program();
    let mut objects = Objects::default();
    let first = objects.get(&mapping, pid, &spaces).unwrap();
    // Links to one file would be one inode, so they are copies, and few.
    for i in 0..3 {
        let path = directory.path().join(i.to_string());
        std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let found = MappedFile::open(&path).unwrap().inode().unwrap();
        let identity = Identity::Inode {
            major: found.major,
            minor: found.minor,
            inode: found.number,
            generation: None,
        };
        let copy = mapping_of(&mut spaces, pid, identity, path.to_str().unwrap());
        let object = objects.get(&copy, pid, &spaces).unwrap();
        let shared = first.build_id().is_some() && first.stands_for(&object);
        assert_eq!(Rc::ptr_eq(&object, &first), shared);
    }
    let before = objects.held;
    objects.drop_least_used();
    assert!(objects.held < before);
    assert_eq!(objects.dropped(), (before - objects.held) as u64);
}
