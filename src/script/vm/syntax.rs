//! Checks whether a typed line is complete.

/// Checks lines with a Lua state of its own that only compiles, so it may live in another thread
/// than the session's.
pub struct Syntax(mlua::Lua);

impl Default for Syntax {
    fn default() -> Self {
        Syntax::new()
    }
}

impl Syntax {
    /// Creates a Lua state that runs nothing.
    pub fn new() -> Syntax {
        Syntax(mlua::Lua::new())
    }

    /// Returns whether no more input is needed; erroneous input is complete, too.
    pub fn is_complete(&self, text: &str) -> bool {
        let text = text.trim_start();
        let text = text.strip_prefix('=').unwrap_or(text);
        let compiled = |text: &str| self.0.load(text).into_function();
        if text.starts_with(':') || compiled(&format!("return {text}")).is_ok() {
            return true;
        }
        !matches!(compiled(text), Err(mlua::Error::SyntaxError { incomplete_input: true, .. }))
    }
}
