//! Breakpoints by address, by symbols of the kernel and by symbols of a program.

use super::*;
use crate::event::kind::{Event, EventFiles, parse as parse_event};
use crate::event::selector::Selector;

/// A kernel with `jiffies` and `vfs_read`, and a program with `flags` (8 bytes), `count` (4) and
/// `table` (64).
struct Symbols;

const LOADED: LoadedFile = LoadedFile { file: (1, 2), offset: 0, address: 0, is_library: false };

impl SymbolFinder for Symbols {
    fn symbol(&self, file: Option<&str>, name: &str) -> Result<FoundSymbol> {
        let (address, size, is_code) = match (file, name) {
            (None, "jiffies") => (0xffff_ffff_8200_0000, 0, false),
            (None, "vfs_read") => (0xffff_ffff_8100_0001, 0, true),
            (Some(_), "flags") => (0x4050, 8, false),
            (Some(_), "count") => (0x4058, 4, false),
            (Some(_), "table") => (0x4100, 64, false),
            (Some(_), "work") => (0x1000, 32, true),
            _ => bail!("there is no '{name}'"),
        };
        let loaded = file.map(|_| LOADED);
        Ok(FoundSymbol { address, size, is_code, loaded })
    }

    fn check_instruction(&self, _: &str, function: &str, offset: u64) -> Result<()> {
        ensure!(offset.is_multiple_of(2), "no instruction begins at {function}+{offset:#x}");
        Ok(())
    }

    fn symbols(
        &self,
        _: Option<&str>,
        wanted: &dyn Fn(&str) -> bool,
        most: usize,
    ) -> Result<Vec<String>> {
        let all = ["count", "flags", "table"].into_iter().filter(|name| wanted(name));
        Ok(all.take(most).map(str::to_owned).collect())
    }
}

fn of(name: &str) -> Breakpoint {
    parse(name, Some(&Symbols)).unwrap().unwrap()
}

fn why(name: &str) -> String {
    parse(name, Some(&Symbols)).unwrap_err().to_string()
}

#[test]
fn only_instructions_are_watched_for_execution() {
    assert_eq!(of("mem:./p:work+4:x").address, 0x1004);
    assert!(why("mem:./p:work+5:x").contains("no instruction begins at work+0x5"));
    for variable in ["mem:jiffies:x", "mem:./p:count:x"] {
        assert!(why(variable).contains("is a variable, not code; use :rw"), "{variable}");
    }
}

#[test]
fn an_address_has_the_defaults_of_perf() {
    use MemoryAccess::{Execute, ReadWrite, Write};
    let parts = |name| {
        let Breakpoint { address, access, length, .. } = of(name);
        (address, access, length)
    };
    assert_eq!(parts("mem:0x1000"), (0x1000, ReadWrite, 4));
    assert_eq!(parts("mem:0x1000/8:w"), (0x1000, Write, 8));
    assert_eq!(parts("mem:4096+0x10/1:rw"), (0x1010, ReadWrite, 1));
    assert_eq!(parts("mem:0x1001:x"), (0x1001, Execute, 8));
    let attr = of("mem:0x1000/8:w").attr();
    assert_eq!((attr.type_, attr.config1, attr.config2), (5, 0x1000, 8));
    assert_eq!(of("mem:0x1000/8:w").attr_fields(), [("bp_type", 2)]);
}

#[test]
fn a_symbol_has_its_own_length_and_a_function_is_executed() {
    assert_eq!((of("mem:./p:flags:w").length, of("mem:./p:count").length), (8, 4));
    assert_eq!(of("mem:./p:table+0x10").address, 0x4110);
    assert_eq!(of("mem:./p:table+0x10").length, 4);
    assert_eq!(of("mem:vfs_read").access, MemoryAccess::Execute);
    assert!(of("mem:jiffies/8:w").program.is_none());
    assert_eq!(of("mem:./p:flags").program.unwrap().loaded, LOADED);
}

#[test]
fn what_the_cpu_cannot_watch_is_refused_with_the_fix() {
    assert_eq!(
        why("mem:0x1001/4:w"),
        "mem:0x1001/4:w: the address 0x1001 is not a multiple of 4, which the CPU requires to \
         watch 4 bytes; use /1, or an aligned address"
    );
    assert_eq!(
        why("mem:jiffies/3:w"),
        "mem:jiffies/3:w: /3: the CPU watches 1, 2, 4 or 8 bytes; use one of these"
    );
    assert!(why("mem:vfs_read/4:x").contains("omit the length"));
    assert!(why("mem:jiffies:rwx").contains("use two events"));
    assert!(why("mem:./p:flags+8").contains("'flags' has only 8 bytes"));
    assert!(
        why("mem:jiffies:rwq")
            .ends_with(&format!("':rwq' is not an access; {ACCESSES}, as in mem:jiffies:rw"))
    );
    let unknown = why("mem:jifies:q");
    assert!(
        unknown.contains("there is no 'q'; if 'q' is an access, use the letters r"),
        "{unknown}"
    );
    assert!(why("mem:jifies:rwqq").ends_with("there is no 'rwqq'"));
    assert!(why("mem:jiffies/8:w:q").contains("`:q` is not part of a name; write mem:"));
    assert!(why("mem:jiffies/8:q").contains("`:q` is not an access; use the letters r (read)"));
    assert!(why("mem:0x1000:q").contains("`:q` is not an access; use the letters r (read)"));
    assert!(why("mem:./p:").contains("incomplete name"));
    assert!(why("mem:0xyz").contains("'0xyz' is not a number"));
    if cfg!(target_arch = "x86_64") {
        assert!(why("mem:jiffies:r").contains("use :rw"));
    }
}

#[test]
fn a_symbol_of_a_program_needs_a_task() {
    let breakpoint = of("mem:./p:flags");
    let refused = |of_tasks| breakpoint.check_options(&Sampling::default(), of_tasks).is_err();
    assert_eq!((refused(false), refused(true)), (true, false));
    assert!(breakpoint.attr_fields_for_task(-1).is_err());
    let own = std::process::id().cast_signed();
    let missing = breakpoint.attr_fields_for_task(own).unwrap_err().to_string();
    assert!(missing.contains("has not mapped ./p"), "{missing}");
    assert_eq!(of("mem:jiffies").attr_fields_for_task(-1).unwrap(), []);
}

#[test]
fn a_symbol_of_a_crafted_file_cannot_lead_into_the_kernel() {
    use std::os::unix::fs::MetadataExt as _;
    let own = std::process::id();
    let program = std::fs::metadata("/proc/self/exe").unwrap();
    let mapped = crate::sys::maps::executable(own).unwrap();
    let code = mapped.iter().find(|row| row.inode == program.ino()).unwrap();
    let file = (program.dev(), program.ino());
    let watched = |linked: u64, address: u64| {
        let loaded = LoadedFile { file, offset: code.offset, address: linked, is_library: false };
        let of = of("mem:./p:flags:w");
        let program = of.program.as_ref().map(|p| BreakpointFile { loaded, ..p.clone() });
        let fields = Breakpoint { address, program, ..of }.attr_fields_for_task(own.cast_signed());
        fields.map(|fields| fields[0].1).map_err(|why| why.to_string())
    };
    assert_eq!(watched(0x1000, 0x1010), Ok(code.start + 0x10));
    assert_eq!(watched(0x4000, 0x1000), Ok(code.start - 0x3000));
    // The kernel's own addresses, also by a sum that wraps around, and the last byte of eight.
    for (linked, address) in [
        (0, 0xffff_ffff_8200_0000),
        (0, i64::MAX as u64),
        (code.start, (1 << 63) - 4),
        (i64::MAX as u64, 0x1000),
        (0x8000_0000_0000_0000, 0x1000),
        (u64::MAX - 0xfff, 0xffff_ffff_8200_0000),
    ] {
        let why = watched(linked, address).unwrap_err();
        assert!(why.contains("is damaged") || why.contains("has not mapped"), "{why}");
    }
}

#[test]
fn user_mode_excludes_the_kernel_but_not_at_its_own_addresses() {
    let event = |name: &str| Event::new(name, of(name));
    let user = event("mem:0x1000/8:w").in_user_mode().unwrap();
    assert_eq!(user.name, "mem:0x1000/8:w:u");
    assert!(user.kind().attr().exclude.kernel && !user.kind().attr().exclude.user);
    assert!(event("mem:jiffies/8:w").in_user_mode().is_none());
    assert_eq!(of("mem:0x1000/8:w:u").exclude, user.kind().attr().exclude);
}

#[test]
fn a_selector_has_attributes_behind_the_name_and_no_filter() {
    let of = |text: &str| {
        let mut list = Selector::parse_list(text).unwrap();
        let last = list.pop().unwrap();
        (last.name, last.filter, last.attrs.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
    };
    let stack = || vec!["stack".to_owned()];
    assert_eq!(of("mem:jiffies/8:w/stack/"), ("mem:jiffies/8:w".to_owned(), None, stack()));
    assert_eq!(of("cs,mem:./a/b:v/stack"), ("mem:./a/b:v".to_owned(), None, stack()));
    assert_eq!(of("mem:v/8:w//stack/"), ("mem:v/8:w".to_owned(), None, stack()));
    assert_eq!(of("mem:\"/a b,c\":v:w").0, "mem:\"/a b,c\":v:w");
}

#[test]
fn an_address_needs_no_symbols_and_other_names_are_left_to_other_kinds() {
    let event = parse_event("mem:0x1000/8:w", &EventFiles::NONE).unwrap().unwrap();
    assert_eq!(event.name, "mem:0x1000/8:w");
    assert_eq!(parse("memory:x", Some(&Symbols)).unwrap(), None);
    assert_eq!(parse("mem:jiffies", None).unwrap(), None);
}

#[test]
fn symbols_are_listed_as_names() {
    let names = |pattern| look_up(pattern, Some(&Symbols), 9).unwrap().map(|found| found.names);
    assert_eq!(names("mem:./p:*l*").unwrap(), ["mem:./p:flags", "mem:./p:table"]);
    assert_eq!(names("mem:./p:cou").unwrap(), ["mem:./p:count"]);
    assert_eq!(names("mem:./p:count/4:w").unwrap(), ["mem:./p:count/4:w"]);
    assert_eq!(names("sched:x"), None);
}
