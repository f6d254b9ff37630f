//! Text into a tree of predicates, and the reason when it is none.

use std::rc::Rc;

use super::{LONGEST, Node, Op, Operand, Predicate, Reading, print};
use crate::event::syntax::SyntaxError;

/// Parentheses within parentheses; the kernel has no limit but the length.
const DEEPEST: usize = 64;
/// Bytes of a quoted text, terminator included, that the kernel's copy has room for.
const TEXT_BUFFER: usize = 256;
/// Likewise of a number.
const NUMBER_BUFFER: usize = 24;

pub(super) fn parse(text: &str) -> Result<Node, SyntaxError> {
    let mut parser = Parser { text, source: Rc::from(text), at: 0 };
    if text.trim().is_empty() {
        return Err(parser.fault(0, "the filter is empty"));
    }
    if text.len() > LONGEST {
        let long = format!("the filter has {} bytes; the kernel takes {LONGEST}", text.len());
        return Err(parser.fault(LONGEST, long));
    }
    if let Some(nul) = text.find('\0') {
        return Err(parser.fault(nul, "a filter cannot hold a NUL"));
    }
    let root = parser.any_of(0)?;
    match parser.peek() {
        None => Ok(root),
        Some(')') => Err(parser.fault(parser.at, "this `)` closes nothing")),
        Some(_) => Err(parser.unjoined()),
    }
}

struct Parser<'a> {
    text: &'a str,
    source: Rc<str>,
    at: usize,
}

impl<'a> Parser<'a> {
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

    /// The characters from here on that `wanted` accepts.
    fn run(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn any_of(&mut self, depth: usize) -> Result<Node, SyntaxError> {
        let mut nodes = vec![self.all_of(depth)?];
        while self.take("||") {
            nodes.push(self.all_of(depth)?);
        }
        Ok(single(nodes, Node::Or))
    }

    fn all_of(&mut self, depth: usize) -> Result<Node, SyntaxError> {
        let mut nodes = vec![self.one(depth)?];
        while self.take("&&") {
            nodes.push(self.one(depth)?);
        }
        Ok(single(nodes, Node::And))
    }

    fn one(&mut self, depth: usize) -> Result<Node, SyntaxError> {
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
            if depth == DEEPEST {
                return Err(
                    self.fault(open, format!("more than {DEEPEST} parentheses within each other"))
                );
            }
            let inner = self.any_of(depth + 1)?;
            match self.peek() {
                _ if self.take(")") => inner,
                None => return Err(self.fault(open, "this `(` is not closed")),
                Some(_) => return Err(self.unjoined()),
            }
        } else {
            Node::Is(self.predicate()?)
        };
        Ok(if inverted { Node::Not(Box::new(node)) } else { node })
    }

    /// Something stands where only `&&`, `||` or the end can.
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
            None => "a condition is missing behind this: FIELD OP VALUE",
            Some(')') => "a condition is missing before this `)`: FIELD OP VALUE",
            Some('"' | '\'') => "a condition begins with a field, the text stands behind it",
            Some('&' | '|') => "a condition is missing before this: FIELD OP VALUE",
            Some(_) => "a field's name has to stand here: FIELD OP VALUE",
        };
        self.fault(self.at, message)
    }

    /// `comm_get(__pid)`, the name of the task.
    fn task_name(&mut self, at: usize) -> Result<&'static str, SyntaxError> {
        let is_call = self.take("(")
            && (self.take("__pid") || self.take("common_pid") || self.take("_tid"))
            && self.take(")");
        let message = "in a filter the only call is `comm_get(__pid)`, which is `COMM`";
        is_call.then_some("COMM").ok_or_else(|| self.fault(at, message))
    }

    fn reading(&mut self) -> Result<Reading, SyntaxError> {
        let dot = self.at;
        if !self.rest().starts_with('.') {
            return Ok(Reading::Plain);
        }
        self.at += 1;
        match self.run(is_word) {
            "ustring" => Ok(Reading::UserText),
            "function" => Ok(Reading::Function),
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
            None | Some(')') => format!("`{field}` is compared with nothing: FIELD OP VALUE"),
            Some('=') => "`=` compares nothing; write `==`".to_owned(),
            Some('[') => "an element of an array cannot be compared in a filter".to_owned(),
            Some('!') if rest.starts_with("!~") => {
                format!("there is no `!~`; write `!({field} ~ ...)`")
            }
            _ => "no operator; there are == != < <= > >= & and ~".to_owned(),
        };
        Err(self.fault(self.at, message))
    }

    fn operand(&mut self, reading: Reading, op: Op) -> Result<Operand, SyntaxError> {
        let rest = self.rest();
        if reading == Reading::Function {
            return self.function(op);
        }
        match rest.chars().next() {
            None | Some(')') => Err(self.fault(self.at, "a value is missing here")),
            Some(quote @ ('"' | '\'')) => self.quoted(op, quote),
            Some('0'..='9' | '-') => self.number(op),
            Some(_) if rest.starts_with("CPUS") => self.cpus(op),
            Some('=') => Err(self.fault(self.at, "one `=` too many")),
            Some(_) => {
                let word: String = rest.chars().take_while(|c| is_word(*c)).collect();
                let message = match word.as_str() {
                    "" => "a value is a number or a quoted text".to_owned(),
                    _ => format!("`{word}` is no number; a text is quoted: \"{word}\""),
                };
                Err(self.fault(self.at, message))
            }
        }
    }

    fn function(&mut self, op: Op) -> Result<Operand, SyntaxError> {
        if !matches!(op, Op::Equal | Op::Unequal) {
            return Err(self.fault(self.at, "`.function` compares with == or != only"));
        }
        let name = self.run(|c| !c.is_whitespace() && !matches!(c, '(' | ')' | '&' | '|'));
        if name.is_empty() || name.starts_with(['"', '\'', '-']) {
            let at = self.at - name.len();
            return Err(self.fault(at, "`.function` wants a function's name, without quotes"));
        }
        Ok(Operand::Function(name.to_owned()))
    }

    fn quoted(&mut self, op: Op, quote: char) -> Result<Operand, SyntaxError> {
        let open = self.at;
        if !matches!(op, Op::Equal | Op::Unequal | Op::Glob) {
            return Err(self.fault(open, "a text is compared with == != or ~ only"));
        }
        self.at += 1;
        let text = self.run(|c| c != quote);
        if !self.rest().starts_with(quote) {
            return Err(self.fault(open, format!("this quote is not closed by another {quote}")));
        }
        self.at += 1;
        let sent = if op == Op::Glob { print::kernel_glob(text).len() } else { text.len() };
        if sent >= TEXT_BUFFER {
            let message =
                format!("the text has {sent} bytes; the kernel takes {}", TEXT_BUFFER - 1);
            return Err(self.fault(open, message));
        }
        Ok(Operand::Text { text: text.to_owned(), quote })
    }

    fn number(&mut self, op: Op) -> Result<Operand, SyntaxError> {
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
                format!("`{text}` is no number of 64 bits: 10, 012, 0xa and -10 are numbers"),
            )
        })?;
        Ok(Operand::Number { text: text.to_owned(), value })
    }

    fn cpus(&mut self, op: Op) -> Result<Operand, SyntaxError> {
        let start = self.at;
        if !matches!(op, Op::Equal | Op::Unequal | Op::Mask) {
            return Err(self.fault(start, "CPUs are compared with == != or & only"));
        }
        self.at += "CPUS".len();
        if !self.rest().starts_with('{') {
            return Err(self.fault(self.at, "CPUs are listed in braces right here: CPUS{0-3,8}"));
        }
        self.at += 1;
        let list_at = self.at;
        let list = self.run(|c| c != '}');
        if !self.take("}") {
            return Err(self.fault(start, "the brace is not closed: CPUS{0-3,8}"));
        }
        let ranges = ranges(list)
            .ok_or_else(|| self.fault(list_at, "no list of CPUs, which is like 0-3,8"))?;
        Ok(Operand::Cpus { text: list.trim().to_owned(), ranges })
    }
}

fn single(mut nodes: Vec<Node>, join: fn(Vec<Node>) -> Node) -> Node {
    match nodes.len() {
        1 => nodes.remove(0),
        _ => join(nodes),
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A C integer that fits 64 bits, signed or unsigned.
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

/// `0-3,8`; the parts may also be separated by spaces. At least one.
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
