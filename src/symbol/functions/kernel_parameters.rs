//! Parameters of the kernel's functions, from the description of its types (BTF).

use std::cell::OnceCell;

use anyhow::{Result, anyhow, bail};

use crate::decode::btf::prototypes::BtfTypes;
use crate::event::kind::function::typed::{TypedParameters, names_behind};
use crate::event::kind::function::{CodeLocation, FunctionLocation, FunctionName, ProbeKind};
use crate::sys::mapped_file::{KERNEL_TYPES, map_kernel_types};

/// Why no types are known.
pub(super) const NO_TYPES: &str =
    "this kernel does not describe its types (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF)";

/// The types of the running kernel, read when a parameter is first requested: 20 to 40 ms.
#[derive(Default)]
pub(super) struct KernelParameters(OnceCell<Option<BtfTypes>>);

impl KernelParameters {
    /// Sets the fields of the call of a function, if its name requests parameters.
    ///
    /// # Errors
    /// They are not those of the call of a function, or are not known, or cannot be read.
    pub(super) fn add(&self, named: &FunctionName, location: &mut FunctionLocation) -> Result<()> {
        let paths = named.paths();
        let CodeLocation::Function(name, 0) = named.location() else {
            return match paths {
                Some(_) => {
                    bail!("only a FUNCTION without an offset has parameters; omit the parentheses")
                }
                None => Ok(()),
            };
        };
        if named.kind == ProbeKind::Kretprobe {
            return self.add_result(name, paths.as_deref(), location);
        }
        let Some(paths) = paths else { return Ok(()) };
        let types = self.types().ok_or_else(|| anyhow!("{NO_TYPES}; use arg1 to arg6"))?;
        let prototype = types.prototype(name).ok_or_else(|| {
            anyhow!("{KERNEL_TYPES} does not describe this function; use arg1 to arg6")
        })?;
        location.set_fields(TypedParameters::at_paths(types, &prototype, &paths)?);
        Ok(())
    }

    /// Sets the fields of the return of a function: the requested ones, or its result.
    fn add_result(
        &self,
        function: &str,
        paths: Option<&[&str]>,
        location: &mut FunctionLocation,
    ) -> Result<()> {
        let types = self.types();
        let known = types.and_then(|types| Some((types, types.prototype(function)?)));
        let known = known.as_ref().map(|(types, prototype)| (*types, prototype));
        location.set_result(known, paths)
    }

    /// Returns the names that may follow a path in the list of a function's parameters; none if the
    /// kernel does not describe it.
    pub(super) fn names(&self, named: &FunctionName, path: &[&str]) -> Vec<String> {
        let CodeLocation::Function(name, 0) = named.location() else { return Vec::new() };
        let Some(types) = self.types() else { return Vec::new() };
        types.prototype(name).map_or(Vec::new(), |found| names_behind(types, &found, path))
    }

    /// Returns the types; None if the kernel does not describe them ([`NO_TYPES`]).
    pub(super) fn types(&self) -> Option<&BtfTypes> {
        self.0.get_or_init(kernel_types).as_ref()
    }
}

/// Returns the types of the running kernel; None if it does not describe them.
pub(in crate::symbol) fn kernel_types() -> Option<BtfTypes> {
    // It can be mapped since 6.16.
    match map_kernel_types() {
        Ok(file) => BtfTypes::parse(file),
        Err(_) => BtfTypes::parse(std::fs::read(KERNEL_TYPES).ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_types_of_the_running_kernel_lead_to_the_name_of_a_file() {
        if !std::path::Path::new(KERNEL_TYPES).exists() {
            return;
        }
        let add = |name: &str| {
            let mut location = FunctionLocation::in_kernel(c"vfs_read".to_owned(), 0);
            let parameters = KernelParameters::default();
            parameters.add(&FunctionName::parse(name).unwrap(), &mut location)?;
            Ok::<_, anyhow::Error>(location.sites[0].arguments.clone())
        };
        assert_eq!(add("kprobe:vfs_read").unwrap(), "");
        let named = add("kprobe:vfs_read(count, file.f_path.dentry.d_name.name)").unwrap();
        let (count, name) = named.split_once(' ').unwrap();
        assert_eq!(count, "count=%dx:u64");
        assert!(name.starts_with("file_f_path_dentry_d_name_name=+0(+"), "{name}");
        assert!(name.ends_with("(%di))):string"), "{name}");
        let names = |path: &[&str]| {
            let named = FunctionName::parse("kprobe:vfs_read").unwrap();
            KernelParameters::default().names(&named, path)
        };
        assert_eq!(names(&[]), ["file", "buf", "count", "pos"]);
        assert!(names(&["file", "f_path"]).contains(&"dentry".to_owned()));
        assert_eq!(names(&["count"]), [""; 0]);
        assert_eq!(names(&["file", "nothing"]), [""; 0]);
        let refusal = |name: &str| add(name).unwrap_err().to_string();
        assert!(refusal("kprobe:vfs_read(cuont)").contains("did you mean 'count'?"));
        assert!(refusal("kprobe:vfs_read(file.nothing)").contains("has no member 'nothing'"));
        assert!(refusal("kprobe:vfs_read+4(count)").starts_with("only a FUNCTION without an"));
        let of_return = refusal("kretprobe:vfs_read(count)");
        assert_eq!(of_return, "'count': a return has no parameters, only retval");
        assert_eq!(add("kretprobe:vfs_read(retval)").unwrap(), "retval=$retval:s64");
        let text = add("kretprobe:kstrdup(retval)").unwrap();
        assert_eq!(text, "retval=+0($retval):string");
        assert_eq!(add("kretprobe:kstrdup(s=retval.text)").unwrap(), "s=+0($retval):string");
    }
}
