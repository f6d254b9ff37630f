//! Values at the return of a function: its result, and what it points to.

use anyhow::{Result, bail, ensure};

use super::super::fetched::FetchedType;
use super::path::ListedPath;
use super::place::FLOAT;
use super::{TypedParameters, int_type};
use crate::decode::ctypes::{Prototype, RESULT, TypeShape, TypeTable};

impl TypedParameters {
    /// Returns the values at these paths behind the result of a function: `retval.text`, or
    /// `retval.user.name` if its type is known.
    ///
    /// # Errors
    /// A path leads to nothing that can be read at the return.
    pub fn at_return<T: TypeTable>(
        known: Option<(&T, &Prototype<T::Id>)>,
        paths: &[&str],
    ) -> Result<TypedParameters> {
        let listed: Vec<_> = paths.iter().map(|path| ListedPath::parse(path)).collect();
        if let Some(other) = listed.iter().find(|listed| listed.steps.first() != Some(&RESULT)) {
            bail!("'{}': a return has no parameters, only {RESULT}", other.path);
        }
        if let Some((types, prototype)) = known {
            ensure!(
                prototype.result.is_some(),
                "'{RESULT}' does not exist: this function returns nothing"
            );
            return TypedParameters::at_paths(types, &prototype.at_return(), paths);
        }
        let mut typed = TypedParameters::default();
        for listed in &listed {
            let is_text = match listed.steps[1..] {
                [] => false,
                ["text"] => true,
                _ => bail!("'{}': its type is not known; use {RESULT}.text", listed.path),
            };
            let register = (&*format!("${RESULT}"), is_text);
            typed.add_register(&listed.field, listed.path, register)?;
        }
        Ok(typed)
    }

    /// Returns the type of a function's result, of text that of its address; None if only the
    /// register is known, as of a structure.
    ///
    /// # Errors
    /// The register does not have the result; the error is text behind its name.
    pub fn result_type<T: TypeTable>(
        types: &T,
        prototype: &Prototype<T::Id>,
    ) -> Result<Option<FetchedType>, &'static str> {
        let id = prototype.result.ok_or("does not exist: this function returns nothing")?;
        match types.shape(id) {
            Some(TypeShape::Pointer(_)) => Ok(Some(FetchedType::Pointer)),
            Some(TypeShape::Float) => Err(FLOAT),
            Some(TypeShape::Struct) | None => Ok(None),
            Some(shape) => int_type(shape).map(Some).ok_or("has a type that cannot be read"),
        }
    }
}
