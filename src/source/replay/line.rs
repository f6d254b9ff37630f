//! Parses one line of a recording.

use crate::base::event::slot::CPUS_MAX;
use crate::base::event::value::FieldType;
use crate::base::text::fault::Fault;
use crate::event::kind::{self, COUNT_PREFIX};

/// A line as written; its event has no layout yet.
#[derive(Debug)]
pub(super) struct ParsedLine<'a> {
    pub(super) time_ns: u64,
    /// Time of its arrival.
    pub(super) came_ns: u64,
    pub(super) cpu: u32,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) comm: Vec<u8>,
    /// The event's name, or the name of a side-band entry in capitals.
    pub(super) event: &'a str,
    /// Byte offset of the name.
    pub(super) event_at: usize,
    pub(super) fields: Vec<FieldText<'a>>,
    pub(super) stack: Vec<String>,
}

/// `name=value`.
#[derive(Debug)]
pub(super) struct FieldText<'a> {
    pub(super) name: &'a str,
    /// Byte offset of the name.
    pub(super) at: usize,
    /// The value as written.
    spelling: &'a str,
    pub(super) literal: Literal,
}

/// A value, by the form in which it is written.
#[derive(Debug, PartialEq)]
pub(super) enum Literal {
    /// Decimal, from i64::MIN to u64::MAX.
    Int(i128),
    /// Hexadecimal.
    Pointer(u64),
    /// `[…]`, elements like `Int`.
    Array(Vec<i128>),
    /// `hex:…`.
    Bytes(Vec<u8>),
    /// Anything else.
    Text(Vec<u8>),
}

impl ParsedLine<'_> {
    /// Returns whether the line is a side-band entry, not an event: its name is all capitals.
    pub(super) fn is_side_band(&self) -> bool {
        self.event.bytes().all(|b| b.is_ascii_uppercase())
    }

    pub(super) fn field(&self, name: &str) -> Option<&FieldText<'_>> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns an error about the event as a whole.
    pub(super) fn fault(&self, message: String) -> Fault {
        Fault::new(self.event_at, message)
    }
}

impl FieldText<'_> {
    /// Returns the value as text: the content of the quotes, else the value as written.
    pub(super) fn text(&self) -> Vec<u8> {
        match &self.literal {
            Literal::Text(text) => text.clone(),
            _ => self.spelling.as_bytes().to_vec(),
        }
    }

    pub(super) fn fault(&self, message: String) -> Fault {
        Fault::new(self.at, message)
    }
}

/// Parses an event of the header: `# event NAME: field=type`. Returns None for any other line; a
/// comment may begin like this, too.
pub(super) fn declared(source: &str) -> Option<(&str, Vec<(&str, FieldType)>)> {
    const MARK: &str = "# event ";
    source.starts_with(MARK).then_some(())?;
    let mut cursor = Cursor { source, at: MARK.len() };
    let (_, word) = cursor.event().ok()?;
    let name = word.strip_suffix(':').filter(|name| !name.is_empty())?;
    let mut fields = Vec::new();
    while !cursor.rest().is_empty() {
        let field = cursor.field().ok()?;
        fields.push((field.name, FieldType::named(field.spelling)?));
    }
    Some((name, fields))
}

/// Parses a line; None for a comment or a blank line.
///
/// # Errors
/// The line is invalid.
pub(super) fn parse(source: &str) -> Option<Result<ParsedLine<'_>, Fault>> {
    let blank = source.trim().is_empty() || source.starts_with('#');
    (!blank).then(|| Cursor { source, at: 0 }.line())
}

struct Cursor<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn line(mut self) -> Result<ParsedLine<'a>, Fault> {
        let (at, word) = self.word("the time")?;
        let (time, came) = word.split_once('@').unwrap_or((word, word));
        let fault = |word: &str| {
            let example = "seconds with at most nine decimals, for example 0.001";
            Fault::new(at, format!("`{word}` is not a time: {example}"))
        };
        let time_ns = nanoseconds(time).ok_or_else(|| fault(time))?;
        let came_ns = nanoseconds(came).ok_or_else(|| fault(came))?;
        if came_ns < time_ns {
            let what = format!("`{word}`: the arrival after `@` is earlier than the event");
            return Err(Fault::new(at, what));
        }
        let (at, word) = self.word("the CPU")?;
        let cpu = number(word, at, "CPU")?;
        if cpu >= CPUS_MAX {
            return Err(Fault::new(at, format!("`{word}` is not a CPU")));
        }
        let (at, word) = self.word("the thread")?;
        let (pid, tid) = word.split_once('/').unwrap_or((word, word));
        let (tid, pid) = (number(tid, at, "thread id")?, number(pid, at, "process id")?);
        let comm = self.comm()?;
        let (event_at, word) = self.event()?;
        let event = word.strip_suffix(':').filter(|event| !event.is_empty()).ok_or_else(|| {
            let quotes = "a task name with blanks must be in double quotes";
            Fault::new(event_at, format!("`{word}` is not `EVENT:`; {quotes}"))
        })?;
        let mut fields: Vec<FieldText<'a>> = Vec::new();
        let mut stack = Vec::new();
        while !self.rest().is_empty() {
            if self.rest() == "|" || self.rest().starts_with("| ") {
                self.at += 1;
                stack = self.stack()?;
                break;
            }
            let field = self.field()?;
            if fields.iter().any(|other| other.name == field.name) {
                return Err(field.fault(format!("`{}` is given twice", field.name)));
            }
            fields.push(field);
        }
        Ok(ParsedLine { time_ns, came_ns, cpu, pid, tid, comm, event, event_at, fields, stack })
    }

    /// Skips blanks, and returns the rest of the line.
    fn rest(&mut self) -> &'a str {
        let rest = self.source.get(self.at..).unwrap_or("");
        let trimmed = rest.trim_start_matches([' ', '\t']);
        self.at += rest.len() - trimmed.len();
        trimmed.trim_end_matches([' ', '\t'])
    }

    /// Reads the event's name with its colon. The FILE of a name may be in quotes, and contain
    /// blanks.
    fn event(&mut self) -> Result<(usize, &'a str), Fault> {
        let rest = self.rest();
        let end = kind::prefix_of(rest).map_or(0, |(prefix, behind)| {
            rest.len() - behind.len() + (prefix.extent)(behind).unwrap_or(0)
        });
        let (at, text) = (self.at, self.source);
        self.at += end;
        let (_, _) = self.word("the event")?;
        Ok((at, text.get(at..self.at).unwrap_or_default()))
    }

    /// Reads up to the next blank. Returns the text and its offset.
    fn word(&mut self, what: &str) -> Result<(usize, &'a str), Fault> {
        let rest = self.rest();
        let end = rest.find([' ', '\t']).unwrap_or(rest.len());
        let (at, word) = (self.at, rest.get(..end).unwrap_or(""));
        if word.is_empty() {
            let what = format!(
                "{what} is missing; a line is TIME CPU TID COMM EVENT: field=value | stack"
            );
            return Err(Fault::new(at, what));
        }
        self.at += end;
        Ok((at, word))
    }

    fn comm(&mut self) -> Result<Vec<u8>, Fault> {
        if self.rest().starts_with('"') {
            return Ok(self.quoted(&[' ', '\t'])?.1);
        }
        let (_, word) = self.word("the task name")?;
        Ok(if word == "-" { Vec::new() } else { word.as_bytes().to_vec() })
    }

    fn field(&mut self) -> Result<FieldText<'a>, Fault> {
        let rest = self.rest();
        let at = self.at;
        let named = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = match rest.starts_with(COUNT_PREFIX) {
            // The name of an event, which may contain any sign but a blank, and its count.
            true => rest.split([' ', '\t']).next().and_then(|word| word.rfind('=')),
            false => rest.find(|c| !named(c)),
        };
        let end = end.unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if name.is_empty() || !after.starts_with('=') {
            let word = rest.split([' ', '\t']).next().unwrap_or(rest);
            let what = format!(
                "`{word}` is not `field=value`; a value with blanks must be in double quotes"
            );
            return Err(Fault::new(at, what));
        }
        self.at += end + 1;
        let after = after.get(1..).unwrap_or("");
        if after.starts_with('"') {
            let (spelling, text) = self.quoted(&[' ', '\t'])?;
            return Ok(FieldText { name, at, spelling, literal: Literal::Text(text) });
        }
        let end = after.find([' ', '\t']).unwrap_or(after.len());
        let spelling = after.get(..end).unwrap_or("");
        self.at += end;
        let literal = literal(spelling);
        // Text that begins like this must be in quotes.
        let is_other = |mark: &&&str| spelling.starts_with(**mark);
        if let (Literal::Text(_), Some(mark)) =
            (&literal, ["0x", "[", "hex:"].iter().find(is_other))
        {
            let what = match *mark {
                "0x" => "a hexadecimal number of at most 64 bits",
                "[" => "a list of whole numbers, such as [1,-2]",
                _ => "a sequence of pairs of hexadecimal digits",
            };
            let what =
                format!("`{spelling}` is not {what}; text that begins like this must be in quotes");
            return Err(Fault::new(at + name.len() + 1, what));
        }
        Ok(FieldText { name, at, spelling, literal })
    }

    /// Reads frames separated by `;`, up to the end of the line.
    fn stack(&mut self) -> Result<Vec<String>, Fault> {
        let mut frames = Vec::new();
        while !self.rest().is_empty() {
            if self.rest().starts_with('"') {
                let text = self.quoted(&[' ', '\t', ';'])?.1;
                frames.push(String::from_utf8_lossy(&text).into_owned());
            } else {
                let rest = self.rest();
                let end = rest.find(';').unwrap_or(rest.len());
                frames.push(rest.get(..end).unwrap_or("").trim().to_owned());
                self.at += end;
            }
            if self.rest().starts_with(';') {
                self.at += 1;
            } else if !self.rest().is_empty() {
                return Err(Fault::new(self.at, "a `;` is missing between two frames"));
            }
        }
        Ok(frames)
    }

    /// Reads quoted text, which one of `ends` or the line's end must follow. Returns it as written,
    /// and its content.
    fn quoted(&mut self, ends: &[char]) -> Result<(&'a str, Vec<u8>), Fault> {
        let start = self.at;
        let rest = self.source.get(start..).unwrap_or("");
        let mut text = Vec::new();
        let mut bytes = rest.bytes().enumerate().skip(1);
        while let Some((i, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    let (spelling, after) = rest.split_at_checked(i + 1).unwrap_or((rest, ""));
                    self.at = start + i + 1;
                    if after.is_empty() || after.starts_with(ends) {
                        return Ok((spelling, text));
                    }
                    return Err(Fault::new(self.at, "a blank is missing after the quotes"));
                }
                b'\\' => match escape(rest.get(i + 1..).unwrap_or("")) {
                    Some((byte, length)) => {
                        text.push(byte);
                        bytes.nth(length - 1);
                    }
                    None => {
                        let what = r#"invalid escape; the escapes are \" \\ \n \r \t and \xNN"#;
                        return Err(Fault::new(start + i, what));
                    }
                },
                byte => text.push(byte),
            }
        }
        Err(Fault::new(start, "the closing quotes are missing"))
    }
}

/// Returns the byte that an escape (without its `\`) stands for, and the escape's length.
fn escape(text: &str) -> Option<(u8, usize)> {
    Some(match text.bytes().next()? {
        b'n' => (b'\n', 1),
        b'r' => (b'\r', 1),
        b't' => (b'\t', 1),
        byte @ (b'"' | b'\\') => (byte, 1),
        b'x' => (hex_byte(text.get(1..3)?)?, 3),
        _ => return None,
    })
}

fn literal(word: &str) -> Literal {
    let typed = if let Some(list) = word.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        array(list).map(Literal::Array)
    } else if let Some(digits) = word.strip_prefix("hex:") {
        bytes(digits).map(Literal::Bytes)
    } else if let Some(digits) = word.strip_prefix("0x") {
        let hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten().map(Literal::Pointer)
    } else {
        integer(word).map(Literal::Int)
    };
    typed.unwrap_or_else(|| Literal::Text(word.as_bytes().to_vec()))
}

/// Parses a decimal integer that fits into some 64-bit type.
fn integer(word: &str) -> Option<i128> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let decimal =
        !digits.is_empty() && digits.len() <= 20 && digits.bytes().all(|b| b.is_ascii_digit());
    let value: i128 = if decimal { word.parse().ok()? } else { return None };
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&value).then_some(value)
}

fn array(list: &str) -> Option<Vec<i128>> {
    if list.is_empty() { Some(Vec::new()) } else { list.split(',').map(integer).collect() }
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| hex_byte(std::str::from_utf8(pair).ok()?)).collect()
}

fn hex_byte(digits: &str) -> Option<u8> {
    let both = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    both.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// Parses seconds with decimals into nanoseconds.
pub(super) fn nanoseconds(word: &str) -> Option<u64> {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    let decimal = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 9 || !decimal(whole) || !decimal(fraction) {
        return None;
    }
    let seconds: u64 = whole.parse().ok()?;
    let nanoseconds: u64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

fn number(word: &str, at: usize, what: &str) -> Result<u32, Fault> {
    let decimal = word.bytes().all(|b| b.is_ascii_digit());
    let value = if decimal { word.parse().ok() } else { None };
    value.ok_or_else(|| Fault::new(at, format!("`{word}` is not a {what}")))
}
