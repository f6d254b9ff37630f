//! What lines have defined, as a monitor of its own: `save`.

use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Lines that defined something, in order.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    lines: Vec<Line>,
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

/// What was written.
#[derive(Debug)]
pub(super) struct Saved {
    pub(super) path: PathBuf,
    /// Lines whose handlers failed: those that were left out, and those that others may need.
    pub(super) left_out: usize,
    pub(super) failing: usize,
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
    /// There is nothing to write, or the file is there or cannot be made.
    pub(super) fn save(
        &self,
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
        let shown = path.display();
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .with_context(|| format!("save: failed to create `{shown}`"))?;
        file.write_all(text.as_bytes())
            .with_context(|| format!("save: failed to write `{shown}`"))?;
        Ok(Saved { path, left_out, failing })
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
