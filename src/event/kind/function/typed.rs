//! Parameters of a function by name: where they are when it is called, and how the kernel reads
//! them and what they point to.
//!
//! The debug information says where a parameter is, or it is where the calling convention has it
//! (`place`).

mod at_return;
mod path;
mod place;
mod pointers;

pub use path::ListedPath;

use std::fmt::Write as _;

use anyhow::{Result, anyhow, bail};

use super::fetched::{FetchedArgument, FetchedType};
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::decode::ctypes::{BitField, Prototype, TypeShape, TypeTable, member, member_names};
use crate::decode::format::OmittedField;
use crate::sys::registers;
use place::{Reached, places};
use pointers::AddedPointers;

/// Parameters that the kernel reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypedParameters {
    /// Their fields.
    pub fields: Vec<FetchedArgument>,
    /// Their fetch arguments.
    pub arguments: String,
    /// Parameters that are not among the fields.
    pub omitted: Vec<OmittedField>,
}

/// Maximum length of a fetch argument in bytes (`MAX_ARGSTR_LEN` in kernel/trace/trace_probe.h).
const FETCH_MAX: usize = 63;
/// Maximum length of a field's name in bytes (`MAX_ARG_NAME_LEN`, with the NUL).
const NAME_MAX: usize = 31;
/// Maximum number of fields (`MAX_TRACE_ARGS`).
const FIELDS_MAX: usize = 128;
const TOO_LONG: &str = "needs a description that is too long for the kernel";

impl TypedParameters {
    /// Returns all parameters that are integers or pointers. Text is read only on request: reading
    /// it costs time, and it may be long. `function` is shown in what to write for text.
    pub fn all<T: TypeTable>(
        types: &T,
        prototype: &Prototype<T::Id>,
        function: &str,
    ) -> TypedParameters {
        let mut typed = TypedParameters::default();
        for (name, place) in places(types, prototype) {
            let found = place.and_then(|(place, id)| match is_text(types, id) {
                true => Err(format!("is text; write {function}({name}) to read it")),
                false => fetch(types, (place, id), &[], &mut Vec::new()),
            });
            match found.and_then(|(text, value)| typed.add(name, &text, value)) {
                Ok(()) => {}
                Err(why) => typed.omitted.push(OmittedField { name: name.to_owned(), why }),
            }
        }
        typed
    }

    /// Adds the registers `arg1` to `arg6` beside parameters, if there are any.
    pub fn with_registers(mut self) -> TypedParameters {
        let registers = argument_registers().enumerate().filter(|_| !self.fields.is_empty());
        for (index, register) in registers.collect::<Vec<_>>() {
            // A parameter of the same name has precedence.
            let name = format!("arg{}", index + 1);
            let _ = self.add(&name, &format!("%{register}"), FetchedType::BesideParameters);
        }
        self
    }

    /// Returns the values at these paths: `len`, `request.user.name`. A field has the name of its
    /// path with `_` for each dot, or the one in front of it: `user=request.user.name`. In front of
    /// a number behind pointers are the pointers of its path: they show whether it could be read
    /// ([`crate::decode::unset`]).
    ///
    /// # Errors
    /// A path leads to nothing that can be read.
    pub fn at_paths<T: TypeTable>(
        types: &T,
        prototype: &Prototype<T::Id>,
        paths: &[&str],
    ) -> Result<TypedParameters> {
        let places = places(types, prototype);
        let listed: Vec<_> = paths.iter().map(|path| ListedPath::parse(path)).collect();
        let (mut typed, mut added) = (TypedParameters::default(), AddedPointers::beside(&listed));
        for ListedPath { own, path, steps: whole, field: name } in &listed {
            let (first, steps) = whole.split_first().map_or(("", &[][..]), |(a, b)| (*a, b));
            let Some((_, place)) = places.iter().find(|(name, _)| *name == first) else {
                if let Some((register, is_text)) = register_of(path) {
                    let argument = path.trim_end_matches(".text");
                    let value = match prototype.has_registers() {
                        true => format!("%{register}"),
                        false => format!("${argument}"),
                    };
                    typed.add_register(name, path, (&value, is_text))?;
                    continue;
                }
                let names: Vec<&str> = places.iter().map(|(name, _)| *name).collect();
                bail!("{}", no_parameter(first, &names));
            };
            if added.mark_listed(whole, name) {
                continue;
            }
            let mut pointers = Vec::new();
            let read = place.clone().and_then(|place| fetch(types, place, steps, &mut pointers));
            let (text, value) = read.map_err(|why| anyhow!("'{path}' {why}"))?;
            pointers.retain(|_| value != FetchedType::Text);
            typed
                .add_pointers(whole, pointers, &mut added)
                .and_then(|behind| typed.add_behind(name, &text, value, behind))
                .map_err(|why| anyhow!("'{}' {why}", own.unwrap_or(path)))?;
            if value == FetchedType::Pointer {
                added.add_listed(whole.clone(), name.clone());
            }
        }
        Ok(typed)
    }

    /// Returns the values of registers, `arg1`, and the text that they point to, `arg1.text`; None
    /// if a path is something else. This needs no debug information.
    ///
    /// # Errors
    /// A path is there twice.
    pub fn of_registers(paths: &[&str]) -> Option<Result<TypedParameters>> {
        let listed = paths.iter().map(|path| ListedPath::parse(path));
        let registers = listed.map(|listed| Some((register_of(listed.path)?, listed)));
        let registers: Vec<_> = registers.collect::<Option<_>>()?;
        let mut typed = TypedParameters::default();
        for ((register, is_text), listed) in registers {
            let register = (&*format!("%{register}"), is_text);
            if let Err(why) = typed.add_register(&listed.field, listed.path, register) {
                return Some(Err(why));
            }
        }
        Some(Ok(typed))
    }

    /// Adds the field of a path that [`register_of`] has recognized, from the fetch argument of the
    /// register.
    fn add_register(
        &mut self,
        name: &str,
        path: &str,
        (register, is_text): (&str, bool),
    ) -> Result<()> {
        let added = match is_text {
            true => self.add(name, &format!("+0({register})"), FetchedType::Text),
            false => self.add(name, register, FetchedType::Register),
        };
        added.map_err(|why| anyhow!("'{path}' {why}"))
    }

    /// Adds a field that is read from a register, or from memory at one. The error is text that
    /// follows its name.
    fn add(&mut self, name: &str, fetch: &str, value: FetchedType) -> Result<(), String> {
        self.add_behind(name, fetch, value, Vec::new())
    }

    /// Adds a field that is read by following the pointers in these fields.
    fn add_behind(
        &mut self,
        name: &str,
        fetch: &str,
        value: FetchedType,
        behind: Vec<String>,
    ) -> Result<(), String> {
        let fetch = format!("{fetch}:{}", value.kernel_name());
        if !is_field_name(name) {
            return Err(format!(
                "cannot be a field (a name of at most {NAME_MAX} letters, digits and _); write \
                 NAME=PATH"
            ));
        }
        if self.fields.iter().any(|field| field.name == name) {
            return Err("is there twice".to_owned());
        }
        if fetch.len() > FETCH_MAX || self.fields.len() >= FIELDS_MAX {
            return Err(TOO_LONG.to_owned());
        }
        let blank = if self.arguments.is_empty() { "" } else { " " };
        let _ = write!(self.arguments, "{blank}{name}={fetch}");
        self.fields.push(FetchedArgument { name: name.to_owned(), value, behind });
        Ok(())
    }
}

/// Returns the message that a function has no parameter of this name.
fn no_parameter(name: &str, names: &[&str]) -> String {
    let near = nearest(name, names.iter().copied());
    let hint = match (near.is_empty(), names.is_empty()) {
        (false, _) => did_you_mean(&near),
        (true, false) => format!("; it has {}", names.join(", ")),
        (true, true) => "; it has none".to_owned(),
    };
    format!("it has no parameter '{name}'{hint}")
}

/// Returns the register that a path such as `arg1` or `arg1.text` stands for, and whether it is
/// text behind it; None if it is something else.
pub fn register_of(path: &str) -> Option<(&'static str, bool)> {
    let (name, is_text) = match path.strip_suffix(".text") {
        Some(name) => (name, true),
        None => (path, false),
    };
    let number: usize = name.strip_prefix("arg")?.parse().ok()?;
    Some((argument_registers().nth(number.checked_sub(1)?)?, is_text))
}

/// Returns the names of registers that may follow a path, as [`register_of`] takes them: `arg1` to
/// `arg6` behind an empty one, `text` behind one of them.
pub fn register_names(path: &[&str]) -> Vec<String> {
    match path {
        [] => (1..=argument_registers().count()).map(|number| format!("arg{number}")).collect(),
        [name] if register_of(name).is_some() => vec!["text".to_owned()],
        _ => Vec::new(),
    }
}

/// Returns the names that may follow a path of a parameter and members: behind an empty one those
/// of the parameters whose place is known, else those of the members of the structure to which it
/// leads.
pub fn names_behind<T: TypeTable>(
    types: &T,
    prototype: &Prototype<T::Id>,
    path: &[&str],
) -> Vec<String> {
    let places = places(types, prototype);
    let Some((first, steps)) = path.split_first() else {
        let known = places.into_iter().filter(|(_, place)| place.is_ok());
        return known.map(|(name, _)| name.to_owned()).collect();
    };
    let structure = |id: T::Id| match types.shape(id) {
        Some(TypeShape::Struct) => Some(id),
        Some(TypeShape::Pointer(Some(target))) => {
            (types.shape(target) == Some(TypeShape::Struct)).then_some(target)
        }
        _ => None,
    };
    let parameter = places.into_iter().find(|(name, _)| name == first);
    let behind = |id, step: &&str| structure(member(types, id, step)?.type_);
    let reached = parameter.and_then(|(_, place)| {
        let (_, id) = place.ok()?;
        steps.iter().try_fold(structure(id)?, behind)
    });
    reached.map_or(Vec::new(), |id| member_names(types, id))
}

/// Returns whether the kernel accepts a name of a field.
pub fn is_field_name(name: &str) -> bool {
    // Names of the kernel's own fields (`reserved_field_names` in kernel/trace/trace_probe.c).
    let is_reserved = name.starts_with("common_") || name.starts_with("__probe_");
    name.len() <= NAME_MAX
        && !is_reserved
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the kernel's names of the registers that hold arguments, in order.
fn argument_registers() -> impl Iterator<Item = &'static str> {
    let name = |register: u32| {
        registers::GENERAL.iter().find(|(_, number)| *number == register).map(|(name, _)| *name)
    };
    registers::ARGUMENTS.into_iter().filter_map(name)
}

fn is_text<T: TypeTable>(types: &T, id: T::Id) -> bool {
    let Some(TypeShape::Pointer(Some(target))) = types.shape(id) else { return false };
    matches!(types.shape(target), Some(TypeShape::Char { .. }))
}

/// Returns the fetch argument and the type of the value that a path leads to, from the place of a
/// parameter; adds each pointer that it follows to `pointers`, with the number of steps before it.
/// The error is text that follows the path.
fn fetch<T: TypeTable>(
    types: &T,
    (mut at, mut id): (Reached, T::Id),
    steps: &[&str],
    pointers: &mut Vec<(usize, String)>,
) -> Result<(String, FetchedType), String> {
    let mut before = String::new();
    for (index, step) in steps.iter().enumerate() {
        let is_last = index + 1 == steps.len();
        if let ("text", true, Some(TypeShape::Pointer(target))) = (*step, is_last, types.shape(id))
            && target.is_none_or(|target| types.shape(target) != Some(TypeShape::Struct))
        {
            return Ok((format!("+0({})", at.value()), FetchedType::Text));
        }
        let structure = match types.shape(id) {
            Some(TypeShape::Pointer(Some(target))) => {
                pointers.push((index, at.value()));
                at = Reached::Memory(at.value(), 0);
                target
            }
            _ => id,
        };
        if types.shape(structure) != Some(TypeShape::Struct) {
            return Err(format!("has no member '{step}': it is not a structure{before}"));
        }
        let Some(found) = member(types, structure, step) else {
            let names = member_names(types, structure);
            let near = nearest(step, names.iter().map(String::as_str));
            let hint = match (near.is_empty(), names.is_empty()) {
                (false, _) => did_you_mean(&near),
                (true, true) => "; its members are not known here".to_owned(),
                (true, false) => format!("; it has {}", names.join(", ")),
            };
            return Err(format!("has no member '{step}'{before}{hint}"));
        };
        if let Some(bits) = found.bits {
            return match (&at, types.shape(found.type_)) {
                _ if !is_last => Err(format!("has no members behind '{step}', a bit field")),
                (Reached::Memory(base, offset), Some(TypeShape::Int { signed: false, .. })) => {
                    bit_field(base, *offset, bits)
                }
                _ => Err(format!(
                    "is a bit field with a sign at '{step}', which the kernel does not extend"
                )),
            };
        }
        if let Reached::Memory(_, offset) = &mut at {
            *offset = offset.saturating_add_unsigned(found.offset);
        }
        id = found.type_;
        before = format!(" behind '{step}'");
    }
    let shape = types.shape(id);
    if let Some(value) = shape.and_then(int_type) {
        return Ok((at.value(), value));
    }
    let value = match shape {
        Some(TypeShape::Pointer(_)) if is_text(types, id) => {
            return Ok((format!("+0({})", at.value()), FetchedType::Text));
        }
        Some(TypeShape::Pointer(_)) => FetchedType::Pointer,
        Some(TypeShape::Array(element))
            if matches!(types.shape(element), Some(TypeShape::Char { .. })) =>
        {
            FetchedType::Text
        }
        Some(TypeShape::Struct) => {
            let names = member_names(types, id).join(", ");
            return Err(format!("is a structure; name a member of it: {names}"));
        }
        Some(TypeShape::Float) => return Err(place::FLOAT.to_owned()),
        _ => return Err("has a type that cannot be read".to_owned()),
    };
    Ok((at.value(), value))
}

/// Returns the type of a value that is an integer.
fn int_type<Id: Copy>(shape: TypeShape<Id>) -> Option<FetchedType> {
    match shape {
        TypeShape::Int { size: size @ (1 | 2 | 4 | 8), signed } => {
            Some(FetchedType::Int { size: size as u8, signed })
        }
        TypeShape::Char { signed } => Some(FetchedType::Int { size: 1, signed }),
        _ => None,
    }
}

/// Returns the fetch argument and the type of a bit field of a structure, which begins at an offset
/// from an address. It reads the smallest integer that contains the bits.
fn bit_field(base: &str, offset: i64, bits: BitField) -> Result<(String, FetchedType), String> {
    let width = bits.width.ok_or("is a bit field in a form of debug information before DWARF 4")?;
    let (byte, shift) = (offset.saturating_add_unsigned(bits.start / 8), (bits.start % 8) as u32);
    let holds_all = |size: &u8| shift.saturating_add(width) <= u32::from(*size) * 8;
    let size = [1, 2, 4, 8].into_iter().find(holds_all);
    let size = size.filter(|_| width > 0).ok_or("is a bit field in more than 8 bytes")?;
    Ok((format!("{byte:+}({base})"), FetchedType::Bits { width, shift, size }))
}

#[cfg(test)]
mod tests;
