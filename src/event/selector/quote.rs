//! Quoted texts within selectors.

/// Whether a backslash escapes the next character of a quoted text. It does not in the kernel's
/// filters.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Escape {
    Backslash,
    Nothing,
}

/// Skips a quoted text whose opening quote was read. Returns whether it is closed.
pub(super) fn skip_quoted(
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
pub(super) fn unquote(text: &str, escape: Escape) -> String {
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
