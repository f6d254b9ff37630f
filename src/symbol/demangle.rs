//! Names as they are shown: demangled, truncated if they are too long, each stored once.
//!
//! Symbol tables have mangled names, and any user can create an object with any name: a few hundred
//! bytes can stand for gigabytes, since each part may repeat everything before it. A very long name
//! is therefore not demangled, and no more of a demangled one is written than is shown. A name is
//! demangled once, no matter how many addresses have it.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::hash::RandomState;
use std::rc::Rc;

use cpp_demangle::DemangleOptions;
use hashbrown::HashMap;

use crate::sys::catch_panic::quietly;

/// Maximum number of bytes of a shown name; a longer one is truncated.
const NAME_MAX: usize = 1 << 10;

/// Maximum number of bytes of a mangled name that is demangled; those of nested templates have a
/// few thousand.
const MANGLED_MAX: usize = 1 << 14;

/// Maximum number of bytes of the cached names, mangled and as they are shown.
const CACHE_MAX: usize = 16 << 20;

/// Prefixes of mangled names of C++ (Itanium C++ ABI, 5.1.2). Without one, a name such as `m` would
/// be taken for a type: `unsigned long`.
const CPP: [&str; 3] = ["_Z", "__Z", "_GLOBAL_"];

/// Names of one object.
#[derive(Default)]
pub(super) struct DemangledNames {
    cache: RefCell<NameCache>,
}

#[derive(Default)]
struct NameCache {
    /// By the name in the object.
    shown: HashMap<Box<str>, Rc<str>, RandomState>,
    bytes: usize,
}

impl DemangledNames {
    /// Returns a function's name, shared by all frames that have it.
    pub(super) fn of_function(&self, name: &str) -> Rc<str> {
        self.shown(name, |name| demangled(name).unwrap_or_else(|| cut(name)))
    }

    /// Returns a path.
    pub(super) fn of_file(&self, path: &str) -> Rc<str> {
        self.shown(path, cut)
    }

    fn shown(&self, name: &str, show: impl FnOnce(&str) -> String) -> Rc<str> {
        // A name that is too long to be demangled is identified by its beginning.
        let name = if name.len() > MANGLED_MAX { beginning(name, MANGLED_MAX) } else { name };
        let mut cache = self.cache.borrow_mut();
        if let Some(known) = cache.shown.get(name) {
            return known.clone();
        }
        let shown: Rc<str> = show(name).into();
        if cache.bytes >= CACHE_MAX {
            *cache = NameCache::default();
        }
        cache.bytes += name.len() + shown.len() + size_of::<(Box<str>, Rc<str>)>();
        cache.shown.insert(name.into(), shown.clone());
        shown
    }
}

/// Demangles a name of Rust or C++; None if it is not mangled.
pub(super) fn demangled(name: &str) -> Option<String> {
    if name.len() >= MANGLED_MAX {
        return None;
    }
    let mut text = Bounded::default();
    // Names are untrusted, so demangling may panic as well as fail; what was written until then is
    // discarded.
    let read = quietly(|| match rustc_demangle::try_demangle(name) {
        Ok(rust) => write!(text, "{rust:#}").is_ok(),
        Err(_) if CPP.iter().any(|prefix| name.starts_with(prefix)) => {
            cpp_demangle::Symbol::new(name).is_ok_and(|cpp| {
                cpp.structured_demangle(&mut text, &DemangleOptions::default()).is_ok()
            })
        }
        Err(_) => false,
    });
    match (read?, text.is_full) {
        (true, false) => Some(text.text),
        (_, true) => Some(text.text + "…"),
        (false, false) => None,
    }
}

/// A text with a maximum size.
#[derive(Default)]
struct Bounded {
    text: String,
    is_full: bool,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = NAME_MAX - self.text.len().min(NAME_MAX);
        if self.is_full || text.len() > room {
            if !self.is_full {
                self.text.push_str(beginning(text, room));
            }
            self.is_full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

fn cut(name: &str) -> String {
    match name.len() > NAME_MAX {
        true => format!("{}…", beginning(name, NAME_MAX)),
        false => name.to_owned(),
    }
}

/// Returns as many whole characters as fit into `bytes`.
fn beginning(name: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    name.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_demangled_as_their_language_writes_them() {
        for (name, shown) in [
            ("main", "main"),
            ("_ZN4core3ptr4read17h0123456789abcdefE", "core::ptr::read"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZNSt6vectorIiE9push_backEi", "std::vector<int>::push_back(int)"),
            ("_Znothing", "_Znothing"),
            ("main.cold", "main.cold"),
            ("m", "m"),
            ("f", "f"),
            ("St", "St"),
            ("", ""),
        ] {
            assert_eq!(&*DemangledNames::default().of_function(name), shown);
        }
        assert_eq!(&*DemangledNames::default().of_file("_ZN1a1bEv"), "_ZN1a1bEv");
    }

    #[test]
    fn names_are_cached_and_truncated() {
        let names = DemangledNames::default();
        let long = "ä".repeat(1 << 20);
        let (first, again) = (names.of_function(&long), names.of_function(&long));
        assert!(Rc::ptr_eq(&first, &again));
        assert_eq!(*first, *("ä".repeat(NAME_MAX / 2) + "…"));
        assert!(Rc::ptr_eq(&names.of_function("short"), &names.of_function("short")));
    }

    #[test]
    fn a_name_that_expands_to_gigabytes_is_truncated_early() {
        // Each pair holds the one before it twice.
        let digit = |at: usize| "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ".as_bytes()[at] as char;
        let mut doubled = "_Z1f1aSt4pairIS_S_E".to_owned();
        for at in 1..34 {
            doubled.push_str(&format!("St4pairIS{0}_S{0}_E", digit(at)));
        }
        let began = std::time::Instant::now();
        let shown = demangled(&doubled);
        assert!(began.elapsed().as_secs() < 1);
        let shown = shown.unwrap();
        assert!(shown.ends_with('…') && shown.len() <= NAME_MAX + "…".len(), "{shown}");
        assert!(shown.starts_with("f(a, std::pair<a, a>"), "{shown}");
    }

    #[test]
    fn the_cache_is_bounded() {
        let names = DemangledNames::default();
        for at in 0..3000 {
            names.of_function(&format!("{at:010000}"));
            assert!(names.cache.borrow().bytes <= CACHE_MAX + (1 << 15));
        }
    }
}
