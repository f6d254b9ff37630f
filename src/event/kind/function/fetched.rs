//! Values that the kernel reads when a probe is hit, and writes into the record of its event
//! (fetch arguments, Documentation/trace/kprobetrace.rst).

use anyhow::{Context as _, Result, bail};

use super::named::ProbeKind;
use crate::decode::ctypes::RESULT;
use crate::decode::format::{COMMON_SIZE, Element, Field, FieldKind, Format, common_fields};
use crate::decode::unset::{NumberBehindPointers, UnsetValues};

/// A value in the record of a function event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedArgument {
    /// Name of its field.
    pub name: String,
    /// Its type.
    pub value: FetchedType,
    /// The fields in front of it with the pointers that the kernel follows to a number.
    pub behind: Vec<String>,
}

/// Type of a value that the kernel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchedType {
    /// An integer with its size in bytes: 1, 2, 4 or 8.
    Int {
        /// Size in bytes.
        size: u8,
        /// Whether it is signed.
        signed: bool,
    },
    /// An unsigned bit field.
    Bits {
        /// Number of bits.
        width: u32,
        /// Its first bit in the integer that contains it; bit 0 is the least significant one.
        shift: u32,
        /// Size of that integer in bytes: 1, 2, 4 or 8.
        size: u8,
    },
    /// An address.
    Pointer,
    /// Text up to its NUL, of at most 4096 bytes.
    Text,
    /// A register as it is.
    Register,
    /// A register as it is, beside parameters that have the same values: it is not printed.
    BesideParameters,
}

impl FetchedType {
    /// Returns its name in a fetch argument.
    pub fn kernel_name(self) -> String {
        match self {
            FetchedType::Int { size, signed } => {
                format!("{}{}", if signed { 's' } else { 'u' }, u32::from(size) * 8)
            }
            FetchedType::Bits { width, shift, size } => {
                format!("b{width}@{shift}/{}", u32::from(size) * 8)
            }
            FetchedType::Pointer => "x64".to_owned(),
            FetchedType::Text => "string".to_owned(),
            FetchedType::Register | FetchedType::BesideParameters => "s64".to_owned(),
        }
    }

    /// Returns how a field of this type is printed: conversion and value.
    fn printed(self, name: &str) -> (String, String) {
        let conversion = match self.container() {
            FetchedType::Int { size: 8, signed: true } => "%Ld",
            FetchedType::Int { size: 8, signed: false } => "%Lu",
            FetchedType::Int { signed: true, .. } => "%d",
            FetchedType::Int { signed: false, .. } | FetchedType::Bits { .. } => "%u",
            FetchedType::Pointer | FetchedType::Register | FetchedType::BesideParameters => "0x%Lx",
            FetchedType::Text => {
                return (r#"\"%s\""#.to_owned(), format!("__get_str({name})"));
            }
        };
        (conversion.to_owned(), format!("REC->{name}"))
    }

    /// Returns the type of its field: the kernel writes a bit field as an integer.
    fn container(self) -> FetchedType {
        match self {
            FetchedType::Bits { size, .. } => FetchedType::Int { size, signed: false },
            other => other,
        }
    }

    fn field(self, name: &str, offset: usize) -> Field {
        let of = |type_text: &str, size, signed, kind| Field {
            kind,
            ..field(name, type_text.to_owned(), offset, size, signed)
        };
        match self.container() {
            one @ (FetchedType::Int { size, .. } | FetchedType::Bits { size, .. }) => {
                let signed = matches!(one, FetchedType::Int { signed: true, .. });
                of(&one.kernel_name(), size.into(), signed, FieldKind::Int)
            }
            FetchedType::Pointer => of("void *", 8, false, FieldKind::Pointer),
            FetchedType::Text => {
                of("__data_loc char[]", 4, true, FieldKind::DataLoc(Element::Fetched))
            }
            FetchedType::Register | FetchedType::BesideParameters => {
                of("long", 8, true, FieldKind::Int)
            }
        }
    }
}

/// Returns the layout of the record of a probe with these values. The kernel writes them behind the
/// common fields and the addresses of the probe, without padding
/// (`traceprobe_parse_probe_arg_body()` in kernel/trace/trace_probe.c). In a probe of a program,
/// the kernel itself clears a number whose last pointer it cannot follow.
pub fn record_format(kind: ProbeKind, arguments: &[FetchedArgument]) -> Format {
    // That of the probe; at a return, of the function and of its caller.
    let addresses = if kind.at_return() { 2 } else { 1 };
    let mut fields: Vec<Field> = common_fields().collect();
    let (mut texts, mut values) = (Vec::new(), Vec::new());
    let mut end = COMMON_SIZE + addresses * size_of::<u64>();
    let (mut unset, followed) = (UnsetValues::default(), if kind.of_file() { 2 } else { 1 });
    for FetchedArgument { name, value, behind } in arguments {
        let field = value.field(name, end);
        let size = field.size;
        if behind.len() >= followed {
            let pointers = offsets(&fields, behind);
            unset.numbers.push(NumberBehindPointers { offset: end, size, pointers });
        }
        fields.push(field);
        if *value == FetchedType::Text {
            unset.texts.push(end);
        }
        end += size;
        if *value != FetchedType::BesideParameters {
            let (conversion, value) = value.printed(name);
            texts.push(format!("{name}={conversion}"));
            values.push(format!(", {value}"));
        }
    }
    let print_fmt = format!("\"{}\"{}", texts.join(" "), values.concat());
    if unset.texts.len() < 2 {
        unset.texts.clear();
    }
    let name = kind.prefix().to_owned();
    Format { name, fields, print_fmt, fixed_size: end, unset, ..Format::default() }
}

/// Returns the layout of the register of a result, of which only a part may be the value, or
/// nothing.
pub fn result_format(kind: ProbeKind, value: Option<FetchedType>) -> Format {
    let print_fmt = value.map(|value| value.printed(RESULT)).map_or_else(
        || "\"\"".to_owned(),
        |(conversion, value)| format!("\"{RESULT}={conversion}\", {value}"),
    );
    Format {
        name: kind.prefix().to_owned(),
        fields: value.map(|value| value.field(RESULT, 0)).into_iter().collect(),
        print_fmt,
        fixed_size: size_of::<u64>(),
        ..Format::default()
    }
}

/// Returns the offsets of the fields with these names.
fn offsets(fields: &[Field], names: &[String]) -> Vec<usize> {
    fields.iter().filter(|field| names.contains(&field.name)).map(|field| field.offset).collect()
}

fn field(name: &str, type_text: String, offset: usize, size: usize, signed: bool) -> Field {
    let name = name.to_owned();
    Field { name, type_text, offset, size, signed, common: false, kind: FieldKind::Int }
}

/// Checks that the kernel lays out the records of a probe as [`record_format`] does.
///
/// # Errors
/// It does not, or the description of the kernel cannot be parsed.
pub fn check_layout(expected: &Format, described: &str) -> Result<()> {
    let kernels = Format::parse(described).context("failed to parse the format of the probe")?;
    let place = |field: &Field| (field.offset, field.size, field.signed);
    let differs = |field: &&Field| {
        kernels.field(&field.name).is_none_or(|kernels| place(kernels) != place(field))
    };
    match expected.fields.iter().find(differs) {
        Some(field) => bail!(
            "this kernel lays out '{}' of a probe in another way; report this kernel's version",
            field.name
        ),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_LINUX: &str = "name: p0\nID: 2326\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:s32 arg1;\toffset:16;\tsize:4;\tsigned:1;\n\
        \tfield:u64 arg2;\toffset:20;\tsize:8;\tsigned:0;\n\
        \tfield:u8 arg3;\toffset:28;\tsize:1;\tsigned:0;\n\n\
        print fmt: \"(%lx) arg1=%d arg2=%Lu arg3=%u\", REC->__probe_ip, REC->arg1, REC->arg2, \
        REC->arg3\n";

    fn argument(name: &str, size: u8, signed: bool) -> FetchedArgument {
        let value = FetchedType::Int { size, signed };
        FetchedArgument { name: name.to_owned(), value, behind: Vec::new() }
    }

    #[test]
    fn values_follow_each_other_without_padding() {
        let arguments = [argument("arg1", 4, true), argument("arg2", 8, false)];
        let all = [&arguments[..], &[argument("arg3", 1, false)]].concat();
        let format = record_format(ProbeKind::Usdt, &all);
        check_layout(&format, OF_LINUX).unwrap();
        assert_eq!(format.fixed_size, 29);
        assert_eq!(
            format.print_fmt,
            "\"arg1=%d arg2=%Lu arg3=%u\", REC->arg1, REC->arg2, REC->arg3"
        );
        let swapped = [arguments[1].clone(), arguments[0].clone()];
        let refused = check_layout(&record_format(ProbeKind::Usdt, &swapped), OF_LINUX);
        let refused = refused.unwrap_err();
        assert!(refused.to_string().starts_with("this kernel lays out 'arg2'"), "{refused}");
        assert!(check_layout(&format, "").is_err());
        assert_eq!(record_format(ProbeKind::Usdt, &[]).print_fmt, "\"\"");
        assert!(format.unset.is_empty());
        let named = |name: &str, value| FetchedArgument {
            name: name.to_owned(),
            value,
            behind: Vec::new(),
        };
        let typed = [
            named("req", FetchedType::Pointer),
            named("path", FetchedType::Text),
            named("arg1", FetchedType::BesideParameters),
        ];
        let typed = record_format(ProbeKind::Uprobe, &typed);
        assert_eq!(typed.print_fmt, r#""req=0x%Lx path=\"%s\"", REC->req, __get_str(path)"#);
        assert_eq!(typed.fixed_size, 16 + 8 + 4 + 8);
        let registers =
            [named("arg1_text", FetchedType::Text), named("arg2", FetchedType::Register)];
        let registers = record_format(ProbeKind::Uprobe, &registers);
        let printed = r#""arg1_text=\"%s\" arg2=0x%Lx", __get_str(arg1_text), REC->arg2"#;
        assert_eq!(registers.print_fmt, printed, "nothing else shows them");
    }

    #[test]
    fn the_values_follow_the_addresses_of_the_kind() {
        let at = |kind| record_format(kind, &[argument("n", 4, true)]).field("n").unwrap().offset;
        assert_eq!(at(ProbeKind::Tprobe), 16);
        assert_eq!((at(ProbeKind::Fprobe), at(ProbeKind::Fretprobe)), (16, 24));
    }

    #[test]
    fn numbers_behind_pointers_and_texts_before_texts_may_be_unset() {
        let of = |name: &str, value, behind: &[&str]| FetchedArgument {
            name: name.to_owned(),
            value,
            behind: behind.iter().map(|name| (*name).to_owned()).collect(),
        };
        let number = FetchedType::Int { size: 4, signed: true };
        let mut arguments = vec![
            of("r", FetchedType::Pointer, &[]),
            of("r_user", FetchedType::Pointer, &["r"]),
            of("r_user_id", number, &["r", "r_user"]),
            of("name", FetchedType::Text, &[]),
        ];
        let unset = |arguments: &[FetchedArgument], kind| {
            let unset = record_format(kind, arguments).unset;
            let numbers = unset.numbers.into_iter();
            let numbers = numbers.map(|one| (one.offset, one.size, one.pointers)).collect();
            (numbers, unset.texts)
        };
        let id = (32, 4, vec![16, 24]);
        let numbers: Vec<_> = vec![id.clone()];
        assert_eq!(unset(&arguments, ProbeKind::Uprobe), (numbers.clone(), vec![]));
        assert_eq!(unset(&arguments, ProbeKind::Kprobe), (vec![(24, 8, vec![16]), id], vec![]));
        arguments.push(of("path", FetchedType::Text, &[]));
        assert_eq!(unset(&arguments, ProbeKind::Uprobe), (numbers, vec![36, 40]));
    }
}
