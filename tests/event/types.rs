//! The output of `perilune types` for editors and checkers.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::live::live_tests;

live_tests! {
    each_event_has_a_class_with_the_fields_of_its_format,
    the_api_and_the_editor_settings_are_written_next_to_them,
    a_file_of_the_user_is_not_overwritten,
}

fn types(folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_perilune"))
        .arg("types")
        .arg(folder)
        .output()
        .expect("the built command runs")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn each_event_has_a_class_with_the_fields_of_its_format() {
    let folder = tempfile::tempdir().unwrap();
    let output = types(folder.path());
    assert!(output.status.success(), "{output:?}");
    let events = folder.path().join("types/events");
    let sched = read(&events.join("sched.lua"));
    let class = "\n---@class perilune.sched.sched_switch: perilune.Sample\n";
    let fields = sched.split_once(class).expect("it has its class").1;
    let fields = fields.split("\n\n").next().unwrap();
    for line in [
        "---@field prev_comm string char[16]",
        "---@field prev_pid integer pid_t",
        "---@field common_pid integer int",
    ] {
        assert!(fields.lines().any(|l| l == line), "no {line:?} in\n{fields}");
    }
    assert!(sched.contains("---@field [\"sched:sched_switch\"] perilune.sched.sched_switch\n"));
    let format = read(Path::new("/sys/kernel/tracing/events/sched/sched_switch/format"));
    assert_eq!(fields.lines().count(), format.matches("field:").count(), "{fields}");

    let systems: usize = fs::read_dir(&events).unwrap().count();
    assert!(systems > 20, "{systems}");
    for entry in fs::read_dir(&events).unwrap().flatten() {
        let text = read(&entry.path());
        let chunk = mlua::Lua::new()
            .load(&text)
            .set_name(entry.path().display().to_string())
            .into_function();
        assert!(chunk.is_ok(), "{chunk:?}");
    }
}

fn the_api_and_the_editor_settings_are_written_next_to_them() {
    let folder = tempfile::tempdir().unwrap();
    assert!(types(folder.path()).status.success());
    let meta = Path::new(env!("CARGO_MANIFEST_DIR")).join("stdlib/meta");
    for entry in fs::read_dir(&meta).unwrap().flatten() {
        let copy = folder.path().join("types").join(entry.file_name());
        assert_eq!(read(&copy), read(&entry.path()));
    }
    let settings: serde_json::Value =
        serde_json::from_str(&read(&folder.path().join(".luarc.json"))).unwrap();
    assert_eq!(settings["workspace.library"], serde_json::json!(["types"]));
}

fn a_file_of_the_user_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join(".luarc.json");
    fs::write(&settings, "{}").unwrap();
    let output = types(folder.path());
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("not changed"), "{text}");
    assert_eq!(read(&settings), "{}");

    let own = folder.path().join("types/event.lua");
    fs::write(&own, "return 1\n").unwrap();
    let output = types(folder.path());
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("not written by perilune types, so it is not overwritten"), "{text}");
    assert_eq!(read(&own), "return 1\n");
}
