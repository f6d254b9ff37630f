//! Names of functions, and the layout of their registers.

use super::*;

#[test]
fn a_name_is_parsed_and_printed() {
    for (name, kind, file, function) in [
        ("kprobe:vfs_read", Kind::Kprobe, None, "vfs_read"),
        ("kretprobe:up", Kind::Kretprobe, None, "up"),
        ("uprobe:/usr/bin/bash:readline", Kind::Uprobe, Some("/usr/bin/bash"), "readline"),
        ("uretprobe:bash:readline", Kind::Uretprobe, Some("bash"), "readline"),
        ("uprobe:\"/a:b, c\":f", Kind::Uprobe, Some("/a:b, c"), "f"),
        ("uprobe:'/a\"b':f", Kind::Uprobe, Some("/a\"b"), "f"),
        ("uprobe:./x:ns::f", Kind::Uprobe, Some("./x"), "ns::f"),
        ("uprobe:x:", Kind::Uprobe, Some("x"), ""),
    ] {
        let named = Named::parse(name).unwrap();
        let wanted = Named { kind, file: file.map(str::to_owned), function: function.to_owned() };
        assert_eq!(named, wanted);
        assert_eq!(named.to_string(), name);
    }
    assert_eq!(
        Named::parse("uprobe:\"/usr/bin/bash\":f").unwrap().to_string(),
        "uprobe:/usr/bin/bash:f"
    );
    for other in ["kprobes:x", "uprobes:y", "sched:kprobe", "cycles:u", "kprobe", "uprobe"] {
        assert_eq!(Named::parse(other), None, "{other}");
    }
}

#[test]
fn each_argument_is_read_where_its_register_lies_in_the_block() {
    let format = format(Kind::Uprobe);
    // The kernel writes the lowest register first; here each word is its register's number.
    let order = bits(held_by(Kind::Uprobe));
    let block: Vec<u8> = (0..64_u64)
        .filter(|register| order >> register & 1 == 1)
        .flat_map(u64::to_ne_bytes)
        .collect();
    assert_eq!(block.len(), format.fixed_size);
    for (field, register) in format.fields.iter().zip(registers::ARGUMENTS) {
        let value = crate::base::value::Value::Int(register.into());
        assert_eq!(field.read(&block), Ok(value), "{}", field.name);
    }
    assert_eq!(super::format(Kind::Kretprobe).fixed_size, 8);
}

/// Finds anything but `nothing`.
struct Anything;

impl Functions for Anything {
    fn find(&self, named: &Named) -> Result<Place> {
        match &*named.function {
            "nothing" => bail!("there is none"),
            name => Ok(Place::Kernel(std::ffi::CString::new(name)?)),
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

fn described(name: &str) -> Result<Event> {
    describe(&Named::parse(name).unwrap(), &Anything, &pmus)
}

#[test]
fn the_machine_tells_the_pmu_and_the_bit_of_returns() {
    for (name, config) in [("kprobe:f", 0), ("kretprobe:f", 8)] {
        let What::Function(function) = described(name).unwrap().what else { unreachable!() };
        assert_eq!((function.counter.type_, function.counter.config), (6, config), "{name}");
    }
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let refusal = |name: &str| described(name).unwrap_err().to_string();
    assert_eq!(refusal("kprobe:nothing"), "kprobe:nothing: there is none");
    assert_eq!(
        refusal("kprobe:"),
        "kprobe:: what is to be watched is missing; write kprobe:FUNCTION"
    );
    assert!(refusal("uprobe::f").ends_with("write uprobe:FILE:FUNCTION"));
    assert_eq!(
        refusal("uprobe:x:f"),
        "uprobe:x:f: this kernel has no PMU 'uprobe' (CONFIG_UPROBE_EVENTS, since 4.17); take a kernel that has it"
    );
}

#[test]
fn a_glob_means_functions_and_their_parts_only_with_a_dot() {
    let matching = |name: &str| {
        let found = matching(&Named::parse(name).unwrap(), &Anything, 9).unwrap();
        found.iter().map(Named::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(matching("kprobe:vfs_*"), "kprobe:vfs_read kprobe:vfs_write");
    assert_eq!(matching("kretprobe:*.cold"), "kretprobe:vfs_read.cold");
}
