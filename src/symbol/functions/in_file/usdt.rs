//! Finds the sites of a USDT probe, and checks that the kernel can probe and read each of them.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, bail};

use super::instruction::is_nop;
use super::parameters::check_text;
use super::symbols::is_name;
use super::{ProgramFile, elf};
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::decode::elf::usdt::UsdtSite;
use crate::decode::format::OmittedField;
use crate::decode::operand::{self, Operand, OperandArgument, UnreadableOperand};
use crate::event::kind::function::fetched::{FetchedArgument, FetchedType};
use crate::event::kind::function::typed::{ListedPath, is_field_name};
use crate::event::kind::function::{FunctionLocation, FunctionName, ProbeValues, ProbedCode};
use crate::sys::dynamic_event::ProbeSite;

type SiteArguments = Vec<Result<OperandArgument, UnreadableOperand>>;

impl ProgramFile {
    /// Returns the location of a USDT probe, `PROVIDER:NAME` or `PROVIDER:NAME(arg1, arg2.text)`,
    /// with all of its sites. Without a list, its values are all arguments as numbers.
    ///
    /// # Errors
    /// The file has no such probe, its sites are not in the file's code, or a listed argument
    /// cannot be read.
    pub(super) fn usdt(&self, named: &FunctionName) -> Result<FunctionLocation> {
        let name = named.without_paths();
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
                let all = operand::arguments(&String::from_utf8_lossy(found.arguments));
                let placed = all.into_iter().map(|one| self.placed(one?, &found, &site));
                arguments.push(placed.collect());
                sites.push(site);
            }
        }
        if sites.is_empty() {
            return Err(self.unknown_usdt(name));
        }
        let number = arguments.iter().map(Vec::len).max().unwrap_or(0);
        let (mut fetched, mut omitted) = (Vec::<FetchedArgument>::new(), Vec::new());
        let listed = named.paths();
        for wanted in wanted(listed.as_deref(), number)? {
            let at_sites: Vec<_> = arguments.iter().map(|all| all.get(wanted.index)).collect();
            let is_twice = fetched.iter().any(|field| field.name == wanted.name);
            match wanted.fetched(&at_sites).and_then(|found| match () {
                () if is_twice => Err("is there twice".to_owned()),
                () if !is_field_name(&wanted.name) => Err("cannot have this name".to_owned()),
                () => Ok(found),
            }) {
                Ok((value, texts)) => {
                    for (site, text) in sites.iter_mut().zip(texts) {
                        let blank = if site.arguments.is_empty() { "" } else { " " };
                        let kind = value.kernel_name();
                        site.arguments += &format!("{blank}{}={text}:{kind}", wanted.name);
                    }
                    fetched.push(FetchedArgument { name: wanted.name, value, behind: Vec::new() });
                }
                Err(why) if listed.is_some() => bail!("'{}' {why}", wanted.path),
                Err(why) => omitted.push(OmittedField { name: wanted.name, why }),
            }
        }
        check_text(&fetched)?;
        let mut notes = Vec::new();
        if fetched.iter().any(|field| field.value == POINTER) {
            notes.push("text that an argument points to: NAME(arg1.text)".to_owned());
        }
        Ok(FunctionLocation {
            code: ProbedCode::File(self.code.clone()),
            sites,
            values: ProbeValues::Fetched(fetched),
            omitted,
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
            let (provider, name) =
                (String::from_utf8(provider).ok()?, String::from_utf8(name).ok()?);
            let is_usable = is_name(&provider) && is_name(&name);
            is_usable.then(|| format!("{provider}:{name}"))
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
        if !is_nop(self.bytes_from(offset)) {
            return Err(misplaced("nop"));
        }
        Ok(ProbeSite { offset, semaphore, arguments: String::new() })
    }

    /// Returns an argument whose variable, if it is one, is replaced by its address as the kernel
    /// takes it: relative to the code of the site ([`Operand::Mapped`]).
    fn placed(
        &self,
        argument: OperandArgument,
        found: &UsdtSite<'_>,
        site: &ProbeSite,
    ) -> Result<OperandArgument, UnreadableOperand> {
        let Operand::Variable(name, offset) = &argument.operand else { return Ok(argument) };
        let unknown = |why: String| UnreadableOperand::Variable(name.clone(), why);
        let symbol = self.symbol(name).map_err(|why| unknown(why.to_string()))?;
        let address = symbol.address.checked_add_signed(*offset);
        let code = found.address.checked_sub(site.offset);
        let mapped = address.and_then(|at| at.checked_sub(code?));
        let mapped = mapped.ok_or_else(|| unknown("it is before the code".to_owned()))?;
        Ok(OperandArgument { operand: Operand::Mapped(mapped), ..argument })
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

/// Type of an argument that may be a pointer.
const POINTER: FetchedType = FetchedType::Int { size: 8, signed: false };

/// An argument of a probe that is to be read.
struct WantedArgument {
    /// As typed: `arg1` or `arg1.text`.
    path: String,
    /// Name of its field.
    name: String,
    /// Its index in the notes of the sites.
    index: usize,
    /// Whether the text that it points to is read instead of itself.
    is_text: bool,
}

/// Returns the arguments of a list, or all `number` of them without a list.
///
/// # Errors
/// An item of the list is not one of them.
fn wanted(listed: Option<&[&str]>, number: usize) -> Result<Vec<WantedArgument>> {
    let Some(listed) = listed else {
        let all = (0..number).map(|index| {
            let name = format!("arg{}", index + 1);
            WantedArgument { path: name.clone(), name, index, is_text: false }
        });
        return Ok(all.collect());
    };
    let one = |path: &&str| {
        let ListedPath { path, field, .. } = ListedPath::parse(path);
        let (argument, is_text) = match path.strip_suffix(".text") {
            Some(argument) => (argument, true),
            None => (path, false),
        };
        let index = argument.strip_prefix("arg").and_then(|digits| digits.parse::<usize>().ok());
        match index.and_then(|index| index.checked_sub(1)).filter(|index| *index < number) {
            Some(index) => {
                Ok(WantedArgument { path: path.to_owned(), name: field, index, is_text })
            }
            None if number == 0 => Err(anyhow!("the probe has no arguments; omit the parentheses")),
            None => Err(anyhow!(
                "'{path}' is not an argument of the probe; it has arg1 to arg{number}, and arg1.text \
                 is the text that arg1 points to"
            )),
        }
    };
    listed.iter().map(one).collect()
}

impl WantedArgument {
    /// Returns its type, and its fetch argument at each site without the type.
    ///
    /// # Errors
    /// It cannot be read at one of the sites; the text follows the argument's name.
    fn fetched(
        &self,
        at_sites: &[Option<&Result<OperandArgument, UnreadableOperand>>],
    ) -> Result<(FetchedType, Vec<String>), String> {
        let value = common_type(at_sites)?;
        let operands = at_sites.iter().filter_map(|one| one.as_ref()?.as_ref().ok());
        if !self.is_text {
            return Ok((value, operands.map(|one| one.operand.to_string()).collect()));
        }
        let text = |one: &OperandArgument| match (&one.operand, one.size) {
            (Operand::Constant(address), 8) => Ok(format!("@{address:#x}")),
            (operand, 8) => Ok(format!("+0({operand})")),
            (_, size) => Err(format!("points to nothing: it has {size} bytes, not 8")),
        };
        Ok((FetchedType::Text, operands.map(text).collect::<Result<_, _>>()?))
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

    #[test]
    fn the_text_behind_an_argument_is_read_at_each_site() {
        let wanted = |list: &[&str]| wanted(Some(list), 3).map(|mut all| all.remove(0));
        let of = |size, operand| Ok(OperandArgument { size, signed: false, operand });
        let text = wanted(&["arg2.text"]).unwrap();
        assert_eq!((&*text.name, text.index), ("arg2_text", 1));
        let sites = [
            of(8, Operand::Register("di")),
            of(8, Operand::Memory("sp", 16)),
            of(8, Operand::Constant(0x4010)),
        ];
        let (value, fetched) = text.fetched(&sites.each_ref().map(Some)).unwrap();
        assert_eq!(value, FetchedType::Text);
        assert_eq!(fetched, ["+0(%di)", "+0(+16(%sp))", "@0x4010"]);
        let narrow = [of(4, Operand::Register("di"))];
        let refused = text.fetched(&narrow.each_ref().map(Some)).unwrap_err();
        assert_eq!(refused, "points to nothing: it has 4 bytes, not 8");
        let refused = |list: &[&str]| super::wanted(Some(list), 3).err().unwrap().to_string();
        assert!(refused(&["name"]).starts_with("'name' is not an argument of the probe; it has"));
        assert!(refused(&["arg4"]).contains("arg1 to arg3"));
        assert!(refused(&["arg0"]).contains("arg1 to arg3"));
    }
}
