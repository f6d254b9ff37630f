//! The Lua VM: one LuaJIT state, the sandbox that scripts see, and the trusted Lua of the runtime
//! beside it.
//!
//! The state has two environments. *Trusted* chunks (`prelude/*.lua`) have every library, `ffi`
//! included. *Scripts* have [`Vm::env`], built by `prelude/sandbox.lua`, and the functions that the
//! runtime adds to it ([`Vm::add_global`]).
//!
//! Memory has a limit, enforced by the allocator: above it Lua gets "not enough memory", which a
//! script may even catch. The collector does not know of the limit (LuaJIT has no emergency
//! collection), so the host calls [`Vm::out_of_memory`] after each batch: above three quarters it
//! collects, and only what is then still in use counts.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::Context as _;
use mlua::chunk::ChunkMode;
use mlua::{FromLuaMulti, Function, IntoLua, IntoLuaMulti, Lua, Table, Value};

use super::load::library::{Library, Script, ScriptOrigin};
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::text::message;
use crate::sys::streams;
use script_error::STDLIB;
pub use script_error::{ScriptError, describe};

pub(super) mod call;
pub(super) mod callback;
pub(super) mod cell;
pub mod guard;
pub(super) mod loader;
mod patterns;
pub(super) mod sampler;
pub mod script_error;
pub mod syntax;
pub(super) mod trusted;

const SANDBOX: &str = include_str!("prelude/sandbox.lua");
/// Raises LuaJIT's limits, which suit short programs. At 1000 traces or 2 MiB of machine code it
/// flushes all traces, and it compiles at most 100 side traces of a handler.
const COMPILER: &str = "require 'jit.opt'.start('maxtrace=20000', 'maxmcode=65536', \
     'maxside=1000', \
     'maxrecord=8000', 'maxirconst=2000', 'maxsnap=1000')";
const SORT: &str = include_str!("prelude/sort.lua");

/// Limits of a VM.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes that Lua may hold; 0 means unlimited.
    pub memory: usize,
}

/// Output of `print`, called per line without the newline.
pub type Print = Box<dyn Fn(&str)>;

/// A LuaJIT state with its sandbox.
pub struct Vm {
    lua: Lua,
    env: Table,
    main_state: *mut mlua::ffi::lua_State,
    print: Rc<RefCell<Print>>,
    required: Rc<RefCell<Required>>,
    limit: Cell<usize>,
    lifted: Cell<bool>,
    is_unsafe: Cell<bool>,
}

impl Vm {
    /// Creates a VM whose sandbox has Lua's own functions, and none of the runtime's.
    ///
    /// # Errors
    /// Lua is out of memory, or the sandbox failed to load.
    pub fn new(limits: Limits) -> anyhow::Result<Self> {
        // SAFETY: `unsafe_new` differs from `new` in opening ffi and debug. Only trusted chunks can
        // name them: scripts get the sandbox's table as their environment and no way to the real
        // one.
        let lua = unsafe { Lua::unsafe_new() };
        // The runtime's own objects stay: a collection while they are created would free nothing.
        lua.gc_stop();
        let mut main_state = std::ptr::null_mut();
        // SAFETY: the closure only copies the pointer; outside of any coroutine it is the main
        // state.
        unsafe { lua.exec_raw::<()>((), |state| main_state = state) }
            .map_err(ScriptError::from)
            .context("failed to start Lua")?;
        lua.load(COMPILER)
            .set_name("=perilune:compiler")
            .exec()
            .map_err(ScriptError::from)
            .context("failed to set LuaJIT up")?;
        let print: Rc<RefCell<Print>> = Rc::new(RefCell::new(Box::new(streams::print)));
        let env = sandbox(&lua, &print)
            .map_err(ScriptError::from)
            .context("failed to build the sandbox")?;
        let required = Rc::<RefCell<Required>>::default();
        let vm = Vm {
            lua,
            env,
            main_state,
            print,
            required,
            limit: Cell::new(0),
            lifted: Cell::new(false),
            is_unsafe: Cell::new(false),
        };
        require(&vm)
            .and_then(|require| vm.add_global("require", require))
            .map_err(ScriptError::from)
            .context("failed to make `require`")?;
        vm.limit_memory(limits.memory)?;
        Ok(vm)
    }

    /// Returns the Lua state; values that are made with it directly belong to the trusted
    /// environment.
    pub fn lua(&self) -> &Lua {
        &self.lua
    }

    /// Returns the global table of scripts. Reading an unknown name from it is a Lua error; set
    /// names with [`Vm::add_global`].
    pub fn env(&self) -> &Table {
        &self.env
    }

    /// Returns the raw main state, for the guard's hook.
    pub(super) fn main_state(&self) -> *mut mlua::ffi::lua_State {
        self.main_state
    }

    /// Adds a global value to the environment of scripts.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub fn add_global(&self, name: &str, value: impl IntoLua) -> mlua::Result<()> {
        self.env.raw_set(name, value)
    }

    /// Redirects what scripts print, which goes to stderr by default.
    pub fn on_print(&self, print: Print) {
        *self.print.borrow_mut() = print;
    }

    /// Adds the real `ffi io os debug` and `xpcall` to the sandbox: `--unsafe`. A script can then
    /// do what this process can.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub fn unsafe_mode(&self, on: bool) -> anyhow::Result<()> {
        if on {
            self.lift_sandbox().map_err(ScriptError::from).context("failed to lift the sandbox")?;
            self.is_unsafe.set(true);
        }
        Ok(())
    }

    /// Returns whether [`Vm::unsafe_mode`] is on.
    pub(super) fn is_unsafe(&self) -> bool {
        self.is_unsafe.get()
    }

    fn lift_sandbox(&self) -> mlua::Result<()> {
        let loaded: Table = self.lua.globals().get::<Table>("package")?.get("loaded")?;
        for name in ["ffi", "io", "os", "debug"] {
            let library: Value = loaded.get(name)?;
            self.add_global(name, &library)?;
            self.required.borrow_mut().added.push((name.to_owned(), library));
        }
        // With debug.traceback as its handler, it must run where the error is.
        self.add_global("xpcall", self.lua.globals().get::<Function>("xpcall")?)
    }

    /// Runs a chunk of the runtime with every library. It is called `perilune:NAME` in tracebacks,
    /// which omit it.
    ///
    /// # Errors
    /// The chunk failed to compile or run.
    pub fn trusted<R: FromLuaMulti>(
        &self,
        name: &str,
        source: &str,
        args: impl IntoLuaMulti,
    ) -> mlua::Result<R> {
        trusted::run(&self.lua, name, source, args)
    }

    /// Runs a script's text in the sandbox and returns its first result.
    ///
    /// `chunk_name` is Lua's: `@path`. A first line that begins with `#` is skipped; bytecode is
    /// refused.
    ///
    /// # Errors
    /// The text failed to compile or run.
    pub fn script(&self, chunk_name: &str, text: &str) -> mlua::Result<Value> {
        in_sandbox(&self.lua, &self.env, chunk_name, text)
    }

    /// Lets `require` find the library's modules, and those beside `script` if it is a file.
    pub fn search(&self, library: &Library, script: &Script) {
        let mut required = self.required.borrow_mut();
        required.library = Some(library.clone());
        required.folder = script.folder().map(PathBuf::from);
    }

    /// Calls `work` while `require` searches beside another file.
    pub fn searching<R>(&self, library: &Library, file: &Script, work: impl FnOnce() -> R) -> R {
        let before = {
            let required = self.required.borrow();
            (required.library.clone(), required.folder.clone())
        };
        self.search(library, file);
        let result = work();
        let mut required = self.required.borrow_mut();
        (required.library, required.folder) = before;
        result
    }

    /// Starts the collector; it runs first when memory use has doubled.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub(super) fn collect_from_now_on(&self) -> mlua::Result<()> {
        /// Not offered by [`Lua::gc_restart`]: collect after the usual pause instead of at once.
        const AFTER_A_PAUSE: std::ffi::c_int = -1;
        // SAFETY: it allocates nothing and raises no error.
        unsafe {
            self.lua.exec_raw((), |state| {
                mlua::ffi::lua_gc(state, mlua::ffi::LUA_GCRESTART, AFTER_A_PAUSE);
            })
        }
    }

    /// Returns the bytes that Lua holds.
    pub fn used_memory(&self) -> usize {
        self.lua.used_memory()
    }

    /// Returns the bytes that Lua may hold; 0 means unlimited.
    pub fn memory_limit(&self) -> usize {
        self.limit.get()
    }

    /// Limits the bytes that Lua may hold; 0 means unlimited.
    ///
    /// # Errors
    /// The limit cannot be set.
    pub fn limit_memory(&self, bytes: usize) -> anyhow::Result<()> {
        self.lua
            .set_memory_limit(bytes)
            .map_err(ScriptError::from)
            .context("failed to limit Lua's memory")?;
        self.limit.set(bytes);
        self.lifted.set(false);
        Ok(())
    }

    /// Returns whether the script holds so much of its memory that it cannot go on; collects first
    /// if it seems so.
    ///
    /// Costs one comparison unless more than three quarters are in use. After a collection five
    /// eighths are enough to return true: then each collection frees at least an eighth of the
    /// limit, and is worth its time. A single allocation that the limit refuses is an error of that
    /// handler only; see [`ScriptError::out_of_memory`].
    pub fn out_of_memory(&self) -> bool {
        let limit = self.limit.get();
        if limit == 0 || self.lifted.get() || self.used_memory() <= limit / 4 * 3 {
            return false;
        }
        self.lua.gc_collect().is_err() || self.used_memory() > limit / 8 * 5
    }

    /// Makes room for the last report after [`Vm::out_of_memory`]: twice the limit, and a
    /// collection.
    ///
    /// The caller has switched the handlers off. The room is bounded, too: a report that allocates
    /// too much gets an error instead of exhausting the machine.
    pub fn lift_memory_limit(&self) {
        let room = self.limit.get().saturating_mul(2);
        if !self.lifted.replace(true) && self.lua.set_memory_limit(room).is_ok() {
            // A finalizer that fails does not change the room.
            let _ = self.lua.gc_collect();
        }
    }
}

fn in_sandbox(lua: &Lua, env: &Table, chunk_name: &str, text: &str) -> mlua::Result<Value> {
    lua.load(text)
        .set_name(chunk_name)
        .set_mode(ChunkMode::Text)
        .set_environment(env.clone())
        .call(())
}

fn sandbox(lua: &Lua, print: &Rc<RefCell<Print>>) -> mlua::Result<Table> {
    let print = print.clone();
    let write = lua.create_function(move |_, text: mlua::LuaString| {
        // Indent further lines, so that foreign text cannot imitate a message.
        print.borrow()(&message::indented(&message::utf8(&text.as_bytes())));
        Ok(())
    })?;
    // The table does not exist yet; the function finds it in the registry when it is called.
    let suggest = lua.create_function(|lua, name: String| {
        let env: Table = lua.named_registry_value("perilune.env")?;
        let mut names = Vec::new();
        env.for_each(|key: String, _: Value| {
            names.push(key);
            Ok(())
        })?;
        names.sort();
        Ok(did_you_mean(&nearest(&name, names.iter().map(String::as_str))))
    })?;
    let patterns = patterns::library(lua)?;
    let sort: Function = trusted::run(lua, "sort", SORT, ())?;
    let env: Table = trusted::run(lua, "sandbox", SANDBOX, (write, suggest, patterns, sort))?;
    lua.set_named_registry_value("perilune.env", &env)?;
    Ok(env)
}

/// Modules that a script required.
#[derive(Default)]
struct Required {
    library: Option<Library>,
    folder: Option<PathBuf>,
    /// Whether a script is loaded for another one.
    is_loading: bool,
    /// Libraries that `--unsafe` adds, by name.
    added: Vec<(String, Value)>,
    /// Modules by name and origin: each folder may have one of a name.
    done: Vec<(Script, Value)>,
    /// Modules being loaded, outermost first.
    open: Vec<Script>,
}

fn require(vm: &Vm) -> mlua::Result<Function> {
    let (required, env) = (vm.required.clone(), vm.env.clone());
    vm.lua.create_function(move |lua, name: String| {
        let mut module = {
            let required = required.borrow();
            if let Some((_, value)) = required.added.iter().find(|(added, _)| *added == name) {
                return Ok(value.clone());
            }
            let library = required.library.clone().unwrap_or_default();
            let module = library.module(&name, required.folder.as_deref());
            // A function of a monitor that was loaded from another folder, after it was loaded.
            let by_name = required.done.iter().find(|(done, _)| done.name == name);
            if let (Err(_), Some((_, value))) = (&module, by_name) {
                return Ok(value.clone());
            }
            let module = module.map_err(|why| mlua::Error::runtime(format!("{why:#}")))?;
            let is_same = |other: &Script| other.name == name && other.origin == module.origin;
            if let Some((_, value)) = required.done.iter().find(|(done, _)| is_same(done)) {
                return Ok(value.clone());
            }
            if required.open.iter().any(is_same) {
                let way: Vec<&str> = required.open.iter().map(|open| &*open.name).collect();
                let way = way.join(" → ");
                return Err(mlua::Error::runtime(format!(
                    "modules require each other: {way} → {name}"
                )));
            }
            module
        };
        let text = std::mem::take(&mut module.text);
        required.borrow_mut().open.push(module.clone());
        let value = in_sandbox(lua, &env, &module_chunk_name(&module), &text);
        let mut required = required.borrow_mut();
        required.open.pop();
        let value = match value? {
            Value::Nil => Value::Boolean(true),
            value => value,
        };
        required.done.push((module, value.clone()));
        Ok(value)
    })
}

/// Returns Lua's name of a module's chunk: a bundled module's is marked as the runtime's own.
fn module_chunk_name(module: &Script) -> String {
    match module.origin {
        ScriptOrigin::Bundled => format!("={STDLIB}{}.lua", module.name.replace('.', "/")),
        ScriptOrigin::Path(_) => module.chunk_name(),
    }
}

#[cfg(test)]
mod tests;
