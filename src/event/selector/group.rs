//! Groups: `{a,b}[:MODIFIERS]`, as perf-list(1) defines them.
//!
//! The events between the braces are opened as one group of the kernel: they count at the same
//! times or not at all, and the first one leads. The modifiers apply to each event, except:
//!
//! - `S`: only the first event is sampled, and its samples have the counts of all. It is the only
//!   selector of the group then; the others are its members.
//! - `W` (weak): if the kernel refuses the group, the events are opened without it.
//! - `D` and `e` (pinned, exclusive): these are properties of the group, so the first event has
//!   them.

#[cfg(test)]
mod tests;

use super::{Selector, SelectorParser, is_pmu, lacks_fields};
use crate::event::kind::is_modifier;
use crate::event::quote::{Escape, skip_quoted};
use crate::event::sampling::EventGroup;
use crate::event::syntax::SyntaxError;

impl SelectorParser<'_> {
    /// Takes a group, which begins here.
    pub(super) fn group(&mut self) -> Result<Vec<Selector>, SyntaxError> {
        let open = self.at;
        let Some(close) = self.closing_brace() else {
            return Err(self.fault(open, "this `{` is not closed"));
        };
        let mut inner = SelectorParser { text: self.text, at: open + 1, end: close };
        let mut list = Vec::new();
        loop {
            inner.skip_space();
            if inner.rest().starts_with('{') {
                return Err(inner.fault(inner.at, "a group cannot contain another one"));
            }
            list.push(inner.selector()?);
            if !inner.take(',') {
                break;
            }
        }
        self.at = close + 1;
        let modifiers = self.modifiers_of_group()?;
        let text = self.text[open..self.at].to_owned();
        let has = |c: char| modifiers.contains(c);
        for (index, one) in list.iter_mut().enumerate() {
            let is_own = |c: &char| match c {
                'S' | 'W' => false,
                'D' | 'e' => index == 0,
                _ => true,
            };
            modify(one, &modifiers.chars().filter(is_own).collect::<String>());
        }
        if !has('S') {
            let group = EventGroup::in_braces(&text, has('W'));
            list.iter_mut().for_each(|one| one.group = Some(group.clone()));
            return Ok(list);
        }
        if list.len() == 1 {
            let why = "a group with S needs a second event, whose count the samples have: {a,b}:S";
            return Err(self.fault(open, why));
        }
        let members = list.split_off(1);
        list[0] = Selector { text, members, ..list[0].clone() };
        Ok(list)
    }

    /// Returns the position of the `}` that closes the group.
    fn closing_brace(&self) -> Option<usize> {
        let mut depth = 0;
        let mut chars = self.rest().char_indices();
        while let Some((offset, c)) = chars.next() {
            match c {
                '"' | '\'' if !skip_quoted(&mut chars, c, Escape::Nothing) => return None,
                '{' => depth += 1,
                '}' if depth == 1 => return Some(self.at + offset),
                '}' => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// Takes `:MODIFIERS` behind a group, up to its end.
    fn modifiers_of_group(&mut self) -> Result<String, SyntaxError> {
        let mut modifiers = String::new();
        if self.rest().starts_with(':') {
            self.at += 1;
            let begin = self.at;
            modifiers = self.until(&[',']).trim_end().to_owned();
            let unknown = modifiers.find(|c| !is_modifier(c));
            if let Some(at) = unknown.or(modifiers.is_empty().then_some(0)) {
                let why = "expected modifiers of the group: S (the samples of the first event \
                           have the counts of all), W (weak), or those of each event, such as u";
                return Err(self.fault(begin + at, why));
            }
            self.at = begin + modifiers.len();
        }
        let end = self.at;
        self.skip_space();
        if !self.ends() {
            let why = "modifiers of a group begin with `:`, attributes belong to an event within \
                       the braces, and events are joined with `,`";
            return Err(self.fault(self.at, why));
        }
        self.at = end;
        Ok(modifiers)
    }
}

/// Adds the modifiers of a group to the name of an event that does not have them.
fn modify(one: &mut Selector, modifiers: &str) {
    let names = one.alternatives().map(|name| modified(name, modifiers));
    let name = names.collect::<Vec<_>>().join("|");
    one.text = format!("{name}{}", &one.text[one.name.len()..]);
    one.name = name;
}

fn modified(name: &str, modifiers: &str) -> String {
    let has_terms = is_pmu(name) && name.contains('/');
    let own = if has_terms {
        name.rsplit_once('/').map_or("", |(_, own)| own)
    } else {
        name.split_once(':').filter(|_| lacks_fields(name)).map_or("", |(_, own)| own)
    };
    let added: String = modifiers.chars().filter(|c| *c == 'p' || !own.contains(*c)).collect();
    let has_place = has_terms || !own.is_empty();
    let separator = if has_place || added.is_empty() { "" } else { ":" };
    format!("{name}{separator}{added}")
}
