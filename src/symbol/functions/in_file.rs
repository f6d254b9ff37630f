//! The functions of a program or library.

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, Result, anyhow, bail};

use super::super::{debug_file, mini};
use crate::base::nearest::{did_you_mean, nearest};
use crate::base::units::counted;
use crate::decode::elf::{Elf, Function, Table};
use crate::event::function::Place;
use crate::sys::code::Code;
use crate::sys::held::{Links, open_regular};
use crate::task::objects::Object;

/// A file with functions, held open.
pub(super) struct Program {
    /// What was typed.
    name: String,
    /// Where that leads to.
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
    object: Object,
    code: Rc<Code>,
    /// The file with the symbols that were taken out of this one.
    apart: Option<Object>,
}

/// What all entries of one name come to.
#[derive(Default)]
struct Entries {
    /// Different places, ascending; the current version's, if there is one.
    addresses: Vec<u64>,
    superseded: bool,
    chooses: bool,
}

/// Names that are compared with one that there is not: some tenths of a second.
const COMPARED_MAX: usize = 200_000;

/// So many times as many names as are asked for are collected: some of them turn out to be none that can be watched.
const COLLECTED: usize = 8;

const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
/// `EM_X86_64` or `EM_AARCH64`.
const HERE: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };

impl Program {
    /// Opens what a user calls `name`: a path, or a program that a shell would find.
    pub(super) fn open(name: &str) -> Result<Program> {
        // Neither can be printed and read back.
        if name.chars().any(char::is_control) || name.contains('"') && name.contains('\'') {
            bail!(
                "the name of the file has control characters, or quotes of both kinds; name it by another path"
            );
        }
        let path = located(name)?;
        let file = open_regular(&path, Links::Followed).map_err(|why| refused(&path, &why))?;
        let seen = file.metadata().context("it cannot be looked at")?;
        let shown = path.display();
        // Whatever becomes of the path: this file.
        let held = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        let object = Object::open(&held, 0).ok_or_else(|| not_elf(&path, &file))?;
        let elf = Elf::new(object.bytes()).context("it is no ELF file any more")?;
        if !elf.is_wide() {
            bail!(
                "{shown} is a program of 32 bits, whose functions get their arguments on the stack and not in registers; \
                 watch its system calls instead"
            );
        }
        if elf.machine() != HERE {
            bail!("{shown} is for another processor than this machine's; nothing runs it here");
        }
        if !matches!(elf.kind(), ET_EXEC | ET_DYN) {
            bail!(
                "{shown} is neither a program nor a library; name the one that it became a part of"
            );
        }
        if elf.section(".text").is_some_and(|text| text.bytes.is_none()) {
            bail!("{shown} has symbols only and is executed by nobody; name the program itself");
        }
        let mut program = Program {
            name: name.to_owned(),
            file: (seen.dev(), seen.ino()),
            code: Rc::new(Code::of(file)?),
            apart: None,
            object,
            path,
        };
        program.apart = program.symbols_apart();
        Ok(program)
    }

    /// What was typed.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether that name still leads to this very file, as it was.
    pub(super) fn is(&self, name: &str) -> bool {
        let same = |path: PathBuf| {
            std::fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == self.file)
        };
        self.name == name && self.code.is_intact() && located(name).is_ok_and(same)
    }

    /// Where a function begins.
    pub(super) fn find(&self, name: &str) -> Result<Place> {
        let mut found = Entries::default();
        let wanted = name.as_bytes();
        self.each(&mut |function| {
            if function.name == wanted {
                found.take(function);
            }
            true
        });
        let shown = self.path.display();
        if found.chooses {
            return Err(self.chosen(name));
        }
        let address = match *found.addresses {
            [address] => address,
            [] => return Err(self.unknown(name)),
            _ => bail!(
                "{shown} has {} functions of this name; which one is meant cannot be told, take one that they call or that calls them",
                found.addresses.len()
            ),
        };
        match elf(&self.object).and_then(|elf| elf.offset_of_code(address)) {
            Some(offset) => Ok(Place::File(self.code.clone(), offset)),
            None => bail!(
                "{shown} has no code where this symbol points to; is its debug file that of another build?"
            ),
        }
    }

    /// Functions that are wanted and of which there is one.
    pub(super) fn names(&self, wanted: &dyn Fn(&str) -> bool, most: usize) -> Result<Vec<String>> {
        let mut found: BTreeMap<&str, Entries> = BTreeMap::new();
        let enough = most.saturating_mul(COLLECTED);
        let mut any = false;
        self.each(&mut |function| {
            any = true;
            if let Ok(name) = std::str::from_utf8(function.name)
                && wanted(name)
            {
                found.entry(name).or_default().take(function);
            }
            found.len() < enough
        });
        if !any {
            return Err(self.no_symbols());
        }
        let one = found.into_iter().filter(|(_, f)| !f.chooses && f.addresses.len() == 1);
        Ok(one.map(|(name, _)| name.to_owned()).take(most).collect())
    }

    /// Calls `take` with each function, as long as it asks for more.
    fn each<'a>(&'a self, take: &mut dyn FnMut(Function<'a>) -> bool) {
        let own = [(Some(&self.object), Table::All), (Some(&self.object), Table::Dynamic)];
        let tables = own.into_iter().chain([(self.apart.as_ref(), Table::All)]);
        let elves = tables.filter_map(|(object, table)| Some((elf(object?)?, table)));
        for (elf, table) in elves {
            for mut function in elf.functions(table) {
                // The version that a linker takes is meant by the name alone.
                if let Some(at) = function.name.windows(2).position(|two| two == b"@@") {
                    function.name = &function.name[..at];
                }
                if !take(function) {
                    return;
                }
            }
        }
    }

    /// The file with all symbols, of one that has been stripped.
    fn symbols_apart(&self) -> Option<Object> {
        if elf(&self.object)?.functions(Table::All).next().is_some() {
            return None;
        }
        let (root, inside) = rooted(&self.path);
        debug_file::find(&self.object, &inside, &[root]).or_else(|| mini::unpack(&self.object))
    }

    fn no_symbols(&self) -> anyhow::Error {
        anyhow!(
            "{} has no symbols of functions (it was stripped); install its debug symbols, or take one that was not",
            self.path.display()
        )
    }

    fn unknown(&self, name: &str) -> anyhow::Error {
        let mut names: Vec<&str> = Vec::new();
        self.each(&mut |function| {
            names.extend(std::str::from_utf8(function.name));
            names.len() < COMPARED_MAX
        });
        if names.is_empty() {
            return self.no_symbols();
        }
        names.sort_unstable();
        names.dedup();
        let near = nearest(name, names.iter().copied());
        let file = self.path.display();
        let hint = match near.is_empty() {
            false => did_you_mean(&near),
            true if elf(&self.object)
                .is_some_and(|elf| elf.functions(Table::All).next().is_none())
                && self.apart.is_none() =>
            {
                "; it was stripped of all but what other files call: install its debug symbols"
                    .to_owned()
            }
            true => format!(
                "; it may be inlined wherever it is called (perilune list 'uprobe:{}:*' shows all)",
                self.name
            ),
        };
        anyhow!("{file} has no function '{name}'{hint}")
    }

    /// What to say of a name that stands for the function that chooses.
    fn chosen(&self, name: &str) -> anyhow::Error {
        let mut variants = Vec::new();
        let plain = name.trim_start_matches('_');
        self.each(&mut |function| {
            let variant = std::str::from_utf8(function.name).ok();
            let is = |other: &&str| {
                let rest = other.trim_start_matches('_').strip_prefix(plain);
                !function.chooses && rest.is_some_and(|rest| rest.starts_with('_'))
            };
            variants.extend(variant.filter(is).map(str::to_owned));
            true
        });
        variants.sort_unstable();
        variants.dedup();
        let instead = match variants.is_empty() {
            true => "their names are in its debug symbols, which are to be installed".to_owned(),
            false => format!("watch those: {}", brief(&variants)),
        };
        anyhow!(
            "{} chooses among several when a program starts, by its CPU, and only that choice has this name (IFUNC); {instead}",
            self.path.display()
        )
    }
}

impl Entries {
    fn take(&mut self, function: Function<'_>) {
        self.chooses |= function.chooses;
        if function.superseded && !self.superseded && !self.addresses.is_empty() {
            return;
        }
        if self.superseded && !function.superseded {
            self.addresses.clear();
        }
        self.superseded = function.superseded;
        if let Err(at) = self.addresses.binary_search(&function.address) {
            self.addresses.insert(at, function.address);
        }
    }
}

fn elf(object: &Object) -> Option<Elf<'_>> {
    // Who may write the file may have made anything of it: all of it is read as if it were, within its bounds.
    Elf::new(object.bytes())
}

/// Where a name leads: one without a slash to the program that a shell would run.
fn located(name: &str) -> Result<PathBuf> {
    if name.contains('/') {
        return Ok(name.into());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&folders).map(|folder| folder.join(name));
    places.find(|path| path.is_file()).ok_or_else(|| {
        anyhow!(
            "there is no program '{name}' in $PATH; a library or another file is named by its path \
             (/proc/PID/maps has those that a process executes)"
        )
    })
}

/// The root directory that a path is below, and the path inside: that of a process as `/proc/PID/root/…`, else ours.
fn rooted(path: &Path) -> (PathBuf, PathBuf) {
    let mut parts = path.components();
    let root: PathBuf = parts.by_ref().take(4).collect();
    match root.starts_with("/proc") && root.ends_with("root") {
        true => (root, Path::new("/").join(parts.as_path())),
        false => {
            (PathBuf::from("/"), std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
        }
    }
}

fn refused(path: &Path, why: &std::io::Error) -> anyhow::Error {
    let path = path.display();
    match why.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => anyhow!(
            "there is no file {path}; name one as this shell sees it, that of a container as /proc/PID/root{path}"
        ),
        ErrorKind::PermissionDenied => {
            anyhow!("{path} may not be read by this user; run as root")
        }
        ErrorKind::Other => anyhow!("{path} is no regular file; name a program or a library"),
        _ => anyhow!("failed to open {path}: {why}; name a program or a library"),
    }
}

fn not_elf(path: &Path, file: &File) -> anyhow::Error {
    use std::os::unix::fs::FileExt as _;
    let mut first = [0; 128];
    let read = file.read_at(&mut first, 0).unwrap_or(0);
    let shown = path.display();
    let script = first[..read].strip_prefix(b"#!").and_then(|line| {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Some(std::str::from_utf8(line).ok()?.split_whitespace().next()?.to_owned())
    });
    match script {
        Some(interpreter) => anyhow!(
            "{shown} is a script, whose functions the machine does not know; those of what runs it are in {}",
            interpreter.escape_debug()
        ),
        None => anyhow!("{shown} is no program or library (ELF); name one"),
    }
}

fn brief(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {}", counted(more as u64, "other")),
    };
    format!("{}{more}", names[..names.len().min(SHOWN)].join(", "))
}
