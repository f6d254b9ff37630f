//! Saves the definitions of a session as a monitor: `save`.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::output::file;

/// Lines that defined something, in order.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    lines: Vec<DefinitionLine>,
    /// The last file outside the current folder that needed a confirmation.
    asked: Option<PathBuf>,
}

#[derive(Debug)]
struct DefinitionLine {
    text: String,
    /// The roles of the events that the line declared.
    opened: Range<usize>,
    /// Other lines may need its definitions: it assigned a global.
    needed: bool,
}

impl DefinitionLine {
    /// Returns whether the handler of one of its events was switched off because it failed.
    fn has_failed(&self, is_off: &dyn Fn(usize) -> bool) -> bool {
        self.opened.clone().any(is_off)
    }

    /// Returns whether the line can be omitted: no other line needs it, and none of its handlers
    /// works.
    fn is_idle(&self, is_off: &dyn Fn(usize) -> bool) -> bool {
        !self.needed && !self.opened.is_empty() && self.opened.clone().all(is_off)
    }
}

/// The result of `save`.
#[derive(Debug)]
pub(super) enum Saved {
    /// Nothing was written yet: the file is outside the current folder, so the user must confirm
    /// it.
    Asked { path: PathBuf },
    /// The file was written. Counts the lines with failed handlers: those omitted, and those kept
    /// because other lines may need them.
    Wrote { path: PathBuf, omitted: usize, failing: usize },
}

/// System folders, to which the prompt does not write.
const SYSTEM: [&str; 14] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var/lib",
    "/var/spool",
];

/// Folders below them that are for users' files.
const OF_USERS: [&str; 2] = ["/etc/perilune", "/run/user"];

/// Returns whether a path without symbolic links is in a system folder, or directly in `/`.
fn is_of_system(path: &Path) -> bool {
    let below = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    path.parent() == Some(Path::new("/")) || (below(&SYSTEM) && !below(&OF_USERS))
}

/// Limit of saved names: the locals of a Lua function, less some that the function itself needs.
const NAMES: usize = 180;

impl Definitions {
    pub(super) fn add(&mut self, text: &str, opened: Range<usize>, needed: bool) {
        self.lines.push(DefinitionLine { text: text.trim_end().to_owned(), opened, needed });
    }

    /// Forgets the lines with events, after the events were removed.
    pub(super) fn clear(&mut self) {
        self.lines.retain(|line| line.opened.is_empty());
    }

    /// Writes the definitions as a complete monitor. `names` are the globals of the session, and
    /// `prints` is whether an event has no handler. Lines whose handlers have failed (`is_off`
    /// returns this for a role) become comments, unless another line needs them.
    ///
    /// # Errors
    /// There is nothing to write, there are too many names, the file exists or cannot be created,
    /// or its path is in a system folder.
    pub(super) fn save(
        &mut self,
        name: &str,
        names: &[String],
        prints: bool,
        is_off: &dyn Fn(usize) -> bool,
    ) -> anyhow::Result<Saved> {
        let omitted = self.lines.iter().filter(|line| line.is_idle(is_off)).count();
        let failing = self.lines.iter().filter(|line| line.has_failed(is_off)).count() - omitted;
        if self.lines.iter().filter(|line| !line.opened.is_empty()).count() == omitted {
            if omitted > 0 {
                bail!(
                    "save: the handlers of all events have failed; replace one with p:replace(f), \
                     or declare another event"
                );
            }
            bail!("save: no event is declared; begin with probe(\"sys:name\", function(e) … end)");
        }
        let path = match name {
            "" => bail!("save needs a name: `:save NAME` writes NAME.lua"),
            name if name.ends_with(".lua") => PathBuf::from(name),
            name => PathBuf::from(format!("{name}.lua")),
        };
        if names.len() > NAMES {
            bail!(
                "save: {} local names exceed the limit of a Lua function; put them into tables",
                names.len()
            );
        }
        let text = self.text(&path, names, prints, is_off);
        let real = file::writable(&path).context("save")?.path;
        if is_of_system(&real) {
            bail!(
                "save: `{}` is in a system folder; name a file in another folder",
                real.display()
            );
        }
        let here = std::env::current_dir().context("save: failed to find the current folder")?;
        if !real.starts_with(here) && self.asked.as_ref() != Some(&real) {
            self.asked = Some(real.clone());
            return Ok(Saved::Asked { path: real });
        }
        self.asked = None;
        file::write_new(&path, text.as_bytes()).context("save")?;
        Ok(Saved::Wrote { path, omitted, failing })
    }

    fn text(
        &self,
        path: &Path,
        names: &[String],
        prints: bool,
        is_off: &dyn Fn(usize) -> bool,
    ) -> String {
        let title = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
        let mut text = format!(
            "#!/usr/bin/env perilune\n--- {title}, saved from a prompt.\nlocal m = monitor \
             {{ summary = \"{title}, saved from a prompt\" }}\n\nfunction m.init()\n"
        );
        if !names.is_empty() {
            text.push_str(&format!("  local {}\n", names.join(", ")));
        }
        for line in &self.lines {
            let typed = &line.text;
            if line.has_failed(is_off) {
                text.push_str("  -- Its handler failed at the prompt:\n");
                if line.is_idle(is_off) {
                    typed.lines().for_each(|line| text.push_str(&format!("  -- {line}\n")));
                    continue;
                }
            }
            // The lines of a long string must not be indented, which would change its value.
            let long = ["[[", "[=", "\\\n"].iter().any(|sign| typed.contains(sign));
            let indent = if long { "" } else { "  " };
            typed.lines().for_each(|line| text.push_str(&format!("{indent}{line}\n")));
        }
        text.push_str("end\n");
        if prints {
            text.push_str("\nfunction m.sample(e) emit(e) end\n");
        }
        text.push_str("\nreturn m\n");
        text
    }
}
