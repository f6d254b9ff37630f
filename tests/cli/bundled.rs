//! The bundled monitors: each loads without opening anything, and prints its help.

use perilune::{
    cli::{help, run_options},
    script::{
        load::{
            library::Library,
            monitor::{self, Monitor, ScriptSource},
        },
        vm::{Limits, Vm, describe},
    },
};

#[test]
fn every_bundled_monitor_declares_itself_and_shows_an_example() {
    let library = Library::new([], false);
    let scripts = library.all();
    assert!(scripts.iter().any(|s| s.name == "signal"));
    for script in scripts {
        let vm = Vm::new(Limits { memory: 0 }).unwrap();
        monitor::register(vm.lua(), vm.env()).unwrap();
        vm.search(&library, &script);
        let returned = vm.script(&script.chunk_name(), &script.text);
        let returned = returned.map_err(|error| describe(&error)).unwrap();
        let source = ScriptSource { name: &script.name, origin: "bundled", text: &script.text };
        let monitor = Monitor::load(source, &returned, &run_options::reserved()).unwrap();
        assert!(!monitor.summary.is_empty(), "{}", script.name);
        assert!(monitor.group.is_some(), "{}: add group = … to monitor {{}}", script.name);
        let mut text = Vec::new();
        help::write(&monitor, &script.name, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let example = format!("Examples:\n  perilune {}", script.name);
        assert!(text.contains(&example), "{text}");
        for option in &monitor.options {
            assert!(!option.help.is_empty(), "{}: --{} has no help", script.name, option.long);
        }
    }
}
