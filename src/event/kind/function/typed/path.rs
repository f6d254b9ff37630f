//! A path of a value in the list behind the name of a function: `len`, `user=request.user.name`.

/// Such a path.
pub struct ListedPath<'a> {
    /// The name in front of it, if it has one.
    pub own: Option<&'a str>,
    /// The path without that name, as typed.
    pub path: &'a str,
    /// Its parts: a parameter, then members of structures.
    pub steps: Vec<&'a str>,
    /// Name of its field: its own, or that of its parts.
    pub field: String,
}

impl<'a> ListedPath<'a> {
    /// Parses `PATH` or `NAME=PATH`.
    pub fn parse(text: &'a str) -> ListedPath<'a> {
        let (own, path) = match text.split_once('=') {
            Some((name, path)) => (Some(name.trim()), path.trim()),
            None => (None, text.trim()),
        };
        let steps: Vec<&str> = path.split('.').map(str::trim).collect();
        let field = own.map_or_else(|| steps.join("_"), str::to_owned);
        ListedPath { own, path, steps, field }
    }
}
