//! Reports of a replay: intervals, selected tasks, losses and counts.

use std::process::Command;

/// Replays `recording` to a script that counts its events, and returns its objects and stderr.
fn played(name: &str, recording: &str, args: &[&str]) -> (Vec<serde_json::Value>, String) {
    let folder = tempfile::tempdir().unwrap();
    let (events, script) = (folder.path().join("x.events"), folder.path().join("count.lua"));
    std::fs::write(&events, recording).unwrap();
    let text = "local m = monitor { summary = 'counts' }
        local seen, turns = 0, 0
        function m.init()
          evsel('s:x', function() seen = seen + 1 end)
          every('10s', function() turns = turns + 1 end)
        end
        function m.interval(s) emit { seen = seen, turns = turns, seconds = s } seen = 0 end
        return m";
    std::fs::write(&script, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .arg(&script)
        .arg("--json")
        .arg("--replay")
        .arg(&events)
        .args(args)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {stderr}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    (stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), stderr)
}

/// Returns the events and seconds of each report.
fn reports(objects: &[serde_json::Value]) -> Vec<(u64, f64)> {
    let rows = objects.iter().filter(|object| object["type"] == "row");
    rows.map(|row| (row["seen"].as_u64().unwrap(), row["seconds"].as_f64().unwrap())).collect()
}

#[test]
fn a_gap_of_a_day_is_ten_intervals_and_one_report() {
    let recording = "0.5 0 1 a s:x: f=1\n86400.5 0 1 a s:x: f=1\n86401.5 0 1 a s:x: f=1\n";
    let (objects, _) = played("a day", recording, &["-i", "1000"]);
    let reports = reports(&objects);
    let mut expected = vec![(1, 1.0)];
    expected.extend([(0, 1.0); 10]);
    expected.extend([(0, 86_389.0), (1, 1.0), (1, 0.5)]);
    assert_eq!(reports, expected);
    let said: Vec<_> = objects.iter().filter(|object| object["type"] == "note").collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0]["text"].as_str().unwrap().contains("one report covers"), "{said:?}");
    let turns = objects.iter().rfind(|object| object["type"] == "row").unwrap()["turns"].as_u64();
    assert_eq!(turns, Some(2), "one turn in the gap's beginning, one for the rest");
}

#[test]
fn a_short_gap_is_played_turn_by_turn() {
    let (objects, _) = played("short", "0.5 0 1 a s:x: f=1\n9.5 0 1 a s:x: f=1\n", &["-i", "1000"]);
    let mut expected = vec![(1, 1.0)];
    expected.extend([(0, 1.0); 8]);
    expected.push((1, 0.5));
    assert_eq!(reports(&objects), expected);
}

#[test]
fn a_replay_ends_at_its_duration_in_recorded_time() {
    let lines: String = (1..=9).map(|i| format!("{i} 0 1 a s:x: f=1\n")).collect();
    let (objects, _) = played("ends", &lines, &["--duration", "3500ms", "-i", "2000"]);
    assert_eq!(reports(&objects), [(1, 2.0), (2, 1.5)]);
    let (objects, _) = played("beyond", &lines, &["--duration", "1h"]);
    assert_eq!(reports(&objects), [(9, 3600.0)], "the recording has no end");
}

#[test]
fn a_replay_reports_its_cost() {
    let (objects, _) = played("stats", "1 0 1 a s:x: f=1\n", &["--stats"]);
    let stats: Vec<_> = objects.iter().filter(|object| object["type"] == "stats").collect();
    assert_eq!((stats.len(), &stats[0]["events"]), (1, &1.into()), "{stats:?}");
    assert!(stats[0]["own_cpu_ns"].as_u64() > Some(0), "{stats:?}");
}

#[test]
fn the_last_intervals_of_a_run_without_events_are_replayed() {
    let recording = "# end 2.25\n0.25 0 1 a s:x: f=1\n2.3 0 1 a s:x: f=1\n";
    let (objects, _) = played("end", recording, &["-i", "500"]);
    // An event that the run read at its end may be later than the end.
    assert_eq!(reports(&objects), [(1, 0.5), (0, 0.5), (0, 0.5), (0, 0.5), (1, 0.25)]);
    let (objects, _) = played("shorter", recording, &["-i", "500", "--duration", "1250ms"]);
    assert_eq!(reports(&objects), [(1, 0.5), (0, 0.5), (0, 0.25)]);
    let (objects, _) = played("longer", recording, &["-i", "2000", "--duration", "1h"]);
    assert_eq!(reports(&objects), [(1, 2.0), (1, 0.25)]);
}

#[test]
fn the_children_of_a_selected_task_are_replayed() {
    let events = [(10, 10), (10, 11), (20, 20), (30, 30), (40, 40)];
    let events = events.map(|(pid, tid)| format!("2 0 {pid}/{tid} a s:x: f=1\n")).concat();
    let forks = "1 0 10/11 - FORK: ppid=10 ptid=10\n1.1 0 20 - FORK: ppid=10 ptid=11\n\
        1.2 0 30 - FORK: ppid=20 ptid=20\n1.3 0 40 - FORK: ppid=1 ptid=1\n";
    let seen = |recording: &str, args: &[&str]| {
        let (objects, _) = played("children", recording, args);
        let is_noted = objects.iter().any(|object| {
            object["text"].as_str().is_some_and(|text| text.contains("no FORK lines"))
        });
        (reports(&objects)[0].0, is_noted)
    };
    let all = format!("{forks}{events}");
    assert_eq!(seen(&all, &["-p", "10"]), (4, false));
    assert_eq!(seen(&all, &["-t", "11"]), (3, false));
    assert_eq!(seen(&all, &[]), (5, false));
    assert_eq!(seen(&events, &["-p", "10"]), (2, true));
}

#[test]
fn a_replay_reports_the_losses_of_the_run() {
    let recording = "0.1 0 1 a s:x: f=1\n0.2 1 0 - LOST: n=0 ns=300000000\n\
        0.5 1 0 - LOST: n=7 window=0\n0.9 0 0 - LOST: n=0 total=10 tasks=0\n\
        1.2 0 0 - LOST: n=2 window=0\n# end 1.5\n";
    let (objects, _) = played("losses", recording, &["-i", "1000"]);
    let lost: Vec<_> = objects
        .iter()
        .filter(|object| object["type"] == "coverage")
        .map(|coverage| coverage["lost"].as_u64().unwrap())
        .collect();
    assert_eq!(lost, [10, 12], "{objects:?}");
}

#[test]
fn counts_of_selected_tasks_are_those_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("x.events");
    let line = |pid: u32, tid: u32| format!("2 0 {pid}/{tid} a s:x: f=1\n");
    let fork = "1 0 20 - FORK: ppid=10 ptid=11\n".to_owned();
    let text = [fork, line(10, 10), line(10, 11), line(10, 11), line(20, 20)].concat();
    std::fs::write(&events, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["stat", "-e", "s:x", "--perins", "-p", "10", "--json", "--replay"])
        .arg(&events)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<_> = rows
        .iter()
        .filter(|row| row["type"] == "row")
        .map(|row| (row["tid"].as_u64(), row["count"].as_u64()))
        .collect();
    // A live run counts a child in the thread that created it.
    assert_eq!(rows, [(Some(10), Some(1)), (Some(11), Some(3))], "{text}");
}
