//! Profiles for pprof and the Firefox Profiler, beside the flame graph of the same run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::live::{live_tests, skip};
use crate::load::{self, Load};
use crate::tool::Tool;

live_tests! {
    profiles_have_the_weights_of_the_flame_graph,
}

/// Weights by the frames of a stack, root first.
type Weights = BTreeMap<String, i64>;

fn profiles_have_the_weights_of_the_flame_graph() {
    if Command::new("go").arg("version").output().is_err() {
        skip("no go; install Debian's package golang-go");
    }
    let monitors: [&[&str]; 4] = [
        &["profile", "-F", "997"],
        &["offcpu"],
        &["page-faults"],
        &["kmemleak", "--alloc", "kmem:kmalloc", "--free", "kmem:kfree", "--weight", "bytes"],
    ];
    for monitor in monitors {
        let (load, _measured) = load::faults(300);
        check(monitor, load);
    }
}

fn check(monitor: &[&str], load: Load) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = |name: &str| folder.path().join(name).to_str().expect("ASCII").to_owned();
    let (graph, pprof, firefox) = (path("x"), path("x.pb.gz"), path("x.json"));
    let files = ["--flame-graph", &graph, "--pprof", &pprof, "--firefox", &firefox, "-a"];
    let tool = Tool::attach(&[monitor, &files].concat());
    load.run();
    // Live allocations of the kernel, for kmemleak.
    let pipes: Vec<_> = (0..100).map(|_| std::io::pipe().expect("a pipe can be made")).collect();
    let spinning = std::time::Instant::now();
    while spinning.elapsed().as_millis() < 200 {
        std::hint::spin_loop();
    }
    let run = tool.finish();
    drop(pipes);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let wanted = of_folded(folder.path());
    assert!(!wanted.is_empty(), "{monitor:?}: {}", run.stderr);
    assert_eq!(of_firefox(&fs::read(firefox).expect("it was written")), wanted, "{monitor:?}");
    let total: i64 = wanted.values().sum();
    assert_eq!(pprof_total(&pprof), total, "{monitor:?}");
}

/// Reads all folded files, one per table.
fn of_folded(folder: &Path) -> Weights {
    let files = fs::read_dir(folder).expect("it is there").flatten().map(|entry| entry.path());
    let mut weights = Weights::new();
    for file in files.filter(|file| file.extension().is_some_and(|e| e == "folded")) {
        for line in fs::read_to_string(file).expect("it is text").lines() {
            let (stack, weight) = line.rsplit_once(' ').expect("a line has a weight");
            let weight: i64 = weight.parse().expect("a weight is a number");
            *weights.entry(stack.to_owned()).or_default() += weight;
        }
    }
    weights
}

/// Returns the sum of all samples that `go tool pprof` reads.
fn pprof_total(file: &str) -> i64 {
    let output = Command::new("go").args(["tool", "pprof", "-raw", file]).output();
    let output = output.expect("go runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Under the types of the samples: values, a colon, and locations.
    let samples = text.lines().skip_while(|line| *line != "Samples:").skip(2);
    let samples = samples.take_while(|line| *line != "Locations");
    let values = samples.filter_map(|line| line.split_once(':'));
    values
        .flat_map(|(values, _)| values.split_whitespace())
        .filter_map(|v| v.parse::<i64>().ok())
        .sum()
}

/// Reads the stacks of all threads.
fn of_firefox(file: &[u8]) -> Weights {
    let profile: Value = serde_json::from_slice(file).expect("it is JSON");
    let number = |value: &Value| value.as_u64().map(|n| n as usize);
    let mut weights = Weights::new();
    for thread in profile["threads"].as_array().expect("there are threads") {
        let strings = match &profile["shared"]["stringArray"] {
            Value::Null => &thread["stringArray"],
            shared => shared,
        };
        let samples = &thread["samples"];
        let stacks = samples["stack"].as_array().expect("samples have stacks").iter();
        for (stack, weight) in stacks.zip(samples["weight"].as_array().expect("and weights")) {
            let (mut names, mut at) = (Vec::new(), number(stack));
            while let Some(stack) = at {
                let frame = number(&thread["stackTable"]["frame"][stack]).expect("a frame");
                let function = number(&thread["frameTable"]["func"][frame]).expect("a function");
                let name = number(&thread["funcTable"]["name"][function]).expect("a name");
                names.push(strings[name].as_str().expect("a string"));
                at = number(&thread["stackTable"]["prefix"][stack]);
            }
            names.reverse();
            *weights.entry(names.join(";")).or_default() += weight.as_i64().expect("a weight");
        }
    }
    weights
}
