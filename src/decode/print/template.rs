//! The template of a format: text and conversions, in the syntax of the kernel's `vsnprintf`.
//!
//! Flags, width, precision and length are as in C; all letters and digits after `%p` belong to the
//! conversion (Documentation/core-api/printk-formats.rst).

use crate::decode::c::Int;

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TemplatePart {
    Literal(Vec<u8>),
    Conversion(TemplateConversion),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct TemplateConversion {
    pub(super) flags: ConversionFlags,
    pub(super) width: Amount,
    pub(super) precision: Amount,
    /// Width in bits of a number's argument.
    pub(super) bits: u8,
    /// `d`, `s`, `p` …
    pub(super) letter: u8,
    /// Letters and digits after `%p`.
    pub(super) extension: Vec<u8>,
}

/// `- + ␠ # 0`
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ConversionFlags {
    pub(super) left: bool,
    pub(super) plus: bool,
    pub(super) blank: bool,
    pub(super) special: bool,
    pub(super) zero: bool,
}

/// A width or a precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Amount {
    None,
    Fixed(usize),
    /// `*`: the next argument.
    Argument,
}

/// Upper limit for numbers in a template: no text is wider.
const AMOUNT_MAX: usize = 1 << 16;

/// Parses a template.
///
/// # Errors
/// A conversion is unknown or incomplete.
pub(super) fn parse(text: &[u8]) -> Result<Vec<TemplatePart>, String> {
    let mut parts = Vec::new();
    let mut literal = Vec::new();
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match (byte, behind.first()) {
            (b'%', Some(b'%')) => {
                literal.push(b'%');
                rest = &behind[1..];
            }
            (b'%', _) => {
                let (conversion, behind) = conversion(behind)?;
                rest = behind;
                if !literal.is_empty() {
                    parts.push(TemplatePart::Literal(std::mem::take(&mut literal)));
                }
                parts.push(TemplatePart::Conversion(conversion));
            }
            _ => literal.push(byte),
        }
    }
    if !literal.is_empty() {
        parts.push(TemplatePart::Literal(literal));
    }
    Ok(parts)
}

fn conversion(mut rest: &[u8]) -> Result<(TemplateConversion, &[u8]), String> {
    let flags = flags(&mut rest);
    let width = amount(&mut rest).unwrap_or(Amount::None);
    let precision = match rest.split_first() {
        Some((b'.', behind)) => {
            rest = behind;
            amount(&mut rest).unwrap_or(Amount::Fixed(0))
        }
        _ => Amount::None,
    };
    let bits = length(&mut rest);
    let Some((&letter, behind)) = rest.split_first() else {
        return Err("the template ends within a conversion".to_owned());
    };
    rest = behind;
    let mut extension = Vec::new();
    match letter {
        b'd' | b'i' | b'u' | b'x' | b'X' | b'o' | b'c' | b's' => {}
        b'p' => {
            let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
            let (own, behind) = rest.split_at(len);
            (extension, rest) = (own.to_vec(), behind);
        }
        other => {
            return Err(format!(
                "the template has `%{}`, which is not a conversion",
                char::from(other)
            ));
        }
    }
    Ok((TemplateConversion { flags, width, precision, bits, letter, extension }, rest))
}

fn flags(rest: &mut &[u8]) -> ConversionFlags {
    let mut flags = ConversionFlags::default();
    while let Some((byte, behind)) = rest.split_first() {
        match byte {
            b'-' => flags.left = true,
            b'+' => flags.plus = true,
            b' ' => flags.blank = true,
            b'#' => flags.special = true,
            b'0' => flags.zero = true,
            _ => break,
        }
        *rest = behind;
    }
    flags
}

fn amount(rest: &mut &[u8]) -> Option<Amount> {
    if let Some(behind) = rest.strip_prefix(b"*") {
        *rest = behind;
        return Some(Amount::Argument);
    }
    let len = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, behind) = rest.split_at(len);
    *rest = behind;
    let value = digits.iter().fold(0usize, |value, digit| {
        value.saturating_mul(10).saturating_add(usize::from(digit - b'0')).min(AMOUNT_MAX)
    });
    (len > 0).then_some(Amount::Fixed(value))
}

/// Returns the width in bits of the argument, from the length modifiers.
fn length(rest: &mut &[u8]) -> u8 {
    let known: [(&[u8], u8); 10] = [
        (b"hh", 8),
        (b"h", 16),
        (b"ll", 64),
        (b"l", 64),
        (b"L", 64),
        (b"q", 64),
        (b"j", 64),
        (b"z", 64),
        (b"Z", 64),
        (b"t", 64),
    ];
    for (text, bits) in known {
        if let Some(behind) = rest.strip_prefix(text) {
            *rest = behind;
            return bits;
        }
    }
    Int::INT.bits
}
