//! What is shown around something that took long: `--detail=-1ms,+500us,samecpu`.

use anyhow::{Context as _, Result, bail, ensure};

use crate::base::nearest;
use crate::base::units::{Unit, bare_duration, parse_duration};

/// How much is shown, and of whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Nanoseconds before its beginning.
    pub before_ns: u64,
    /// Nanoseconds behind its end.
    pub after_ns: u64,
    /// Only events that have in common with its beginning or its end what each of [`Detail::WORDS`] says.
    pub same: [bool; 4],
}

impl Detail {
    /// The words that choose events.
    pub const WORDS: [&'static str; 4] = ["samecpu", "samepid", "sametid", "samekey"];

    /// What it is when nothing is said: all that happened in between.
    pub const BARE: &'static str = "+0";

    /// Reads a comma list.
    ///
    /// # Errors
    /// A word that is none, a time without a sign, or a time given twice.
    pub fn parse(text: &str) -> Result<Detail> {
        let mut detail = Detail::default();
        let (mut before, mut after) = (None, None);
        for word in text.split(',').map(str::trim) {
            if let Some(same) = Detail::WORDS.iter().position(|known| *known == word) {
                detail.same[same] = true;
                continue;
            }
            let (sign, time) = match (word.strip_prefix('-'), word.strip_prefix('+')) {
                (Some(time), _) => (&mut before, time),
                (_, Some(time)) => (&mut after, time),
                (None, None) => bail!("{}", unknown(word)),
            };
            ensure!(sign.is_none(), "`{text}` has two times of one sign; leave one away");
            let time = parse_duration(time, Unit::Nanosecond);
            *sign = Some(time.with_context(|| format!("`{word}`"))?);
        }
        (detail.before_ns, detail.after_ns) = (before.unwrap_or(0), after.unwrap_or(0));
        Ok(detail)
    }

    /// How its times without a unit were taken, with their signs.
    pub(super) fn bare_durations(text: &str) -> Vec<String> {
        let taken = |word: &str| {
            let (sign, time) = word.split_at_checked(1).filter(|(sign, _)| "+-".contains(sign))?;
            Some(format!("{sign}{}", bare_duration(time, Unit::Nanosecond)?))
        };
        text.split(',').map(str::trim).filter_map(taken).collect()
    }

    /// As a script sees it: `before` and `after` in nanoseconds, and a flag for each word.
    pub(super) fn to_lua(self, lua: &mlua::Lua) -> mlua::Result<mlua::Table> {
        let table = lua.create_table()?;
        table.raw_set("before", self.before_ns as f64)?;
        table.raw_set("after", self.after_ns as f64)?;
        for (word, on) in Detail::WORDS.into_iter().zip(self.same) {
            table.raw_set(word, on)?;
        }
        Ok(table)
    }
}

fn unknown(word: &str) -> String {
    let near = nearest::nearest(word, Detail::WORDS.into_iter());
    let hint = nearest::did_you_mean(&near);
    format!(
        "`{word}` is neither a time before the beginning (-1ms) nor one behind the end (+500us), nor {}{hint}",
        Detail::WORDS.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_words_stand_in_any_order() {
        let all =
            Detail { before_ns: 1_000_000, after_ns: 500_000, same: [true, false, false, true] };
        for text in ["-1ms,+500us,samecpu,samekey", "samekey, samecpu,+500000,-1ms"] {
            assert_eq!(Detail::parse(text).unwrap(), all, "{text}");
        }
        assert_eq!(Detail::parse(Detail::BARE).unwrap(), Detail::default());
    }

    #[test]
    fn what_is_no_part_of_it_is_refused_with_what_is() {
        let refused = |text: &str| format!("{:#}", Detail::parse(text).unwrap_err());
        assert!(
            refused("samecp").ends_with("samekey; did you mean 'samecpu'?"),
            "{}",
            refused("samecp")
        );
        assert!(refused("1ms").starts_with("`1ms` is neither a time before the beginning (-1ms)"));
        assert!(refused("-1ms,-2ms").contains("two times of one sign"));
        assert!(refused("-x").starts_with("`-x`: "), "{}", refused("-x"));
        assert!(refused("").starts_with("`` is neither"));
    }
}
