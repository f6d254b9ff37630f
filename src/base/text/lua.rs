//! Keywords of LuaJIT, and fields whose names avoid them.

/// LuaJIT's keywords, `goto` included.
pub const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// Returns a name as it can follow a dot in Lua: a keyword gets an underscore (`e.end_`).
pub fn field_name(name: &str) -> String {
    let underscore = if KEYWORDS.contains(&name) { "_" } else { "" };
    format!("{name}{underscore}")
}
