//! Quotes within selectors and the names of events.

/// Whether a backslash escapes the next character of a quoted text. It does not in the kernel's
/// filters.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::event) enum Escape {
    Backslash,
    Nothing,
}

/// Skips a quoted text whose opening quote was read. Returns whether it is closed.
pub(in crate::event) fn skip_quoted(
    chars: &mut std::str::CharIndices<'_>,
    quote: char,
    escape: Escape,
) -> bool {
    while let Some((_, c)) = chars.next() {
        match c {
            '\\' if escape == Escape::Backslash => drop(chars.next()),
            _ if c == quote => return true,
            _ => {}
        }
    }
    false
}

/// Removes the quotes if they enclose the whole text; `\"` within becomes `"` if `escape` permits.
pub(in crate::event) fn unquote(text: &str, escape: Escape) -> String {
    let text = text.trim();
    let mut chars = text.char_indices();
    let quote = match chars.next() {
        Some((_, quote @ ('"' | '\''))) => quote,
        _ => return text.to_owned(),
    };
    if !skip_quoted(&mut chars, quote, escape) || chars.next().is_some() {
        return text.to_owned();
    }
    let inner = &text[1..text.len() - 1];
    match escape {
        Escape::Backslash => inner.replace(&format!("\\{quote}"), &quote.to_string()),
        Escape::Nothing => inner.to_owned(),
    }
}

/// Splits a text at each `separator` that is outside quotes. A quote that is not closed extends to
/// the end.
pub(in crate::event) fn split_unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quote = None;
    text.split(move |c: char| {
        match quote {
            None if matches!(c, '"' | '\'') => quote = Some(c),
            Some(open) if open == c => quote = None,
            _ => {}
        }
        quote.is_none() && c == separator
    })
}

/// Returns the quoted text that a text begins with, without its quotes, and the text behind it.
pub(in crate::event) fn split_quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    text[1..].split_once(quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_separator_within_quotes_does_not_separate() {
        let parts = |text| split_unquoted(text, ',').collect::<Vec<_>>();
        assert_eq!(parts("a,'b,\"',\"c,'\""), ["a", "'b,\"'", "\"c,'\""]);
        assert_eq!(parts("'a,b"), ["'a,b"]);
        assert_eq!(parts(""), [""]);
    }

    #[test]
    fn the_text_in_leading_quotes_is_split_off() {
        assert_eq!(split_quoted("'a b':c"), Some(("a b", ":c")));
        assert_eq!(split_quoted("\"a'\""), Some(("a'", "")));
        assert_eq!((split_quoted("a"), split_quoted("'a"), split_quoted("")), (None, None, None));
    }
}
