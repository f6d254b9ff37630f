//! Loads further scripts into a running VM, for functions that scripts call.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::{Required, Vm, in_sandbox};
use crate::script::load::library::{Library, Script};

/// Loads scripts into the sandbox of a VM.
#[derive(Clone)]
pub(in crate::script) struct ScriptLoader {
    env: Table,
    required: Rc<RefCell<Required>>,
}

impl Vm {
    /// Returns the loader of further scripts.
    pub(in crate::script) fn loader(&self) -> ScriptLoader {
        ScriptLoader { env: self.env.clone(), required: self.required.clone() }
    }
}

impl ScriptLoader {
    /// Returns the library in which `require` searches; the embedded one before a script is loaded.
    pub(in crate::script) fn library(&self) -> Library {
        self.required.borrow().library.clone().unwrap_or_default()
    }

    /// Returns whether [`ScriptLoader::run`] runs a script.
    pub(in crate::script) fn is_running(&self) -> bool {
        self.required.borrow().is_loading
    }

    /// Runs a script and returns its first result. Meanwhile `require` searches beside the script.
    ///
    /// # Errors
    /// The text failed to compile or run.
    pub(in crate::script) fn run(&self, lua: &Lua, script: &Script) -> mlua::Result<Value> {
        let folder = script.folder().map(PathBuf::from);
        let before = {
            let mut required = self.required.borrow_mut();
            (
                std::mem::replace(&mut required.folder, folder),
                std::mem::replace(&mut required.is_loading, true),
            )
        };
        let result = in_sandbox(lua, &self.env, &script.chunk_name(), &script.text);
        let mut required = self.required.borrow_mut();
        (required.folder, required.is_loading) = before;
        result
    }
}
