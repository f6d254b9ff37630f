//! Functions of C++ and Rust by their names in the source: `Foo::meth` or
//! `Foo::meth(int, char const*)` for the symbol `_ZN3Foo4methEiPKc`, as stacks show them.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::{ProgramFile, brief};
use crate::event::kind::function::{CodeLocation, FunctionName};
use crate::symbol::demangle::demangled;

/// Symbols by their addresses.
type Symbols = BTreeMap<u64, String>;

impl ProgramFile {
    /// Returns the name with the symbol of a function in place of its name in the source; None if
    /// it names a symbol, or no function has this name.
    ///
    /// # Errors
    /// Several functions have this name; the error lists their symbols.
    pub(super) fn with_symbol(&self, named: &FunctionName) -> Result<Option<FunctionName>> {
        let CodeLocation::Function(name, _) = named.location() else { return Ok(None) };
        // The list behind a name is that of its types in C++, or of the parameters to read.
        let (whole, plain) = (without_blanks(&named.function), without_blanks(name));
        let [mut is_whole, mut is_name, mut is_plain] = [const { Symbols::new() }; 3];
        let mut is_symbol = false;
        self.each(&mut |function| {
            is_symbol |= function.name == name.as_bytes();
            // Parts and copies of a function (`.cold`, `.part.0`) are not the function.
            let symbol = std::str::from_utf8(function.name).ok().filter(|name| !name.contains('.'));
            if let Some((symbol, shown)) = symbol.and_then(|name| Some((name, demangled(name)?))) {
                let shown = without_blanks(&shown);
                let matches = if shown == whole {
                    Some(&mut is_whole)
                } else if shown == plain {
                    Some(&mut is_name)
                } else if without_parameters(&shown) == plain {
                    Some(&mut is_plain)
                } else {
                    None
                };
                if let Some(found) = matches {
                    found.insert(function.address, symbol.to_owned());
                }
            }
            !is_symbol
        });
        if is_symbol {
            return Ok(None);
        }
        let (found, rest) = match (is_whole.is_empty(), is_name.is_empty()) {
            (false, _) => (is_whole, ""),
            (true, false) => (is_name, &named.function[name.len()..]),
            (true, true) => (is_plain, &named.function[name.len()..]),
        };
        let symbols: Vec<String> = found.into_values().collect();
        match &symbols[..] {
            [] => Ok(None),
            [symbol] => Ok(Some(named.with(&format!("{symbol}{rest}")))),
            several => bail!(
                "{} has {} functions of this name; write the symbol of one: {}",
                self.path.display(),
                several.len(),
                brief(several)
            ),
        }
    }
}

fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Returns a demangled name up to the list of the parameters' types.
fn without_parameters(name: &str) -> &str {
    let Some(end) = name.rfind(')') else { return name };
    let mut depth = 0_usize;
    for (at, byte) in name.as_bytes()[..=end].iter().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return &name[..at];
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_types_is_removed_from_a_name() {
        for (name, expected) in [
            ("Foo::meth(int, char const*)", "Foo::meth"),
            ("Foo::meth(int) const", "Foo::meth"),
            ("Foo::operator()(int)", "Foo::operator()"),
            ("each<void (*)(int)>(void (*)(int))", "each<void (*)(int)>"),
            ("core::fmt::write", "core::fmt::write"),
            ("f)", "f)"),
            ("", ""),
        ] {
            assert_eq!(without_parameters(name), expected);
        }
    }
}
