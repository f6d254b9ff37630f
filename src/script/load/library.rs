//! Finds scripts: at a path, on the search path, or among the copies inside the binary.
//!
//! A name is searched for in each folder of `$PERILUNE_PATH`, in `~/.config/perilune`, in
//! `/etc/perilune`, and among the embedded monitors; the first hit wins. A name that contains `/`
//! or ends in `.lua` is a path. Debug builds read the embedded folders from the source tree, so
//! that a change needs no build.
//!
//! A run as root does not execute a script that other users can write: see [`trust`]. On the search
//! path such a script is skipped with a warning ([`Library::take_warnings`]); a path to one is
//! refused.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, bail};
use include_dir::{Dir, include_dir};

use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::text::message;
use crate::script::load::trust;
use crate::sys::user::effective_uid;

static SCRIPTS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/scripts");
static STDLIB: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/stdlib");

/// Source of a script's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptOrigin {
    /// A file.
    Path(PathBuf),
    /// The copy inside the binary.
    Bundled,
}

/// A script's text and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Name without folder and `.lua`, as in `perilune NAME`; for a module, the name that `require`
    /// takes.
    pub name: String,
    /// Where the text was read from.
    pub origin: ScriptOrigin,
    /// The source.
    pub text: String,
}

impl Script {
    /// Returns the chunk name for Lua: `@` and a path, which messages shorten to the file name.
    pub fn chunk_name(&self) -> String {
        match &self.origin {
            ScriptOrigin::Path(path) => format!("@{}", message::path(path)),
            ScriptOrigin::Bundled => format!("@{}.lua", self.name.replace('.', "/")),
        }
    }

    /// Returns the path, or [`BUNDLED`].
    pub fn shown_origin(&self) -> String {
        match &self.origin {
            ScriptOrigin::Path(path) => message::path(path),
            ScriptOrigin::Bundled => BUNDLED.to_owned(),
        }
    }

    /// Returns whether its text may declare `emits`: only such a script can be a source of events.
    pub fn may_emit(&self) -> bool {
        self.text.contains("emits =")
    }

    /// Returns the folder of a script that is a file.
    pub fn folder(&self) -> Option<&Path> {
        match &self.origin {
            // `x.lua` has the empty path as its parent, which stands for the working directory.
            ScriptOrigin::Path(path) => {
                path.parent().map(|p| if p == "" { Path::new(".") } else { p })
            }
            ScriptOrigin::Bundled => None,
        }
    }
}

/// Name of the origin of a script that ships with the runtime.
pub const BUNDLED: &str = "bundled";

/// The scripts and modules that can be found. Clones share their warnings; the default has only the
/// embedded ones.
#[derive(Clone, Debug, Default)]
pub struct Library {
    inner: Rc<LibraryState>,
}

#[derive(Debug, Default)]
struct LibraryState {
    folders: Vec<PathBuf>,
    /// The run is root's: text that other users can write is not executed.
    root: bool,
    warnings: RefCell<Vec<String>>,
}

impl Library {
    /// Returns the library with this process's search path.
    pub fn from_environment() -> Self {
        let wanted = std::env::var_os("PERILUNE_PATH").unwrap_or_default();
        let wanted = std::env::split_paths(&wanted).filter(|p| *p != *"");
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        let usual = home.map(|home| Path::new(&home).join(".config/perilune"));
        let usual =
            usual.into_iter().chain([PathBuf::from("/etc/perilune")]).filter(|p| p.is_dir());
        Library::new(wanted.chain(usual), effective_uid() == 0)
    }

    /// Creates a library that searches these folders. With `root`, text that other users can write
    /// is not taken.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>, root: bool) -> Self {
        let mut inner = LibraryState { root, ..LibraryState::default() };
        for folder in folders {
            let checked = match std::fs::metadata(&folder) {
                Err(why) => Err(format!("{}: {why}", folder.display())),
                Ok(data) if !data.is_dir() => Err(format!("{}: not a folder", folder.display())),
                Ok(_) if root => trust::folder(&folder).map_err(|why| format!("{why:#}")),
                Ok(_) => Ok(()),
            };
            match checked {
                Ok(()) => inner.folders.push(folder),
                Err(why) => inner.warnings.get_mut().push(format!("{why}; skipped")),
            }
        }
        Library { inner: Rc::new(inner) }
    }

    /// Returns the warnings about skipped folders and files since the last call.
    pub fn take_warnings(&self) -> Vec<String> {
        self.inner.warnings.take()
    }

    /// Returns the script of a path or a name.
    ///
    /// # Errors
    ///
    /// No such file or monitor (with the nearest names), not a regular file, over 1 MiB, not text,
    /// or, for root, a path that other users can write.
    pub fn find(&self, name_or_path: &str) -> anyhow::Result<Script> {
        if is_path(name_or_path) {
            // Also if the file is absent: the error is then about the file, not about a monitor's
            // name.
            return self.at_path(Path::new(name_or_path));
        }
        if let Some(script) = self.look_up(name_or_path)? {
            return Ok(script);
        }
        let all = self.all();
        let near = nearest(name_or_path, all.iter().map(|s| s.name.as_str()));
        bail!("no monitor '{name_or_path}'{}", did_you_mean(&near))
    }

    /// Does the same as [`find`](Library::find), but returns `None` if the name or path does not
    /// exist.
    ///
    /// # Errors
    ///
    /// It exists and cannot be taken.
    pub fn look_up(&self, name_or_path: &str) -> anyhow::Result<Option<Script>> {
        if is_path(name_or_path) {
            let path = Path::new(name_or_path);
            return path.exists().then(|| self.at_path(path)).transpose();
        }
        let file = format!("{name_or_path}.lua");
        if is_plain(name_or_path) {
            if let Some(script) = self.on_search_path(name_or_path, &file)? {
                return Ok(Some(script));
            }
            if let Some(text) = embedded(&SCRIPTS, "scripts", &file) {
                let (name, origin) = (name_or_path.to_owned(), ScriptOrigin::Bundled);
                return Ok(Some(Script { name, origin, text }));
            }
        }
        Ok(None)
    }

    /// Returns every monitor that [`find`](Library::find) takes by name, sorted by name; of several
    /// with one name, the one that it takes.
    pub fn all(&self) -> Vec<Script> {
        let mut found = self.in_folders("");
        for (name, text) in all_embedded(&SCRIPTS, "scripts") {
            let script = Script { name: name.clone(), origin: ScriptOrigin::Bundled, text };
            found.entry(name).or_insert(script);
        }
        found.into_values().collect()
    }

    /// Returns the scripts in folder `folder` beside the monitors of the search path (`printers`),
    /// sorted by name.
    pub fn all_in(&self, folder: &str) -> Vec<Script> {
        self.in_folders(folder).into_values().collect()
    }

    /// Returns the module that `require` loads for `name`: from the script's folder, from `stdlib/`
    /// on the search path, or embedded.
    ///
    /// Dots separate folders. A name that could leave these folders is refused.
    ///
    /// # Errors
    ///
    /// An invalid name, no such module (with the nearest names), or a file that cannot be taken.
    pub fn module(&self, name: &str, script_folder: Option<&Path>) -> anyhow::Result<Script> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let parts_are_named = name.split('.').all(|part| !part.is_empty());
        if !parts_are_named || !name.chars().all(allowed) {
            bail!(
                "'{name}' is not a module name: use letters, digits, '_' and '-', with '.' \
                 between folders"
            );
        }
        let file = format!("{}.lua", name.replace('.', "/"));
        if let Some(path) = script_folder.map(|folder| folder.join(&file)).filter(|p| p.exists()) {
            return Ok(Script { name: name.to_owned(), ..self.at_path(&path)? });
        }
        if let Some(script) = self.on_search_path(name, &format!("stdlib/{file}"))? {
            return Ok(script);
        }
        if let Some(text) = embedded(&STDLIB, "stdlib", &file) {
            return Ok(Script { name: name.to_owned(), origin: ScriptOrigin::Bundled, text });
        }
        let mut names: Vec<String> =
            all_embedded(&STDLIB, "stdlib").map(|(name, _)| name).collect();
        names.extend(script_folder.into_iter().flat_map(lua_files).map(|(name, _)| name));
        let near = nearest(name, names.iter().map(String::as_str));
        bail!("no module '{name}'{}", did_you_mean(&near))
    }

    /// Reads the script at a path that was given explicitly.
    ///
    /// # Errors
    ///
    /// As [`find`](Library::find) of a path.
    pub fn at_path(&self, path: &Path) -> anyhow::Result<Script> {
        let text = trust::read(path, self.inner.root)?;
        let name = path.file_stem().context("the path has no file name")?;
        Ok(Script {
            name: message::path(name.as_ref()),
            origin: ScriptOrigin::Path(path.to_owned()),
            text,
        })
    }

    /// Returns the first file of that name on the search path that may be taken.
    fn on_search_path(&self, name: &str, file: &str) -> anyhow::Result<Option<Script>> {
        for path in self.inner.folders.iter().map(|folder| folder.join(file)) {
            if let Some(text) = self.searched(&path)? {
                return Ok(Some(Script {
                    name: name.to_owned(),
                    origin: ScriptOrigin::Path(path),
                    text,
                }));
            }
        }
        Ok(None)
    }

    /// Returns the text of a file on the search path; `None` if it is absent or other users can
    /// write it.
    fn searched(&self, path: &Path) -> anyhow::Result<Option<String>> {
        if !path.exists() {
            return Ok(None);
        }
        match trust::read(path, self.inner.root) {
            Ok(text) => Ok(Some(text)),
            Err(why) if why.is::<trust::Untrusted>() => {
                self.warn(&why);
                Ok(None)
            }
            Err(why) => Err(why),
        }
    }

    fn in_folders(&self, sub: &str) -> BTreeMap<String, Script> {
        let mut found = BTreeMap::new();
        for folder in &self.inner.folders {
            for (name, path) in lua_files(&folder.join(sub)) {
                if found.contains_key(&name) {
                    continue;
                }
                match self.searched(&path) {
                    Ok(Some(text)) => {
                        let script =
                            Script { name: name.clone(), origin: ScriptOrigin::Path(path), text };
                        found.insert(name, script);
                    }
                    Ok(None) => {}
                    Err(why) => self.warn(&why),
                }
            }
        }
        found
    }

    fn warn(&self, why: &anyhow::Error) {
        let text = format!("{why:#}; skipped");
        let mut warnings = self.inner.warnings.borrow_mut();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }
}

/// Returns whether the argument is a path, so that it is not searched for.
pub(in crate::script) fn is_path(name_or_path: &str) -> bool {
    name_or_path.contains('/') || name_or_path.ends_with(".lua")
}

/// Returns whether `name` can be a file name without its folder.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(['.', '-'])
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// Iterates over the `.lua` files of a folder, unordered; an unreadable folder has none.
fn lua_files(folder: &Path) -> impl Iterator<Item = (String, PathBuf)> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter_map(|path| {
        let name = path.file_stem()?.to_str()?.to_owned();
        (path.extension()? == "lua" && is_plain(&name)).then_some((name, path))
    })
}

/// Returns names and texts of the files that document the API for editors and checkers, sorted.
pub fn api_files() -> Vec<(String, String)> {
    let meta = STDLIB.get_dir("meta").into_iter().flat_map(Dir::files);
    let text = |file: &include_dir::File<'_>| {
        let name = file.path().file_name()?.to_str()?;
        Some((name.to_owned(), embedded(&STDLIB, "stdlib", &format!("meta/{name}"))?))
    };
    let mut all: Vec<_> = meta.filter_map(text).collect();
    all.sort();
    all
}

/// Returns the source tree's copy of an embedded folder, if this is a debug build and the folder
/// exists.
fn source_folder(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    (cfg!(debug_assertions) && path.is_dir()).then_some(path)
}

fn embedded(dir: &Dir<'_>, folder: &str, file: &str) -> Option<String> {
    match source_folder(folder) {
        Some(folder) => std::fs::read_to_string(folder.join(file)).ok(),
        None => dir.get_file(file)?.contents_utf8().map(str::to_owned),
    }
}

/// Returns names and texts of the files directly in an embedded folder.
fn all_embedded<'a>(
    dir: &'a Dir<'_>,
    folder: &'a str,
) -> impl Iterator<Item = (String, String)> + 'a {
    let names: Vec<String> = match source_folder(folder) {
        Some(folder) => lua_files(&folder).map(|(name, _)| name).collect(),
        None => dir
            .files()
            .filter_map(|file| {
                Some(file.path().file_name()?.to_str()?.strip_suffix(".lua")?.to_owned())
            })
            .collect(),
    };
    names.into_iter().filter_map(move |name| {
        let text = embedded(dir, folder, &format!("{name}.lua"))?;
        Some((name, text))
    })
}

#[cfg(test)]
mod tests;
