//! A frame of a call chain, named: what is printed, folded and drawn.

use std::borrow::Cow;
use std::rc::Rc;

/// An address space: a process between two execs, or until other code is mapped where some was. What a user address
/// means is asked of one.
///
/// Numbers are given once and never again, so a chain that was taken before an exec is not named after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Space(pub u32);

impl Space {
    /// That of a process of which nothing is known, and of chains without user frames.
    pub const UNKNOWN: Space = Space(0);
}

/// One function of a stack. An address has several where functions were inlined into each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The address of the instruction as the chain has it: of callers, the one behind the call.
    pub address: u64,
    /// The function, demangled; None where no table has one.
    pub symbol: Option<Rc<str>>,
    /// Bytes from the function's start to `address`.
    pub offset: u64,
    /// The file that it was mapped from as its process calls it, or a name in brackets: `[kernel]`, a module's, `[vdso]`.
    pub dso: Option<Rc<str>>,
    /// Whether it is the kernel's.
    pub kernel: bool,
    /// Whether the compiler put the function into the one that follows, so that it has no address of its own.
    pub inlined: bool,
    /// File and line of the source, where they were asked for and the object tells.
    pub line: Option<(Rc<str>, u32)>,
}

impl Frame {
    /// Its function, else the file that it lies in, `[libfoo.so]`, so that what has no names at least stands together.
    pub fn name(&self) -> Cow<'_, str> {
        match (&self.symbol, &self.dso) {
            (Some(symbol), _) => Cow::Borrowed(symbol),
            (None, Some(dso)) if dso.starts_with('[') => Cow::Borrowed(dso),
            (None, Some(dso)) => format!("[{}]", dso.rsplit('/').next().unwrap_or(dso)).into(),
            (None, None) => Cow::Borrowed("[unknown]"),
        }
    }
}
