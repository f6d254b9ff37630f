//! Reads a `format` file line by line into fields.
//!
//! A line is `field:TYPE NAME[LENGTH]; offset:N; size:N; signed:N;`, separated by tabs. The length
//! may be any text (`sizeof(struct sockaddr_in6)`, an enumerator): only the size matters. Unknown
//! keys are skipped; a missing `signed` (very old kernels) means unsigned.

use super::{Element, Field, FieldKind, Format};
use crate::decode::unset::UnsetValues;

/// Why a `format` file could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the format: {why}")]
pub struct BadFormat {
    /// Line number from 1; 0 if something is missing from the file.
    pub line: usize,
    /// The problem.
    pub why: &'static str,
}

/// A record is at most 64 KiB (`perf_event_header.size` is a u16): larger numbers are invalid.
const LARGEST: usize = 1 << 16;

impl Format {
    /// Parses the text of `events/SYSTEM/NAME/format`.
    ///
    /// # Errors
    /// The name or a numeric ID is missing, or a field has no name, or no offset or size below
    /// 65536.
    pub fn parse(text: &str) -> Result<Format, BadFormat> {
        let (head, print_fmt) = match text.split_once("print fmt:") {
            Some((head, tail)) => (head, tail.trim().to_owned()),
            None => (text, String::new()),
        };
        let (mut name, mut id, mut fields) = (None, None, Vec::new());
        for (index, line) in head.lines().enumerate() {
            let bad = |why| BadFormat { line: index + 1, why };
            let line = line.trim();
            if let Some(value) = line.strip_prefix("name:") {
                name = Some(value.trim().to_owned());
            } else if let Some(value) = line.strip_prefix("ID:") {
                id = Some(value.trim().parse().map_err(|_| bad("the ID is not a number"))?);
            } else if let Some(declaration) = line.strip_prefix("field:") {
                fields.push(field(declaration).map_err(bad)?);
            }
        }
        let absent = |why| BadFormat { line: 0, why };
        Ok(Format {
            name: name.filter(|n| !n.is_empty()).ok_or(absent("no name"))?,
            id: id.ok_or(absent("no ID"))?,
            fixed_size: fields.iter().map(|f: &Field| f.offset + f.size).max().unwrap_or(0),
            fields,
            print_fmt,
            user_text: Vec::new(),
            omitted: Vec::new(),
            unset: UnsetValues::default(),
        })
    }
}

fn field(line: &str) -> Result<Field, &'static str> {
    let (declaration, rest) = line.split_once(';').ok_or("no `;` after the declaration")?;
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in rest.split(';') {
        let Some((key, value)) = part.trim().split_once(':') else { continue };
        let number = || value.trim().parse::<usize>().ok().filter(|n| *n < LARGEST);
        match key.trim() {
            "offset" => offset = Some(number().ok_or("the offset is not a number below 64 Ki")?),
            "size" => size = Some(number().ok_or("the size is not a number below 64 Ki")?),
            "signed" => signed = value.trim() == "1",
            _ => {}
        }
    }
    let Declaration { name, type_text, length } = declare(declaration.trim())?;
    let size = size.ok_or("no size")?;
    Ok(Field {
        common: name.starts_with("common_"),
        kind: kind(&type_text, length, size),
        name: name.to_owned(),
        offset: offset.ok_or("no offset")?,
        size,
        signed,
        type_text,
    })
}

struct Declaration<'a> {
    name: &'a str,
    type_text: String,
    /// The text between the brackets after the name.
    length: Option<&'a str>,
}

/// Parses `TYPE NAME` or `TYPE NAME[LENGTH]`; the type's own brackets (`__data_loc char[]`) are
/// before the name.
fn declare(text: &str) -> Result<Declaration<'_>, &'static str> {
    let (head, length) = match text.strip_suffix(']') {
        Some(inner) => {
            let open = opening_bracket(inner).ok_or("`]` without `[`")?;
            (inner[..open].trim_end(), Some(inner[open + 1..].trim()))
        }
        None => (text, None),
    };
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '.' || c == '$';
    let start = head.trim_end_matches(word).len();
    let (type_text, name) = (head[..start].trim(), &head[start..]);
    if name.is_empty() {
        return Err("a field without a name");
    }
    let type_text = match length {
        Some(length) => format!("{type_text}[{length}]"),
        None => type_text.to_owned(),
    };
    Ok(Declaration { name, type_text, length })
}

/// Returns the position of the bracket that matches one after the end of `inner`.
fn opening_bracket(inner: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in inner.char_indices().rev() {
        match c {
            ']' => depth += 1,
            '[' if depth == 0 => return Some(at),
            '[' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn kind(type_text: &str, length: Option<&str>, size: usize) -> FieldKind {
    for (prefix, make) in [
        ("__data_loc", FieldKind::DataLoc as fn(Element) -> FieldKind),
        ("__rel_loc", FieldKind::RelLoc),
    ] {
        if let Some(inner) = type_text.strip_prefix(prefix) {
            let inner = inner.trim().trim_end_matches("[]").trim_end();
            return if size == 4 { make(element(inner)) } else { FieldKind::Bytes };
        }
    }
    if let Some(length) = length {
        let base = type_text.find('[').map_or(type_text, |at| type_text[..at].trim_end());
        return array_kind(base, length, size);
    }
    match size {
        4 | 8 if type_text.contains('*') => FieldKind::Pointer,
        _ if is_aggregate(type_text) => FieldKind::Bytes,
        1 | 2 | 4 | 8 => FieldKind::Int,
        _ => FieldKind::Bytes,
    }
}

fn element(base: &str) -> Element {
    match scalar(base) {
        Scalar::Char => Element::Char,
        Scalar::Int(width) if width > 1 => Element::Int(width),
        _ => Element::Byte,
    }
}

/// Returns the kind of an array. The element width follows from the length if it is a number, else
/// from the type if its width divides the size.
fn array_kind(base: &str, length: &str, size: usize) -> FieldKind {
    let scalar = scalar(base);
    if scalar == Scalar::Char {
        return FieldKind::Chars;
    }
    if scalar == Scalar::Byte || is_aggregate(base) {
        return FieldKind::Bytes;
    }
    let counted = length
        .parse::<usize>()
        .ok()
        .filter(|n| *n > 0 && size.is_multiple_of(*n))
        .map(|n| size / n);
    let known = match scalar {
        Scalar::Int(width) => Some(usize::from(width)).filter(|w| size.is_multiple_of(*w)),
        _ => None,
    };
    match counted.or(known) {
        Some(width @ (1 | 2 | 4 | 8)) => FieldKind::Array(width as u8),
        _ => FieldKind::Bytes,
    }
}

fn is_aggregate(type_text: &str) -> bool {
    type_text.split_whitespace().any(|word| word == "struct" || word == "union")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scalar {
    Char,
    Byte,
    Int(u8),
    Unknown,
}

/// Returns the element type of an array. `long` has this machine's width: the file does not state
/// it.
fn scalar(base: &str) -> Scalar {
    const LONG: u8 = size_of::<usize>() as u8;
    if base.contains('*') {
        return Scalar::Int(LONG);
    }
    let mut words: Vec<&str> = base.split_whitespace().collect();
    words.retain(|word| !matches!(*word, "const" | "volatile"));
    match words.as_slice() {
        ["char"] => Scalar::Char,
        ["unsigned", "char"] | ["u8" | "__u8" | "uint8_t" | "void" | "bool"] => Scalar::Byte,
        ["signed", "char"] | ["s8" | "__s8" | "int8_t"] => Scalar::Int(1),
        [.., "short"] | ["short", "int"] | ["unsigned", "short", "int"] => Scalar::Int(2),
        ["u16" | "__u16" | "s16" | "__s16" | "uint16_t" | "int16_t" | "__be16" | "__le16"] => {
            Scalar::Int(2)
        }
        ["unsigned" | "signed"] | ["int"] | ["unsigned" | "signed", "int"] => Scalar::Int(4),
        ["u32" | "__u32" | "s32" | "__s32" | "uint32_t" | "int32_t" | "__be32" | "__le32"] => {
            Scalar::Int(4)
        }
        ["pid_t" | "dev_t" | "uid_t" | "gid_t" | "gfp_t"] | ["enum", _] => Scalar::Int(4),
        [.., "long", "long"] | ["long", "long", "int"] | ["unsigned", "long", "long", "int"] => {
            Scalar::Int(8)
        }
        ["u64" | "__u64" | "s64" | "__s64" | "uint64_t" | "int64_t" | "__be64" | "__le64"] => {
            Scalar::Int(8)
        }
        ["sector_t" | "loff_t" | "ktime_t"] => Scalar::Int(8),
        [.., "long"] | ["long", "int"] | ["unsigned", "long", "int"] => Scalar::Int(LONG),
        ["size_t" | "ssize_t" | "uintptr_t" | "cpumask_t"] => Scalar::Int(LONG),
        _ => Scalar::Unknown,
    }
}
