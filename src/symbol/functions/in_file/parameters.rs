//! Parameters of a file's functions, from its debug information.

use anyhow::{Result, anyhow, bail};

use super::{ProgramFile, elf};
use crate::decode::dwarf::{DwarfIndex, DwarfUnit, NoPrototype};
use crate::event::kind::function::fetched::{FetchedArgument, FetchedType};
use crate::event::kind::function::typed::{ListedPath, TypedParameters, names_behind, register_of};
use crate::event::kind::function::{
    CodeLocation, FunctionLocation, FunctionName, ProbeKind, ProbeValues,
};
use crate::sys::machine;

/// First version of Linux that limits the text of a probe's arguments in user space to its buffer
/// (`prepare_uprobe_buffer()`). Some older kernels have the correction; the version does not say.
const TEXT_SINCE: (u32, u32) = (6, 12);

impl ProgramFile {
    /// Sets the fields of the call of the function that begins at `start`: the requested
    /// parameters; or all integers and pointers, if the file has debug information.
    ///
    /// # Errors
    /// A requested parameter is not known or cannot be read.
    pub(super) fn add_parameters(
        &self,
        named: &FunctionName,
        start: u64,
        location: &mut FunctionLocation,
    ) -> Result<()> {
        let paths = named.paths();
        if named.kind == ProbeKind::Uretprobe {
            return self.add_result((start, named.without_paths()), paths.as_deref(), location);
        }
        let typed = match self.typed((start, named.without_paths()), paths.as_deref()) {
            Ok(typed) => typed,
            Err(why) if paths.is_some() => return Err(why),
            Err(why) => {
                location.notes.push(format!("parameters are not known by name: {why}"));
                return Ok(());
            }
        };
        match typed.fields.is_empty() {
            true => location.omitted = typed.omitted,
            false => location.set_fields(typed),
        }
        Ok(())
    }

    /// Sets the fields of the return of a function: the requested ones, or its result.
    fn add_result(
        &self,
        (start, function): (u64, &str),
        paths: Option<&[&str]>,
        location: &mut FunctionLocation,
    ) -> Result<()> {
        let unit = self.unit(start).ok();
        let known = unit
            .as_ref()
            .and_then(|unit| Some((unit, unit.prototype(start, is_clone(function)).ok()?)));
        location.set_result(known.as_ref().map(|(unit, found)| (*unit, found)), paths)?;
        match &location.values {
            ProbeValues::Fetched(fields) => check_text(fields),
            _ => Ok(()),
        }
    }

    /// Returns the names that may follow a path in the list of a function's parameters; none
    /// without debug information.
    pub(in crate::symbol) fn parameter_names(
        &self,
        named: &FunctionName,
        path: &[&str],
    ) -> Vec<String> {
        let CodeLocation::Function(name, 0) = named.location() else { return Vec::new() };
        let Ok(start) = self.entry(name) else { return Vec::new() };
        let Ok(unit) = self.unit(start) else { return Vec::new() };
        unit.prototype(start, is_clone(name))
            .map_or(Vec::new(), |found| names_behind(&unit, &found, path))
    }

    fn typed(
        &self,
        (start, function): (u64, &str),
        paths: Option<&[&str]>,
    ) -> Result<TypedParameters> {
        let typed = match paths.and_then(TypedParameters::of_registers) {
            Some(typed) => typed?,
            None => {
                let unit = self.unit(start).map_err(|why| without_registers(paths, why))?;
                let prototype = unit.prototype(start, is_clone(function))?;
                let Some(paths) = paths else {
                    return Ok(TypedParameters::all(&unit, &prototype, function).with_registers());
                };
                TypedParameters::at_paths(&unit, &prototype, paths)?
            }
        };
        check_text(&typed.fields)?;
        Ok(typed)
    }

    /// Returns the debug information of the function at an address, from the file or from its debug
    /// file.
    fn unit(&self, start: u64) -> Result<DwarfUnit<'_>, NoPrototype> {
        let mut unit = Err(NoPrototype::NoDebugInfo);
        let objects = [Some(&self.object), self.apart.as_ref()].into_iter().flatten();
        for (elf, index) in objects.filter_map(elf).zip(&self.units) {
            let index = index.get_or_init(|| DwarfIndex::read(elf)).as_ref();
            unit = index.map_err(Clone::clone).and_then(|index| index.unit(elf, start));
            if unit.is_ok() {
                break;
            }
        }
        unit
    }
}

/// Returns whether the name of a function is that of a copy to which gcc passes other parameters
/// than the source (interprocedural constant propagation, replacement of aggregates, splitting).
fn is_clone(name: &str) -> bool {
    let parts = name.split('.').skip(1);
    parts.into_iter().any(|part| matches!(part, "constprop" | "isra" | "part"))
}

/// Checks whether this kernel can read the text among these values.
///
/// # Errors
/// It would write a long text beyond its buffer.
pub(super) fn check_text(fields: &[FetchedArgument]) -> Result<()> {
    let text = fields.iter().find(|field| field.value == FetchedType::Text);
    if let Some(field) = text
        && !machine::is_linux_since(TEXT_SINCE)
    {
        let (major, minor) = TEXT_SINCE;
        bail!(
            "'{}' is text, which a kernel before {major}.{minor} may write beyond its buffer; read \
             the address of the text instead, such as arg1",
            field.name
        );
    }
    Ok(())
}

/// Returns why parameters are not known; names the first path that is not a register if others are.
fn without_registers(paths: Option<&[&str]>, why: NoPrototype) -> anyhow::Error {
    let paths: Vec<&str> =
        paths.unwrap_or_default().iter().map(|path| ListedPath::parse(path).path).collect();
    let is_register = |path: &&&str| register_of(path).is_some();
    let is_numbered = |path: &&str| {
        let digits = path.strip_prefix("arg").map(|rest| rest.trim_end_matches(".text"));
        digits
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    match (paths.iter().any(is_numbered), paths.iter().find(|path| !is_register(path))) {
        (true, Some(other)) => {
            anyhow!("'{other}' is not a register, arg1 to arg6 or arg1.text, and {why}")
        }
        _ => why.into(),
    }
}
