//! Data of the running kernel that the text of a record may need.

/// Data of the running kernel that a text may need in addition to the record.
pub trait KernelData {
    /// Returns the ticks per second, for times in jiffies; 0 if unknown. Called when a format is
    /// compiled.
    fn hz(&self) -> u32;
    /// Returns the value of an enumerator in a format. Called when a format is compiled.
    fn enumerator(&self, name: &str) -> Option<i64>;
    /// Returns the function or variable at an address; None if unknown, which prints the address.
    fn symbol(&self, address: u64) -> Option<Symbol<'_>>;
    /// Returns the text at an address in the kernel (listed in `printk_formats` of tracefs).
    fn text(&self, address: u64) -> Option<&[u8]>;
}

/// A symbol of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name.
    pub name: &'a str,
    /// Offset of the address in the symbol, in bytes.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its module; None for the kernel itself.
    pub module: Option<&'a str>,
}

/// A kernel without data: addresses are printed as numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unknown;

impl KernelData for Unknown {
    fn hz(&self) -> u32 {
        0
    }
    fn enumerator(&self, _: &str) -> Option<i64> {
        None
    }
    fn symbol(&self, _: u64) -> Option<Symbol<'_>> {
        None
    }
    fn text(&self, _: u64) -> Option<&[u8]> {
        None
    }
}
