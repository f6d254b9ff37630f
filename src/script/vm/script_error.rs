//! Script errors: a message at the script's own line, and a traceback without the runtime's frames.
//!
//! LuaJIT and mlua return errors as layers of text: a position, a message, `stack traceback:` and
//! frames, some of them several times. This module converts all of them to a [`ScriptError`].
//!
//! Trusted chunks of the runtime are called `=perilune:NAME`, so their frames begin with
//! `perilune:`; a script cannot take such a name (see `prelude/sandbox.lua`).

use std::fmt;

/// Prefix of the chunk names of the runtime's own Lua, after the `=`.
pub const TRUSTED: &str = "perilune:";

/// Prefix of the chunk names of bundled modules. Their frames are shown for an error in a module,
/// but not if the module called `error` to refuse an argument.
pub const STDLIB: &str = "perilune:stdlib/";

/// Separator of message and frames, as LuaJIT writes it.
const TRACEBACK: &str = "stack traceback:";

/// LuaJIT's message when an allocation is refused (lj_errmsg.h, ERRMEM).
const NO_MEMORY: &str = "not enough memory";

/// An error of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptError {
    /// `file.lua:31: what is wrong`; without a position if Lua knows none.
    pub message: String,
    /// Frames that led to the error, innermost first, one per line; `None` if they add nothing to
    /// the message.
    pub traceback: Option<String>,
    /// Lua was refused memory.
    pub out_of_memory: bool,
    /// `error` was called; otherwise an operation failed.
    pub raised: bool,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for frame in self.traceback.iter().flat_map(|t| t.lines()) {
            write!(f, "\n    {frame}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ScriptError {}

impl ScriptError {
    /// Adds `place`, unless Lua knew the line.
    pub fn at(mut self, place: Option<&str>) -> ScriptError {
        if let (None, Some(place)) = (position(&self.message), place) {
            self.message = format!("{place}: {}", self.message);
        }
        self
    }

    /// Returns the message without its position.
    pub fn without_place(&self) -> &str {
        position(&self.message).map_or(&self.message, |position| position.rest)
    }
}

impl From<mlua::Error> for ScriptError {
    fn from(error: mlua::Error) -> Self {
        describe(&error)
    }
}

/// Converts an error of mlua.
pub fn describe(error: &mlua::Error) -> ScriptError {
    let mut outer_traceback = "";
    let mut innermost = error;
    while let mlua::Error::CallbackError { traceback, cause } = innermost {
        // The innermost layer has the deepest stack.
        outer_traceback = traceback;
        innermost = cause;
    }
    let text = match innermost {
        mlua::Error::RuntimeError(text) | mlua::Error::MemoryError(text) => text.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    let mut described = describe_text(&format!("{text}\n{outer_traceback}"));
    described.out_of_memory |= matches!(innermost, mlua::Error::MemoryError(_));
    described
}

/// Parses a text of `debug.traceback` or mlua.
pub fn describe_text(text: &str) -> ScriptError {
    let mut sections = text.split(TRACEBACK);
    let mut message = sections.next().unwrap_or_default().trim();
    for prefix in ["runtime error: ", "syntax error: ", "memory error: "] {
        while let Some(rest) = message.strip_prefix(prefix) {
            message = rest;
        }
    }
    // The first section was taken where the error happened.
    let frames: Vec<&str> = sections
        .map(|section| section.lines().map(str::trim).filter(|f| !f.is_empty()).collect())
        .find(|frames: &Vec<&str>| frames.iter().any(|frame| is_of_script(frame)))
        .unwrap_or_default();
    let raised =
        frames.iter().take_while(|frame| !is_of_script(frame)).any(|frame| is_error(frame));
    let is_own = |frame: &&str| is_of_script(frame) && !frame.starts_with(STDLIB);
    let only_own = raised && frames.iter().any(is_own);
    let frames: Vec<String> = frames
        .into_iter()
        .filter(|frame| if only_own { is_own(frame) } else { is_of_script(frame) })
        .map(|frame| frame.replace(STDLIB, ""))
        .collect();
    let place = frames.iter().find_map(|frame| position(frame));
    let message = match (position(message), place) {
        // The runtime raised it without knowing the caller; report the script's line.
        (Some(own), place) if own.path.starts_with(TRUSTED) => match place {
            Some(place) => format!("{place}: {}", own.rest),
            None => own.rest.to_owned(),
        },
        (Some(own), _) => format!("{own}: {}", own.rest),
        (None, Some(place)) => format!("{place}: {message}"),
        (None, None) => message.to_owned(),
    };
    let out_of_memory = message.ends_with(NO_MEMORY);
    let traceback = (frames.len() > 1).then(|| frames.join("\n"));
    ScriptError { message, traceback, out_of_memory, raised }
}

/// `path/file.lua:31: rest`.
struct SourcePosition<'a> {
    path: &'a str,
    line: &'a str,
    rest: &'a str,
}

impl fmt::Display for SourcePosition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", file_name(self.path), self.line)
    }
}

/// Returns a chunk's name without folders; a chunk of text (`[string "…"]`) keeps its name.
pub fn file_name(path: &str) -> &str {
    if path.starts_with('[') { path } else { path.rsplit('/').next().unwrap_or(path) }
}

/// Finds the first `:LINE:` of a text; the text before it is the chunk.
fn position(text: &str) -> Option<SourcePosition<'_>> {
    let first_line = text.lines().next().unwrap_or_default();
    for (at, _) in first_line.match_indices(':') {
        let after = &first_line[at + 1..];
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 && after[digits..].starts_with(':') && is_chunk(&first_line[..at]) {
            let rest = text[at + 1 + digits + 1..].trim_start();
            return Some(SourcePosition { path: &text[..at], line: &after[..digits], rest });
        }
    }
    None
}

/// Returns whether `name` can be a chunk's name: a Lua file, a part of the runtime, or a text.
/// `at 12:30:01` is none of them.
fn is_chunk(name: &str) -> bool {
    name.ends_with(".lua")
        || name.starts_with(TRUSTED)
        || (name.starts_with("[string ") && name.ends_with(']'))
        || (!name.is_empty() && !name.contains(char::is_whitespace) && !name.contains(':'))
}

/// Returns whether to show a frame: one of the script, or a C function that the script called by
/// name.
fn is_of_script(frame: &str) -> bool {
    let noise = [
        "[C]: at ",
        "[C]: in ?",
        "[C]: in metamethod ",
        "[C]: in function '__index'",
        "[builtin",
        "...",
        "(...tail calls...)",
    ]
    .iter()
    .any(|n| frame.starts_with(n))
        && !frame.contains(".lua:");
    let carriers =
        ["'error'", "'assert'", "'pcall'", "'xpcall'"].iter().any(|n| frame.ends_with(n))
            && frame.starts_with("[C]:");
    let ours = frame.starts_with(TRUSTED) && !frame.starts_with(STDLIB);
    !(ours || noise || carriers)
}

/// Returns whether a frame is a call of `error`, as a global function or an upvalue.
fn is_error(frame: &str) -> bool {
    frame.starts_with("[C]: in ") && frame.ends_with("'error'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_keeps_the_line_and_drops_the_folders() {
        let error = describe_text(
            "/etc/perilune/net.lua:31: no such field\nstack traceback:\n\t[C]: in function \
             'error'\n\t/etc/perilune/net.lua:31: in main chunk\n\t[C]: at 0x55",
        );
        assert_eq!(error.message, "net.lua:31: no such field");
        assert_eq!(error.traceback, None, "one frame only repeats the message");
    }

    #[test]
    fn frames_of_the_runtime_are_dropped() {
        let error = describe_text(
            "a.lua:3: boom\nstack traceback:\n\t[C]: in function 'error'\n\ta.lua:3: in function \
             'inner'\n\ta.lua:9: in function <a.lua:8>\n\t[C]: in function \
             'xpcall'\n\tperilune:driver:5: in function <perilune:driver:2>\n\t[C]: in ?",
        );
        assert_eq!(
            error.traceback.unwrap(),
            "a.lua:3: in function 'inner'\na.lua:9: in function <a.lua:8>"
        );
    }

    #[test]
    fn an_error_raised_by_the_runtime_has_the_line_of_the_call() {
        for message in ["perilune:view:12: no field 'x'", "no field 'x'"] {
            let text = format!(
                "{message}\nstack traceback:\n\tperilune:view:12: in function 'x'\n\ts.lua:7: in \
                 main chunk"
            );
            assert_eq!(describe_text(&text).message, "s.lua:7: no field 'x'");
        }
    }

    #[test]
    fn an_error_raised_by_a_bundled_module_has_the_line_of_its_caller() {
        let text = "perilune:stdlib/relation.lua:61: no event 'a:b'\nstack traceback:\n\t[C]: in \
                    ?\n\t[C]: in function 'error'\n\tperilune:evsel:70: in function \
                    'evsel'\n\tperilune:stdlib/relation.lua:61: in function 'delay'\n\tmy.lua:7: \
                    in function <my.lua:6>";
        let error = describe_text(text);
        assert_eq!((error.message.as_str(), error.raised), ("my.lua:7: no event 'a:b'", true));
        assert_eq!(error.traceback, None);
        let mistake = text
            .replace("no event 'a:b'", "attempt to index a nil value")
            .replace("\t[C]: in function 'error'\n", "");
        let error = describe_text(&mistake);
        assert_eq!(error.message, "relation.lua:61: attempt to index a nil value");
        assert_eq!(
            error.traceback.as_deref(),
            Some("relation.lua:61: in function 'delay'\nmy.lua:7: in function <my.lua:6>")
        );
        assert!(!error.raised);
    }

    #[test]
    fn nested_errors_and_prefixes_are_unwrapped() {
        let inner = mlua::Error::runtime("no event 'x'");
        let layer = |cause, traceback: &str| mlua::Error::CallbackError {
            traceback: traceback.into(),
            cause: std::sync::Arc::new(cause),
        };
        let error = layer(
            layer(inner, "stack traceback:\n\t[C]: in function 'evsel'\n\tm.lua:4: in main chunk"),
            "stack traceback:\n\t[C]: in ?",
        );
        assert_eq!(describe(&error).message, "m.lua:4: no event 'x'");
        let text = error.to_string();
        assert_eq!(describe_text(&text).message, "m.lua:4: no event 'x'");
        assert_eq!(describe_text("runtime error: runtime error: x").message, "x");
    }

    #[test]
    fn a_time_of_day_is_not_a_position() {
        assert_eq!(describe_text("stopped at 12:30:01").message, "stopped at 12:30:01");
    }

    #[test]
    fn a_location_is_added_only_if_none_is_known() {
        let at = |text: &str| describe_text(text).at(Some("a.lua:3")).message;
        assert_eq!(at("not enough memory"), "a.lua:3: not enough memory");
        assert_eq!(at("b.lua:7: no"), "b.lua:7: no");
        assert_eq!(describe_text("no").at(None).message, "no");
    }

    #[test]
    fn refused_memory_is_recognised_by_its_text() {
        assert!(describe_text("not enough memory").out_of_memory);
        assert!(describe(&mlua::Error::MemoryError("not enough memory".into())).out_of_memory);
        assert!(!describe_text("x.lua:1: enough").out_of_memory);
    }
}
