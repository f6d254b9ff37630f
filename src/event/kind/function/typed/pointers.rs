//! The pointers that lead to a number: each is a field in front of it.

use super::{FIELDS_MAX, FetchedType, ListedPath, TOO_LONG, TypedParameters, is_field_name};

/// The pointers that have a field.
pub(super) struct AddedPointers<'a> {
    all: Vec<AddedPointer<'a>>,
    /// The paths that the name of the function lists.
    listed: &'a [ListedPath<'a>],
}

struct AddedPointer<'a> {
    path: Vec<&'a str>,
    /// Name of the field.
    name: String,
    /// Whether no path lists it: it is there for a number behind it.
    unlisted: bool,
}

impl<'a> AddedPointers<'a> {
    /// Returns an empty list, for the values at these paths.
    pub(super) fn beside(listed: &'a [ListedPath<'a>]) -> AddedPointers<'a> {
        AddedPointers { all: Vec::new(), listed }
    }

    /// Marks the pointer with this path as listed, under this name, or under any if it is that of
    /// the path. Returns whether its field is there, and was not listed before.
    pub(super) fn mark_listed(&mut self, path: &[&str], name: &str) -> bool {
        let any = name == path.join("_");
        let mut all = self.all.iter_mut();
        let added = all.find(|pointer| {
            pointer.unlisted && pointer.path == path && (any || pointer.name == name)
        });
        added.is_some_and(|pointer| std::mem::take(&mut pointer.unlisted))
    }

    /// Adds the field of a listed path.
    pub(super) fn add_listed(&mut self, path: Vec<&'a str>, name: String) {
        self.all.push(AddedPointer { path, name, unlisted: false });
    }

    /// Returns whether another listed path has a field of this name.
    fn is_reserved(&self, name: &str, path: &[&str]) -> bool {
        self.listed.iter().any(|listed| listed.steps != path && listed.field == name)
    }
}

impl TypedParameters {
    /// Adds the pointers that the path of a number follows, each with the number of steps before
    /// it, unless they are there already. Returns the names of their fields.
    pub(super) fn add_pointers<'a>(
        &mut self,
        path: &[&'a str],
        pointers: Vec<(usize, String)>,
        added: &mut AddedPointers<'a>,
    ) -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        for (steps, fetch) in pointers {
            let path = path[..=steps].to_vec();
            let before = added.all.iter().find(|pointer| pointer.path == path);
            let name = match before.map(|pointer| pointer.name.clone()) {
                Some(name) => name,
                None => {
                    let name = self.add_pointer(&path, &fetch, &names, added)?;
                    added.all.push(AddedPointer { path, name: name.clone(), unlisted: true });
                    name
                }
            };
            names.push(name);
        }
        Ok(names)
    }

    /// Adds the field of a pointer on the way to a number, and returns its name: that of its path
    /// if that can be a field.
    fn add_pointer(
        &mut self,
        path: &[&str],
        fetch: &str,
        behind: &[String],
        added: &AddedPointers<'_>,
    ) -> Result<String, String> {
        let numbered = (1..=FIELDS_MAX).map(|number| format!("pointer{number}"));
        let is_free = |name: &String| {
            is_field_name(name)
                && self.fields.iter().all(|field| field.name != *name)
                && !added.is_reserved(name, path)
        };
        let name = std::iter::once(path.join("_")).chain(numbered).find(is_free);
        let name = name.ok_or(TOO_LONG)?;
        self.add_behind(&name, fetch, FetchedType::Pointer, behind.to_vec())?;
        Ok(name)
    }
}
