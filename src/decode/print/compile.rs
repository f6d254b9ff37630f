//! Compiles the text of a format: its template, and an argument for each conversion.

use super::expression::ExpressionCompiler;
use super::kernel_data::KernelData;
use super::number::Base;
use super::operand::PrintOperand;
use super::pointer::Extension;
use super::step::{Conversion, ConversionSpec, PrintStep};
use super::template::{self, Amount, TemplatePart};
use super::value::{IntValue, PointerTarget, convert};
use crate::base::text::fault::Fault;
use crate::decode::c::{self, ExprKind, ExprNode, Int};
use crate::decode::format::Format;

/// A compiled `print fmt`.
pub(super) struct Steps {
    pub(super) all: Vec<PrintStep>,
    /// The name that only the kernel knows, if a conversion needs one.
    pub(super) unknown: Option<&'static str>,
}

/// Compiles a `print fmt`.
pub(super) fn steps(format: &Format, kernel: &dyn KernelData) -> Result<Steps, Fault> {
    let nodes = parse(&format.print_fmt)?;
    let mut nodes = nodes.into_iter();
    let Some(ExprNode { kind: ExprKind::Text(template), .. }) = nodes.next() else {
        return Err(Fault::new(0, "the print format does not begin with a template"));
    };
    let template = template.strip_suffix(b"\n").unwrap_or(&template);
    let parts = template::parse(template).map_err(|why| Fault::new(0, why))?;
    let mut compiler = ExpressionCompiler::new(format, kernel);
    let mut next = || {
        let missing = "the template has more conversions than there are arguments";
        nodes.next().ok_or_else(|| Fault::new(0, missing))
    };
    let (mut all, mut unknown) = (Vec::new(), None);
    for part in parts {
        all.push(match part {
            TemplatePart::Literal(text) => PrintStep::Literal(text.into()),
            TemplatePart::Conversion(conversion) => {
                match compiler.conversion(&conversion, &mut next) {
                    Ok(step) => step,
                    Err(fault) => {
                        unknown = Some(compiler.unknown.take().ok_or(fault)?);
                        PrintStep::Literal(b"?".as_slice().into())
                    }
                }
            }
        });
    }
    Ok(Steps { all, unknown })
}

/// Parses a `print fmt`: the template, then the arguments. The kernel writes most templates without
/// escapes, so a template may contain quotes; it then ends at the first quote after which the rest
/// is valid.
///
/// # Errors
/// The text is not a valid template with arguments; the fault has problem and position.
pub fn parse(text: &str) -> Result<Vec<ExprNode>, Fault> {
    let fault = match c::parse_list(text) {
        Ok(nodes) => return Ok(nodes),
        Err(fault) => fault,
    };
    const QUOTES_MAX: usize = 64;
    let Some(inner) = text.trim_start().strip_prefix('"') else { return Err(fault) };
    for (end, _) in inner.match_indices('"').take(QUOTES_MAX) {
        let (template, rest) = (&inner[..end], inner[end + 1..].trim_start());
        let arguments = match rest.strip_prefix(',') {
            Some(arguments) => {
                // Replace the template by blanks, so that positions refer to the whole text.
                let cut = text.len() - arguments.len();
                c::parse_list(&format!("{:cut$}{arguments}", "")).ok()
            }
            None => rest.is_empty().then(Vec::new),
        };
        let conversions = template::parse(template.as_bytes()).map_or(0, |parts| {
            parts.iter().filter(|part| matches!(part, TemplatePart::Conversion(_))).count()
        });
        if let Some(arguments) = arguments.filter(|all| all.len() >= conversions) {
            let template = ExprNode { at: 0, kind: ExprKind::Text(template.as_bytes().to_vec()) };
            return Ok(std::iter::once(template).chain(arguments).collect());
        }
    }
    Err(fault)
}

impl ExpressionCompiler<'_> {
    fn conversion(
        &mut self,
        conversion: &template::TemplateConversion,
        next: &mut impl FnMut() -> Result<ExprNode, Fault>,
    ) -> Result<PrintStep, Fault> {
        let mut amount = |amount: Amount| -> Result<Option<IntValue>, Fault> {
            Ok(match amount {
                Amount::None => None,
                Amount::Fixed(value) => Some(IntValue::Const(value as u64)),
                Amount::Argument => Some(self.converted(&next()?, Int::INT)?),
            })
        };
        let spec = ConversionSpec {
            flags: conversion.flags,
            width: amount(conversion.width)?,
            precision: amount(conversion.precision)?,
        };
        let node = next()?;
        let unsigned = Int { bits: conversion.bits, signed: false };
        let plain =
            spec == ConversionSpec { flags: Default::default(), width: None, precision: None };
        let conversion = match conversion.letter {
            b'c' => Conversion::Char(self.converted(&node, Int::INT)?),
            b's' => match self.operand(&node)? {
                PrintOperand::Pointer(place, _) => Conversion::Text(place),
                PrintOperand::Int(..) => {
                    return Err(Fault::new(node.at, "the argument of `%s` is a number"));
                }
            },
            b'p' => self.pointer(&node, &conversion.extension)?,
            b'd' | b'i' => {
                let int = Int { signed: true, ..unsigned };
                Conversion::Number(self.converted(&node, int)?, Base::Signed)
            }
            letter => {
                let base = match letter {
                    b'x' => Base::Hex,
                    b'X' => Base::UpperHex,
                    b'o' => Base::Octal,
                    _ => Base::Unsigned,
                };
                Conversion::Number(self.converted(&node, unsigned)?, base)
            }
        };
        Ok(match conversion {
            Conversion::Number(value, base @ (Base::Signed | Base::Unsigned)) if plain => {
                PrintStep::Decimal(value, base == Base::Signed)
            }
            Conversion::Text(place) if plain => PrintStep::Text(place),
            conversion => PrintStep::Conversion(Box::new((conversion, spec))),
        })
    }

    fn pointer(&mut self, node: &ExprNode, extension: &[u8]) -> Result<Conversion, Fault> {
        let known = Extension::parse(extension).ok_or_else(|| {
            let name = String::from_utf8_lossy(extension);
            Fault::new(
                node.at,
                format!("`%p{name}` reads kernel memory, which is not in the record"),
            )
        })?;
        let place = match self.operand(node)? {
            PrintOperand::Pointer(place, _) => place,
            PrintOperand::Int(value, int) => {
                PointerTarget::Address(convert(value, int, Int::ULONG))
            }
        };
        if place.is_in_record() == known.is_of_address() {
            let why = match known.is_of_address() {
                true => "the address of a part of the record is meaningless",
                false => "the kernel memory at this address is not in the record",
            };
            return Err(Fault::new(node.at, why));
        }
        Ok(Conversion::Pointer(known, place))
    }
}
