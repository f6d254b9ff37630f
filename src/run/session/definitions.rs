//! What lines have defined, as a monitor of its own: `save`.

use std::io::Write as _;
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
    /// Whether it declared events.
    opens: bool,
}

/// Locals of a function of Lua, less some for what it needs itself.
const NAMES: usize = 180;

impl Definitions {
    pub(super) fn add(&mut self, text: &str, opens: bool) {
        self.lines.push(Line { text: text.trim_end().to_owned(), opens });
    }

    /// Forgets the events: they were taken away.
    pub(super) fn clear(&mut self) {
        self.lines.retain(|line| !line.opens);
    }

    /// Writes them as a monitor that runs as it is; `names` are the globals of the session, `prints` whether an event has no
    /// handler. Gives the file's path.
    ///
    /// # Errors
    /// There is nothing to write, or the file is there or cannot be made.
    pub(super) fn save(
        &self,
        name: &str,
        names: &[String],
        prints: bool,
    ) -> anyhow::Result<PathBuf> {
        if !self.lines.iter().any(|line| line.opens) {
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
        let text = self.text(&path, names, prints);
        let shown = path.display();
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .with_context(|| format!("save: failed to create `{shown}`"))?;
        file.write_all(text.as_bytes())
            .with_context(|| format!("save: failed to write `{shown}`"))?;
        Ok(path)
    }

    fn text(&self, path: &Path, names: &[String], prints: bool) -> String {
        let title = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
        let mut text = format!(
            "#!/usr/bin/env perilune\n--- {title}, as it was typed at a prompt.\nlocal m = monitor {{ summary = \"{title}, \
             as it was typed at a prompt\" }}\n\nfunction m.init()\n"
        );
        if !names.is_empty() {
            text.push_str(&format!("  local {}\n", names.join(", ")));
        }
        for Line { text: typed, .. } in &self.lines {
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
