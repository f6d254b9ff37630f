//! Lookup of addresses in the kernel's symbols, and the cache that a run saves for the next.

use super::*;

const LIST: &str = "0000000000000000 A fixed_percpu_data\nffff2000 t later\nffff1000 T first\n\
    ffff1000 t alias\nffff2800 T _etext\nffff2900 D __start_rodata\n\
    ffff3000 t of_a_module\t[module]\nffff4000 t last\t[other]\nnonsense\n";

fn kallsyms(list: &str, modules: &str) -> Kallsyms {
    let bytes = std::io::Cursor::new(list.as_bytes().to_vec());
    Kallsyms::new(Box::new(bytes), modules.to_owned())
}

#[test]
fn an_address_has_the_name_of_the_symbol_it_lies_in() {
    let table = kallsyms(LIST, "");
    for (address, name) in [
        (0xffff_0fff, None),
        (0xffff_1000, Some("first")),
        (0xffff_1fff, Some("first")),
        (0xffff_2000, Some("later")),
        (u64::MAX, Some("last")),
    ] {
        assert_eq!(table.name(address), name, "{address:x}");
    }
}

#[test]
fn a_symbol_has_a_size_and_a_module() {
    let symbol = |name, offset, size, module| Some(Symbol { name, offset, size, module });
    let table = kallsyms(LIST, "");
    for (address, found) in [
        (0xffff_1010, symbol("first", 0x10, 0x1000, None)),
        (0xffff_2800, None),
        (0xffff_2900, symbol("__start_rodata", 0, 0x700, None)),
        (0xffff_2901, None),
        (0xffff_3004, symbol("of_a_module", 4, 0x1000, Some("module"))),
        (0xffff_4000, None),
    ] {
        assert_eq!(table.find(address), found, "{address:x}");
    }
}

#[test]
fn the_last_function_ends_with_its_module_or_the_kernels_code() {
    let list = "ffff1000 T first\nffff1800 T last\nffff2000 t alias_of_the_end\nffff2000 T _etext\n\
        ffff3000 t of_a_module\t[module]\nffff8000 t other\t[other]\n\
        ffff9000 t without_a_place\t[unplaced]\nffffa000 b bss\n";
    let modules =
        "module 8192 1 other, Live 0xffff2800\nother 4096 0 - Live 0xffff8000\nnonsense\n";
    let table = kallsyms(list, modules);
    let at = |address| table.find(address).map(|found| (found.name, found.size));
    for (address, found) in [
        (0xffff_1fff, Some(("last", 0x800))),
        (0xffff_2000, None),
        (0xffff_2fff, None),
        (0xffff_47ff, Some(("of_a_module", 0x1800))),
        (0xffff_4800, None),
        (0xffff_8fff, Some(("other", 0x1000))),
        (0xffff_9fff, Some(("without_a_place", 0x1000))),
    ] {
        assert_eq!(at(address), found, "{address:x}");
    }
}

#[test]
fn the_last_symbol_of_generated_code_ends_with_a_page() {
    let list = "ffff1000 T first\nffff2000 T _etext\nffff3000 t bpf_prog_a\t[bpf]\n\
        ffff9100 t bpf_prog_b\t[bpf]\nfffff000 t ftrace_trampoline\t[__builtin__ftrace]\n";
    let table = kallsyms(list, "");
    let at = |address| table.find(address).map(|found| (found.name, found.size));
    for (address, found) in [
        (0xffff_90ff, Some(("bpf_prog_a", 0x6100))),
        (0xffff_aeff, Some(("bpf_prog_b", 0x1f00))),
        (0xffff_b000, None),
        (0xffff_ffff, Some(("ftrace_trampoline", 0x1000))),
        (0x1_0000_0000, None),
    ] {
        assert_eq!(at(address), found, "{address:x}");
    }
}

#[test]
fn symbols_after_the_kernels_code_are_read_on_demand() {
    let list = "ffff1000 T first\nffff1000 t alias\nffff1800 T last\nffff2000 T _etext\n\
        ffff3000 t started\nffff3800 T _einittext\nfffe0000 t of_a_module\t[module]\n";
    let table = kallsyms(list, "");
    for address in [0xffff_1000, 0xffff_1fff] {
        assert!(table.find(address).is_some(), "{address:x}");
        assert!(table.rest.get().is_none() && table.unread.borrow().is_some());
    }
    assert_eq!(table.find(0xffff_1800).unwrap().size, 0x800);
    // A module may be below the kernel.
    assert_eq!(table.name(0xfffe_1000), Some("of_a_module"));
    assert!(table.rest.get().is_some() && table.unread.borrow().is_none());
    for (address, found) in [
        (0xffff_2000, None),
        (0xffff_2fff, None),
        (0xffff_3000, Some(("started", 0x800))),
        (0xffff_3800, None),
        (0xffff_1001, Some(("first", 0x800))),
    ] {
        assert_eq!(table.find(address).map(|found| (found.name, found.size)), found, "{address:x}");
    }
}

#[test]
fn hidden_addresses_have_no_names() {
    let table = kallsyms("0000000000000000 T first\n", "");
    assert!(table.is_empty());
    assert_eq!(table.find(0), None);
}

/// A list that must not be read beyond its first line.
struct First(&'static str);

impl Read for First {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        assert!(!self.0.is_empty(), "the whole list was read");
        std::mem::take(&mut self.0).as_bytes().read(into)
    }
}

#[test]
fn the_kernels_code_is_read_once_per_boot() {
    const SORTED: &str = "ffff1000 T first\nffff2000 t later\nffff2800 T end_of_all\n\
        ffff2800 T _etext\nffff2900 D __start_rodata\nffff3000 t of_a_module\t[module]\n";
    let folder = std::env::temp_dir().join(format!("perilune-once-{}", std::process::id()));
    let cache = || Some(KallsymsCache::in_folder(&folder, "this boot"));
    let first = kallsyms(SORTED, "").with_cache(cache());
    assert_eq!(first.name(0xffff_2004), Some("later"));

    let next = First("ffff1000 T first\n");
    let next = Kallsyms::new(Box::new(next), String::new()).with_cache(cache());
    let of = |list: &Kallsyms, address| {
        list.find(address).map(|found| (found.name.to_owned(), found.offset, found.size))
    };
    for address in [0xffff_1000, 0xffff_1fff, 0xffff_2004, 0xffff_27ff] {
        assert!(of(&next, address).is_some());
        assert_eq!(of(&next, address), of(&first, address), "{address:x}");
    }
    let whole = kallsyms(SORTED, "module 4096 0 - Live 0xffff3000\n").with_cache(cache());
    assert_eq!(whole.name(0xffff_1004), Some("first"), "from the cache");
    assert_eq!(of(&whole, 0xffff_2900), Some(("__start_rodata".into(), 0, 0x700)));
    assert_eq!(of(&whole, 0xffff_3004), Some(("of_a_module".into(), 4, 4096)));

    let hidden = kallsyms("0000000000000000 T first\n", "").with_cache(cache());
    assert!(hidden.is_empty(), "addresses that the kernel hides stay hidden");
    let moved = kallsyms("ffff1800 T first\nffff2800 T _etext\n", "").with_cache(cache());
    assert_eq!(moved.name(0xffff_2004), Some("first"), "the kernel's list takes precedence");

    cache().unwrap().save(&[]).unwrap();
    kallsyms(SORTED, "").with_cache(cache()).is_empty();
    let (text, truncated) = (cache().unwrap().load().unwrap(), "a truncated file");
    cache().unwrap().save(&[&text[..20]]).unwrap();
    assert_eq!(
        kallsyms(SORTED, "").with_cache(cache()).name(0xffff_2004),
        Some("later"),
        "{truncated}"
    );
    assert_eq!(cache().unwrap().load().unwrap(), text, "{truncated} is rewritten");
    std::fs::remove_dir_all(folder).unwrap();
}
