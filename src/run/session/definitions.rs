//! What lines have defined, as a monitor of its own: `save`.

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::output::file;

/// Lines that defined something, in order.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    lines: Vec<Line>,
    /// The file outside of the current folder that was asked about last.
    asked: Option<PathBuf>,
}

#[derive(Debug)]
struct Line {
    text: String,
    /// The roles of the events that it declared.
    opened: Range<usize>,
    /// Whether other lines may need what it defined: a global that it assigned.
    needed: bool,
}

impl Line {
    /// Whether the handler of one of its events was switched off because it failed.
    fn has_failed(&self, is_off: &dyn Fn(usize) -> bool) -> bool {
        self.opened.clone().any(is_off)
    }

    /// Whether nothing is lost without it: no other line needs it, and none of its handlers works.
    fn is_idle(&self, is_off: &dyn Fn(usize) -> bool) -> bool {
        !self.needed && !self.opened.is_empty() && self.opened.clone().all(is_off)
    }
}

/// What became of `save`.
#[derive(Debug)]
pub(super) enum Saved {
    /// Nothing yet: the file lies outside of the current folder, and whether it is meant is asked
    /// first.
    Asked { path: PathBuf },
    /// The file was written. Counts lines whose handlers failed: those that were left out, and
    /// those that others may need.
    Wrote { path: PathBuf, left_out: usize, failing: usize },
}

/// Folders of the system: no file that was typed at a prompt goes there.
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

/// Whether a path without links lies in a folder of the system, or in `/` itself.
fn is_of_system(path: &Path) -> bool {
    let below = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    path.parent() == Some(Path::new("/")) || (below(&SYSTEM) && !below(&OF_USERS))
}

/// Locals of a function of Lua, less some for what it needs itself.
const NAMES: usize = 180;

impl Definitions {
    pub(super) fn add(&mut self, text: &str, opened: Range<usize>, needed: bool) {
        self.lines.push(Line { text: text.trim_end().to_owned(), opened, needed });
    }

    /// Forgets the events: they were taken away.
    pub(super) fn clear(&mut self) {
        self.lines.retain(|line| line.opened.is_empty());
    }

    /// Writes them as a monitor that runs as it is; `names` are the globals of the session, `prints` whether an event has no
    /// handler. Lines whose handlers have failed (`is_off` tells that of a role) are only remarks in it, as far as nothing else needs
    /// them.
    ///
    /// # Errors
    /// There is nothing to write, the file is there or cannot be made, or its path is in a system
    /// folder.
    pub(super) fn save(
        &mut self,
        name: &str,
        names: &[String],
        prints: bool,
        is_off: &dyn Fn(usize) -> bool,
    ) -> anyhow::Result<Saved> {
        let left_out = self.lines.iter().filter(|line| line.is_idle(is_off)).count();
        let failing = self.lines.iter().filter(|line| line.has_failed(is_off)).count() - left_out;
        if self.lines.iter().filter(|line| !line.opened.is_empty()).count() == left_out {
            bail!("save: no event is declared; begin with probe(\"sys:name\", function(e) … end)");
        }
        let path = match name {
            "" => bail!("save takes a name: `:save NAME` writes NAME.lua"),
            name if name.ends_with(".lua") => PathBuf::from(name),
            name => PathBuf::from(format!("{name}.lua")),
        };
        if names.len() > NAMES {
            bail!(
                "save: {} names are too many for one function of Lua; put them into tables",
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
        Ok(Saved::Wrote { path, left_out, failing })
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
            "#!/usr/bin/env perilune\n--- {title}, as it was typed at a prompt.\nlocal m = monitor {{ summary = \"{title}, \
             as it was typed at a prompt\" }}\n\nfunction m.init()\n"
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
            // A long string would be another one if its lines were moved.
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
