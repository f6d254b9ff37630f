//! The search path, and the checks of a root run.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use super::*;
use crate::script::load::trust::SIZE_MAX;

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// A folder that only root can write, up to `/`; None if the test does not run as root.
fn folder_of_root() -> Option<tempfile::TempDir> {
    (effective_uid() == 0).then(|| tempfile::tempdir_in("/root").unwrap())
}

fn at(folder: &tempfile::TempDir, file: &str) -> String {
    folder.path().join(file).to_str().unwrap().to_owned()
}

fn mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn the_first_folder_wins_over_the_second_and_both_over_the_embedded() {
    let first = folder_with(&[("signal.lua", "first")]);
    let second = folder_with(&[("signal.lua", "second"), ("site.lua", "site")]);
    let library = Library::new([first.path().into(), second.path().into()], false);
    assert_eq!(library.find("signal").unwrap().text, "first");
    assert_eq!(library.find("site").unwrap().text, "site");
    assert_eq!(library.find("trace").unwrap().origin, ScriptOrigin::Bundled);
    assert_eq!(Library::default().find("signal").unwrap().origin, ScriptOrigin::Bundled);
    let all = library.all();
    let names: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
    assert!(names.is_sorted() && names.contains(&"site") && names.contains(&"trace"), "{names:?}");
    assert_eq!(all.iter().find(|s| s.name == "signal").unwrap().text, "first");
    assert_eq!(library.take_warnings(), [""; 0]);
}

#[test]
fn a_path_is_used_as_it_is() {
    let folder = folder_with(&[("my.lua", "mine"), ("plain", "too")]);
    let script = Library::default().find(&at(&folder, "my.lua")).unwrap();
    assert_eq!((script.name.as_str(), script.text.as_str()), ("my", "mine"));
    assert_eq!(script.folder(), Some(folder.path()));
    assert_eq!(script.chunk_name(), format!("@{}", at(&folder, "my.lua")));
    assert_eq!(Library::default().find(&at(&folder, "plain")).unwrap().text, "too");
}

#[test]
fn an_unknown_name_suggests_the_nearest() {
    let error = Library::default().find("sigal").unwrap_err().to_string();
    assert_eq!(error, "no monitor 'sigal'; did you mean 'signal'?");
}

#[test]
fn embedded_scripts_equal_those_of_the_source_tree() {
    for (name, text) in all_embedded(&SCRIPTS, "scripts") {
        let inside = SCRIPTS.get_file(format!("{name}.lua")).unwrap().contents_utf8().unwrap();
        assert_eq!(inside, text, "{name}");
    }
}

#[test]
fn a_file_that_is_not_a_script_is_refused_with_the_reason() {
    let folder = folder_with(&[("binary.lua", "\x1bLJ"), ("dir.lua/x", "")]);
    fs::write(folder.path().join("latin.lua"), b"-- \xe9").unwrap();
    fs::write(folder.path().join("long.lua"), vec![b' '; SIZE_MAX as usize + 1]).unwrap();
    for (file, why) in [
        ("binary.lua", "compiled Lua"),
        ("dir.lua", "not a regular file"),
        ("latin.lua", "not UTF-8"),
        ("long.lua", "longer than"),
    ] {
        let error = Library::default().find(&at(&folder, file)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let error = format!("{:#}", Library::default().find("./absent.lua").unwrap_err());
    assert_eq!(error, "./absent.lua: No such file or directory (os error 2)");
}

#[test]
fn a_pipe_is_refused_without_waiting_for_its_writer() {
    let folder = folder_with(&[]);
    let status = std::process::Command::new("mkfifo").arg(at(&folder, "p.lua")).status().unwrap();
    assert!(status.success());
    let error = Library::default().find(&at(&folder, "p.lua")).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn modules_are_searched_beside_the_script_then_on_the_search_path_then_in_the_binary() {
    let beside = folder_with(&[("net.lua", "beside"), ("sub/deep.lua", "deep")]);
    let site = folder_with(&[("stdlib/net.lua", "site"), ("stdlib/other.lua", "other")]);
    let library = Library::new([site.path().into()], false);
    assert_eq!(library.module("net", Some(beside.path())).unwrap().text, "beside");
    assert_eq!(library.module("sub.deep", Some(beside.path())).unwrap().text, "deep");
    assert_eq!(library.module("net", None).unwrap().text, "site");
    assert_eq!(library.module("other", Some(beside.path())).unwrap().text, "other");
}

#[test]
fn a_folder_beside_the_monitors_is_listed_separately() {
    let folder = folder_with(&[("printers/a.lua", "1"), ("b.lua", "2")]);
    let library = Library::new([folder.path().into()], false);
    let names: Vec<_> = library.all_in("printers").into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["a"]);
    assert!(library.all().iter().all(|s| s.name != "a"));
}

/// Runs a shell command as uid 65534 in a folder; returns whether it succeeded.
fn as_other_user(folder: &Path, shell: &str) -> bool {
    use std::os::unix::process::CommandExt as _;
    let mut command = std::process::Command::new("sh");
    command.args(["-c", shell]).uid(65534).gid(65534).current_dir(folder);
    command.stderr(std::process::Stdio::null()).status().unwrap().success()
}

#[test]
fn root_skips_folders_that_other_users_can_write_with_a_warning() {
    let Some(folder) = folder_of_root() else { return };
    fs::write(folder.path().join("signal.lua"), "theirs").unwrap();
    mode(folder.path(), 0o777);
    let library = Library::new([folder.path().into(), "/absent".into()], true);
    assert_eq!(library.find("signal").unwrap().origin, ScriptOrigin::Bundled);
    let warnings = library.take_warnings().join("\n");
    let expected = "mode 0777; a root run reads only what root alone can write; use a folder that \
                only root can write, such as /etc/perilune; skipped";
    assert!(warnings.contains(expected), "{warnings}");
    assert!(warnings.contains("/absent: No such file"), "{warnings}");
    assert!(library.take_warnings().is_empty());
}

#[test]
fn below_a_sticky_folder_root_uses_only_files_that_root_owns() {
    if effective_uid() != 0 {
        return;
    }
    // /tmp is sticky; root owns this folder in it.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    mode(folder.path(), 0o1777);
    for name in ["own", "loose"] {
        fs::write(folder.path().join(format!("{name}.lua")), name).unwrap();
    }
    mode(folder.path().join("loose.lua"), 0o666);
    let theirs =
        "echo theirs > theirs.lua && ln -s own.lua linked.lua && echo loosened > loose.lua";
    assert!(as_other_user(folder.path(), theirs));
    for vain in ["mv theirs.lua own.lua", "rm -f own.lua && test ! -e own.lua", "echo > own.lua"] {
        assert!(!as_other_user(folder.path(), vain), "{vain}");
    }
    let library = Library::new([folder.path().into()], true);
    let by_path = |name: &str| library.find(&at(&folder, &format!("{name}.lua")));
    for found in [library.find("own"), by_path("own")] {
        assert_eq!(found.unwrap().text, "own");
    }
    for name in ["theirs", "linked", "loose"] {
        assert!(library.find(name).is_err(), "{name}");
        let why = by_path(name).unwrap_err().to_string();
        assert!(why.contains("root alone can write") && !why.contains("/tmp: "), "{why}");
    }
    let warnings = library.take_warnings().join("\n");
    for part in
        ["theirs.lua: owned by uid 65534", "linked.lua: owned by uid 65534", "loose.lua: mode 0666"]
    {
        assert!(warnings.contains(part), "{part} in {warnings}");
    }
}

#[test]
fn root_skips_files_that_other_users_can_write_with_a_warning() {
    let Some(folder) = folder_of_root() else { return };
    for name in ["good", "loose", "foreign", "linked"] {
        fs::write(folder.path().join(format!("{name}.lua")), name).unwrap();
    }
    mode(folder.path().join("loose.lua"), 0o664);
    chown(folder.path().join("foreign.lua"), Some(1000), None).unwrap();
    let outside = folder_with(&[("target.lua", "elsewhere")]);
    mode(outside.path(), 0o777);
    fs::remove_file(folder.path().join("linked.lua")).unwrap();
    symlink(outside.path().join("target.lua"), folder.path().join("linked.lua")).unwrap();
    let library = Library::new([folder.path().into()], true);
    assert_eq!(library.find("good").unwrap().text, "good");
    let names: Vec<_> = library.all().into_iter().map(|s| s.name).collect();
    assert!(names.contains(&"good".to_owned()));
    for name in ["loose", "foreign", "linked"] {
        assert!(!names.contains(&name.to_owned()), "{names:?}");
        assert!(library.find(name).is_err());
    }
    let warnings = library.take_warnings().join("\n");
    for part in ["loose.lua: mode 0664", "foreign.lua: owned by uid 1000", ": mode 0777"] {
        assert!(warnings.contains(part), "{part} in {warnings}");
    }
    assert!(warnings.contains("skipped"), "{warnings}");
}

#[test]
fn root_refuses_a_named_file_that_other_users_can_write_and_names_the_fix() {
    let Some(folder) = folder_of_root() else { return };
    let file = folder.path().join("x.lua");
    fs::write(&file, "").unwrap();
    let library = Library::new([], true);
    let find = || library.find(file.to_str().unwrap()).map_err(|why| why.to_string());
    assert!(find().is_ok());
    mode(&file, 0o646);
    let error = find().unwrap_err();
    assert!(error.contains("mode 0646") && error.contains("chmod go-w"), "{error}");
    mode(&file, 0o600);
    chown(&file, Some(1000), None).unwrap();
    let error = find().unwrap_err();
    assert!(error.contains("owned by uid 1000") && error.contains("chown root"), "{error}");
    chown(&file, Some(0), None).unwrap();
    mode(folder.path(), 0o777);
    assert!(find().unwrap_err().contains("mode 0777"));
    mode(folder.path(), 0o1777);
    assert!(find().is_ok(), "in a sticky folder no other user can replace root's file");
    // The same checks do not apply to the run of a user.
    mode(folder.path(), 0o777);
    assert!(Library::default().find(file.to_str().unwrap()).is_ok());
}
