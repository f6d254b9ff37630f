//! Parameters of functions with types that a table lists.

use super::*;
use crate::decode::ctypes::{BitField, FunctionParameter, ParameterLocation, TypeMember};

/// Types by their index.
struct Listed(Vec<(TypeShape<usize>, Vec<TypeMember<usize>>)>);

impl TypeTable for Listed {
    type Id = usize;

    fn shape(&self, id: usize) -> Option<TypeShape<usize>> {
        Some(self.0.get(id)?.0)
    }

    fn members(&self, id: usize) -> Vec<TypeMember<usize>> {
        self.0.get(id).map(|(_, members)| members.clone()).unwrap_or_default()
    }
}

const INT: usize = 0;
const CHAR: usize = 1;
const TEXT: usize = 2;
const FLOAT: usize = 3;
const USER: usize = 4;
const USER_POINTER: usize = 5;
const REQUEST: usize = 6;
const REQUEST_POINTER: usize = 7;
const NAME: usize = 8;
const VOID_POINTER: usize = 9;
const UNSIGNED: usize = 10;

fn types() -> Listed {
    let member =
        |name: &str, offset, type_| TypeMember { name: name.to_owned(), offset, type_, bits: None };
    let bits = |name: &str, start, width, type_| TypeMember {
        bits: Some(BitField { start, width }),
        ..member(name, start / 8, type_)
    };
    let user = vec![member("id", 0, INT), member("name", 4, NAME), member("shell", 16, TEXT)];
    let request = vec![
        member("len", 8, INT),
        member("user", 16, USER_POINTER),
        member("", 24, USER),
        bits("bits", 480, Some(3), INT),
        bits("mode", 483, Some(7), UNSIGNED),
        bits("wide", 493, Some(60), UNSIGNED),
        bits("old", 0, None, UNSIGNED),
    ];
    Listed(vec![
        (TypeShape::Int { size: 4, signed: true }, vec![]),
        (TypeShape::Char { signed: true }, vec![]),
        (TypeShape::Pointer(Some(CHAR)), vec![]),
        (TypeShape::Float, vec![]),
        (TypeShape::Struct, user),
        (TypeShape::Pointer(Some(USER)), vec![]),
        (TypeShape::Struct, request),
        (TypeShape::Pointer(Some(REQUEST)), vec![]),
        (TypeShape::Array(CHAR), vec![]),
        (TypeShape::Pointer(None), vec![]),
        (TypeShape::Int { size: 4, signed: false }, vec![]),
    ])
}

fn prototype(parameters: &[(&str, usize)], result: Option<usize>) -> Prototype<usize> {
    let located: Vec<_> =
        parameters.iter().map(|(name, id)| (*name, *id, ParameterLocation::ByPosition)).collect();
    located_prototype(&located, result)
}

fn located_prototype(
    parameters: &[(&str, usize, ParameterLocation)],
    result: Option<usize>,
) -> Prototype<usize> {
    let parameter = |(name, type_, location): &(&str, _, _)| FunctionParameter {
        name: (*name).to_owned(),
        type_: *type_,
        location: *location,
    };
    Prototype { parameters: parameters.iter().map(parameter).collect(), result }
}

fn register(index: usize) -> &'static str {
    argument_registers().nth(index).unwrap()
}

fn notes(typed: &TypedParameters) -> Vec<String> {
    let note = |one: &OmittedField| format!("{} is omitted: it {}", one.name, one.why);
    typed.omitted.iter().map(note).collect()
}

#[test]
fn each_integer_and_pointer_is_in_the_next_register() {
    let prototype = prototype(
        &[("fd", INT), ("ratio", FLOAT), ("path", TEXT), ("req", REQUEST_POINTER)],
        Some(INT),
    );
    let typed = TypedParameters::all(&types(), &prototype, "open_it").with_registers();
    let expected = format!("fd=%{}:s32 req=%{}:x64 ", register(0), register(2));
    assert!(typed.arguments.starts_with(&expected), "{}", typed.arguments);
    assert_eq!(typed.fields.len(), 2 + 6);
    assert_eq!(
        notes(&typed),
        [
            "ratio is omitted: it is a floating-point number, which a probe cannot read",
            "path is omitted: it is text; write open_it(path) to read it"
        ]
    );
}

#[test]
fn registers_that_are_not_known_are_not_used() {
    let omitted = |parameters: &[(&str, usize)], result| {
        let typed = TypedParameters::all(&types(), &prototype(parameters, result), "f");
        let typed = typed.with_registers();
        (typed.fields.len(), notes(&typed).join("; "))
    };
    let (fields, text) = omitted(&[("a", INT), ("user", USER), ("b", INT)], None);
    assert_eq!(fields, 1 + 6);
    assert!(text.contains("b is omitted: it follows a structure, so its register is"), "{text}");
    let (fields, text) = omitted(&[("a", INT)], Some(USER));
    assert_eq!(fields, 0);
    assert!(text.contains("a is omitted: it belongs to a function that returns a st"), "{text}");
    let seven: Vec<_> = ["a", "b", "c", "d", "e", "f", "g"].map(|name| (name, INT)).to_vec();
    let (fields, text) = omitted(&seven, None);
    assert_eq!(fields, 6 + 6);
    assert!(text.starts_with("g is omitted: it is on the stack at a place that is not"), "{text}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_place_of_the_debug_information_has_precedence_over_the_position() {
    use ParameterLocation::{ByPosition, CallerFrame, Constant, Memory, Register, Unknown};
    let prototype = located_prototype(
        &[
            ("gone", INT, Unknown("was optimized out")),
            ("second", INT, Register(4)),
            ("five", INT, Constant(-5)),
            ("pair", USER, Memory { register: 5, offset: -8 }),
            ("last", INT, ByPosition),
            ("seventh", REQUEST_POINTER, CallerFrame(8)),
            ("wide", USER, Register(5)),
            ("kept", INT, Register(3)),
            ("ratio", FLOAT, Register(17)),
        ],
        None,
    );
    let read = |path: &str| {
        TypedParameters::at_paths(&types(), &prototype, &[path])
            .map(|typed| typed.arguments)
            .map_err(|why| why.to_string())
    };
    for (path, expected) in [
        ("second", "second=%si:s32"),
        ("five", "five=\\-5:s32"),
        ("n = second", "n=%si:s32"),
        ("id=pair.id", "id=-8(%di):s32"),
        ("pair.id", "pair_id=-8(%di):s32"),
        ("pair.name", "pair_name=-4(%di):string"),
        ("seventh", "seventh=+16(%sp):x64"),
        (
            "seventh.user.id",
            "seventh=+16(%sp):x64 seventh_user=+16(+16(%sp)):x64 \
             seventh_user_id=+0(+16(+16(%sp))):s32",
        ),
    ] {
        assert_eq!(read(path).as_deref(), Ok(expected), "{path}");
    }
    for (path, why) in [
        ("gone", "'gone' was optimized out"),
        ("last", "'last' follows a structure, so its register is not known"),
        ("wide", "'wide' is a structure in a register"),
        ("kept", "'kept' is in a register that does not pass"),
        ("ratio", "'ratio' is a floating-point number"),
        ("pair", "'pair' is a structure; name a member"),
        ("a b=second", "'a b' cannot be a field"),
        ("=second", "'' cannot be a field"),
    ] {
        let refused = read(path).unwrap_err();
        assert!(refused.starts_with(why), "{path}: {refused}");
    }
    let known = names_behind(&types(), &prototype, &[]);
    assert_eq!(known, ["second", "five", "pair", "seventh"], "the others are refused");
}

#[test]
fn a_path_leads_through_pointers_and_structures() {
    let prototype = prototype(&[("req", REQUEST_POINTER), ("any", VOID_POINTER)], None);
    let read = |path: &str| {
        TypedParameters::at_paths(&types(), &prototype, &[path])
            .map(|typed| typed.arguments)
            .map_err(|why| why.to_string())
    };
    let first = register(0);
    for (path, expected) in [
        ("req", format!("req=%{first}:x64")),
        ("req.len", format!("req=%{first}:x64 req_len=+8(%{first}):s32")),
        (
            "req.user.id",
            format!(
                "req=%{first}:x64 req_user=+16(%{first}):x64 req_user_id=+0(+16(%{first})):s32"
            ),
        ),
        ("req.user.name", format!("req_user_name=+4(+16(%{first})):string")),
        ("req.user.shell", format!("req_user_shell=+0(+16(+16(%{first}))):string")),
        ("req.shell", format!("req_shell=+0(+40(%{first})):string")),
        ("req.mode", format!("req=%{first}:x64 req_mode=+60(%{first}):b7@3/16")),
    ] {
        assert_eq!(read(path), Ok(expected), "{path}");
    }
    for (path, why) in [
        ("reg", "it has no parameter 'reg'; did you mean 'req'?"),
        ("req.lem", "'req.lem' has no member 'lem'; did you mean 'len'?"),
        ("req.len.x", "'req.len.x' has no member 'x': it is not a structure behind 'len'"),
        (
            "req.bits",
            "'req.bits' is a bit field with a sign at 'bits', which the kernel does not extend",
        ),
        ("req.mode.x", "'req.mode.x' has no members behind 'mode', a bit field"),
        ("req.wide", "'req.wide' is a bit field in more than 8 bytes"),
        ("req.old", "'req.old' is a bit field in a form of debug information before DWARF 4"),
        ("any.x", "'any.x' has no member 'x': it is not a structure"),
        ("", "it has no parameter ''; it has req, any"),
    ] {
        assert_eq!(read(path), Err(why.to_owned()), "{path}");
    }
}

#[test]
fn a_pointer_of_a_path_is_one_field() {
    let prototype = prototype(&[("req", REQUEST_POINTER)], None);
    let names = |paths: &[&str]| {
        let typed = TypedParameters::at_paths(&types(), &prototype, paths);
        typed
            .map(|typed| typed.fields.into_iter().map(|one| one.name).collect::<Vec<_>>().join(" "))
    };
    let all = names(&["req.len", "req.user.id", "req.mode"]).unwrap();
    assert_eq!(all, "req req_len req_user req_user_id req_mode");
    assert_eq!(names(&["req.len", "req"]).unwrap(), "req req_len", "it is requested as well");
    assert_eq!(names(&["req", "req.len"]).unwrap(), "req req_len");
    // The parameter has the name that the pointer would have.
    let prototype = self::prototype(&[("req", REQUEST_POINTER), ("req_user", INT)], None);
    let typed = TypedParameters::at_paths(&types(), &prototype, &["req.user.id", "req_user"]);
    let fields: Vec<_> = typed.unwrap().fields.into_iter().map(|field| field.name).collect();
    assert_eq!(fields, ["req", "pointer1", "req_user_id", "req_user"]);
    assert!(names(&["req", "req"]).unwrap_err().to_string().contains("is there twice"));
}

#[test]
fn a_number_names_the_pointers_that_lead_to_it() {
    let prototype = prototype(&[("req", REQUEST_POINTER)], None);
    let behind = |paths: &[&str]| {
        let typed = TypedParameters::at_paths(&types(), &prototype, paths).unwrap();
        let last = typed.fields.last().expect("a field");
        last.behind.join(" ")
    };
    assert_eq!(behind(&["req.user.id"]), "req req_user");
    assert_eq!(behind(&["req", "req.user.id"]), "req req_user");
    assert_eq!(behind(&["req.user.id", "req.user", "req.len"]), "req");
    assert_eq!(behind(&["req.user.name"]), "", "the kernel marks text itself");
    assert_eq!(behind(&["req.user.id", "req"]), "req req_user", "it is there already");
}

#[test]
fn a_field_has_a_name_that_the_kernel_accepts() {
    for (name, accepted) in [("len", true), ("_x9", true), ("9x", false), ("a-b", false)] {
        assert_eq!(is_field_name(name), accepted, "{name}");
    }
    assert!(!is_field_name("common_pid") && !is_field_name("") && !is_field_name(&"x".repeat(32)));
}

#[test]
fn registers_and_their_text_need_no_types() {
    let typed =
        TypedParameters::of_registers(&["arg1.text", "arg3"]).expect("two registers").unwrap();
    let names: Vec<&str> = typed.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["arg1_text", "arg3"]);
    if cfg!(target_arch = "x86_64") {
        assert_eq!(typed.arguments, "arg1_text=+0(%di):string arg3=%dx:s64");
    }
    for path in ["len", "arg0", "arg7", "arg1.name", "arg1.text.text", "arg"] {
        assert!(TypedParameters::of_registers(&[path]).is_none(), "{path}");
    }
    let twice = TypedParameters::of_registers(&["arg1", "arg1"]).expect("registers").unwrap_err();
    assert_eq!(twice.to_string(), "'arg1' is there twice");
}

#[test]
fn names_of_parameters_and_members_continue_a_path() {
    let prototype = prototype(&[("req", REQUEST_POINTER), ("user", USER), ("len", INT)], None);
    let behind = |path: &[&str]| names_behind(&types(), &prototype, path);
    assert_eq!(behind(&[]), ["req"], "the places of the others are not known");
    assert_eq!(behind(&["req", "user"]), ["id", "name", "shell"]);
    let of_request = behind(&["req"]);
    assert!(of_request.contains(&"mode".to_owned()), "{of_request:?}");
    assert!(of_request.contains(&"shell".to_owned()), "of an anonymous member: {of_request:?}");
    for path in [&["len"][..], &["user"], &["nothing"], &["req", "nothing"], &["req", "len"]] {
        assert_eq!(behind(path), [""; 0], "{path:?}");
    }
    assert_eq!(register_names(&[]).len(), registers::ARGUMENTS.len());
    assert_eq!(register_names(&["arg1"]), ["text"]);
    assert_eq!(register_names(&["req"]), [""; 0]);
}

#[test]
fn values_that_the_kernel_finds_have_no_registers() {
    use ParameterLocation::{Argument, Named};
    let located = located_prototype(
        &[
            ("retval", INT, Named),
            ("req", REQUEST_POINTER, Argument),
            ("pair", USER, Argument),
            ("last", INT, Argument),
        ],
        None,
    );
    let all = TypedParameters::all(&types(), &located, "f");
    assert_eq!(all.arguments, "retval=$retval:s32 req=$arg1:x64");
    assert_eq!(
        notes(&all),
        [
            "pair is omitted: it is a structure or has another type that is not in one register; \
             read arg1 to arg6",
            "last is omitted: it follows a structure, so its register is not known; build with -g \
             -O2, which describes it, or read arg1 to arg6"
        ]
    );
    let read = |path| TypedParameters::at_paths(&types(), &located, &[path]);
    let behind = read("id=req.user.id").unwrap().arguments;
    assert!(behind.starts_with("req=$arg1:x64 ") && behind.ends_with("($arg1)):s32"), "{behind}");
    assert_eq!(read("n=arg3").unwrap().arguments, "n=$arg3:s64");
    assert_eq!(read("arg3.text").unwrap().arguments, "arg3_text=+0($arg3):string");
    assert!(read("arg7").unwrap_err().to_string().contains("no parameter 'arg7'; it has retval"));
    let twice = TypedParameters::at_paths(&types(), &located, &["req.user.id", "req=req"]);
    assert!(twice.unwrap().arguments.starts_with("req=$arg1:x64 req_user="));
}
