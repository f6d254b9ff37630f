//! Terms of a PMU and options of a monitor: the parts of a selector behind its name that end with a
//! slash of their own; and texts of other tools in place of a name.

use super::{BUILTIN, SelectorParser};
use crate::event::kind;
use crate::event::other_tools::attribute_hint;
use crate::event::quote::{Escape, unquote};
use crate::event::syntax::SyntaxError;

impl<'a> SelectorParser<'a> {
    /// Returns the text from `start` to the next `,` or `|`.
    pub(super) fn item(&self, start: usize) -> &'a str {
        let text = self.text.get(start..self.end).unwrap_or_default();
        text.split([',', '|']).next().unwrap_or_default().trim()
    }

    /// Checks that the text in place of an event is neither a path nor a term behind a comma, which
    /// perf accepts.
    pub(super) fn check_event(&self, start: usize, name: &str) -> Result<(), SyntaxError> {
        let typed = self.item(start);
        if ["/", "./", "../", "~/"].iter().any(|begin| typed.starts_with(begin)) {
            let function = if typed.contains(':') { "" } else { ":FUNCTION" };
            let why = format!("a path is not an event; write uprobe:{typed}{function}");
            return Err(self.fault(start, why));
        }
        let Some((term, _)) = name.split_once('=').filter(|_| !name.contains([':', '('])) else {
            return Ok(());
        };
        let (hint, all) = (attribute_hint(term.trim()), BUILTIN.join(", "));
        let why = format!(
            "`{name}` is not an event; `/` separates attributes, as in cpu-clock/freq=99/stack/\
             {hint} (there are {all})"
        );
        Err(self.fault(start, why))
    }

    /// Takes `TERMS/[MODIFIERS]` behind the first slash. Returns the whole name with its slashes.
    pub(super) fn pmu(&mut self, start: usize) -> Result<String, SyntaxError> {
        let slash = self.at - 1;
        self.segment(&['/'], Escape::Nothing)?;
        if !self.slash() {
            return Err(self.fault(slash, "the terms of a PMU end with a `/`: msr/tsc/"));
        }
        let behind = self.at;
        let modifiers = self.rest().split(['/', ',']).next().unwrap_or_default().trim();
        if !modifiers.is_empty() && modifiers.chars().all(kind::is_modifier) {
            self.until(&['/', ',']);
            return Ok(self.text[start..self.at].trim_end().to_owned());
        }
        Ok(self.text[start..behind].to_owned())
    }

    /// Returns whether the options of a monitor come next. No filter of an event whose name has no
    /// colon begins with a `-`, and no term of a PMU.
    pub(super) fn at_options(&self, name: &str) -> bool {
        let rest = self.rest().trim_start();
        let rest = rest.strip_prefix(['"', '\'']).unwrap_or(rest);
        !name.contains(':') && rest.starts_with('-')
    }

    /// Takes the options of a monitor, and the slash behind them.
    pub(super) fn options(&mut self) -> Result<String, SyntaxError> {
        let slash = self.at - 1;
        let text = self.segment(&['/'], Escape::Nothing)?;
        if !self.slash() {
            let why = "the options of a monitor end with a `/`: profile/-F 200/";
            return Err(self.fault(slash, why));
        }
        Ok(unquote(text, Escape::Nothing))
    }
    /// Returns the error of an attribute; behind the options of a monitor, that of an event with a
    /// slash that ended them.
    pub(super) fn unquoted_slash(
        &self,
        start: usize,
        has_options: bool,
        error: SyntaxError,
    ) -> SyntaxError {
        let typed = self.item(start);
        let behind = error.fault.at.saturating_sub(start).min(typed.len());
        let begin = typed[..behind].rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
        let word = typed[begin..].split_whitespace().next().unwrap_or_default();
        let word = word.trim_end_matches('/');
        let (first, rest) = word.split_once('/').unwrap_or_default();
        let is_path = first.contains(':') || ["", ".", "..", "~"].contains(&first);
        if !has_options || rest.is_empty() || !is_path {
            return error;
        }
        let before = &typed[..begin];
        let why = format!("a `/` ends the options of a monitor; quote it: {before}\"{word}\"/");
        self.fault(start + begin + first.len(), why)
    }
}
