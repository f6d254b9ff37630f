//! Random expressions over the fields of a record.

/// Fields of the record, and numbers.
#[rustfmt::skip]
const LEAVES: &[&str] = &[
    "sb", "ub", "sh", "uh", "si", "ui", "sl", "ul", "count", "zero", "one", "__cpu", "_tid",
    "_time", "ints[1]", "longs[1]", "shorts[0]", "text[2]", "0", "1", "2", "7", "31", "32", "63",
    "0x7fffffff", "0x80000000", "0xffffffff", "2147483648", "1ul", "0xffffffffffffffff", "10l",
    "3u", "0x8000000000000000", "9007199254740993", "'a'", "0xff",
];

/// Types of casts.
#[rustfmt::skip]
const TYPES: &[&str] = &[
    "int", "unsigned", "char", "unsigned char", "short", "u16", "long", "unsigned long", "bool",
    "u32", "s64", "u8",
];

/// A generator of expression trees with a fixed seed.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % n
    }

    fn of(&mut self, list: &[&str]) -> String {
        list[self.below(list.len())].to_owned()
    }

    /// Returns an expression and its C equivalent, in which results that are undefined in C are 0.
    pub(crate) fn tree(&mut self, depth: u32) -> (String, String) {
        if depth == 0 || self.below(8) == 0 {
            let leaf = self.of(LEAVES);
            return (leaf.clone(), leaf);
        }
        let (a, ca) = self.tree(depth - 1);
        match self.below(12) {
            0 => {
                let op = self.of(&["-", "~", "!", "+"]);
                (format!("{op}({a})"), format!("{op}({ca})"))
            }
            1 => {
                let ty = self.of(TYPES);
                let ty = if ty == "char" { "signed char".to_owned() } else { ty };
                (format!("({ty})({a})"), format!("({ty})({ca})"))
            }
            2 => {
                let ((b, cb), (d, cd)) = (self.tree(depth - 1), self.tree(depth - 1));
                (format!("({a} ? {b} : {d})"), format!("({ca} ? {cb} : {cd})"))
            }
            3..=5 => {
                let (b, cb) = self.tree(depth - 1);
                let (op, name) =
                    [("/", "DIV"), ("%", "REM"), ("<<", "SHL"), (">>", "SHR")][self.below(4)];
                (format!("({a} {op} {b})"), format!("{name}({ca}, {cb})"))
            }
            6..=8 => {
                let (b, cb) = self.tree(depth - 1);
                let op = self.of(&["+", "-", "*"]);
                (format!("({a} {op} {b})"), format!("({ca} {op} {cb})"))
            }
            9 => {
                let (b, cb) = self.tree(depth - 1);
                let op = self.of(&["<", "<=", ">", ">=", "==", "!=", "&&", "||"]);
                (format!("({a} {op} {b})"), format!("({ca} {op} {cb})"))
            }
            _ => {
                let (b, cb) = self.tree(depth - 1);
                let op = self.of(&["&", "|", "^"]);
                (format!("({a} {op} {b})"), format!("({ca} {op} {cb})"))
            }
        }
    }
}
