//! Arguments of a USDT probe: where the program has them when it reaches the probe.
//!
//! The text is written by the compiler as assembler operands, each with a size in bytes that is
//! negative for a signed integer: `-4@%edi 8@-16(%rbp) 8@$5`, on AArch64 `-4@w0 8@[sp, 16] 8@5`.
//! An operand that the kernel cannot read at a probe (Documentation/trace/uprobetracer.rst) is
//! refused with the reason.

use std::fmt;

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandArgument {
    /// Size in bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// Whether it is a signed integer.
    pub signed: bool,
    /// Where it is.
    pub operand: Operand,
}

/// Where an argument is. Registers have their names in the kernel's `pt_regs`: `di`, `r8`, `x0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// In the variable with this name, at an offset in bytes.
    Variable(String, i64),
    /// In memory, at this distance in bytes from the beginning of the probed code's file, if all of
    /// it were mapped as the code is.
    Mapped(u64),
    /// In a register.
    Register(&'static str),
    /// In memory, at the address in the register plus the offset in bytes.
    Memory(&'static str, i64),
    /// It is this number.
    Constant(i64),
}

/// Why an argument cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableOperand {
    /// It is a floating-point number.
    #[error("is a floating-point number, which probes cannot read")]
    Float,
    /// Its size is not that of an integer.
    #[error("is not an integer of 1, 2, 4 or 8 bytes")]
    Size,
    /// It is not known where its variable is: the name, and the reason.
    #[error("is in the variable `{0}`: {1}")]
    Variable(String, String),
    /// The kernel cannot read such an operand.
    #[error("is at `{0}`, which probes cannot read")]
    Place(String),
}

/// Maximum number of arguments of a probe (`STAP_PROBE12`).
const ARGUMENTS_MAX: usize = 12;

/// Returns the arguments of a probe, in order.
pub fn arguments(text: &str) -> Vec<Result<OperandArgument, UnreadableOperand>> {
    let mut parts: Vec<String> = Vec::new();
    for word in text.split_ascii_whitespace() {
        match parts.last_mut() {
            // `8@[sp, 16]` has a blank inside.
            Some(part) if !word.contains('@') => part.push_str(word),
            _ => parts.push(word.to_owned()),
        }
    }
    parts.iter().take(ARGUMENTS_MAX).map(|part| argument(part)).collect()
}

fn argument(text: &str) -> Result<OperandArgument, UnreadableOperand> {
    let (size, place) = text.split_once('@').ok_or(UnreadableOperand::Size)?;
    if size.ends_with('f') {
        return Err(UnreadableOperand::Float);
    }
    let size: i8 = size.parse().map_err(|_| UnreadableOperand::Size)?;
    if !matches!(size.unsigned_abs(), 1 | 2 | 4 | 8) {
        return Err(UnreadableOperand::Size);
    }
    let unreadable = || UnreadableOperand::Place(place.to_owned());
    let operand = match cfg!(target_arch = "x86_64") {
        true => x86_operand(place),
        false => arm_operand(place),
    };
    Ok(OperandArgument {
        size: size.unsigned_abs(),
        signed: size < 0,
        operand: operand.ok_or_else(unreadable)?,
    })
}

/// Parses `%REGISTER`, `$NUMBER`, `OFFSET(%REGISTER)`, or `VARIABLE+OFFSET(%rip)`.
fn x86_operand(text: &str) -> Option<Operand> {
    if let Some(number) = text.strip_prefix('$') {
        return Some(Operand::Constant(integer(number)?));
    }
    if let Some(register) = text.strip_prefix('%') {
        return Some(Operand::Register(x86_register(register)?));
    }
    let (offset, base) = text.strip_suffix(')')?.split_once("(%")?;
    if base == "rip" {
        return variable(offset);
    }
    let offset = if offset.is_empty() { 0 } else { integer(offset)? };
    Some(Operand::Memory(x86_register(base)?, offset))
}

/// Parses `VARIABLE`, `VARIABLE+OFFSET` or `VARIABLE-OFFSET`. The address of a variable in the
/// global offset table, `VARIABLE@GOTPCREL`, is not the variable.
fn variable(text: &str) -> Option<Operand> {
    let (name, offset) = match text.find(['+', '-']) {
        Some(at) => (&text[..at], integer(text[at..].trim_start_matches('+'))?),
        None => (text, 0),
    };
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    let is_name = name.chars().all(is_part) && !name.starts_with(|c: char| c.is_ascii_digit());
    (is_name && !name.is_empty()).then(|| Operand::Variable(name.to_owned(), offset))
}

/// Returns the kernel's name of a register, of which the operand may be the lower part.
fn x86_register(name: &str) -> Option<&'static str> {
    const LETTERED: [(&str, [&str; 4]); 8] = [
        ("ax", ["rax", "eax", "ax", "al"]),
        ("bx", ["rbx", "ebx", "bx", "bl"]),
        ("cx", ["rcx", "ecx", "cx", "cl"]),
        ("dx", ["rdx", "edx", "dx", "dl"]),
        ("si", ["rsi", "esi", "si", "sil"]),
        ("di", ["rdi", "edi", "di", "dil"]),
        ("bp", ["rbp", "ebp", "bp", "bpl"]),
        ("sp", ["rsp", "esp", "sp", "spl"]),
    ];
    const NUMBERED: [&str; 8] = ["r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
    let lettered = LETTERED.iter().find(|(_, names)| names.contains(&name)).map(|(is, _)| *is);
    let whole = name.strip_suffix(['d', 'w', 'b']).unwrap_or(name);
    lettered.or_else(|| NUMBERED.into_iter().find(|is| *is == whole))
}

/// Parses `REGISTER`, `NUMBER`, `[REGISTER]` or `[REGISTER,OFFSET]`.
fn arm_operand(text: &str) -> Option<Operand> {
    if let Some(inside) = text.strip_prefix('[') {
        let (base, offset) = match inside.strip_suffix(']')?.split_once(',') {
            Some((base, offset)) => (base, integer(offset.trim_start_matches('#'))?),
            None => (inside.strip_suffix(']')?, 0),
        };
        return Some(Operand::Memory(arm_register(base)?, offset));
    }
    match arm_register(text) {
        Some(register) => Some(Operand::Register(register)),
        None => Some(Operand::Constant(integer(text.trim_start_matches('#'))?)),
    }
}

fn arm_register(name: &str) -> Option<&'static str> {
    const NUMBERED: [&str; 31] = [
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
        "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26",
        "x27", "x28", "x29", "x30",
    ];
    let number = name.strip_prefix(['x', 'w']);
    let numbered = number.and_then(|number| NUMBERED.into_iter().find(|is| is[1..] == *number));
    numbered.or_else(|| (name == "sp").then_some("sp"))
}

fn integer(text: &str) -> Option<i64> {
    let (minus, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let number = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    let number = number.ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(if minus { number.cast_signed().wrapping_neg() } else { number.cast_signed() })
}

/// Prints it as the kernel's fetch argument.
impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Register(name) => write!(f, "%{name}"),
            Operand::Memory(base, offset) => write!(f, "{offset:+}(%{base})"),
            Operand::Constant(number) => write!(f, "\\{number}"),
            Operand::Variable(name, offset) => write!(f, "{name}{offset:+}"),
            Operand::Mapped(offset) => write!(f, "@+{offset:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fetched(parse: fn(&str) -> Option<Operand>, text: &str) -> Option<String> {
        parse(text).map(|operand| operand.to_string())
    }

    #[test]
    fn an_operand_of_x86_is_a_fetch_argument() {
        for (text, wanted) in [
            ("%rdi", "%di"),
            ("%edi", "%di"),
            ("%al", "%ax"),
            ("%r10d", "%r10"),
            ("%r8", "%r8"),
            ("$5", "\\5"),
            ("$-1", "\\-1"),
            ("$0x10", "\\16"),
            ("-16(%rbp)", "-16(%bp)"),
            ("(%rax)", "+0(%ax)"),
            ("0x8(%rsp)", "+8(%sp)"),
        ] {
            assert_eq!(fetched(x86_operand, text).as_deref(), Some(wanted), "{text}");
        }
        for text in ["%ah", "%xmm0", "(%rax,%rbx,4)", "8(%rip)", "$", "", "r16", "(%rip)"] {
            assert_eq!(fetched(x86_operand, text), None, "{text}");
        }
        for (text, name, offset) in
            [("count(%rip)", "count", 0), ("a.1+8(%rip)", "a.1", 8), ("b-0x4(%rip)", "b", -4)]
        {
            assert_eq!(x86_operand(text), Some(Operand::Variable(name.to_owned(), offset)));
        }
        for text in ["count@GOTPCREL(%rip)", "count+(%rip)", "count+x(%rip)", "+4(%rip)"] {
            assert_eq!(x86_operand(text), None, "{text}");
        }
    }

    #[test]
    fn an_operand_of_arm_is_a_fetch_argument() {
        for (text, wanted) in [
            ("x0", "%x0"),
            ("w30", "%x30"),
            ("sp", "%sp"),
            ("5", "\\5"),
            ("-1", "\\-1"),
            ("[x29]", "+0(%x29)"),
            ("[sp,-16]", "-16(%sp)"),
        ] {
            assert_eq!(fetched(arm_operand, text).as_deref(), Some(wanted), "{text}");
        }
        for text in ["d0", "x31", "[x0,x1]", "[x0", ""] {
            assert_eq!(fetched(arm_operand, text), None, "{text}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn arguments_have_a_size_and_a_sign() {
        let found = arguments("-4@%edi 8@-8(%rbp) 1@$7 4f@%xmm0 3@%eax 8@x(%rax,%rbx,4)");
        let of = |size, signed, operand| Ok(OperandArgument { size, signed, operand });
        assert_eq!(found[0], of(4, true, Operand::Register("di")));
        assert_eq!(found[1], of(8, false, Operand::Memory("bp", -8)));
        assert_eq!(found[2], of(1, false, Operand::Constant(7)));
        assert_eq!(found[3], Err(UnreadableOperand::Float));
        assert_eq!(found[4], Err(UnreadableOperand::Size));
        assert_eq!(found[5], Err(UnreadableOperand::Place("x(%rax,%rbx,4)".to_owned())));
        assert_eq!(found.len(), 6);
        assert_eq!(arguments(&"8@%rax ".repeat(20)).len(), ARGUMENTS_MAX);
        assert!(arguments("").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text: String) {
            let _ = arguments(&text);
            let _ = arm_operand(&text);
        }
    }
}
