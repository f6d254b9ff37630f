//! Names of functions, and the layout of their registers.

use super::*;
use crate::event::kind::breakpoint::FoundSymbol;
use crate::sys::dynamic_event::ProbeSite;
use crate::sys::probe_type::ProbeType;

#[test]
fn a_name_is_parsed_and_printed() {
    for (name, kind, file, function) in [
        ("kprobe:vfs_read", ProbeKind::Kprobe, None, "vfs_read"),
        ("kretprobe:up", ProbeKind::Kretprobe, None, "up"),
        ("tprobe:sys_enter(id)", ProbeKind::Tprobe, None, "sys_enter(id)"),
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
    let usdt = FunctionName::parse("usdt:./app:shop:sale").unwrap();
    assert_eq!((usdt.kind, &*usdt.function), (ProbeKind::Usdt, "shop:sale"));
    assert_eq!(usdt.to_string(), "usdt:./app:shop:sale");
}

#[test]
fn a_function_may_have_an_offset_and_a_file_an_address() {
    for (name, location) in [
        ("kprobe:f+4", CodeLocation::Function("f", 4)),
        ("kprobe:f+0x1f", CodeLocation::Function("f", 0x1f)),
        ("uprobe:x:ns::f+0", CodeLocation::Function("ns::f", 0)),
        ("uprobe:x:operator+", CodeLocation::Function("operator+", 0)),
        ("uprobe:x:f++4", CodeLocation::Function("f+", 4)),
        ("uprobe:x:f+-4", CodeLocation::Function("f+-4", 0)),
        ("uprobe:x:0x1139", CodeLocation::Address(0x1139)),
        ("uprobe:x:0xhuge", CodeLocation::Function("0xhuge", 0)),
        ("kprobe:0x1139", CodeLocation::Function("0x1139", 0)),
        ("kprobe:f(a, b.c)", CodeLocation::Function("f", 0)),
        ("uprobe:x:main.(*T).M", CodeLocation::Function("main.(*T).M", 0)),
    ] {
        assert_eq!(FunctionName::parse(name).unwrap().location(), location, "{name}");
    }
    let paths = |name: &str| FunctionName::parse(name).unwrap().paths().map(|all| all.join(" "));
    assert_eq!(paths("kprobe:f(a, b.c)").as_deref(), Some("a b.c"));
    assert_eq!(paths("kprobe:f()").as_deref(), Some(""));
    assert_eq!(paths("uprobe:x:main.(*T).M"), None);
}

#[test]
fn a_function_before_its_file_is_refused_with_the_right_order() {
    let fault = |text: &str| {
        let prefix = PREFIXES.iter().find(|prefix| prefix.behind(text).is_some()).unwrap();
        (prefix.extent)(prefix.behind(text).unwrap()).unwrap_err()
    };
    let why = "the FILE precedes the function: uprobe:/usr/bin/bash:readline";
    for text in ["uprobe:readline@/usr/bin/bash", "uprobe:readline@\"/usr/bin/bash\""] {
        let fault = fault(text);
        assert_eq!((&*fault.message, fault.at), (why, "readline".len()), "{text}");
    }
    assert!(fault("uprobe:readline").message.starts_with("the function is missing here"));
}

#[test]
fn a_name_of_a_value_does_not_begin_with_an_underscore() {
    let refusal = |name: &str| {
        describe(&FunctionName::parse(name).unwrap(), &Anything, &|_| Ok("1\n".to_owned()))
            .unwrap_err()
            .to_string()
    };
    for name in
        ["uprobe:./x:f(n, _x=arg1)", "usdt:./x:p:n(_x = arg1)", "tprobe:f(_x=n)", "kprobe:f(_x=n)"]
    {
        assert_eq!(
            refusal(name),
            format!(
                "{name}: '_x': names that begin with `_` are fields of every sample; use another \
                 one"
            )
        );
    }
    assert_eq!(
        refusal("uprobe:./x:nothing(r->path)"),
        "uprobe:./x:nothing(r->path): `.` leads to a member, also behind a pointer; write r.path"
    );
}

#[test]
fn each_argument_is_read_from_its_register_in_the_block() {
    let format = format(ProbeKind::Uprobe, &ProbeValues::Call);
    // The kernel writes the lowest register first; here each value is its register's number.
    let order = bits(registers_of(ProbeKind::Uprobe, &ProbeValues::Call).unwrap());
    let block: Vec<u8> = (0..64_u64)
        .filter(|register| order >> register & 1 == 1)
        .flat_map(u64::to_ne_bytes)
        .collect();
    assert_eq!(block.len(), format.fixed_size);
    for (field, register) in format.fields.iter().zip(registers::ARGUMENTS) {
        let value = crate::base::event::value::Value::Int(register.into());
        assert_eq!(field.read(&block), Ok(value), "{}", field.name);
    }
    assert_eq!(super::format(ProbeKind::Kretprobe, &ProbeValues::Call).fixed_size, 8);
    let all = super::format(ProbeKind::Kprobe, &ProbeValues::Registers);
    assert_eq!(all.fixed_size, 8 * registers::GENERAL.len());
}

/// Finds every function except `nothing`.
struct Anything;

impl SymbolFinder for Anything {
    fn symbol(&self, _: Option<&str>, name: &str) -> Result<FoundSymbol> {
        bail!("there is no '{name}'")
    }

    fn check_instruction(&self, _: &str, _: &str, _: u64) -> Result<()> {
        Ok(())
    }

    fn symbols(&self, _: Option<&str>, _: &dyn Fn(&str) -> bool, _: usize) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

impl Functions for Anything {
    fn find(&self, named: &FunctionName) -> Result<FunctionLocation> {
        match named.location() {
            CodeLocation::Function("nothing", _) => bail!("it does not exist"),
            CodeLocation::Function(name, offset) => {
                Ok(FunctionLocation::in_kernel(std::ffi::CString::new(name)?, offset))
            }
            CodeLocation::Address(_) => bail!("it is not a function"),
        }
    }

    fn names(
        &self,
        _: &FunctionName,
        wanted: &dyn Fn(&str) -> bool,
        _: usize,
    ) -> Result<Vec<String>> {
        let all = ["vfs_read", "vfs_read.cold", "vfs_write", "other"].into_iter();
        Ok(all.filter(|name| wanted(name)).map(str::to_owned).collect())
    }

    fn parameters(&self, _: &FunctionName, _: &[&str]) -> Vec<String> {
        Vec::new()
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
        let sites = &[ProbeSite::default()];
        let place = ProbePoint { type_: ProbeType::Kprobe, place: c"f", at_return, sites };
        assert_eq!(event.probe(), Some(place), "{name}");
        assert_eq!(event.attr().type_, abi::PERF_TYPE_TRACEPOINT);
    }
}

#[test]
fn a_probe_inside_a_function_has_all_registers() {
    let event = described("kprobe:f+4").unwrap();
    assert_eq!(event.format.fields.len(), registers::GENERAL.len());
    assert_eq!(event.probe().unwrap().sites[0].offset, 4);
    assert!(event.format.field("arg1").is_none());
    let refused = described("kretprobe:f+4").unwrap_err().to_string();
    assert_eq!(refused, "kretprobe:f+4: a return has no offset in the function; omit it");
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
fn a_glob_with_a_list_of_parameters_is_refused() {
    let found = |name: &str| matching(&FunctionName::parse(name).unwrap(), &Anything, 9);
    assert_eq!(
        found("kprobe:vfs_*(count)").unwrap_err().to_string(),
        "kprobe:vfs_*(count): a glob has no list of parameters: name one function, or omit the \
         parentheses"
    );
    assert!(found("kprobe:nothing(count)").unwrap().is_empty(), "it is not a glob");
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
