//! Tests of files in folders that other users may write to, with links, FIFOs and files of another
//! user.

use super::*;
use crate::sys::live_tests::needs_root;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use tempfile::TempDir;

const OTHER_USER: u32 = 65534;

fn names(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn refused<T: std::fmt::Debug>(result: Result<T>) -> String {
    format!("{:#}", result.unwrap_err())
}

/// Returns a folder like /tmp, with a valuable file of this user outside of it.
fn shared() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (open, precious) = (folder.path().join("open"), folder.path().join("precious"));
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(&precious, "precious").unwrap();
    (folder, open, precious)
}

#[test]
fn a_file_appears_complete_and_replaces_a_file_of_this_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.svg");
    fs::write(&path, "old").unwrap();
    let mut making = AtomicFile::begin(&path).unwrap();
    making.file().write_all(b"new").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(names(&folder), ["x.svg"], "the new file is not visible before");
    making.place().unwrap();
    making.file().write_all(b"er").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
    drop(AtomicFile::begin(&path).unwrap());
    assert_eq!(names(&folder), ["x.svg"]);
}

#[test]
fn a_hidden_file_is_used_where_unnamed_files_are_unsupported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.svg");
    let begin = || {
        let place = writable(&path).unwrap();
        let (file, name) = begin_hidden(&place).unwrap();
        AtomicFile { file, shown: path.clone(), place, state: FileState::Hidden(name) }
    };
    drop(begin());
    assert_eq!(names(&folder), [""; 0]);
    let mut making = begin();
    making.file().write_all(b"new").unwrap();
    making.place().unwrap();
    drop(making);
    assert_eq!(
        (names(&folder), fs::read_to_string(&path).unwrap()),
        (vec!["x.svg".into()], "new".into())
    );
}

#[test]
fn files_of_a_killed_run_are_removed_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: String| folder.path().join(name);
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    let (gone, _) = (gone.id(), gone.wait().unwrap());
    let locked = fs::File::create(of(format!(".x.svg.{gone}.1"))).unwrap();
    assert!(try_lock(&locked), "as if a process of another namespace held it");
    for name in [
        format!(".x.svg.{gone}.0"),
        format!(".x.svg.{}.0", std::process::id()),
        format!(".x.svg.{gone}.0.bak"),
        format!(".y.svg.{gone}.0"),
    ] {
        fs::write(of(name), "").unwrap();
    }
    drop(AtomicFile::begin(&of("x.svg".into())).unwrap());
    let left = names(&folder);
    assert!(!left.contains(&format!(".x.svg.{gone}.0")), "{left:?}");
    assert_eq!(left.len(), 4, "{left:?}");
}

#[test]
fn links_of_other_users_are_refused_anywhere_in_a_path() {
    if !needs_root("a link of another user") {
        return;
    }
    let (_folder, open, precious) = shared();
    let (file, way) = (open.join("file"), open.join("way"));
    symlink(&precious, &file).unwrap();
    symlink(precious.parent().unwrap(), &way).unwrap();
    for path in [file.clone(), way.join("precious"), way.join("new")] {
        for link in [&file, &way] {
            lchown(link, Some(OTHER_USER), None).unwrap();
        }
        for why in [
            refused(AtomicFile::begin(&path)),
            refused(open_growing(&path)),
            refused(write_new(&path, b"x")),
            refused(write(&path, b"x")),
        ] {
            assert!(
                why.contains("is a symbolic link of uid 65534, which is not followed"),
                "{why}"
            );
        }
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    // A link of this user may be a component of the path, but not the file.
    lchown(&file, Some(0), None).unwrap();
    lchown(&way, Some(0), None).unwrap();
    for why in [refused(AtomicFile::begin(&file)), refused(open_growing(&file))] {
        assert!(why.contains("is a symbolic link, which is not followed"), "{why}");
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    open_growing(&way.join("precious")).unwrap().write_all(b"new").unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "new");
}

#[test]
fn files_of_other_users_and_special_files_are_not_replaced() {
    if !needs_root("a file of another user") {
        return;
    }
    let (folder, open, _) = shared();
    let (theirs, fifo) = (open.join("theirs"), open.join("fifo"));
    fs::write(&theirs, "theirs").unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for path in [&theirs, &fifo] {
        chown(path, Some(OTHER_USER), None).unwrap();
        for why in [refused(AtomicFile::begin(path)), refused(open_growing(path))] {
            assert!(
                why.contains("belongs to uid 65534") || why.contains("not a regular file"),
                "{why}"
            );
        }
    }
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    assert!(refused(open_growing(folder.path())).contains("is not a regular file"));
    let why = refused(AtomicFile::begin(&folder.path().join("no/x.svg")));
    assert!(why.starts_with("failed to create"), "{why}");
}

#[test]
fn a_fifo_is_refused_without_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let why = refused(open_growing(&fifo));
    assert!(why.contains("no process reads the FIFO"), "{why}");
    let mut cat = std::process::Command::new("cat");
    let read = folder.path().join("read");
    let mut cat = cat.arg(&fifo).stdout(fs::File::create(&read).unwrap()).spawn().unwrap();
    let begun = std::time::Instant::now();
    let mut writing = loop {
        // Retries until `cat` has opened it.
        match open_growing(&fifo) {
            Ok(writing) => break writing,
            Err(why) => assert!(begun.elapsed().as_secs() < 20, "{why:#}"),
        }
    };
    // More than the capacity of a pipe: a write waits for the reader.
    writing.write_all(&[b'x'; 200_000]).unwrap();
    drop(writing);
    assert!(cat.wait().unwrap().success());
    assert_eq!(fs::metadata(read).unwrap().len(), 200_000);
}

#[test]
fn devices_and_own_descriptors_are_written_to() {
    use std::io::Read as _;
    use std::os::fd::AsRawFd as _;
    open_growing(Path::new("/dev/null")).unwrap().write_all(b"x").unwrap();
    let (mut reader, writer) = io::pipe().unwrap();
    let path = format!("/dev/fd/{}", writer.as_raw_fd());
    open_growing(Path::new(&path)).unwrap().write_all(b"through").unwrap();
    drop(writer);
    let mut read = String::new();
    reader.read_to_string(&mut read).unwrap();
    assert_eq!(read, "through");
    let why = open_growing(Path::new("/dev/full")).unwrap().write_all(b"x").unwrap_err();
    assert_eq!(why.to_string(), "/dev/full: No space left on device (os error 28)");
}

#[test]
fn a_replacing_file_keeps_the_permissions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    open_growing(&path).unwrap().write_all(b"new").unwrap();
    write(&path, b"newer").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
