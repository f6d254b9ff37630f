//! The event that counts split locks, on every model that has one, and the refusal of the others.

use std::io::Write as _;
use std::process::Command;

/// Models of Linux's intel-family.h, by the event of its pmu-events tables: `sq_misc.split_lock` or
/// `sq_misc.bus_lock` 0xf4/0x10, `sq_misc.bus_lock` 0x2c/0x10, `ls_locks.bus_lock` 0x25/0x01.
const KNOWN: [(&str, &str, u32, &[u32]); 5] = [
    (
        "r10f4",
        "GenuineIntel",
        6,
        &[
            26, 30, 31, 46, 37, 44, 47, 42, 45, 58, 62, 60, 63, 69, 70, 61, 71, 79, 86, 78, 94, 85,
            142, 158, 165, 166, 125, 126, 106, 108, 140, 141, 167,
        ],
    ),
    ("r102c", "GenuineIntel", 6, &[143, 207, 173, 174]),
    ("r125", "AuthenticAMD", 23, &[1, 8, 49, 113]),
    ("r125", "AuthenticAMD", 25, &[1, 33, 17, 97]),
    ("r125", "AuthenticAMD", 26, &[2, 17, 36, 68]),
];

/// Counts the split locks of a model; the options are the lines of /proc/cpuinfo.
const SCRIPT: &str = r#"
local split_locks = require "split_locks"
local m = monitor {
  summary = "split locks of a model", every = "1s",
  options = {
    text { "vendor" }, number { "family", default = 6 }, number { "model", default = 0 },
  },
}
function m.init(opt)
  local cpu = { vendor = opt.vendor, family = opt.family, model = opt.model, name = "CPU" }
  counters { evsel(split_locks.event(cpu), { count = true, title = "locks" }) }
end
return m
"#;

/// Each event has another count.
const RECORDING: &str = "\
    0.5 0 0 - r10f4: value=1007\n\
    0.5 0 0 - r102c: value=2011\n\
    0.5 0 0 - r125: value=4003\n";

struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Machine {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in [("locks.lua", SCRIPT), ("locks.events", RECORDING)] {
            let mut file = std::fs::File::create(folder.path().join(name)).expect("a new file");
            file.write_all(text.as_bytes()).expect("it can be written");
        }
        Machine(folder)
    }

    /// Returns the results and messages of a run on this model.
    fn count(&self, vendor: &str, family: u32, model: u32) -> (String, String) {
        let (family, model) = (family.to_string(), model.to_string());
        let of = |name: &str| self.0.path().join(name);
        let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
            .arg(of("locks.lua"))
            .args(["--vendor", vendor, "--family", &family, "--model", &model, "--json"])
            .arg("--replay")
            .arg(of("locks.events"))
            .output()
            .expect("the command runs");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (text(output.stdout), text(output.stderr))
    }
}

#[test]
fn the_event_of_each_known_model_counts_split_locks() {
    let machine = Machine::new();
    for (event, vendor, family, models) in KNOWN {
        let value = match event {
            "r10f4" => 1007,
            "r102c" => 2011,
            _ => 4003,
        };
        for &model in models {
            let (out, said) = machine.count(vendor, family, model);
            let expected = format!("\"locks\":{value}}}");
            assert!(out.contains(&expected), "{vendor} {family} {model}: {out}{said}");
        }
    }
}

#[test]
fn a_model_without_a_known_event_is_refused_with_its_name() {
    let machine = Machine::new();
    // Atom, Alder Lake (two kinds of cores), Bulldozer, Hygon, a CPU that is not x86.
    let unknown = [
        ("GenuineIntel", 6, 55),
        ("GenuineIntel", 6, 151),
        ("GenuineIntel", 15, 26),
        ("AuthenticAMD", 21, 1),
        ("HygonGenuine", 24, 1),
    ];
    for (vendor, family, model) in unknown {
        let (out, said) = machine.count(vendor, family, model);
        let why = "no hardware event is known to count split locks; pass one with -e; the kernel ";
        assert!(out.is_empty() && said.contains(why), "{vendor} {family} {model}: {out}{said}");
    }
}
