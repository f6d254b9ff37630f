//! The files of `contrib/`: their syntax, the names in them, and what they do.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::live::{live_tests, skip};
use crate::tables::{python, query};

live_tests! {
    hosts_run_at_the_same_instant_and_are_merged,
    the_unit_of_a_monitor_is_valid_and_starts,
    the_unit_of_serve_is_valid_and_starts,
    the_daemon_set_starts_a_monitor,
    the_recording_rules_are_valid,
    alerts_fire_for_losses_of_any_monitor,
    options_of_the_scrape_configuration_keep_classic_histograms,
    the_collector_uses_what_it_declares,
}

fn contrib(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("contrib").join(file)
}

fn text(file: &str) -> String {
    std::fs::read_to_string(contrib(file)).expect("the file exists")
}

/// Returns a file of YAML as JSON.
fn yaml(file: &str) -> Value {
    yaml_of(&contrib(file))
}

fn yaml_of(file: &Path) -> Value {
    let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let read = Command::new(python()).args(["-c", script]).arg(file).output();
    let read = read.expect("Python runs");
    let stderr = String::from_utf8_lossy(&read.stderr);
    if stderr.contains("No module named 'yaml'") {
        skip("no PyYAML; PERILUNE_PYTHON names a Python that has it");
    }
    assert!(read.status.success(), "{}: {stderr}", file.display());
    serde_json::from_slice(&read.stdout).expect("it is JSON")
}

/// Runs a command line of a configuration for a moment, with its port replaced by any free one.
fn starts(arguments: &[&str]) {
    let replaced = arguments.iter().map(|word| if word.contains("9464") { "0" } else { word });
    let run = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(replaced)
        .args(["--duration", "200ms"])
        .output()
        .expect("the built command runs");
    assert!(run.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
}

fn hosts_run_at_the_same_instant_and_are_merged() {
    let folder = tempfile::tempdir().expect("a folder can be created");
    let ssh = folder.path().join("ssh");
    std::fs::write(&ssh, "#!/bin/sh\nexec bash -c \"$2\"\n").expect("the file can be written");
    let built = Path::new(env!("CARGO_BIN_EXE_perilune")).parent().expect("it is in a folder");
    let path = format!("{}:{}", built.display(), std::env::var("PATH").expect("it is set"));
    let tables = folder.path().join("fleet");
    let run = Command::new(contrib("fleet/run"))
        .args(["web1,web2", "syscalls", "-i", "500"])
        .envs([("SSH", format!("sh {}", ssh.display())), ("PATH", path)])
        .envs([("RUN_SECONDS", "1"), ("START_AT", "/5s")])
        .env("FOLDER", &tables)
        .stdout(Stdio::piped())
        .output()
        .expect("the script runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let merged = query(&tables, include_str!("../../contrib/fleet/merge.sql")).remove(0);
    let of_both = merged.as_array().expect("rows").iter().find(|row| row["hosts"] == 2);
    let row = of_both.expect("both hosts saw a call");
    assert!(row["calls"].as_f64() > Some(0.0) && row["p99_us"].as_f64() > Some(0.0), "{row}");
    let sql = "SELECT host, epoch_us(min(time)) AS first FROM
      read_parquet('fleet/coverage/**/*.parquet', hive_partitioning = true) GROUP BY host;";
    let first = query(&tables, sql).remove(0);
    let at = |i: usize| first[i]["first"].as_i64().expect("a time");
    assert!((at(0) - at(1)).abs() < 100_000, "the hosts began apart: {first}");
}

/// Returns a unit and the arguments of perilune in it.
fn unit(file: &str) -> (String, Vec<String>) {
    let unit = text(&format!("systemd/{file}"));
    let line =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/perilune "));
    let words = line.expect("it starts perilune").split_whitespace().map(str::to_owned).collect();
    (unit, words)
}

/// Checks a unit with systemd under this name.
fn verify(unit: &str, name: &str) {
    let folder = tempfile::tempdir().expect("a folder can be created");
    let file = folder.path().join(name);
    let here = unit.replace("/usr/local/bin/perilune", env!("CARGO_BIN_EXE_perilune"));
    std::fs::write(&file, here).expect("the file can be written");
    let Ok(checked) = Command::new("systemd-analyze").arg("verify").arg(&file).output() else {
        skip("no systemd-analyze; install Debian's package systemd");
    };
    let stderr = String::from_utf8_lossy(&checked.stderr);
    let (start, _) = name.split_once('.').expect("it has a suffix");
    assert!(checked.status.success() && !stderr.contains(start), "{stderr}");
}

fn the_unit_of_a_monitor_is_valid_and_starts() {
    let (unit, words) = unit("perilune@.service");
    let replaced = |word: &String| word.replace("%i", "syscalls").replace("${PORT}", "9464");
    let words: Vec<String> = words.iter().map(replaced).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|w| *w != "$OPTIONS").collect();
    starts(&words);
    verify(&unit, "perilune@syscalls.service");
}

/// The file of the unit is the example of docs/metrics.md.
fn the_unit_of_serve_is_valid_and_starts() {
    let (unit, words) = unit("perilune.service");
    assert_eq!(words, ["serve", "/etc/perilune/serve.toml"]);
    let page = include_str!("../../docs/metrics.md");
    assert!(page.contains("perilune serve /etc/perilune/serve.toml"));
    let (_, example) = page.split_once("```toml\n").expect("the page has an example");
    let (example, _) = example.split_once("```").expect("it has an end");
    let file = tempfile::NamedTempFile::with_suffix(".toml").expect("a file can be created");
    std::fs::write(file.path(), example.replace("9464", "0")).expect("it can be written");
    starts(&["serve", file.path().to_str().expect("UTF-8")]);
    verify(&unit, "perilune.service");
}

fn the_daemon_set_starts_a_monitor() {
    let set = yaml("kubernetes/daemonset.yaml");
    assert_eq!((&set["kind"], &set["apiVersion"]), (&"DaemonSet".into(), &"apps/v1".into()));
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&set["spec"]["selector"]["matchLabels"], labels);
    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let words = container["args"].as_array().expect("arguments");
    let words: Vec<&str> = words.iter().map(|word| word.as_str().expect("text")).collect();
    starts(&words);
    let port = container["ports"][0]["containerPort"].to_string();
    assert!(words.iter().any(|word| word.ends_with(&format!(":{port}"))), "{words:?}");
    for mount in container["volumeMounts"].as_array().expect("mounts") {
        let volumes = pod["volumes"].as_array().expect("volumes");
        assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "{mount}");
    }
}

fn the_recording_rules_are_valid() {
    let file = contrib("prometheus/rules.yml");
    let checked = Command::new("promtool").args(["check", "rules"]).arg(file).output();
    let Ok(checked) = checked else { skip("no promtool; install Debian's package prometheus") };
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// Series of two monitors, one of which loses 2 events per second and is switched off, and the
/// alerts that they cause.
const LOSING: &str = "\
rule_files: [RULES]
tests:
  - interval: 15s
    input_series:
      - series: 'perilune_syscalls_coverage_lost_total{instance=\"a\"}'
        values: '7+0x100'
      - series: 'perilune_slow_coverage_lost_total{instance=\"a\"}'
        values: '7+0x100'
      - series: 'perilune_slow_coverage_undelivered_total{instance=\"a\"}'
        values: '0+30x100'
      - series: 'perilune_slow_coverage_throttled_total{instance=\"a\"}'
        values: '0+15x100'
      - series: 'perilune_slow_coverage_events_total{instance=\"a\"}'
        values: '0+900x100'
      - series: 'perilune_monitor_up{instance=\"a\",monitor=\"slow\"}'
        values: '1x40 0x60'
      - series: 'perilune_monitor_up{instance=\"a\",monitor=\"syscalls\"}'
        values: '1x100'
    promql_expr_test:
      - expr: ALERTS{alertstate=\"firing\"}
        eval_time: 20m
        exp_samples:
          - {labels: 'ALERTS{alertname=\"PeriluneLosesEvents\",alertstate=\"firing\",instance=\"a\",
              metric=\"perilune_slow_coverage_undelivered_total\",severity=\"warning\"}', value: 1}
          - {labels: 'ALERTS{alertname=\"PeriluneLosesEvents\",alertstate=\"firing\",instance=\"a\",
              metric=\"perilune_slow_coverage_throttled_total\",severity=\"warning\"}', value: 1}
          - {labels: 'ALERTS{alertname=\"PeriluneMonitorSwitchedOff\",alertstate=\"firing\",
              instance=\"a\",monitor=\"slow\",severity=\"warning\"}', value: 1}
";

fn alerts_fire_for_losses_of_any_monitor() {
    let file = tempfile::NamedTempFile::new().expect("a file can be created");
    let rules = contrib("prometheus/rules.yml").display().to_string();
    std::fs::write(file.path(), LOSING.replace("RULES", &rules)).expect("it can be written");
    let tested = Command::new("promtool").args(["test", "rules"]).arg(file.path()).output();
    let Ok(tested) = tested else { skip("no promtool; install Debian's package prometheus") };
    let [out, err] = [&tested.stdout, &tested.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(tested.status.success(), "{out}{err}");
}

fn options_of_the_scrape_configuration_keep_classic_histograms() {
    const OPTIONS: [&str; 3] = [
        "scrape_native_histograms",
        "always_scrape_classic_histograms",
        "scrape_classic_histograms",
    ];
    let mut text = text("prometheus/prometheus.yml");
    for option in OPTIONS {
        text = text.replacen(&format!("    # {option}: true "), &format!("    {option}: true "), 1);
    }
    let file = tempfile::NamedTempFile::new().expect("a file can be created");
    std::fs::write(file.path(), text).expect("the file can be written");
    let job = &yaml_of(file.path())["scrape_configs"][0];
    let found = OPTIONS.map(|option| job[option].as_bool());
    assert_eq!(found, [Some(true); 3], "{job}");
}

fn the_collector_uses_what_it_declares() {
    let config = yaml("otel/collector.yaml");
    let pipeline = &config["service"]["pipelines"]["metrics"];
    for part in ["receivers", "processors", "exporters"] {
        for name in pipeline[part].as_array().expect("a list") {
            let name = name.as_str().expect("a name");
            assert!(config[part].get(name).is_some(), "{part}: {name}");
        }
    }
    let own = &config["receivers"]["prometheus"]["config"]["scrape_configs"];
    let others = &yaml("prometheus/prometheus.yml")["scrape_configs"];
    assert_eq!(own[0]["static_configs"], others[0]["static_configs"]);
}
