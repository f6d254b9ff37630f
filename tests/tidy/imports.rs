//! The crate as modules with names: which file defines, or re-exports, what another file uses.
//!
//! It reads tokens, not types: a path counts if it begins with `crate`, `super`, `self`, a child
//! module or an imported name. Test code does not count, nor does a module without an item of it.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::source::Source;

/// Keywords in front of the name of an item.
const ITEMS: &[&str] =
    &["struct", "enum", "union", "trait", "type", "fn", "const", "static", "macro_rules"];

/// Maximum number of imports that are followed from a path to its definition.
const IMPORTS_MAX: usize = 16;

/// The modules of the crate.
pub(crate) struct Crate {
    modules: Vec<Module>,
    /// Index of each module by its path.
    by_path: HashMap<Vec<String>, usize>,
}

/// A file of the crate without its tests.
struct Module {
    /// Relative to the root of the tree.
    file: String,
    /// Names from the crate's root to this module.
    path: Vec<String>,
    /// Tokens outside imports.
    code: Vec<String>,
    /// Items at the top level of the file.
    defined: HashSet<String>,
    /// Each imported name and its path.
    imported: Vec<(String, Vec<String>)>,
    /// Modules of which everything is imported.
    globs: Vec<Vec<String>>,
}

/// The end of a path.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item of this module.
    Item(usize),
}

impl Crate {
    /// Reads the files below `src/`.
    pub(crate) fn read(files: &[Source]) -> Crate {
        let (mut modules, mut tests) = (Vec::new(), Vec::new());
        for file in files.iter().filter(|file| file.is("rs") && file.path != "src/main.rs") {
            let Some(inside) = file.path.strip_prefix("src/") else { continue };
            let path = match inside {
                "lib.rs" => Vec::new(),
                _ => inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect(),
            };
            let (tokens, test_modules) = without_tests(&tokens(&file.code));
            tests.extend(test_modules.into_iter().map(|name| [&path[..], &[name]].concat()));
            modules.push(Module::read(file.path.clone(), path, &tokens));
        }
        let is_test = |path: &[String]| tests.iter().any(|test| path.starts_with(test));
        modules.retain(|module| !is_test(&module.path));
        let by_path = modules.iter().enumerate().map(|(i, m)| (m.path.clone(), i)).collect();
        Crate { modules, by_path }
    }

    /// Returns each pair of a file and another one of which it names an item.
    pub(crate) fn arrows(&self) -> BTreeSet<(&str, &str)> {
        let mut arrows = BTreeSet::new();
        for (from, module) in self.modules.iter().enumerate() {
            for path in module.paths() {
                if let Some(Target::Item(to)) = self.resolve(from, &path, 0)
                    && to != from
                {
                    arrows.insert((&*module.file, &*self.modules[to].file));
                }
            }
        }
        arrows
    }

    /// Returns what a path in a module names; `None` for an item of another crate.
    fn resolve(&self, from: usize, path: &[String], followed: usize) -> Option<Target> {
        let mut at = match path.first()?.as_str() {
            "crate" => *self.by_path.get(&[][..])?,
            "super" => self.parent(from)?,
            "self" => from,
            name => match self.name(from, name, followed)? {
                Target::Module(module) => module,
                item @ Target::Item(_) => return Some(item),
            },
        };
        for name in &path[1..] {
            at = match name.as_str() {
                "self" => at,
                "super" => self.parent(at)?,
                // A name that is not found is made by a macro.
                _ => match self.name(at, name, followed).unwrap_or(Target::Item(at)) {
                    Target::Module(module) => module,
                    item @ Target::Item(_) => return Some(item),
                },
            };
        }
        Some(Target::Module(at))
    }

    /// Returns what a name means in a module.
    fn name(&self, at: usize, name: &str, followed: usize) -> Option<Target> {
        let module = &self.modules[at];
        if let Some(child) = self.by_path.get(&[&module.path[..], &[name.to_owned()]].concat()) {
            return Some(Target::Module(*child));
        }
        if module.defined.contains(name) {
            return Some(Target::Item(at));
        }
        if followed == IMPORTS_MAX {
            return None;
        }
        if let Some((_, path)) = module.imported.iter().find(|(imported, _)| imported == name) {
            // `use name;` of another crate.
            let target = if path[0] == name { None } else { self.resolve(at, path, followed + 1) };
            return target.map(|target| match target {
                Target::Item(_) => Target::Item(at),
                module @ Target::Module(_) => module,
            });
        }
        module.globs.iter().find_map(|path| match self.resolve(at, path, followed + 1)? {
            Target::Module(all) if all != at => self.name(all, name, followed + 1),
            _ => None,
        })
    }

    fn parent(&self, module: usize) -> Option<usize> {
        let (_, parent) = self.modules[module].path.split_last()?;
        self.by_path.get(parent).copied()
    }
}

impl Module {
    fn read(file: String, path: Vec<String>, tokens: &[String]) -> Module {
        let (mut defined, mut depth) = (HashSet::new(), 0);
        let (mut imported, mut globs, mut code) = (Vec::new(), Vec::new(), Vec::new());
        let mut i = 0;
        while let Some(token) = tokens.get(i) {
            let next = tokens.get(i + 1).map(String::as_str).unwrap_or_default();
            match token.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                // Not the bound `use<…>`.
                "use" if next != "<" => {
                    for mut leaf in leaves(&tokens[i + 1..]) {
                        match leaf.pop().unwrap_or_default() {
                            name if name == "*" => globs.push(leaf),
                            name => imported.push((name, leaf)),
                        }
                    }
                    i += tokens[i..].iter().take_while(|token| *token != ";").count();
                    continue;
                }
                token if depth == 0 && ITEMS.contains(&token) => {
                    let name = tokens[i + 1..].iter().find(|name| *name != "mut");
                    defined.extend(name.cloned());
                }
                _ => {}
            }
            code.push(token.clone());
            i += 1;
        }
        Module { file, path, code, defined, imported, globs }
    }

    /// Returns the paths of the imports and of the code; with a glob, each single name, too.
    fn paths(&self) -> Vec<Vec<String>> {
        let mut paths: Vec<_> = self.imported.iter().map(|(_, path)| path.clone()).collect();
        let mut i = 0;
        while let Some(first) = self.code.get(i) {
            let start = i;
            i += 1;
            if !is_name(first) || start > 0 && self.code[start - 1] == "." {
                continue;
            }
            while self.code.get(i).is_some_and(|token| token == "::")
                && self.code.get(i + 1).is_some_and(|token| is_name(token))
            {
                i += 2;
            }
            if i > start + 1 || !self.globs.is_empty() {
                paths.push(self.code[start..i].iter().step_by(2).cloned().collect());
            }
        }
        paths
    }
}

/// Splits code into names, `::` and single characters.
fn tokens(code: &str) -> Vec<String> {
    let (mut tokens, mut rest) = (Vec::new(), code.trim_start());
    while let Some(first) = rest.chars().next() {
        let length = match first {
            ':' if rest.starts_with("::") => 2,
            c if c.is_alphanumeric() || c == '_' => {
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    tokens
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Removes the items behind `#[cfg(test)]` and `#[cfg(all(test, …))]`. Returns the rest, and the
/// names of the modules among these items.
fn without_tests(tokens: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut rest, mut modules, mut i) = (Vec::new(), Vec::new(), 0);
    while i < tokens.len() {
        let is = |expected: &[&str]| tokens[i..].iter().zip(expected).all(|(a, b)| a == b);
        if !(is(&["#", "[", "cfg", "(", "test", ")"])
            || is(&["#", "[", "cfg", "(", "all", "(", "test"]))
        {
            rest.push(tokens[i].clone());
            i += 1;
            continue;
        }
        let end = item_end(tokens, i);
        let name =
            tokens[i..end].iter().position(|t| t == "mod").and_then(|m| tokens.get(i + m + 1));
        modules.extend(name.cloned());
        i = end;
    }
    (rest, modules)
}

/// Returns the index behind the item at `from`: behind its `;`, or behind the end of its block.
fn item_end(tokens: &[String], from: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(from) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 && matches!(token.as_str(), ";" | "}") {
            return i + 1;
        }
    }
    tokens.len()
}

/// Returns each leaf of the tree behind `use`: its path, followed by the imported name or `*`.
fn leaves(tokens: &[String]) -> Vec<Vec<String>> {
    let (mut leaves, mut outer, mut path) = (Vec::new(), Vec::new(), Vec::<String>::new());
    let mut before = "";
    let mut alias = None;
    for token in tokens {
        match token.as_str() {
            "{" => outer.push(path.clone()),
            end @ ("," | "}" | ";") => {
                if (is_name(before) || before == "*")
                    && let Some(last) = path.pop()
                {
                    if last != "self" && last != "*" {
                        path.push(last.clone());
                    }
                    let name = if last == "self" { path.last().cloned() } else { Some(last) };
                    path.extend(alias.take().or(name));
                    leaves.push(path);
                }
                path = if end == "}" { outer.pop() } else { outer.last().cloned() }
                    .unwrap_or_default();
                if end == ";" {
                    break;
                }
            }
            "::" | "as" => {}
            name if before == "as" => alias = Some(name.to_owned()),
            name => path.push(name.to_owned()),
        }
        before = token;
    }
    leaves
}

#[test]
fn a_path_leads_to_the_file_that_has_its_item() {
    let file = |path: &str, text: &str| Source::new(path, text);
    let files = [
        file("src/lib.rs", "pub mod a; pub mod b;"),
        file("src/a.rs", "mod c; mod tests; pub use c::{Deep as Renamed, *}; pub struct Top;"),
        file("src/a/c.rs", "pub struct Deep; pub fn all() {}"),
        file("src/a/tests.rs", "use crate::b::B;"),
        file("src/b.rs", ""),
    ];
    let arrows = |text: &str| {
        let b = file("src/b.rs", text);
        let files: Vec<Source> =
            files[..4].iter().map(|f| file(&f.path, &f.text)).chain([b]).collect();
        let all = Crate::read(&files);
        let of_b = all.arrows().into_iter().filter(|(from, _)| *from == "src/b.rs");
        of_b.map(|(_, to)| to.to_owned()).collect::<Vec<_>>()
    };
    for text in [
        "use crate::a::Renamed;",
        "use super::a; fn f() { a::Top }",
        "use crate::{a::{self as other, Renamed as R}};",
        "use crate::a::*; fn f(top: Top) {}",
    ] {
        assert_eq!(arrows(text), ["src/a.rs"], "{text}");
    }
    for text in ["fn f() -> crate::a::c::Deep { g() }", "use super::a::{c}; fn f() { c::all() }"] {
        assert_eq!(arrows(text), ["src/a/c.rs"], "{text}");
    }
    for text in [
        "use crate::a;",
        "use std::a::Top; fn f(own: Top, x: X) { x.crate_::a() }",
        "#[cfg(test)] mod tests { use crate::a::Top; }",
        "#[cfg(all(test, unix))] use crate::a::Top; struct B;",
    ] {
        assert!(arrows(text).is_empty(), "{text}");
    }
}
