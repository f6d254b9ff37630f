//! What a script's error says: the message at the script's own line, and the way there without our own frames.
//!
//! LuaJIT and mlua hand out errors as layers of text: a position, a message, `stack traceback:` and frames, some of
//! them several times over. All of them come through here once and leave as a [`ScriptError`].
//!
//! The trusted chunks of the runtime are called `=perilune:NAME`, so their frames begin with `perilune:`; no script
//! can take such a name (see `prelude/sandbox.lua`).

use std::fmt;

/// Chunk names of the runtime's own Lua begin so, after the `=`.
pub const TRUSTED: &str = "perilune:";

/// Chunk names of the bundled modules begin so: their frames help whoever made a mistake in one, not whoever it refused.
pub const STDLIB: &str = "perilune:stdlib/";

/// The mark between an error's message and its frames, as LuaJIT writes it.
const TRACEBACK: &str = "stack traceback:";

/// Text of LuaJIT when an allocation is refused (lj_errmsg.h, ERRMEM).
const NO_MEMORY: &str = "not enough memory";

/// An error of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptError {
    /// `file.lua:31: what is wrong`; without a position where Lua knows none.
    pub message: String,
    /// The frames that led there, innermost first, one a line; `None` where they say no more than the message.
    pub traceback: Option<String>,
    /// Lua was refused memory.
    pub out_of_memory: bool,
    /// Somebody called `error`; else an operation failed that was not meant to.
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
    /// The same at `place`, unless Lua knew the line itself.
    pub fn at(mut self, place: Option<&str>) -> ScriptError {
        if let (None, Some(place)) = (position(&self.message), place) {
            self.message = format!("{place}: {}", self.message);
        }
        self
    }

    /// The message without the place where it was raised.
    pub fn without_place(&self) -> &str {
        position(&self.message).map_or(&self.message, |position| position.rest)
    }
}

impl From<mlua::Error> for ScriptError {
    fn from(error: mlua::Error) -> Self {
        describe(&error)
    }
}

/// Unwraps an error of mlua.
pub fn describe(error: &mlua::Error) -> ScriptError {
    let mut outer_traceback = "";
    let mut innermost = error;
    while let mlua::Error::CallbackError { traceback, cause } = innermost {
        // The innermost layer knows the deepest stack.
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

/// Takes apart a text that `debug.traceback` or mlua made.
pub fn describe_text(text: &str) -> ScriptError {
    let mut sections = text.split(TRACEBACK);
    let mut message = sections.next().unwrap_or_default().trim();
    for prefix in ["runtime error: ", "syntax error: ", "memory error: "] {
        while let Some(rest) = message.strip_prefix(prefix) {
            message = rest;
        }
    }
    // The first section is the one taken where the error happened.
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
        // The runtime raised it without knowing for whom: the script's line is the one that helps.
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

/// The same as text, for whoever prints it as it is.
pub fn tidy_traceback(text: &str) -> String {
    describe_text(text).to_string()
}

/// `path/file.lua:31: rest`.
struct Position<'a> {
    path: &'a str,
    line: &'a str,
    rest: &'a str,
}

impl fmt::Display for Position<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", file_name(self.path), self.line)
    }
}

/// A chunk's name without its folders; a chunk of text (`[string "…"]`) keeps its own.
pub fn file_name(path: &str) -> &str {
    if path.starts_with('[') { path } else { path.rsplit('/').next().unwrap_or(path) }
}

/// Finds the first `:LINE:` of a text; what stands before is the chunk.
fn position(text: &str) -> Option<Position<'_>> {
    let first_line = text.lines().next().unwrap_or_default();
    for (at, _) in first_line.match_indices(':') {
        let after = &first_line[at + 1..];
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 && after[digits..].starts_with(':') && is_chunk(&first_line[..at]) {
            let rest = text[at + 1 + digits + 1..].trim_start();
            return Some(Position { path: &text[..at], line: &after[..digits], rest });
        }
    }
    None
}

/// Whether `name` can be a chunk's: a file of Lua, a part of the runtime, or a text. `at 12:30:01` is neither.
fn is_chunk(name: &str) -> bool {
    name.ends_with(".lua")
        || name.starts_with(TRUSTED)
        || (name.starts_with("[string ") && name.ends_with(']'))
        || (!name.is_empty() && !name.contains(char::is_whitespace) && !name.contains(':'))
}

/// Whether a frame is worth showing: the script's own, or a C function that the script called by its name.
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

/// Whether a frame is the call of `error`, a global function or an upvalue.
fn is_error(frame: &str) -> bool {
    frame.starts_with("[C]: in ") && frame.ends_with("'error'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_keeps_the_scripts_line_and_loses_its_folders() {
        let error = describe_text(
            "/etc/perilune/net.lua:31: no such field\nstack traceback:\n\t[C]: in function 'error'\n\t/etc/perilune/net.lua:31: in main chunk\n\t[C]: at 0x55",
        );
        assert_eq!(error.message, "net.lua:31: no such field");
        assert_eq!(error.traceback, None, "one frame says what the message says");
    }

    #[test]
    fn frames_of_the_runtime_are_dropped() {
        let error = describe_text(
            "a.lua:3: boom\nstack traceback:\n\t[C]: in function 'error'\n\ta.lua:3: in function 'inner'\n\ta.lua:9: in function <a.lua:8>\n\t[C]: in function 'xpcall'\n\tperilune:driver:5: in function <perilune:driver:2>\n\t[C]: in ?",
        );
        assert_eq!(
            error.traceback.unwrap(),
            "a.lua:3: in function 'inner'\na.lua:9: in function <a.lua:8>"
        );
    }

    #[test]
    fn an_error_raised_by_the_runtime_stands_at_the_line_that_called_it() {
        for message in ["perilune:view:12: no field 'x'", "no field 'x'"] {
            let text = format!(
                "{message}\nstack traceback:\n\tperilune:view:12: in function 'x'\n\ts.lua:7: in main chunk"
            );
            assert_eq!(describe_text(&text).message, "s.lua:7: no field 'x'");
        }
    }

    #[test]
    fn what_a_bundled_module_refuses_stands_at_the_line_of_its_caller() {
        let text = "perilune:stdlib/relation.lua:61: no event 'a:b'\nstack traceback:\n\t[C]: in ?\n\t[C]: in function 'error'\n\tperilune:evsel:70: in function 'evsel'\n\tperilune:stdlib/relation.lua:61: in function 'delay'\n\tmy.lua:7: in function <my.lua:6>";
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
    fn layers_and_prefixes_are_unwrapped() {
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
    fn a_place_is_added_only_where_none_is_known() {
        let at = |text: &str| describe_text(text).at(Some("a.lua:3")).message;
        assert_eq!(at("not enough memory"), "a.lua:3: not enough memory");
        assert_eq!(at("b.lua:7: no"), "b.lua:7: no");
        assert_eq!(describe_text("no").at(None).message, "no");
    }

    #[test]
    fn refused_memory_is_known_from_its_text() {
        assert!(describe_text("not enough memory").out_of_memory);
        assert!(describe(&mlua::Error::MemoryError("not enough memory".into())).out_of_memory);
        assert!(!describe_text("x.lua:1: enough").out_of_memory);
    }
}
