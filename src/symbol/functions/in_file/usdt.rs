//! Finds the sites of a USDT probe, and checks that the kernel can probe and read each of them.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, bail};

use super::{ProgramFile, elf};
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::decode::elf::usdt::UsdtSite;
use crate::decode::operand::{self, Operand, OperandArgument, UnreadableOperand};
use crate::event::kind::function::fetched::{FetchedArgument, FetchedType};
use crate::event::kind::function::{FunctionLocation, ProbeValues, ProbedCode};
use crate::sys::dynamic_event::ProbeSite;

type SiteArguments = Vec<Result<OperandArgument, UnreadableOperand>>;

impl ProgramFile {
    /// Returns the location of a USDT probe, `PROVIDER:NAME`, with all of its sites.
    ///
    /// # Errors
    /// The file has no such probe, or its sites are not in the file's code.
    pub(super) fn usdt(&self, name: &str) -> Result<FunctionLocation> {
        let Some((provider, probe)) = name.split_once(':') else {
            bail!("incomplete name; write usdt:FILE:PROVIDER:NAME");
        };
        let (mut sites, mut arguments): (Vec<ProbeSite>, Vec<SiteArguments>) = Default::default();
        for found in self.usdt_sites() {
            if found.provider != provider.as_bytes() || found.name != probe.as_bytes() {
                continue;
            }
            let site = self.site(&found)?;
            if sites.iter().all(|known| known.offset != site.offset) {
                sites.push(site);
                arguments.push(operand::arguments(&String::from_utf8_lossy(found.arguments)));
            }
        }
        if sites.is_empty() {
            return Err(self.unknown_usdt(name));
        }
        let (mut fetched, mut notes) = (Vec::new(), Vec::new());
        for index in 0..arguments.iter().map(Vec::len).max().unwrap_or(0) {
            let name = format!("arg{}", index + 1);
            let at_sites: Vec<_> = arguments.iter().map(|all| all.get(index)).collect();
            match common_type(&at_sites) {
                Ok(value) => {
                    for (site, argument) in sites.iter_mut().zip(&at_sites) {
                        if let Some(Ok(OperandArgument { operand, .. })) = argument {
                            let blank = if site.arguments.is_empty() { "" } else { " " };
                            let kind = value.kernel_name();
                            site.arguments += &format!("{blank}{name}={operand}:{kind}");
                        }
                    }
                    fetched.push(FetchedArgument { name, value });
                }
                Err(why) => notes.push(format!("{name} is omitted: it {why}")),
            }
        }
        Ok(FunctionLocation {
            code: ProbedCode::File(self.code.clone()),
            sites,
            values: ProbeValues::Fetched(fetched),
            notes,
        })
    }

    /// Returns at most `most` wanted probes as `PROVIDER:NAME`, sorted.
    ///
    /// # Errors
    /// The file has none at all.
    pub(super) fn usdt_names(
        &self,
        wanted: &dyn Fn(&str) -> bool,
        most: usize,
    ) -> Result<Vec<String>> {
        let names = self.all_usdt_names();
        if names.is_empty() {
            return Err(self.no_usdt());
        }
        Ok(names.into_iter().filter(|name| wanted(name)).take(most).collect())
    }

    fn usdt_sites(&self) -> impl Iterator<Item = UsdtSite<'_>> {
        elf(&self.object).into_iter().flat_map(|elf| elf.usdt_sites())
    }

    fn all_usdt_names(&self) -> BTreeSet<String> {
        let name = |site: UsdtSite<'_>| {
            let (provider, name) = (site.provider.to_vec(), site.name.to_vec());
            Some(format!("{}:{}", String::from_utf8(provider).ok()?, String::from_utf8(name).ok()?))
        };
        self.usdt_sites().filter_map(name).collect()
    }

    /// Returns where the code and the semaphore of a site are in the file.
    fn site(&self, found: &UsdtSite<'_>) -> Result<ProbeSite> {
        let elf = elf(&self.object);
        let misplaced = |what: &str| {
            anyhow!(
                "{} has no {what} at the address in the note of this probe; build it again",
                self.path.display()
            )
        };
        let offset = elf.and_then(|elf| elf.offset_of_code(found.address));
        let semaphore = match found.semaphore {
            Some(address) => Some(
                elf.and_then(|elf| elf.offset_of_data(address))
                    .ok_or_else(|| misplaced("semaphore"))?,
            ),
            None => None,
        };
        let offset = offset.ok_or_else(|| misplaced("code"))?;
        Ok(ProbeSite { offset, semaphore, arguments: String::new() })
    }

    fn no_usdt(&self) -> anyhow::Error {
        anyhow!(
            "{} has no USDT probes (no section .note.stapsdt); use a build that has them, or a \
             function: uprobe:FILE:FUNCTION",
            self.path.display()
        )
    }

    fn unknown_usdt(&self, name: &str) -> anyhow::Error {
        let names = self.all_usdt_names();
        if names.is_empty() {
            return self.no_usdt();
        }
        let near = nearest(name, names.iter().map(String::as_str));
        let hint = match near.is_empty() {
            true => format!(" (perilune list 'usdt:{}:*' shows all)", self.name),
            false => did_you_mean(&near),
        };
        anyhow!("{} has no USDT probe '{name}'{hint}", self.path.display())
    }
}

/// Returns the type that an argument has at all sites. A constant fits every type.
///
/// # Errors
/// It cannot be read at one of them, or has several types; the text follows the argument's name.
fn common_type(
    at_sites: &[Option<&Result<OperandArgument, UnreadableOperand>>],
) -> Result<FetchedType, String> {
    let mut known: Option<(FetchedType, bool)> = None;
    for argument in at_sites {
        let argument = argument.ok_or("is missing at some of its sites")?;
        let argument = argument.as_ref().map_err(ToString::to_string)?;
        let value = FetchedType::Int { size: argument.size, signed: argument.signed };
        let fixed = !matches!(argument.operand, Operand::Constant(_));
        match known {
            Some((other, true)) if fixed && other != value => {
                return Err("has a different type at some of its sites".to_owned());
            }
            Some((_, is_fixed)) if is_fixed || !fixed => {}
            _ => known = Some((value, fixed)),
        }
    }
    known.map(|(value, _)| value).ok_or_else(|| "has no site".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_has_one_type_at_all_sites() {
        let of = |size, signed, operand| Ok(OperandArgument { size, signed, operand });
        let register = |size, signed| of(size, signed, Operand::Register("di"));
        let constant = of(1, false, Operand::Constant(5));
        let int = FetchedType::Int { size: 4, signed: true };
        let common = |all: &[Result<OperandArgument, UnreadableOperand>]| {
            common_type(&all.iter().map(Some).collect::<Vec<_>>())
        };
        assert_eq!(common(&[register(4, true), register(4, true)]), Ok(int));
        assert_eq!(common(&[constant.clone(), register(4, true)]), Ok(int));
        assert_eq!(common(&[register(4, true), constant.clone()]), Ok(int));
        assert_eq!(
            common(std::slice::from_ref(&constant)),
            Ok(FetchedType::Int { size: 1, signed: false })
        );
        assert!(common(&[register(4, true), constant, register(8, true)]).is_err());
        assert!(common(&[register(4, true), Err(UnreadableOperand::Float)]).is_err());
        assert!(common_type(&[Some(&register(4, true)), None]).is_err());
    }
}
