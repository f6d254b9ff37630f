//! Addresses of the functions and variables of a file.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, anyhow, bail};

use super::{COMPARED_MAX, ProgramFile, elf, without_version};
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::decode::elf::symbols::{ElfSymbol, ElfSymbolKind};
use crate::decode::elf::{EXECUTABLE, LOAD, Segment};
use crate::event::kind::breakpoint::FoundSymbol;
use crate::sys::load_address::LoadedFile;

impl ProgramFile {
    /// Returns the symbol of that name.
    ///
    /// # Errors
    /// The file has no such symbol or several, or the variable is thread-local.
    pub(in crate::symbol::functions) fn symbol(&self, name: &str) -> Result<FoundSymbol> {
        let mut found: Vec<ElfSymbol<'_>> =
            self.each_symbol().filter(|symbol| symbol.name == name.as_bytes()).collect();
        if found.iter().any(|symbol| !symbol.superseded) {
            found.retain(|symbol| !symbol.superseded);
        }
        found.sort_by_key(|symbol| symbol.address);
        found.dedup_by_key(|symbol| symbol.address);
        let file = self.path.display();
        let symbol = match &found[..] {
            [symbol] => symbol,
            [] => return Err(self.unknown_symbol(name)),
            several => bail!(
                "{file} has {} symbols of this name; watch the address of one of them: \
                 -p PID -e mem:0xADDRESS",
                several.len()
            ),
        };
        if symbol.kind == ElfSymbolKind::ThreadLocal {
            bail!(
                "'{name}' is thread-local: each thread has its own copy; watch the address of one: \
                 mem:0xADDRESS"
            );
        }
        if symbol.kind == ElfSymbolKind::Resolver {
            return Err(self.chosen(name));
        }
        let is_code = |s: &Segment| s.kind == LOAD && s.flags & EXECUTABLE != 0;
        let elf = elf(&self.object);
        let code = elf.and_then(|elf| elf.segments().find(is_code));
        let code = code.with_context(|| format!("{file} has no executable segment"))?;
        Ok(FoundSymbol {
            address: symbol.address,
            size: symbol.size,
            is_code: symbol.kind != ElfSymbolKind::Variable,
            loaded: Some(LoadedFile {
                file: self.file,
                offset: code.offset,
                address: code.address,
                is_library: elf.is_none_or(|elf| !elf.is_program()),
            }),
        })
    }

    /// Returns the wanted names, at most `most`, sorted.
    pub(in crate::symbol::functions) fn symbol_names(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        most: usize,
    ) -> Vec<String> {
        let usable = self.each_symbol().filter(|s| s.kind != ElfSymbolKind::ThreadLocal);
        let names = usable.filter_map(|symbol| std::str::from_utf8(symbol.name).ok());
        let names = names.filter(|name| is_name(name) && wanted(name));
        let names: BTreeSet<&str> = names.collect();
        names.into_iter().take(most).map(str::to_owned).collect()
    }

    fn each_symbol(&self) -> impl Iterator<Item = ElfSymbol<'_>> {
        let all = self.tables().flat_map(|(elf, table)| elf.symbols(table));
        all.map(|symbol| ElfSymbol { name: without_version(symbol.name), ..symbol })
    }

    fn unknown_symbol(&self, name: &str) -> anyhow::Error {
        let names = self.each_symbol().filter_map(|s| std::str::from_utf8(s.name).ok());
        let mut names: Vec<&str> = names.take(COMPARED_MAX).collect();
        names.sort_unstable();
        names.dedup();
        let file = self.path.display();
        if names.is_empty() {
            return anyhow!(
                "{file} has no symbols (it was stripped); install its debug symbols, or use a file \
                 that was not stripped"
            );
        }
        let near = nearest(name, names.iter().copied());
        let hint = match near.is_empty() {
            false => did_you_mean(&near),
            true => format!(" (perilune list 'mem:{}:*' shows all)", self.name),
        };
        anyhow!("{file} has no symbol '{name}'{hint}")
    }
}

/// Returns whether a symbol or probe can be written in the name of an event, and printed.
pub(super) fn is_name(symbol: &str) -> bool {
    !symbol.contains(|c: char| "/,|:+".contains(c) || c.is_whitespace() || c.is_control())
}
