//! Files whose bytes stay the same while they are in use, and files that are refused.

use super::*;

#[test]
fn a_mapped_file_has_the_inode_of_its_mapping_and_survives_the_removal_of_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"bytes").unwrap();
    let held = MappedFile::open(&path).unwrap();
    let (by_stat, by_mapping) = (held.inode().unwrap(), held.inode_of_mapping().unwrap());
    assert_eq!(by_stat.number, by_mapping.number);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(&held[..], b"bytes");
    assert!(held.is_intact());
    assert_eq!(std::fs::read(held.path()).unwrap(), b"bytes");
}

#[test]
fn a_file_written_since_is_not_intact() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"bytes").unwrap();
    let held = MappedFile::open(&path).unwrap();
    std::fs::write(&path, b"byte").unwrap();
    assert!(!held.is_intact());
}

#[test]
fn a_file_that_other_users_can_write_is_copied() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"bytes").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let held = MappedFile::open(&path).unwrap();
    File::options().write(true).open(&path).unwrap().write_all_at(b"other", 0).unwrap();
    assert_eq!(&held[..], b"bytes");
    assert_eq!(std::fs::read(held.path()).unwrap(), b"bytes", "the path leads to the copy");
    assert_eq!(held.inode().unwrap().number, std::fs::metadata(&path).unwrap().ino());
    assert_eq!(held.inode_of_mapping().unwrap().number, held.inode().unwrap().number);
    let large = directory.path().join("large");
    File::create(&large).unwrap().set_len(COPY_MAX + 1).unwrap();
    std::fs::set_permissions(&large, std::fs::Permissions::from_mode(0o666)).unwrap();
    let why = MappedFile::open(&large).unwrap_err();
    assert_eq!(why.kind(), io::ErrorKind::FileTooLarge, "{why}");
}

#[test]
fn a_copied_file_is_not_intact_after_a_write_that_keeps_its_modification_time() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, b"bytes").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let held = MappedFile::open(&path).unwrap();
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    // Later than the clock that the kernel takes the times of files from.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let moved = directory.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    std::fs::hard_link(&moved, &path).unwrap();
    assert!(held.is_intact(), "names and links are not its bytes");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"other", 0).unwrap();
    file.set_modified(modified).unwrap();
    assert!(!held.is_intact());
}

#[test]
fn only_regular_nonempty_files_are_opened() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty");
    std::fs::write(&empty, b"").unwrap();
    let (pipe, link) = (directory.path().join("pipe"), directory.path().join("link"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    for path in [&*empty, directory.path(), &pipe, &link, Path::new("/nowhere")] {
        assert!(MappedFile::open(path).is_err(), "{}", path.display());
    }
}

#[test]
fn the_vdso_is_an_elf_file_that_can_be_mapped() {
    let bytes = vdso().unwrap();
    assert!(bytes.starts_with(b"\x7fELF"));
    let held = MappedFile::of_bytes(c"vdso", &bytes).unwrap();
    assert_eq!(&held[..], bytes);
}
