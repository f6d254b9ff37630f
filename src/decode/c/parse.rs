//! Precedence parser from tokens to a tree.

mod type_name;

use super::ast::{Binary, ExprKind, ExprNode, Local, Unary};
use super::lex::{Token, TokenKind, tokens};
use crate::base::text::fault::Fault;

/// Maximum nesting of the text.
const DEPTH_MAX: usize = 200;

/// Maximum height of a tree, because walking and dropping it recurse. Chains of operators and
/// members make a tree higher than the parser's recursion is deep.
const HEIGHT_MAX: usize = 400;

/// Parses one expression; all of `text` must belong to it.
///
/// # Errors
/// The text is not a valid expression; the fault has problem and position.
pub fn parse(text: &str) -> Result<ExprNode, Fault> {
    let mut parser = CParser::new(text)?;
    let node = parser.expression()?;
    parser.end()?;
    Ok(node)
}

/// Parses expressions separated by commas, such as the arguments of a call.
///
/// # Errors
/// The text is not a valid list of expressions; the fault has problem and position.
pub fn parse_list(text: &str) -> Result<Vec<ExprNode>, Fault> {
    let mut parser = CParser::new(text)?;
    let mut nodes = vec![parser.expression()?];
    while parser.take(",") {
        nodes.push(parser.expression()?);
    }
    parser.end()?;
    Ok(nodes)
}

struct CParser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
    /// Height of the tree returned last; locals count with the height of their trees.
    height: usize,
}

/// Operators with their precedence, tightest first; a higher number binds tighter.
const BINARY: [(&str, Binary, u8); 19] = [
    ("*", Binary::Mul, 10),
    ("/", Binary::Div, 10),
    ("%", Binary::Rem, 10),
    ("+", Binary::Add, 9),
    ("-", Binary::Sub, 9),
    ("<<", Binary::Shl, 8),
    (">>", Binary::Shr, 8),
    ("<", Binary::Lt, 7),
    ("<=", Binary::Le, 7),
    (">", Binary::Gt, 7),
    (">=", Binary::Ge, 7),
    ("==", Binary::Eq, 6),
    ("!=", Binary::Ne, 6),
    ("~", Binary::Glob, 6),
    ("&", Binary::And, 5),
    ("^", Binary::Xor, 4),
    ("|", Binary::Or, 3),
    ("&&", Binary::AndAnd, 2),
    ("||", Binary::OrOr, 1),
];

/// Returns the fault for `++` or `--`, each one token as in C. Two signs must be separated:
/// `+(+a)`, `a - -1`.
fn changes(at: usize, mark: &str) -> Fault {
    let sign = &mark[..1];
    let why = format!(
        "`{mark}` changes a variable, which is not possible here; write `{sign} {sign}` for two \
         signs"
    );
    Fault::new(at, why)
}

impl<'a> CParser<'a> {
    fn new(text: &'a str) -> Result<Self, Fault> {
        Ok(CParser { text, tokens: tokens(text)?, next: 0, depth: 0, height: 0 })
    }

    fn here(&self) -> usize {
        self.tokens.get(self.next).map_or(self.text.len(), |token| token.at)
    }

    fn peek(&self) -> Option<&TokenKind> {
        self.tokens.get(self.next).map(|token| &token.kind)
    }

    fn mark(&self) -> Option<&'static str> {
        self.mark_at(0)
    }

    fn mark_at(&self, ahead: usize) -> Option<&'static str> {
        match self.tokens.get(self.next + ahead).map(|token| &token.kind) {
            Some(TokenKind::Mark(mark)) => Some(mark),
            _ => None,
        }
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = self.mark() == Some(mark);
        self.next += usize::from(found);
        found
    }

    fn expect(&mut self, mark: &str) -> Result<(), Fault> {
        if self.take(mark) {
            return Ok(());
        }
        Err(Fault::new(self.here(), format!("`{mark}` is missing here")))
    }

    fn end(&self) -> Result<(), Fault> {
        match self.mark() {
            None if self.next == self.tokens.len() => Ok(()),
            Some("=") => Err(Fault::new(
                self.here(),
                "assignment is not possible here; write `==` to compare",
            )),
            Some(",") => Err(Fault::new(
                self.here(),
                "one expression ends here; to combine two, write printf(\"%d %s\", A, B)",
            )),
            Some(")" | "]" | "}") => Err(Fault::new(self.here(), "this closes no open bracket")),
            _ => Err(Fault::new(self.here(), "an operator is missing here")),
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth == DEPTH_MAX {
            return Err(Fault::new(self.here(), format!("nested over {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// Returns a node above trees with a maximum height of `below`.
    fn node(&mut self, at: usize, below: usize, kind: ExprKind) -> Result<ExprNode, Fault> {
        self.height = below + 1;
        if self.height > HEIGHT_MAX {
            return Err(Fault::new(at, format!("operators nested over {HEIGHT_MAX} deep")));
        }
        Ok(ExprNode { at, kind })
    }

    fn expression(&mut self) -> Result<ExprNode, Fault> {
        self.deeper(|parser| {
            let condition = parser.binary(1)?;
            let mut below = parser.height;
            let at = parser.here();
            if !parser.take("?") {
                return Ok(condition);
            }
            let then = match parser.mark() {
                Some(":") => None,
                _ => Some(Box::new(parser.expression()?)),
            };
            below = below.max(parser.height);
            parser.expect(":")?;
            let other = parser.expression()?;
            below = below.max(parser.height);
            parser.node(at, below, ExprKind::Choice(Box::new(condition), then, Box::new(other)))
        })
    }

    fn binary(&mut self, least: u8) -> Result<ExprNode, Fault> {
        let mut left = self.unary()?;
        let mut links = 0;
        while let Some((_, op, tight)) = self
            .mark()
            .and_then(|mark| BINARY.iter().find(|(m, _, tight)| *m == mark && *tight >= least))
        {
            let at = self.here();
            links += 1;
            if links > DEPTH_MAX {
                return Err(Fault::new(at, format!("over {DEPTH_MAX} operators in a row")));
            }
            self.next += 1;
            let below = self.height;
            let right = self.deeper(|parser| parser.binary(tight + 1))?;
            let below = below.max(self.height);
            left = self.node(at, below, ExprKind::Binary(*op, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<ExprNode, Fault> {
        let at = self.here();
        let op = match self.mark() {
            Some("-") => Unary::Minus,
            Some("+") => Unary::Plus,
            Some("!") => Unary::Not,
            Some("~") => Unary::Complement,
            Some("*") => Unary::Deref,
            Some("&") => Unary::Address,
            Some("(") => return self.parenthesis(),
            Some(mark @ ("++" | "--")) => return Err(changes(at, mark)),
            _ => return self.postfix(),
        };
        self.next += 1;
        let operand = self.deeper(Self::unary)?;
        self.node(at, self.height, ExprKind::Unary(op, Box::new(operand)))
    }

    /// Parses `(type)a`, `({ … })`, or `(a)` and its suffixes.
    fn parenthesis(&mut self) -> Result<ExprNode, Fault> {
        let at = self.here();
        if self.mark_at(1) == Some("{") {
            let node = self.deeper(Self::statements)?;
            return self.behind(node);
        }
        if let Some(ty) = self.cast_type() {
            let operand = self.deeper(Self::unary)?;
            return self.node(at, self.height, ExprKind::Cast(ty, Box::new(operand)));
        }
        let node = self.primary_parenthesis()?;
        self.behind(node)
    }

    fn primary_parenthesis(&mut self) -> Result<ExprNode, Fault> {
        self.expect("(")?;
        let node = self.expression()?;
        self.expect(")")?;
        Ok(node)
    }

    fn postfix(&mut self) -> Result<ExprNode, Fault> {
        let at = self.here();
        let token = self.tokens.get(self.next).cloned();
        self.next += 1;
        // Reset: only the operands of this value count.
        self.height = 0;
        let kind = match token.map(|token| token.kind) {
            Some(TokenKind::Number(value, int)) => ExprKind::Number(value, int),
            Some(TokenKind::Text(text)) => ExprKind::Text(text),
            Some(TokenKind::Name(name)) if name == "sizeof" => self.size_of()?,
            Some(TokenKind::Name(name)) if self.take("(") => {
                ExprKind::Call(name, self.arguments(")")?)
            }
            Some(TokenKind::Name(name)) => ExprKind::Name(name),
            Some(TokenKind::Mark("{")) => {
                ExprKind::Braces(self.deeper(|parser| parser.arguments("}"))?)
            }
            Some(TokenKind::Mark("=")) => {
                return Err(Fault::new(
                    at,
                    "assignment is not possible here; write `==` to compare",
                ));
            }
            _ => {
                self.next -= 1;
                return Err(Fault::new(at, "a value is missing here"));
            }
        };
        let node = self.node(at, self.height, kind)?;
        self.behind(node)
    }

    /// Parses `[i]`, `->name` and `.name` after a value.
    fn behind(&mut self, mut node: ExprNode) -> Result<ExprNode, Fault> {
        for _ in 0..DEPTH_MAX {
            let at = self.here();
            let below = self.height;
            if let Some(mark @ ("++" | "--")) = self.mark() {
                return Err(changes(at, mark));
            }
            if self.take("[") {
                let index = self.expression()?;
                self.expect("]")?;
                let below = below.max(self.height);
                node = self.node(at, below, ExprKind::Index(Box::new(node), Box::new(index)))?;
            } else if self.take("->") || self.take(".") {
                let Some(TokenKind::Name(name)) = self.peek().cloned() else {
                    return Err(Fault::new(self.here(), "the name of a member is missing here"));
                };
                self.next += 1;
                node = self.node(at, below, ExprKind::Member(Box::new(node), name))?;
            } else {
                return Ok(node);
            }
        }
        Err(Fault::new(self.here(), format!("over {DEPTH_MAX} members in a row")))
    }

    /// Parses values up to `close`, with an optional trailing comma.
    fn arguments(&mut self, close: &str) -> Result<Vec<ExprNode>, Fault> {
        let (mut list, mut tallest) = (Vec::new(), 0);
        while !self.take(close) {
            list.push(self.expression()?);
            tallest = self.height.max(tallest);
            if !self.take(",") {
                self.expect(close)?;
                break;
            }
        }
        self.height = tallest;
        Ok(list)
    }

    fn size_of(&mut self) -> Result<ExprKind, Fault> {
        if let Some(ty) = self.any_type_in_parentheses() {
            return Ok(ExprKind::SizeOfType(ty));
        }
        Ok(ExprKind::SizeOf(Box::new(self.deeper(Self::unary)?)))
    }

    /// Parses `({ type name = a; …; b; })`.
    fn statements(&mut self) -> Result<ExprNode, Fault> {
        let at = self.here();
        let start = self.next;
        match self.declarations() {
            Ok(kind) => self.node(at, self.height, kind),
            Err(_) => {
                self.next = start;
                self.skip_statements(at)
            }
        }
    }

    fn declarations(&mut self) -> Result<ExprKind, Fault> {
        self.expect("(")?;
        self.expect("{")?;
        let (mut locals, mut height) = (Vec::new(), 0);
        while let Some(local) = self.declaration()? {
            height += self.height;
            locals.push(local);
        }
        let value = self.expression()?;
        // A local may use earlier ones and is substituted for its name, so the heights add up.
        self.height += height;
        self.take(";");
        self.expect("}")?;
        self.expect(")")?;
        Ok(ExprKind::Block(locals, Box::new(value)))
    }

    /// Parses `type name = value;`; None if the next tokens are something else.
    fn declaration(&mut self) -> Result<Option<Local>, Fault> {
        let start = self.next;
        let ty = match self.peek() {
            Some(TokenKind::Name(word)) if matches!(word.as_str(), "typeof" | "__typeof__") => {
                self.next += 1;
                self.primary_parenthesis()?;
                None
            }
            Some(TokenKind::Name(word)) if word == "__auto_type" => {
                self.next += 1;
                None
            }
            _ => self.type_name(),
        };
        let name = match (self.peek(), self.mark_at(1)) {
            (Some(TokenKind::Name(name)), Some("=")) => name.clone(),
            _ => {
                self.next = start;
                return Ok(None);
            }
        };
        self.next += 2;
        let value = self.expression()?;
        self.expect(";")?;
        Ok(Some(Local { ty, name, value }))
    }

    /// Skips a statement expression with more than declarations.
    fn skip_statements(&mut self, at: usize) -> Result<ExprNode, Fault> {
        let mut open = 0usize;
        while let Some(token) = self.tokens.get(self.next) {
            self.next += 1;
            match token.kind {
                TokenKind::Mark("(" | "{" | "[") => open += 1,
                TokenKind::Mark(")" | "}" | "]") => open -= 1,
                _ => {}
            }
            if open == 0 {
                let text = self.text.get(at..token.end).unwrap_or_default();
                return self.node(at, 0, ExprKind::Statements(text.to_owned()));
            }
        }
        Err(Fault::new(at, "this parenthesis is not closed"))
    }
}
