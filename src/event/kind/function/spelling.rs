//! Spellings of perf and bpftrace in the name of a function, and what to write instead.

use super::named::{FunctionName, ProbeKind};
use super::typed::ListedPath;

/// Functions of bpftrace that read text.
const TEXT_CALLS: [&str; 4] = ["str(", "kstr(", "ustr(", "buf("];

/// Returns what to write instead of a spelling of perf or bpftrace in a name, as a sentence; None
/// if it has none. Types of C++ look like some of them, so this explains only a name that was not
/// found.
pub(super) fn instead(named: &FunctionName) -> Option<String> {
    if let Some((function, _)) = named.function.split_once("%return") {
        let name = at_return(named, function);
        return Some(format!("`%return` is not part of a name; write {name}"));
    }
    let (function, list) = named.function.split_once('(')?;
    let list = list.strip_suffix(')').unwrap_or(list);
    let mut paths = list.split(',').map(|item| ListedPath::parse(item).path);
    paths.find_map(|path| match path {
        "retval" if !named.kind.at_return() => {
            Some(format!("a call has no retval yet; write {}", at_return(named, function)))
        }
        _ => path_instead(path),
    })
}

/// Returns the name of the return of a function.
fn at_return(named: &FunctionName, function: &str) -> FunctionName {
    let kind = match named.kind {
        ProbeKind::Kprobe => ProbeKind::Kretprobe,
        ProbeKind::Uprobe => ProbeKind::Uretprobe,
        ProbeKind::Fprobe => ProbeKind::Fretprobe,
        other => other,
    };
    FunctionName { kind, ..named.with(function) }
}

/// Returns what to write instead of a path of a value.
fn path_instead(path: &str) -> Option<String> {
    let is_name = |text: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
        !text.is_empty() && text.bytes().all(is_part)
    };
    if let Some(inside) = TEXT_CALLS.iter().find_map(|call| path.strip_prefix(call)) {
        let inside = member_path(inside.trim_end_matches(')'));
        return Some(match numbered(&inside) {
            Some(number) => {
                format!("text is read without a function; write arg{}.text", number + 1)
            }
            None => format!(
                "text is read without a function; write {inside} for a `char *`, and {inside}.text \
                 for another pointer"
            ),
        });
    }
    if path.starts_with("args->") || path.starts_with("args.") {
        return Some(format!("a parameter has its own name; write {}", member_path(path)));
    }
    if path.contains("->") {
        let path = member_path(path);
        return Some(format!("`.` leads to a member, also behind a pointer; write {path}"));
    }
    if let Some(name) = path.strip_prefix(['*', '&']) {
        return Some(format!(
            "a value is read as it is; write {name}, or {name}.MEMBER for a member behind a pointer"
        ));
    }
    if let Some((_, name)) = path.strip_prefix('(').and_then(|rest| rest.rsplit_once(')'))
        && is_name(name)
    {
        return Some(format!("a value has the type of its parameter; write {name}"));
    }
    if let Some((name, _)) = path.split_once('[').filter(|(name, _)| is_name(name)) {
        return Some(format!("elements of arrays are not read; write {name} if it is a pointer"));
    }
    if let Some((name, type_)) = path.split_once(':')
        && is_name(name)
        && is_name(type_)
    {
        return Some(format!("a value has the type of its parameter; write {name}"));
    }
    (path == "arg0").then(|| "arguments are numbered from 1; write arg1 for the first".to_owned())
}

/// Returns a path of bpftrace in perilune's spelling.
fn member_path(path: &str) -> String {
    let own = path.strip_prefix("args->").or_else(|| path.strip_prefix("args."));
    own.unwrap_or(path).replace("->", ".")
}

/// Returns the number of an argument of bpftrace, whose first one is `arg0`.
fn numbered(path: &str) -> Option<u8> {
    path.strip_prefix("arg")?.parse().ok().filter(|number| *number < u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Option<String> {
        instead(&FunctionName::parse(name).unwrap())
    }

    #[test]
    fn a_spelling_of_perf_or_bpftrace_has_a_replacement() {
        for (name, end) in [
            ("uprobe:./x:f%return", "write uretprobe:./x:f"),
            ("kprobe:f%return", "write kretprobe:f"),
            ("uprobe:./x:f(n, retval)", "write uretprobe:./x:f"),
            ("uprobe:./x:f(str(s))", "write s for a `char *`, and s.text for another pointer"),
            (
                "uprobe:./x:f(n, p=str(r->path, 16))",
                "write r.path for a `char *`, and r.path.text for another pointer",
            ),
            (
                "uprobe:./x:f(str(args->path))",
                "write path for a `char *`, and path.text for another pointer",
            ),
            ("uprobe:./x:f(str(arg0))", "write arg1.text"),
            ("tprobe:f(args->n)", "write n"),
            ("uprobe:./x:f(r.in->path)", "write r.in.path"),
            ("uprobe:./x:f(*argv)", "write argv, or argv.MEMBER for a member behind a pointer"),
            ("uprobe:./x:f((int)n)", "write n"),
            ("uprobe:./x:f(n, argv[0])", "write argv if it is a pointer"),
            ("uprobe:./x:f(s:string)", "write s"),
            ("usdt:./x:p:n(arg0)", "write arg1 for the first"),
        ] {
            let found = of(name).unwrap_or_else(|| panic!("{name}"));
            assert!(found.ends_with(&format!("; {end}")), "{name}: {found}");
        }
        assert_eq!(of("fretprobe:f(retval)"), None);
    }

    #[test]
    fn a_name_of_cpp_has_no_other_spelling() {
        for function in [
            "f",
            "f(n, r.path)",
            "f(char const*, std::string const&)",
            "f(int (*)(int), int (&) [3])",
            "f((anonymous namespace)::Foo)",
            "operator->()",
            "operator()(int) const",
            "v<int>::operator[](unsigned long)",
        ] {
            assert_eq!(of(&format!("uprobe:./x:{function}")), None, "{function}");
        }
    }
}
