//! Names as they are shown: as their languages write them, cut where they are too long, each kept once.
//!
//! Linkers see mangled names, and anybody can make an object with any name: some hundred bytes of it can stand for gigabytes, since each
//! part may repeat all before it. So a name that is very long is not read, and of what another stands for no more is
//! written than is shown. A name is read once, however many addresses have it.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::hash::RandomState;
use std::rc::Rc;

use cpp_demangle::DemangleOptions;
use hashbrown::HashMap;

use crate::sys::quiet::quietly;

/// Bytes of a name; what is longer is cut.
const NAME_MAX: usize = 1 << 10;

/// Bytes of a mangled name that is read; those of templates within templates have a few thousand.
const MANGLED_MAX: usize = 1 << 14;

/// Bytes of the names that are kept, mangled and as they are shown.
const KEPT_MAX: usize = 16 << 20;

/// Names of one object.
#[derive(Default)]
pub(super) struct Spellings {
    kept: RefCell<Kept>,
}

#[derive(Default)]
struct Kept {
    /// By what the object has.
    shown: HashMap<Box<str>, Rc<str>, RandomState>,
    bytes: usize,
}

impl Spellings {
    /// A function's name, shared with all frames that have it.
    pub(super) fn of_function(&self, name: &str) -> Rc<str> {
        self.shown(name, |name| demangled(name).unwrap_or_else(|| cut(name)))
    }

    /// A path.
    pub(super) fn of_file(&self, path: &str) -> Rc<str> {
        self.shown(path, cut)
    }

    fn shown(&self, name: &str, show: impl FnOnce(&str) -> String) -> Rc<str> {
        // What is too long to be read is told by its beginning.
        let name = if name.len() > MANGLED_MAX { beginning(name, MANGLED_MAX) } else { name };
        let mut kept = self.kept.borrow_mut();
        if let Some(known) = kept.shown.get(name) {
            return known.clone();
        }
        let shown: Rc<str> = show(name).into();
        if kept.bytes >= KEPT_MAX {
            *kept = Kept::default();
        }
        kept.bytes += name.len() + shown.len() + size_of::<(Box<str>, Rc<str>)>();
        kept.shown.insert(name.into(), shown.clone());
        shown
    }
}

/// A mangled name as Rust or C++ writes it; None if it is none.
fn demangled(name: &str) -> Option<String> {
    if name.len() >= MANGLED_MAX {
        return None;
    }
    let mut text = Bounded::default();
    // Names are made up by anybody, so it may panic as well as fail; so much as was written until then is no name.
    let read = quietly(|| match rustc_demangle::try_demangle(name) {
        Ok(rust) => write!(text, "{rust:#}").is_ok(),
        Err(_) => cpp_demangle::Symbol::new(name).is_ok_and(|cpp| {
            cpp.structured_demangle(&mut text, &DemangleOptions::default()).is_ok()
        }),
    });
    match (read?, text.is_full) {
        (true, false) => Some(text.text),
        (_, true) => Some(text.text + "…"),
        (false, false) => None,
    }
}

/// A text that is not written beyond its limit.
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

/// As many whole characters as these bytes have room for.
fn beginning(name: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    name.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_their_languages_write_them() {
        for (name, shown) in [
            ("main", "main"),
            ("_ZN4core3ptr4read17h0123456789abcdefE", "core::ptr::read"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZNSt6vectorIiE9push_backEi", "std::vector<int>::push_back(int)"),
            ("_Znothing", "_Znothing"),
            ("main.cold", "main.cold"),
            ("", ""),
        ] {
            assert_eq!(&*Spellings::default().of_function(name), shown);
        }
        assert_eq!(&*Spellings::default().of_file("_ZN1a1bEv"), "_ZN1a1bEv");
    }

    #[test]
    fn a_name_is_kept_once_and_has_an_end() {
        let names = Spellings::default();
        let long = "ä".repeat(1 << 20);
        let (first, again) = (names.of_function(&long), names.of_function(&long));
        assert!(Rc::ptr_eq(&first, &again));
        assert_eq!(*first, *("ä".repeat(NAME_MAX / 2) + "…"));
        assert!(Rc::ptr_eq(&names.of_function("short"), &names.of_function("short")));
    }

    #[test]
    fn a_name_that_stands_for_gigabytes_is_cut_at_once() {
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
    fn what_is_kept_has_a_limit() {
        let names = Spellings::default();
        for at in 0..3000 {
            names.of_function(&format!("{at:010000}"));
            assert!(names.kept.borrow().bytes <= KEPT_MAX + (1 << 15));
        }
    }
}
