//! The option `--detail=-1ms,+500us,samecpu`: which events around a long delay are printed.

use anyhow::{Context as _, Result, bail, ensure};

use crate::base::matching::nearest;
use crate::base::text::units::{Unit, bare_duration, parse_duration};
use crate::event::other_tools;

/// The time range and the events to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetailOption {
    /// Nanoseconds before the start of the delay.
    pub before_ns: u64,
    /// Nanoseconds after its end.
    pub after_ns: u64,
    /// For each of [`DetailOption::NAMES`]: print only events that share this property with the
    /// first or the last event of the delay.
    pub same: [bool; 4],
}

impl DetailOption {
    /// The names that restrict the events.
    pub const NAMES: [&'static str; 4] = ["samecpu", "samepid", "sametid", "samekey"];

    /// The value of `--detail` alone: all events between start and end.
    pub const BARE: &'static str = "+0";

    /// Parses a comma-separated list.
    ///
    /// # Errors
    /// An unknown name, a time without a sign, or a second time with the same sign.
    pub fn parse(text: &str) -> Result<DetailOption> {
        let mut detail = DetailOption::default();
        let (mut before, mut after) = (None, None);
        for part in text.split(',').map(str::trim) {
            if let Some(same) = DetailOption::NAMES.iter().position(|known| *known == part) {
                detail.same[same] = true;
                continue;
            }
            let (sign, time) = match (part.strip_prefix('-'), part.strip_prefix('+')) {
                (Some(time), _) => (&mut before, time),
                (_, Some(time)) => (&mut after, time),
                (None, None) => bail!("{}", unknown(part)),
            };
            ensure!(sign.is_none(), "`{text}` has two times of the same sign; omit one");
            let time = parse_duration(time, Unit::Nanosecond);
            *sign = Some(time.with_context(|| format!("`{part}`"))?);
        }
        (detail.before_ns, detail.after_ns) = (before.unwrap_or(0), after.unwrap_or(0));
        Ok(detail)
    }

    /// Returns how times without a unit were read, with their signs.
    pub(super) fn bare_durations(text: &str) -> Vec<String> {
        let meaning = |part: &str| {
            let (sign, time) = part.split_at_checked(1).filter(|(sign, _)| "+-".contains(sign))?;
            Some(format!("{sign}{}", bare_duration(time, Unit::Nanosecond)?))
        };
        text.split(',').map(str::trim).filter_map(meaning).collect()
    }

    /// Converts to the Lua table: `before` and `after` in nanoseconds, and a flag for each name.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub(super) fn to_lua(self, lua: &mlua::Lua) -> mlua::Result<mlua::Table> {
        let table = lua.create_table()?;
        table.raw_set("before", self.before_ns as f64)?;
        table.raw_set("after", self.after_ns as f64)?;
        for (part, on) in DetailOption::NAMES.into_iter().zip(self.same) {
            table.raw_set(part, on)?;
        }
        Ok(table)
    }
}

fn unknown(part: &str) -> String {
    let stem = part.find('<').map_or(part, |at| &part[..=at]);
    let near = nearest::nearest(part, DetailOption::NAMES.into_iter());
    let hint = match other_tools::hint("multi-trace", stem) {
        none if none.is_empty() => nearest::did_you_mean(&near),
        hint => hint,
    };
    format!(
        "`{part}`: expected a time before the start (-1ms), a time after the end (+500us), \
         {}{hint}",
        DetailOption::NAMES.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_names_are_accepted_in_any_order() {
        let all = DetailOption {
            before_ns: 1_000_000,
            after_ns: 500_000,
            same: [true, false, false, true],
        };
        for text in ["-1ms,+500us,samecpu,samekey", "samekey, samecpu,+500000,-1ms"] {
            assert_eq!(DetailOption::parse(text).unwrap(), all, "{text}");
        }
        assert_eq!(DetailOption::parse(DetailOption::BARE).unwrap(), DetailOption::default());
    }

    #[test]
    fn an_unknown_part_is_refused_with_the_valid_ones() {
        let refused = |text: &str| format!("{:#}", DetailOption::parse(text).unwrap_err());
        assert!(
            refused("samecp").ends_with("samekey; did you mean 'samecpu'?"),
            "{}",
            refused("samecp")
        );
        assert!(refused("1ms").starts_with("`1ms`: expected a time before the start (-1ms), "));
        assert!(refused("-1ms,-2ms").contains("two times of the same sign"));
        assert!(refused("-x").starts_with("`-x`: "), "{}", refused("-x"));
        assert!(refused("").starts_with("``: expected"));
    }
}
