//! Containers: processes in namespaces and control groups of their own, named as the runtimes name
//! theirs, with the files that the runtimes write.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use perilune::sys::cgroup::CgroupHierarchy;
use serde_json::Value;

use crate::live::{live_tests, skip_anywhere};

live_tests! {
    containers_have_the_names_that_their_runtimes_gave_them,
    a_glob_of_cgroups_selects_containers,
}

/// Digits of the ids, and the control groups and files of a container.
struct Container {
    digit: char,
    cgroup: &'static str,
    file: &'static str,
    text: &'static str,
    name: &'static str,
}

const POD: &str = "0b1c2d3e_4f50_6172_8394_a5b6c7d8e9f0";

const CONTAINERS: [Container; 5] = [
    Container {
        digit: 'a',
        cgroup: "system.slice/docker-ID.scope",
        file: "/var/lib/docker/containers/ID/config.v2.json",
        text: r#"{"Name":"/web-1"}"#,
        name: "web-1",
    },
    Container {
        digit: 'b',
        cgroup: "machine.slice/libpod-ID.scope/container",
        file: "/var/lib/containers/storage/overlay-containers/containers.json",
        text: r#"[{"id":"ID","names":["database"]}]"#,
        name: "database",
    },
    Container {
        digit: 'c',
        cgroup: "kubepods.slice/kubepods-podPOD.slice/cri-containerd-ID.scope",
        file: "/run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json",
        text: r#"{"annotations":{"io.kubernetes.cri.container-name":"app",
            "io.kubernetes.cri.sandbox-name":"cart-7",
            "io.kubernetes.cri.sandbox-namespace":"shop"}}"#,
        name: "shop/cart-7/app",
    },
    Container {
        digit: 'd',
        cgroup: "kubepods.slice/kubepods-podPOD.slice/crio-ID.scope",
        file: "/run/containers/storage/overlay-containers/ID/userdata/config.json",
        text: r#"{"annotations":{"io.kubernetes.container.name":"side",
            "io.kubernetes.pod.name":"cart-7","io.kubernetes.pod.namespace":"shop"}}"#,
        name: "shop/cart-7/side",
    },
    // Without a file, the id is shortened.
    Container {
        digit: 'e',
        cgroup: "system.slice/docker-ID.scope",
        file: "/run/unused-ID",
        text: "",
        name: "eeeeeeeeeeee",
    },
];

impl Container {
    /// Returns a text with its id and the uid of the pod.
    fn filled(&self, text: &str) -> String {
        text.replace("ID", &self.digit.to_string().repeat(64)).replace("POD", POD)
    }
}

/// The control groups of all containers, removed at the end.
struct Groups {
    top: String,
    hierarchy: PathBuf,
}

impl Groups {
    fn new(name: &str) -> Groups {
        let Some(hierarchy) = CgroupHierarchy::find() else {
            skip_anywhere("no cgroup hierarchy with the perf_event controller is mounted");
        };
        let top = format!("/perilune-{}-{name}", std::process::id());
        let groups = Groups { top, hierarchy: hierarchy.root().to_owned() };
        for container in &CONTAINERS {
            if let Err(why) = fs::create_dir_all(groups.folder(container)) {
                skip_anywhere(&format!("no cgroup can be created: {why}"));
            }
        }
        groups
    }

    fn folder(&self, container: &Container) -> PathBuf {
        let inside = container.filled(container.cgroup);
        self.hierarchy.join(self.top.trim_start_matches('/')).join(inside)
    }

    /// Runs perilune over all containers, each of which runs `true` as often as its index says.
    /// Returns how many `true` each container has run, by the name that a script was given.
    fn programs(&self, args: &[&str]) -> (BTreeMap<String, usize>, String) {
        let folder = tempfile::tempdir().expect("a folder for the scripts");
        let (script, box_) = (folder.path().join("s.lua"), folder.path().join("run.sh"));
        fs::write(&script, SCRIPT).expect("it can be written");
        let mut files = String::new();
        let mut commands = String::new();
        for (index, container) in CONTAINERS.iter().enumerate() {
            let file = container.filled(container.file);
            let text = container.filled(container.text);
            files += &format!("mkdir -p $(dirname {file})\ncat > {file} <<'END'\n{text}\nEND\n");
            commands += &format!(
                "sh -c 'echo $$ > {}/cgroup.procs; unshare -mpf sh -c \"{}\"'; ",
                self.folder(container).display(),
                "/bin/true; ".repeat(index + 1)
            );
        }
        // The files are in a mount namespace of perilune's own.
        let perilune = env!("CARGO_BIN_EXE_perilune");
        let text = format!(
            "set -e\nmount -t tmpfs none /var/lib\nmount -t tmpfs none /run\n{files}\
             exec {perilune} {} --json --duration 30s \"$@\" -- sh -c \"$COMMANDS\"\n",
            script.display()
        );
        fs::write(&box_, text).expect("it can be written");
        let output = Command::new("unshare")
            .arg("-m")
            .arg("sh")
            .arg(&box_)
            .args(args)
            .env("COMMANDS", commands)
            .stdin(Stdio::null())
            .output()
            .expect("it is installed");
        let out = String::from_utf8_lossy(&output.stdout);
        let mut counts = BTreeMap::new();
        for row in out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if row["type"] == "row" && row["comm"] == "true" {
                *counts.entry(row["container"].to_string().replace('"', "")).or_default() += 1;
            }
        }
        (counts, format!("{out}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

const SCRIPT: &str = "local m = monitor { summary = 'containers' }
function m.init()
  evsel('sched:sched_process_exec', function(e)
    emit { comm = e._comm, container = e._container }
  end)
end
return m
";

impl Drop for Groups {
    fn drop(&mut self) {
        let top = self.hierarchy.join(self.top.trim_start_matches('/'));
        let mut folders = vec![top];
        let mut at = 0;
        while at < folders.len() {
            let inside = fs::read_dir(&folders[at]).into_iter().flatten().flatten();
            let inside = inside.filter(|entry| entry.file_type().is_ok_and(|of| of.is_dir()));
            folders.extend(inside.map(|entry| entry.path()).collect::<Vec<_>>());
            at += 1;
        }
        for folder in folders.iter().rev() {
            // A group is busy until its last task has been reaped.
            for _ in 0..50 {
                if fs::remove_dir(folder).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
    }
}

fn expected(of: impl Fn(&Container) -> bool) -> BTreeMap<String, usize> {
    let all = CONTAINERS.iter().enumerate().filter(|(_, container)| of(container));
    all.map(|(index, container)| (container.name.to_owned(), index + 1)).collect()
}

fn containers_have_the_names_that_their_runtimes_gave_them() {
    let (programs, text) = Groups::new("all").programs(&[]);
    assert_eq!(programs, expected(|_| true), "{text}");
}

fn a_glob_of_cgroups_selects_containers() {
    let groups = Groups::new("some");
    let glob = format!("{}/system.slice/docker-*.scope", groups.top);
    let (programs, text) = groups.programs(&["--cgroup", &glob]);
    assert_eq!(programs, expected(|c| c.cgroup.starts_with("system.slice")), "{text}");
    let pod = format!("{}/kubepods.slice/kubepods-pod*.slice", groups.top);
    let (programs, text) = groups.programs(&["--cgroup", &pod]);
    assert_eq!(programs, expected(|c| c.cgroup.starts_with("kubepods")), "{text}");
}
