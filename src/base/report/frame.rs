//! A symbolized frame of a call chain, for printing, folding and drawing.

use std::borrow::Cow;
use std::rc::Rc;

/// An address space: a process between two execs, or until its mappings are replaced by other code.
/// User addresses are resolved in an address space.
///
/// Numbers are never reused, so a chain that was taken before an exec is not resolved after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Space(pub u32);

impl Space {
    /// Address space of an unknown process, and of chains without user frames.
    pub const UNKNOWN: Space = Space(0);
}

/// One function of a stack. An address has several frames if functions were inlined into each
/// other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The address of the instruction as in the chain: for callers, the one after the call.
    pub address: u64,
    /// The function, demangled; None if no symbol table contains it.
    pub symbol: Option<Rc<str>>,
    /// Bytes from the function's start to `address`.
    pub offset: u64,
    /// The path of the mapped file as its process names it, or a name in brackets: `[kernel]`, a
    /// module's, `[vdso]`.
    pub dso: Option<Rc<str>>,
    /// Whether the frame is in the kernel.
    pub kernel: bool,
    /// Whether the compiler inlined the function into that of the next frame, so it has no address
    /// of its own.
    pub inlined: bool,
    /// Source file and line, if requested and known to the object file.
    pub line: Option<(Rc<str>, u32)>,
}

impl Frame {
    /// Returns the function, or else the file in brackets, `[libfoo.so]`, so that frames without
    /// symbols are grouped by file.
    pub fn name(&self) -> Cow<'_, str> {
        match (&self.symbol, &self.dso) {
            (Some(symbol), _) => Cow::Borrowed(symbol),
            (None, Some(dso)) if dso.starts_with('[') => Cow::Borrowed(dso),
            (None, Some(dso)) => format!("[{}]", dso.rsplit('/').next().unwrap_or(dso)).into(),
            (None, None) => Cow::Borrowed("[unknown]"),
        }
    }
}
