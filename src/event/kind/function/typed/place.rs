//! Places of parameters when their function is called.
//!
//! A place that the debug information gives is used. Without one, the first six integers and
//! pointers are in registers (System V ABI for x86-64, 3.2.3; Procedure Call Standard for AArch64,
//! 6.8.2). Floating-point numbers are in other registers. A structure may be in registers or in
//! memory, so that the positions of the following parameters are not known.

use super::argument_registers;
use crate::decode::ctypes::{
    FunctionParameter, ParameterLocation, Prototype, TypeShape, TypeTable,
};
use crate::sys::registers;

/// Why a floating-point number cannot be read.
pub(super) const FLOAT: &str = "is a floating-point number, which a probe cannot read";
/// Why a parameter without a register cannot be read.
const ON_STACK: &str = "is on the stack at a place that is not known; build with -g -O2, which \
                        describes it, or read another parameter";

/// A value while a path is followed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reached {
    /// In a register.
    Register(&'static str),
    /// In memory, at an offset in bytes from the address that a fetch argument gives.
    Memory(String, i64),
    /// The same in each call.
    Constant(i64),
    /// A value that the kernel finds by this name.
    Variable(String),
}

impl Reached {
    /// Returns the fetch argument of the value.
    pub(super) fn value(&self) -> String {
        match self {
            Reached::Register(name) => format!("%{name}"),
            Reached::Memory(base, offset) => format!("{offset:+}({base})"),
            Reached::Constant(value) => format!("\\{value}"),
            Reached::Variable(name) => format!("${name}"),
        }
    }
}

/// The place of a parameter and its type; or why it is not known, as text behind its name.
type Place<Id> = Result<(Reached, Id), String>;

/// Returns each parameter by name with its place.
pub(super) fn places<'a, T: TypeTable>(
    types: &T,
    prototype: &'a Prototype<T::Id>,
) -> Vec<(&'a str, Place<T::Id>)> {
    let mut positions = Positions::of(types, prototype.result);
    let place = |parameter: &'a FunctionParameter<T::Id>| {
        let id = parameter.type_;
        let shape = types.shape(id);
        let place = match parameter.location {
            ParameterLocation::Named => value_of(parameter, shape),
            location => {
                let by_position = positions.next(shape);
                let reached = |index| match location {
                    ParameterLocation::Argument => Reached::Variable(format!("arg{}", index + 1)),
                    _ => Reached::Register(argument_registers().nth(index).unwrap_or_default()),
                };
                located(location, shape).unwrap_or_else(|| by_position.map(reached))
            }
        };
        (parameter.name.as_str(), place.map(|place| (place, id)))
    };
    prototype.parameters.iter().map(place).collect()
}

/// Returns the place that the debug information gives, or why there is none; None if it is that of
/// the calling convention.
fn located<Id: Copy>(
    location: ParameterLocation,
    shape: Option<TypeShape<Id>>,
) -> Option<Result<Reached, String>> {
    let register = |number: u16| {
        let found = registers::CALL_DWARF.iter().find(|(dwarf, _)| *dwarf == number);
        let why = "is in a register that does not pass arguments; read it in a caller";
        found.map(|(_, name)| *name).ok_or_else(|| why.to_owned())
    };
    if matches!(shape, Some(TypeShape::Float))
        && matches!(location, ParameterLocation::Register(_) | ParameterLocation::Constant(_))
    {
        return Some(Err(FLOAT.to_owned()));
    }
    Some(match location {
        ParameterLocation::ByPosition | ParameterLocation::Argument | ParameterLocation::Named => {
            return None;
        }
        ParameterLocation::Register(_) if matches!(shape, Some(TypeShape::Struct)) => {
            Err("is a structure in a register, whose members cannot be read; read argN, the \
                 register"
                .to_owned())
        }
        ParameterLocation::Register(number) => register(number).map(Reached::Register),
        ParameterLocation::Memory { register: number, offset } => {
            register(number).map(|name| Reached::Memory(format!("%{name}"), offset))
        }
        ParameterLocation::CallerFrame(offset) => {
            let offset = offset.saturating_add(registers::CALL_PUSHED);
            Ok(Reached::Memory("%sp".to_owned(), offset))
        }
        ParameterLocation::Constant(value) => Ok(Reached::Constant(value)),
        ParameterLocation::Unknown(why) => Err(why.to_owned()),
    })
}

/// Returns a value that the kernel finds by its name.
fn value_of<Id: Copy>(
    parameter: &FunctionParameter<Id>,
    shape: Option<TypeShape<Id>>,
) -> Result<Reached, String> {
    match shape {
        Some(TypeShape::Float) => Err(FLOAT.to_owned()),
        Some(TypeShape::Int { .. } | TypeShape::Char { .. } | TypeShape::Pointer(_)) => {
            Ok(Reached::Variable(parameter.name.clone()))
        }
        _ => Err("is a structure, which a probe cannot read; omit it".to_owned()),
    }
}

/// Assigns registers to parameters by their positions.
struct Positions {
    /// Number of registers that have a parameter.
    used: usize,
    /// Why the registers of further parameters are not known.
    lost: Option<&'static str>,
}

impl Positions {
    /// Returns the positions of a function with this result.
    fn of<T: TypeTable>(types: &T, result: Option<T::Id>) -> Positions {
        // The address of the result may be in the first register.
        let lost = match result.and_then(|id| types.shape(id)) {
            Some(TypeShape::Struct | TypeShape::Other) => {
                Some("belongs to a function that returns a structure")
            }
            _ => None,
        };
        Positions { used: 0, lost }
    }

    /// Returns the index of the register of the next parameter.
    fn next<Id: Copy>(&mut self, shape: Option<TypeShape<Id>>) -> Result<usize, String> {
        if let Some(why) = self.lost {
            return Err(format!(
                "{why}, so its register is not known; build with -g -O2, which describes it, or \
                 read arg1 to arg6"
            ));
        }
        match shape {
            Some(TypeShape::Float) => Err(FLOAT.to_owned()),
            Some(
                TypeShape::Int { size: 1 | 2 | 4 | 8, .. }
                | TypeShape::Char { .. }
                | TypeShape::Pointer(_),
            ) => {
                self.used += 1;
                let is_register = self.used <= registers::ARGUMENTS.len();
                is_register.then_some(self.used - 1).ok_or_else(|| ON_STACK.to_owned())
            }
            _ => {
                self.lost = Some("follows a structure");
                Err("is a structure or has another type that is not in one register; read arg1 to \
                     arg6"
                    .to_owned())
            }
        }
    }
}
