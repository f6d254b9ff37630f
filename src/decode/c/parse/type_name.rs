//! Type names: in casts, in `sizeof`, before a local.

use super::super::lex::TokenKind;
use super::super::{Int, Pointee, Type};
use super::CParser;

impl CParser<'_> {
    /// Parses `(type)` before an operand.
    pub(super) fn cast_type(&mut self) -> Option<Type> {
        let start = self.next;
        let ty = self.any_type_in_parentheses()?;
        // `(name)` is a type only if an operand follows: `(len) - 1` subtracts.
        let unknown = matches!(&ty, Type::Other(name) if !name.contains(' ') && name != "void");
        let operand = match self.peek() {
            Some(TokenKind::Mark(mark)) => {
                !unknown && matches!(*mark, "(" | "-" | "+" | "!" | "~" | "*" | "&")
            }
            Some(_) => true,
            None => false,
        };
        if !operand {
            self.next = start;
            return None;
        }
        Some(ty)
    }

    pub(super) fn any_type_in_parentheses(&mut self) -> Option<Type> {
        let start = self.next;
        let ty = if self.take("(") { self.type_name() } else { None };
        if ty.is_some() && self.take(")") {
            return ty;
        }
        self.next = start;
        None
    }

    /// Parses a type without a declared name: `unsigned long`, `const char *`, `struct page *`,
    /// `gfp_t`.
    pub(super) fn type_name(&mut self) -> Option<Type> {
        let mut words: Vec<String> = Vec::new();
        while let Some(TokenKind::Name(word)) = self.peek() {
            let word = word.clone();
            let tagged = words
                .last()
                .is_some_and(|last| matches!(last.as_str(), "struct" | "union" | "enum"));
            // Accept a name that is not a keyword only as the first.
            if !tagged && !is_type_word(&word) && !words.is_empty() {
                break;
            }
            self.next += 1;
            if !matches!(word.as_str(), "const" | "volatile" | "static" | "__user" | "__rcu") {
                words.push(word);
            }
        }
        if words.is_empty() {
            return None;
        }
        let int = int_of(&words);
        let mut stars = 0;
        while self.take("*") {
            stars += 1;
            while matches!(self.peek(), Some(TokenKind::Name(word)) if word == "const") {
                self.next += 1;
            }
        }
        let name = words.join(" ");
        Some(match (stars, int) {
            (0, Some(int)) => Type::Int(int),
            (0, None) => Type::Other(name),
            (1, Some(int)) => Type::Pointer(Pointee::Int(int)),
            (1, None) => Type::Pointer(Pointee::Other(name)),
            _ => Type::Pointer(Pointee::Other(format!("{name} *"))),
        })
    }
}

fn is_type_word(word: &str) -> bool {
    matches!(
        word,
        "void"
            | "char"
            | "short"
            | "int"
            | "long"
            | "signed"
            | "unsigned"
            | "const"
            | "volatile"
            | "struct"
            | "union"
            | "enum"
            | "static"
            | "__user"
            | "__rcu"
    )
}

fn int_of(words: &[String]) -> Option<Int> {
    if let [name] = words
        && let Some(int) = Int::of_typedef(name)
    {
        return Some(int);
    }
    if words.first().is_some_and(|word| word == "enum") {
        return Some(Int::UINT);
    }
    let count = |word: &str| words.iter().filter(|w| *w == word).count();
    let known = ["char", "short", "int", "long", "signed", "unsigned"];
    if words.is_empty() || !words.iter().all(|word| known.contains(&word.as_str())) {
        return None;
    }
    let bits = match (count("char"), count("short"), count("long")) {
        (1, 0, 0) => 8,
        (0, 1, 0) => 16,
        (0, 0, 1 | 2) => 64,
        (0, 0, 0) => 32,
        _ => return None,
    };
    Some(Int { bits, signed: count("unsigned") == 0 })
}
