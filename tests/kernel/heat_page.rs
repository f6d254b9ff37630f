//! The page of `--heatmap FILE.html` in a browser: a range, search, zoom and a difference, by the
//! mouse and the keyboard, on a recording with known counts.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::live::{live_tests, skip};

live_tests! {
    the_flame_graph_of_a_range_has_its_samples_only,
    a_search_marks_frames_and_shows_their_share,
    a_click_zooms_and_the_reset_shows_everything_again,
    the_difference_of_two_ranges_compares_shares,
    a_hostile_name_is_text,
    a_link_with_wrong_numbers_selects_what_exists,
    a_run_off_cpu_shows_its_sleeps,
}

const STEPS: &str = include_str!("heat_page/steps.js");

/// A name that would end the script of the page.
const HOSTILE: &str = "</script><b>";

/// Two seconds of samples, every 10 ms: the first second is in `busy;parse`, in the second one
/// every other sample is in `busy;<hostile>`.
fn recording() -> String {
    let mut lines = String::new();
    for sample in 0..200 {
        let name = if sample >= 100 && sample % 2 == 1 { HOSTILE } else { "parse" };
        let (time, address) = (0.005 + f64::from(sample) / 100.0, 0x1000 + sample % 2);
        let _ = writeln!(
            lines,
            "{time:.6} 0 300 {HOSTILE} cpu-clock: period=1000000 | {address:x} {name}+0x1 (/bin/p);\
             2000 busy+0x2 (/bin/p)"
        );
    }
    lines
}

/// Writes the page of the recording into a folder, adds a script that runs `steps`, and returns the
/// object that they set as `result`, from the document as the browser shows it.
fn shown(steps: &str) -> Value {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (events, page) = (folder.path().join("x.events"), folder.path().join("x.html"));
    fs::write(&events, recording()).expect("the folder is writable");
    let words = ["profile", "-e", "cpu-clock", "--heatmap"].map(Path::new);
    let run = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(words)
        .args([&page, Path::new("--replay"), &events])
        .output()
        .expect("the built command runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    in_browser(&page, steps)
}

fn in_browser(page: &Path, steps: &str) -> Value {
    let text = fs::read_to_string(page).expect("the page was written");
    let driven = format!(
        "{text}<script>{STEPS}let result; try {{ {steps} }} catch (e) {{ result = String(e); }}\n\
         document.body.replaceChildren();\n\
         document.body.append(\"RESULT\" + JSON.stringify(result) + \"RESULT\");</script>"
    );
    let driven_page = page.with_extension("driven.html");
    fs::write(&driven_page, driven).expect("the folder is writable");
    let url = format!("file://{}", driven_page.display());
    let profile = page.with_extension("profile");
    let browser = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
            "--window-size=1300,900",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(&url)
        .output();
    let Ok(browser) = browser else { skip("no chromium; install Debian's package chromium") };
    let dom = String::from_utf8_lossy(&browser.stdout).into_owned();
    let result = dom.rsplit("RESULT").nth(1).unwrap_or_default();
    let result = result.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&result).unwrap_or_else(|why| {
        panic!("{why}: {result}\n{dom}\n{}", String::from_utf8_lossy(&browser.stderr))
    })
}

fn weight(frames: &Value, name: &str) -> i64 {
    let frames = frames.as_array().unwrap_or_else(|| panic!("{frames}")).iter();
    let of_name = frames.filter(|frame| frame[0] == name);
    of_name.map(|frame| frame[1].as_i64().expect("a weight")).max().unwrap_or(0)
}

fn the_flame_graph_of_a_range_has_its_samples_only() {
    let result = shown("const all = flames(); drag(50, 74); result = [all, flames()];");
    let [all, range] = [0, 1].map(|at| &result[at]);
    let counts = |frames: &Value| ["all", "busy", "parse"].map(|name| weight(frames, name));
    assert_eq!(counts(all), [200, 200, 150]);
    // Half of the second second: 25 cells of two samples, of which one is in `parse`.
    assert_eq!(counts(range), [50, 50, 25]);
}

fn a_search_marks_frames_and_shows_their_share() {
    let result = shown(
        "type('^pars'); const marked = document.querySelectorAll('#flame div.found');\
         const share = document.getElementById('matched').textContent;\
         type('('); result = [marked.length, share,\
           document.getElementById('matched').textContent];",
    );
    let wanted = serde_json::json!([1, "matched: 75.00 %", "not a regular expression"]);
    assert_eq!(result, wanted);
}

fn a_click_zooms_and_the_reset_shows_everything_again() {
    let result = shown(
        "const parse = () => [...document.querySelectorAll('#flame div')]\
           .find((one) => one.dataset.name === 'parse');\
         const width = () => parseFloat(parse().style.width), before = width();\
         parse().click(); const zoomed = width(), hash = location.hash; click('reset');\
         result = [before, zoomed, width(), hash.includes('zoom='), location.hash];",
    );
    let [before, zoomed, after] =
        [0, 1, 2].map(|at| result[at].as_f64().unwrap_or_else(|| panic!("{result}")));
    assert!((zoomed / before - 4.0 / 3.0).abs() < 0.01, "{result}");
    assert!((before - after).abs() < 0.01, "{result}");
    assert_eq!((&result[3], &result[4]), (&true.into(), &"".into()), "{result}");
}

fn the_difference_of_two_ranges_compares_shares() {
    let result = shown(
        "drag(0, 49); drag(50, 99, true);\
         const title = (name) => [...document.querySelectorAll('#flame div')]\
           .find((one) => one.dataset.name === name).title;\
         const before = title('parse'); click('swap');\
         result = [before, title('parse'), location.hash];",
    );
    let grew = "parse: A 50.00 %, B 100.00 %, +50.00 points";
    let shrank = "parse: A 100.00 %, B 50.00 %, -50.00 points";
    assert_eq!(result, serde_json::json!([shrank, grew, "#a=50-99&b=0-49&diff=1"]));
}

fn a_link_with_wrong_numbers_selects_what_exists() {
    let result = shown(
        "location.hash = '#a=20-9000000000000000&b=99-50&zoom=-1'; recall(); update();\
         result = [state.a, state.b, state.zoom, columns];",
    );
    assert_eq!(result, serde_json::json!([[20, 99], [50, 99], 0, 2]));
}

fn a_hostile_name_is_text() {
    let result = shown("result = [flames(), document.querySelectorAll('b').length];");
    assert_eq!(weight(&result[0], HOSTILE), 200, "{result}");
    assert_eq!(result[1], 0);
}

fn a_run_off_cpu_shows_its_sleeps() {
    // The kernel may write no record of an event that interrupts an idle task.
    let _busy = crate::load::never_idle();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let page = folder.path().join("x.html");
    let file = page.to_str().expect("ASCII");
    let load = crate::load::sleep_ms(300);
    let pid = load.pid().to_string();
    let run = crate::watch(&["offcpu", "-p", &pid, "--heatmap", file], load);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let result = in_browser(&page, "result = flames();");
    let asleep = weight(&result, "all") as f64 / 1e6;
    assert!((300.0..900.0).contains(&asleep), "{asleep} ms: {result}");
}
