//! Parses a filter into a tree of predicates.

use std::rc::Rc;

use super::{FieldReading, FilterNode, FilterOperand, LONGEST, NESTING_MAX, Op, Predicate, print};
use crate::event::syntax::SyntaxError;

/// Size in bytes of the kernel's buffer for a quoted text, terminator included.
const TEXT_BUFFER: usize = 256;
/// Size in bytes of the kernel's buffer for a number, terminator included.
const NUMBER_BUFFER: usize = 24;

pub(super) fn parse(text: &str) -> Result<FilterNode, SyntaxError> {
    let mut parser = FilterParser { text, source: Rc::from(text), at: 0 };
    if text.trim().is_empty() {
        return Err(parser.fault(0, "the filter is empty"));
    }
    if text.len() > LONGEST {
        let long = format!("the filter has {} bytes; the maximum is {LONGEST}", text.len());
        return Err(parser.fault(LONGEST, long));
    }
    if let Some(nul) = text.find('\0') {
        return Err(parser.fault(nul, "a filter cannot contain a NUL"));
    }
    let root = parser.any_of(0)?;
    match parser.peek() {
        None => Ok(root),
        Some(')') => Err(parser.fault(parser.at, "this `)` has no matching `(`")),
        Some(_) => Err(parser.unjoined()),
    }
}

struct FilterParser<'a> {
    text: &'a str,
    source: Rc<str>,
    at: usize,
}

impl<'a> FilterParser<'a> {
    fn fault(&self, at: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError::new(self.text, at, message)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest().chars().next()
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Takes the characters that `wanted` accepts.
    fn run(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn any_of(&mut self, depth: usize) -> Result<FilterNode, SyntaxError> {
        let mut nodes = vec![self.all_of(depth)?];
        while self.take("||") {
            nodes.push(self.all_of(depth)?);
        }
        Ok(single(nodes, FilterNode::Or))
    }

    fn all_of(&mut self, depth: usize) -> Result<FilterNode, SyntaxError> {
        let mut nodes = vec![self.one(depth)?];
        while self.take("&&") {
            nodes.push(self.one(depth)?);
        }
        Ok(single(nodes, FilterNode::And))
    }

    fn one(&mut self, depth: usize) -> Result<FilterNode, SyntaxError> {
        let mut inverted = false;
        while self.peek() == Some('!')
            && !self.rest().starts_with("!=")
            && !self.rest().starts_with("!~")
        {
            self.at += 1;
            inverted = !inverted;
        }
        let open = self.at;
        let node = if self.take("(") {
            if depth == NESTING_MAX {
                return Err(self.fault(open, format!("more than {NESTING_MAX} nested parentheses")));
            }
            let inner = self.any_of(depth + 1)?;
            match self.peek() {
                _ if self.take(")") => inner,
                None => return Err(self.fault(open, "this `(` is not closed")),
                Some(_) => return Err(self.unjoined()),
            }
        } else {
            FilterNode::Is(self.predicate()?)
        };
        Ok(if inverted { FilterNode::Not(Box::new(node)) } else { node })
    }

    /// Returns the error for text where only `&&`, `||` or the end is allowed.
    fn unjoined(&self) -> SyntaxError {
        let rest = self.rest();
        let word: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
        let message = match word.to_ascii_lowercase().as_str() {
            "and" => format!("`{word}` is written `&&` in a filter"),
            "or" => format!("`{word}` is written `||` in a filter"),
            _ if rest.starts_with('&') => "conditions are joined with `&&`".to_owned(),
            _ if rest.starts_with('|') => "conditions are joined with `||`".to_owned(),
            _ => "conditions are joined with `&&` or `||`".to_owned(),
        };
        self.fault(self.at, message)
    }

    fn predicate(&mut self) -> Result<Predicate, SyntaxError> {
        self.skip_space();
        let field_at = self.at;
        let word = self.run(is_word);
        let field = match word {
            "" => return Err(self.no_field()),
            _ if word.starts_with(|c: char| c.is_ascii_digit()) => {
                return Err(self.fault(field_at, "a condition begins with a field: FIELD OP VALUE"));
            }
            "comm_get" => self.task_name(field_at)?,
            "__cpu" | "_cpu" | "common_cpu" => "CPU",
            "__pid" | "_tid" => "common_pid",
            "_comm" | "common_comm" => "COMM",
            _ => word,
        };
        let reading = self.reading()?;
        self.skip_space();
        let op = self.operator(word)?;
        self.skip_space();
        let value_at = self.at;
        let value = self.operand(reading, op)?;
        Ok(Predicate {
            source: self.source.clone(),
            field_at,
            value_at,
            field: field.to_owned(),
            reading,
            op,
            value,
        })
    }

    fn no_field(&mut self) -> SyntaxError {
        let message = match self.peek() {
            None => "a condition is missing after this: FIELD OP VALUE",
            Some(')') => "a condition is missing before this `)`: FIELD OP VALUE",
            Some('"' | '\'') => "a condition begins with a field: FIELD OP \"TEXT\"",
            Some('&' | '|') => "a condition is missing before this: FIELD OP VALUE",
            Some(_) => "expected a field name: FIELD OP VALUE",
        };
        self.fault(self.at, message)
    }

    /// Parses the argument of `comm_get(__pid)`, the name of the task.
    fn task_name(&mut self, at: usize) -> Result<&'static str, SyntaxError> {
        let is_call = self.take("(")
            && (self.take("__pid") || self.take("common_pid") || self.take("_tid"))
            && self.take(")");
        let message = "a filter supports only the call `comm_get(__pid)`; it means `COMM`";
        is_call.then_some("COMM").ok_or_else(|| self.fault(at, message))
    }

    fn reading(&mut self) -> Result<FieldReading, SyntaxError> {
        let dot = self.at;
        if !self.rest().starts_with('.') {
            return Ok(FieldReading::Plain);
        }
        self.at += 1;
        match self.run(is_word) {
            "ustring" => Ok(FieldReading::UserText),
            "function" => Ok(FieldReading::Function),
            other => {
                let message =
                    format!("`.{other}` is unknown; there are `.function` and `.ustring`");
                Err(self.fault(dot, message))
            }
        }
    }

    fn operator(&mut self, field: &str) -> Result<Op, SyntaxError> {
        for (token, op) in print::OPERATORS {
            if self.take(token) {
                return Ok(op);
            }
        }
        let rest = self.rest();
        let message = match rest.chars().next() {
            None | Some(')') => format!("an operator is missing after `{field}`: FIELD OP VALUE"),
            Some('=') => "`=` is not a comparison; write `==`".to_owned(),
            Some('[') => "an element of an array cannot be compared in a filter".to_owned(),
            Some('!') if rest.starts_with("!~") => {
                format!("there is no `!~`; write `!({field} ~ ...)`")
            }
            _ => "expected an operator: == != < <= > >= & or ~".to_owned(),
        };
        Err(self.fault(self.at, message))
    }

    fn operand(&mut self, reading: FieldReading, op: Op) -> Result<FilterOperand, SyntaxError> {
        let rest = self.rest();
        if reading == FieldReading::Function {
            return self.function(op);
        }
        match rest.chars().next() {
            None | Some(')') => Err(self.fault(self.at, "a value is missing here")),
            Some(quote @ ('"' | '\'')) => self.quoted(op, quote),
            Some(_) if op == Op::Glob => {
                let ends = |c: char| c.is_whitespace() || c == '&';
                let word = rest.split(ends).next().and_then(|word| word.split("||").next());
                let word = word.unwrap_or_default();
                // Without the end of a group around it.
                let text = if word.contains('(') { word } else { word.trim_end_matches(')') };
                Err(self.fault(self.at, format!("quote text: \"{text}\"")))
            }
            Some('0'..='9' | '-') => self.number(op),
            Some(_) if rest.starts_with("CPUS") => self.cpus(op),
            Some('=') => Err(self.fault(self.at, "one `=` too many")),
            Some(_) => {
                let word: String = rest.chars().take_while(|c| is_word(*c)).collect();
                let message = match word.as_str() {
                    "" => "expected a number or quoted text".to_owned(),
                    _ => format!("`{word}` is not a number; quote text: \"{word}\""),
                };
                Err(self.fault(self.at, message))
            }
        }
    }

    fn function(&mut self, op: Op) -> Result<FilterOperand, SyntaxError> {
        if !matches!(op, Op::Equal | Op::Unequal) {
            return Err(self.fault(self.at, "`.function` compares with == or != only"));
        }
        let name = self.run(|c| !c.is_whitespace() && !matches!(c, '(' | ')' | '&' | '|'));
        if name.is_empty() || name.starts_with(['"', '\'', '-']) {
            let at = self.at - name.len();
            return Err(self.fault(at, "`.function` needs a function's name, without quotes"));
        }
        Ok(FilterOperand::Function(name.to_owned()))
    }

    fn quoted(&mut self, op: Op, quote: char) -> Result<FilterOperand, SyntaxError> {
        let open = self.at;
        if !matches!(op, Op::Equal | Op::Unequal | Op::Glob) {
            return Err(self.fault(open, "text is compared with == != or ~ only"));
        }
        self.at += 1;
        let text = self.run(|c| c != quote);
        if !self.rest().starts_with(quote) {
            return Err(self.fault(open, format!("this quote is not closed by another {quote}")));
        }
        self.at += 1;
        let sent = if op == Op::Glob { print::kernel_glob(text).len() } else { text.len() };
        if sent >= TEXT_BUFFER {
            let message = format!("the text has {sent} bytes; the maximum is {}", TEXT_BUFFER - 1);
            return Err(self.fault(open, message));
        }
        Ok(FilterOperand::Text { text: text.to_owned(), quote })
    }

    fn number(&mut self, op: Op) -> Result<FilterOperand, SyntaxError> {
        let start = self.at;
        if op == Op::Glob {
            return Err(self.fault(start, "`~` compares with a quoted glob"));
        }
        self.at += usize::from(self.rest().starts_with('-'));
        self.run(|c| c.is_ascii_alphanumeric());
        let text = &self.text[start..self.at];
        let value = integer(text).filter(|_| text.len() < NUMBER_BUFFER);
        let value = value.ok_or_else(|| {
            self.fault(
                start,
                format!("`{text}` is not a 64-bit number, such as 10, 012, 0xa or -10"),
            )
        })?;
        Ok(FilterOperand::Number { text: text.to_owned(), value })
    }

    fn cpus(&mut self, op: Op) -> Result<FilterOperand, SyntaxError> {
        let start = self.at;
        if !matches!(op, Op::Equal | Op::Unequal | Op::Mask) {
            return Err(self.fault(start, "CPUs are compared with == != or & only"));
        }
        self.at += "CPUS".len();
        if !self.rest().starts_with('{') {
            return Err(self.fault(self.at, "expected CPUs in braces: CPUS{0-3,8}"));
        }
        self.at += 1;
        let list_at = self.at;
        let list = self.run(|c| c != '}');
        if !self.take("}") {
            return Err(self.fault(start, "the brace is not closed: CPUS{0-3,8}"));
        }
        let ranges = ranges(list)
            .ok_or_else(|| self.fault(list_at, "expected a list of CPUs, such as 0-3,8"))?;
        Ok(FilterOperand::Cpus { text: list.trim().to_owned(), ranges })
    }
}

fn single(mut nodes: Vec<FilterNode>, join: fn(Vec<FilterNode>) -> FilterNode) -> FilterNode {
    match nodes.len() {
        1 => nodes.remove(0),
        _ => join(nodes),
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Parses a C integer that fits 64 bits, signed or unsigned.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match (lower.strip_prefix("0x"), lower.strip_prefix('0')) {
        (Some(hex), _) => (16, hex),
        (None, Some(octal)) if !octal.is_empty() => (8, octal),
        _ => (10, lower.as_str()),
    };
    let value = i128::from(u64::from_str_radix(digits, radix).ok()?);
    let value = if negative { -value } else { value };
    (value >= i128::from(i64::MIN)).then_some(value)
}

/// Parses `0-3,8`; the ranges may also be separated by spaces. At least one is required.
fn ranges(list: &str) -> Option<Vec<(u32, u32)>> {
    let parts = list.split(|c: char| c == ',' || c.is_whitespace()).filter(|part| !part.is_empty());
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        (low <= high).then_some((low, high))
    };
    let ranges: Vec<_> = parts.map(range).collect::<Option<_>>()?;
    (!ranges.is_empty()).then_some(ranges)
}
