//! The pages in `docs/monitors/`, compared with the bundled monitors.

use std::fs;
use std::path::Path;

use perilune::script::load::library::Library;

/// Maximum number of lines of a page.
const LONGEST: usize = 50;

fn pages() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/monitors");
    let files = fs::read_dir(folder).expect("the folder is there").map(|file| {
        let path = file.expect("it is listed").path();
        let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(path).expect("it is text"))
    });
    files.collect()
}

#[test]
fn each_monitor_has_a_page_that_shows_a_run_of_it() {
    let library = Library::new([], false);
    let names: Vec<String> = library.all().into_iter().map(|script| script.name).collect();
    let pages = pages();
    for name in &names {
        assert!(pages.iter().any(|(page, _)| page == name), "docs/monitors/{name}.md is missing");
    }
    for (name, text) in pages {
        assert!(names.contains(&name), "{name}.md: no such monitor");
        assert!(text.starts_with(&format!("# {name}\n\n")), "{name}.md: begins with `# {name}`");
        assert!(text.contains(&format!("$ perilune {name}")), "{name}.md: shows no run");
        assert!(text.lines().count() <= LONGEST, "{name}.md: more than {LONGEST} lines");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(".md)")) {
            assert!(names.contains(&link.0.to_owned()), "{name}.md: broken link to {}", link.0);
        }
    }
}
