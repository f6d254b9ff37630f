//! Names of functions, and the layout of their registers.

use super::*;
use crate::event::kind::breakpoint::FoundSymbol;

#[test]
fn a_name_is_parsed_and_printed() {
    for (name, kind, file, function) in [
        ("kprobe:vfs_read", ProbeKind::Kprobe, None, "vfs_read"),
        ("kretprobe:up", ProbeKind::Kretprobe, None, "up"),
        ("uprobe:/usr/bin/bash:readline", ProbeKind::Uprobe, Some("/usr/bin/bash"), "readline"),
        ("uretprobe:bash:readline", ProbeKind::Uretprobe, Some("bash"), "readline"),
        ("uprobe:\"/a:b, c\":f", ProbeKind::Uprobe, Some("/a:b, c"), "f"),
        ("uprobe:'/a\"b':f", ProbeKind::Uprobe, Some("/a\"b"), "f"),
        ("uprobe:./x:ns::f", ProbeKind::Uprobe, Some("./x"), "ns::f"),
        ("uprobe:x:", ProbeKind::Uprobe, Some("x"), ""),
    ] {
        let named = FunctionName::parse(name).unwrap();
        let wanted =
            FunctionName { kind, file: file.map(str::to_owned), function: function.to_owned() };
        assert_eq!(named, wanted);
        assert_eq!(named.to_string(), name);
    }
    assert_eq!(
        FunctionName::parse("uprobe:\"/usr/bin/bash\":f").unwrap().to_string(),
        "uprobe:/usr/bin/bash:f"
    );
    for other in ["kprobes:x", "uprobes:y", "sched:kprobe", "cycles:u", "kprobe", "uprobe"] {
        assert_eq!(FunctionName::parse(other), None, "{other}");
    }
}

#[test]
fn each_argument_is_read_from_its_register_in_the_block() {
    let format = format(ProbeKind::Uprobe);
    // The kernel writes the lowest register first; here each value is its register's number.
    let order = bits(registers_of(ProbeKind::Uprobe));
    let block: Vec<u8> = (0..64_u64)
        .filter(|register| order >> register & 1 == 1)
        .flat_map(u64::to_ne_bytes)
        .collect();
    assert_eq!(block.len(), format.fixed_size);
    for (field, register) in format.fields.iter().zip(registers::ARGUMENTS) {
        let value = crate::base::event::value::Value::Int(register.into());
        assert_eq!(field.read(&block), Ok(value), "{}", field.name);
    }
    assert_eq!(super::format(ProbeKind::Kretprobe).fixed_size, 8);
}

/// Finds every function except `nothing`.
struct Anything;

impl SymbolFinder for Anything {
    fn symbol(&self, _: Option<&str>, name: &str) -> Result<FoundSymbol> {
        bail!("there is no '{name}'")
    }

    fn symbols(&self, _: Option<&str>, _: &dyn Fn(&str) -> bool, _: usize) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

impl Functions for Anything {
    fn find(&self, named: &FunctionName) -> Result<FunctionLocation> {
        match &*named.function {
            "nothing" => bail!("it does not exist"),
            name => Ok(FunctionLocation::Kernel(std::ffi::CString::new(name)?)),
        }
    }

    fn names(
        &self,
        _: Option<&str>,
        wanted: &dyn Fn(&str) -> bool,
        _: usize,
    ) -> Result<Vec<String>> {
        let all = ["vfs_read", "vfs_read.cold", "vfs_write", "other"].into_iter();
        Ok(all.filter(|name| wanted(name)).map(str::to_owned).collect())
    }
}

fn pmus(path: &str) -> std::io::Result<String> {
    match path {
        "kprobe/type" => Ok("6\n".to_owned()),
        "kprobe/format/retprobe" => Ok("config:3\n".to_owned()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    }
}

fn described(name: &str) -> Result<FunctionEvent> {
    describe(&FunctionName::parse(name).unwrap(), &Anything, &pmus)
}

#[test]
fn a_function_is_a_probe_at_its_call_or_return() {
    for (name, at_return) in [("kprobe:f", false), ("kretprobe:f", true)] {
        let event = described(name).unwrap();
        let place = ProbePoint { place: c"f", offset: None, at_return };
        assert_eq!(event.probe(), Some(place), "{name}");
        assert_eq!(event.attr().type_, abi::PERF_TYPE_TRACEPOINT);
    }
}

#[test]
fn errors_begin_with_the_name_of_the_event() {
    let refusal = |name: &str| described(name).unwrap_err().to_string();
    assert_eq!(refusal("kprobe:nothing"), "kprobe:nothing: it does not exist");
    assert_eq!(refusal("kprobe:"), "kprobe:: incomplete name; write kprobe:FUNCTION");
    assert!(refusal("uprobe::f").ends_with("write uprobe:FILE:FUNCTION"));
    assert_eq!(
        refusal("uprobe:x:f"),
        "uprobe:x:f: this kernel has no PMU 'uprobe' (CONFIG_UPROBE_EVENTS, since 4.17); \
         use a kernel that has it"
    );
}

#[test]
fn a_glob_matches_split_off_parts_only_if_it_has_a_dot() {
    let matching = |name: &str| {
        let found = matching(&FunctionName::parse(name).unwrap(), &Anything, 9).unwrap();
        found.iter().map(FunctionName::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(matching("kprobe:vfs_*"), "kprobe:vfs_read kprobe:vfs_write");
    assert_eq!(matching("kretprobe:*.cold"), "kretprobe:vfs_read.cold");
}
