//! Tprobes and fprobes: their values have the names and types of the kernel's BTF, and the kernel
//! finds them by the number of their register (`$arg1`).

use std::collections::HashSet;
use std::ffi::CString;
use std::rc::Rc;

use anyhow::{Context as _, Result, anyhow, bail};

use super::MachineFunctions;
use super::kernel_parameters::NO_TYPES;
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::decode::btf::prototypes::BtfTypes;
use crate::decode::ctypes::{ParameterLocation, Prototype};
use crate::event::kind::function::typed::{TypedParameters, names_behind};
use crate::event::kind::function::{CodeLocation, FunctionLocation, FunctionName, ProbeKind};
use crate::sys::machine::is_linux_since;
use crate::sys::mapped_file::KERNEL_TYPES;
use crate::sys::tracefs::Tracefs;

/// Prefix of the function that is called at each tracepoint, with a pointer in front of the
/// tracepoint's arguments (`__DECLARE_TRACE()` in include/linux/tracepoint.h).
const STUB: &str = "__probestub_";

/// Why a parameter cannot be read at the return.
const NOT_KEPT: &str = "is not kept until the return before Linux 6.9; read it with fprobe:";

/// Kernel from which on the return of a function has the arguments of its call
/// (`store_fprobe_entry_data()`).
const KEPT_SINCE: (u32, u32) = (6, 9);

/// Arguments of a tracepoint in registers: the first one has the stub's pointer.
const TRACEPOINT_ARGUMENTS: usize = 5;

impl MachineFunctions {
    /// Returns where a probe of such a kind is, and its values.
    ///
    /// # Errors
    /// This kernel has no such probes, or not what is to be probed; or a value is not known or
    /// cannot be read.
    pub(super) fn traced(&self, named: &FunctionName) -> Result<FunctionLocation> {
        self.check_support(named.kind)?;
        let CodeLocation::Function(name, 0) = named.location() else {
            bail!("it has no offset; use kprobe:FUNCTION+OFFSET for an instruction");
        };
        match named.kind {
            ProbeKind::Tprobe => self.check_tracepoint(name)?,
            _ => self.check_traceable(name)?,
        }
        let types = self.kernel_parameters.types().ok_or_else(|| anyhow!(NO_TYPES))?;
        let prototype = prototype(types, named.kind, name, is_linux_since(KEPT_SINCE))?;
        let typed = match named.paths() {
            Some(paths) => TypedParameters::at_paths(types, &prototype, &paths)?,
            None => TypedParameters::all(types, &prototype, name),
        };
        let mut location = FunctionLocation::in_kernel(CString::new(name)?, 0);
        location.set_fields(typed);
        Ok(location)
    }

    /// Returns the wanted names of a kind, at most `most`, sorted.
    ///
    /// # Errors
    /// This kernel has no such probes, or its lists cannot be read.
    pub(super) fn traced_names(
        &self,
        kind: ProbeKind,
        wanted: &dyn Fn(&str) -> bool,
        most: usize,
    ) -> Result<Vec<String>> {
        self.check_support(kind)?;
        match kind {
            ProbeKind::Tprobe => {
                let stubs = |name: &str| name.strip_prefix(STUB).is_some_and(wanted);
                let names = self.kernel(true)?.names(&stubs, most).into_iter();
                Ok(names.filter_map(|name| Some(name.strip_prefix(STUB)?.to_owned())).collect())
            }
            _ => {
                let traceable = self.traceable(true)?;
                let both = |name: &str| wanted(name) && traceable.contains(name);
                Ok(self.kernel(true)?.names(&both, most))
            }
        }
    }

    /// Returns the names that may follow a path in the list of a probe's values; None if they are
    /// not known.
    pub(super) fn traced_parameters(
        &self,
        named: &FunctionName,
        path: &[&str],
    ) -> Option<Vec<String>> {
        let CodeLocation::Function(name, 0) = named.location() else { return None };
        let types = self.kernel_parameters.types()?;
        let prototype = prototype(types, named.kind, name, is_linux_since(KEPT_SINCE)).ok()?;
        Some(names_behind(types, &prototype, path))
    }

    fn check_tracepoint(&self, name: &str) -> Result<()> {
        if let Some((_, event)) = name.split_once(':') {
            bail!("a tracepoint has no system here; write tprobe:{event}");
        }
        let stub = format!("{STUB}{name}");
        if self.kernel_with(&stub)?.count(&stub) > 0 {
            return Ok(());
        }
        let known = self.traced_names(ProbeKind::Tprobe, &|_| true, usize::MAX)?;
        let near = nearest(name, known.iter().map(String::as_str));
        let hint = match near.is_empty() {
            true => "; perilune list 'tprobe:*' shows all".to_owned(),
            false => did_you_mean(&near),
        };
        bail!("the kernel has no tracepoint '{name}'{hint}")
    }

    /// Checks whether ftrace can trace a function. kprobes have other limits.
    fn check_traceable(&self, name: &str) -> Result<()> {
        let kernel = self.kernel_with(name)?;
        if kernel.count(name) != 1 {
            return Err(kernel.not_one(name));
        }
        if !self.traceable(false)?.contains(name) && !self.traceable(true)?.contains(name) {
            bail!(
                "the kernel cannot trace this function (it is not in available_filter_functions); \
                 use kprobe:{name}, or watch a function that calls it"
            );
        }
        Ok(())
    }

    /// Checks whether this kernel has probes of a kind. A type that it has is remembered: a glob
    /// selects many functions.
    fn check_support(&self, kind: ProbeKind) -> Result<()> {
        let type_ = kind.probe_type();
        if self.supported.borrow().contains(&type_) {
            return Ok(());
        }
        if Tracefs::find()?.has_probes(type_)? {
            self.supported.borrow_mut().push(type_);
            return Ok(());
        }
        bail!(
            "this kernel has no {}",
            match kind {
                ProbeKind::Tprobe => {
                    "probes on tracepoints (CONFIG_FPROBE_EVENTS, since 6.5); use SYSTEM:EVENT, \
                     whose fields perilune list -v shows"
                }
                ProbeKind::Fretprobe => {
                    "fprobes (CONFIG_FPROBE_EVENTS, since 6.5); use kretprobe:FUNCTION"
                }
                _ => "fprobes (CONFIG_FPROBE_EVENTS, since 6.5); use kprobe:FUNCTION",
            }
        )
    }

    /// Returns the functions that ftrace can trace. With `anew` they are read again, since modules
    /// are loaded and unloaded.
    fn traceable(&self, anew: bool) -> Result<Rc<HashSet<Box<str>>>> {
        let mut traceable = self.traceable.borrow_mut();
        match &*traceable {
            Some(known) if !anew => Ok(known.clone()),
            _ => {
                let names = Tracefs::find()?.traceable_functions();
                let names = names.context("failed to read the functions that ftrace can trace")?;
                Ok(traceable.insert(Rc::new(names)).clone())
            }
        }
    }
}

/// Returns the values of a probe as parameters. `is_kept`: the return of a function has the
/// arguments of its call.
fn prototype(
    types: &BtfTypes,
    kind: ProbeKind,
    name: &str,
    is_kept: bool,
) -> Result<Prototype<u32>> {
    let stub = format!("{STUB}{name}");
    let function = if kind == ProbeKind::Tprobe { &stub } else { name };
    let mut found = types.prototype(function).ok_or_else(|| {
        anyhow!("{KERNEL_TYPES} does not describe its arguments; it may be of a module")
    })?;
    if kind == ProbeKind::Tprobe && !found.parameters.is_empty() {
        found.parameters.remove(0);
    }
    for (index, parameter) in found.parameters.iter_mut().enumerate() {
        parameter.location = match kind {
            ProbeKind::Tprobe if index >= TRACEPOINT_ARGUMENTS => {
                ParameterLocation::Unknown("is on the stack; read another argument")
            }
            ProbeKind::Fretprobe if !is_kept => ParameterLocation::Unknown(NOT_KEPT),
            _ => ParameterLocation::Argument,
        };
    }
    if kind == ProbeKind::Fretprobe
        && let Some(result) = found.result_parameter()
    {
        found.parameters.insert(0, result);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::kernel_types;
    use super::*;

    #[test]
    fn a_return_that_does_not_keep_its_arguments_has_only_the_result() {
        let Some(types) = kernel_types() else { return };
        let names = |kind, is_kept| {
            let found = prototype(&types, kind, "vfs_read", is_kept).unwrap();
            names_behind(&types, &found, &[]).join(" ")
        };
        assert_eq!(names(ProbeKind::Fretprobe, true), "retval file buf count pos");
        assert_eq!(names(ProbeKind::Fretprobe, false), "retval");
        assert_eq!(names(ProbeKind::Fprobe, false), "file buf count pos");
        let found = prototype(&types, ProbeKind::Fretprobe, "vfs_read", false).unwrap();
        let refused = TypedParameters::at_paths(&types, &found, &["count"]).unwrap_err();
        assert!(
            refused.to_string().contains("before Linux 6.9; read it with fprobe:"),
            "{refused}"
        );
    }
}
