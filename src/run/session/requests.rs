//! The functions that lines call in the session: to open events, to deliver them, to describe them.

use anyhow::{Context as _, anyhow, bail};
use mlua::{IntoLua as _, Value};

use super::definitions::Saved;
use super::{Session, commands, cost};
use crate::base::matching::glob;
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::text::units::{Unit, counted, parse_duration};
use crate::event::catalog::expand;
use crate::event::kind::Event;
use crate::event::kind::function::FunctionName;
use crate::event::selector::Selector;
use crate::run::expression;
use crate::script::load::doc;

/// Converts a line to Lua: `:name text` becomes a call; `local` is dropped, since a local would end
/// with the line.
pub(super) fn as_lua(text: &str) -> String {
    let text = text.trim();
    if let Some(call) = text.strip_prefix(':') {
        let (word, rest) = call.split_once(char::is_whitespace).unwrap_or((call, ""));
        let rest = rest.trim();
        return match rest {
            "" => format!("{word}()"),
            _ if rest.parse::<f64>().is_ok() => format!("{word}({rest})"),
            _ => format!("{word}([==[{rest}]==])"),
        };
    }
    if text == "jobs" || text == "help" {
        return format!("{text}()");
    }
    let text = text.strip_prefix('=').unwrap_or(text);
    match text.strip_prefix("local ").map(str::trim_start) {
        Some(rest) if rest.starts_with("function") || rest.contains('=') => rest.to_owned(),
        _ => text.to_owned(),
    }
}

/// Executes a call of a line.
///
/// # Errors
/// The function does not exist, its arguments are invalid, or it fails.
pub(super) fn answer(
    session: &mut Session<'_>,
    what: &str,
    args: &[Value],
) -> anyhow::Result<Value> {
    let arg = |at: usize| args.get(at).unwrap_or(&Value::Nil);
    let word = |at: usize| arg(at).as_string().map(mlua::LuaString::to_string_lossy);
    let text = match what {
        "attach" => return session.source.attach(&mut session.prompt).map(|()| Value::Nil),
        "deliver" => {
            let time = match arg(0) {
                Value::Nil | Value::Boolean(_) => None,
                time => Some(period(time)?),
            };
            let count = number(arg(1)).map(|count| count.max(1.0) as u64);
            let roles = roles(session, arg(2))?;
            return session.deliver(time, count, &roles).map(|()| Value::Nil);
        }
        "close" => {
            let roles = roles(session, arg(0))?;
            session.source.close(&roles, &mut session.prompt)?;
            session.prompt.forget(&roles)?;
            return Ok(Value::Nil);
        }
        "clear" => {
            session.prompt.forget_timers();
            session.clear_jobs()?;
            session.definitions.clear();
            return Ok(Value::Nil);
        }
        "counts" => {
            session.source.count(&mut session.prompt);
            return Ok(Value::Nil);
        }
        "restart" => {
            session.prompt.restart(arg(0));
            return Ok(Value::Nil);
        }
        "draw" => return draw(session, arg(0), number(arg(1)).unwrap_or(10.0) as usize),
        "fields" => {
            fields(session, &word(0).context("fields needs an event: fields \"sys:name\"")?)?
        }
        "expr" => {
            let wanted = "expr needs an expression and an event: expr(\"pid & 1\", \"sys:name\")";
            let (text, event) = (word(0).context(wanted)?, word(1).context(wanted)?);
            expression::types(&text, &event, &*session.source.catalog())?
        }
        "events" => events(session, &word(0).unwrap_or_else(|| "*".to_owned()))?,
        "doc" => described(&word(0).context("doc needs a name: `:doc latency`")?)?,
        "save" => {
            let (names, prints) = session.prompt.definitions()?;
            let name = word(0).unwrap_or_default();
            let Session { prompt, definitions, .. } = session;
            let is_off = |role| prompt.has_failed(role);
            saved_text(&name, &definitions.save(&name, &names, prints, &is_off)?)
        }
        "load" => {
            let words = word(1).unwrap_or_default();
            let words: Vec<_> = words.split_whitespace().map(Into::into).collect();
            let name = word(0).context("load needs a monitor: load(\"task-state\", \"-S\")")?;
            return session.load(&name, &words);
        }
        "start" => match session.start(arg(0), arg(1))? {
            nothing if nothing.is_empty() => return Ok(Value::Nil),
            started => started,
        },
        "stop" => {
            let number = session.job_number(arg(0))?;
            return session.stop_job(number).map(|()| Value::Nil);
        }
        "jobs" => session.list_jobs(),
        "help" => commands::help(),
        "cost" => cost::cost(session),
        "lost" => lost(session),
        other => bail!("{other}: no such function"),
    };
    Ok(text.into_lua(session.prompt.host.lua())?)
}

/// Returns a message about what was saved, and what the user should do about it.
fn saved_text(name: &str, saved: &Saved) -> String {
    let (path, omitted, failing) = match saved {
        Saved::Asked { path } => {
            let path = path.display();
            return format!(
                "`{path}` is outside the current folder; repeat `:save {name}` to write it"
            );
        }
        Saved::Wrote { path, omitted, failing } => (path.display(), *omitted, *failing),
    };
    let mut text = format!("wrote {path}; `perilune {path}` runs it");
    if omitted > 0 {
        let failed = counted(omitted as u64, "handler");
        text.push_str(&format!("; omitted {failed} that failed here"));
    }
    if failing > 0 {
        let failed = counted(failing as u64, "handler");
        text.push_str(&format!(
            "; fix {failed} in it that failed here, or call p:replace(f) here and save again"
        ));
    }
    text
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(n) => Some(*n as f64),
        Value::Number(n) => Some(*n),
        _ => None,
    }
}

/// Parses a time into nanoseconds.
fn period(value: &Value) -> anyhow::Result<f64> {
    let text = match value {
        Value::String(text) => text.to_string_lossy(),
        Value::Integer(n) => n.to_string(),
        Value::Number(n) => n.to_string(),
        other => bail!("a time is text such as \"2s\", not a {}", other.type_name()),
    };
    Ok(parse_duration(&text, Unit::Second)? as f64)
}

/// Returns the roles of a list of evsels, which Lua passes by index.
fn roles(session: &Session<'_>, list: &Value) -> anyhow::Result<Vec<u32>> {
    let list = list.as_table().context("a list of evsels")?;
    let indexes = list.sequence_values::<usize>().collect::<mlua::Result<Vec<_>>>()?;
    Ok(indexes.into_iter().flat_map(|index| session.prompt.roles_of(index)).collect())
}

/// Draws the first rows of a table.
fn draw(session: &mut Session<'_>, value: &Value, rows: usize) -> anyhow::Result<Value> {
    session.source.collect(&mut session.prompt, true);
    let Some(mut parts) = session.prompt.drawn(value, &[])? else {
        bail!("top needs an aggregate, such as one of kv or latency");
    };
    for part in &mut parts {
        if let crate::base::report::draw::Report::Table(table) = part {
            table.rows.truncate(rows);
        }
    }
    session.prompt.host.context().print(|out| out.answer(&parts));
    Ok(Value::Nil)
}

/// Lists the fields of events as `name: type`, one per line.
fn fields(session: &Session<'_>, selector: &str) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    let events = found(session, selector)?;
    for event in &events {
        if events.len() > 1 {
            lines.push(format!("{}:", event.name));
        }
        match event.format() {
            Some(format) => {
                let own = format.fields.iter().filter(|field| !field.common);
                lines.extend(own.map(|field| format!("{}: {}", field.name, field.type_text)));
            }
            None => lines.push("a counter: _period, _ip, _addr".to_owned()),
        }
    }
    Ok(lines.join("\n"))
}

/// Returns the events that a selector matches.
///
/// # Errors
/// The selector is invalid, or no event matches.
pub(super) fn found(
    session: &Session<'_>,
    selector: &str,
) -> anyhow::Result<Vec<std::rc::Rc<Event>>> {
    let one = Selector::parse_list(selector)?.pop().context("an event's name is missing")?;
    expand(&*session.source.catalog(), &one)
}

fn events(session: &Session<'_>, pattern: &str) -> anyhow::Result<String> {
    let catalog = session.source.catalog();
    if let Some(named) = FunctionName::parse(pattern) {
        let glob = FunctionName::parse(&format!("{named}*")).filter(|_| !glob::is_glob(pattern));
        let found = catalog.functions(&glob.unwrap_or_else(|| named.clone()), usize::MAX)?;
        let names: Vec<String> = found.iter().map(FunctionName::to_string).collect();
        return match names.is_empty() {
            // The error of the lookup explains why there is none.
            true => {
                Err(catalog.describe(pattern).err().unwrap_or_else(|| anyhow!("no such event")))
            }
            false => Ok(names.join("\n")),
        };
    }
    if let Some(found) = catalog.look_up(pattern, usize::MAX)? {
        return match found.names.is_empty() {
            true => Err(anyhow!("no event matches '{pattern}'")),
            false => Ok(found.names.join("\n")),
        };
    }
    let names = catalog.names()?;
    let found = names.iter().filter(|name| glob::matches_or_contains(pattern, name));
    let found: Vec<&str> = found.map(String::as_str).collect();
    if found.is_empty() {
        let near = nearest(pattern, names.iter().map(String::as_str));
        bail!("no event matches '{pattern}'{}", did_you_mean(&near));
    }
    Ok(found.join("\n"))
}

fn described(name: &str) -> anyhow::Result<String> {
    doc::of(name).ok_or_else(|| {
        let names = doc::names();
        let near = nearest(name, names.iter().map(String::as_str));
        anyhow!("no documentation for '{name}'{}", did_you_mean(&near))
    })
}

fn lost(session: &mut Session<'_>) -> String {
    let coverage = session.coverage(true);
    let problems = coverage.problems();
    let mut parts: Vec<String> =
        problems.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{n} {name}")).collect();
    if parts.is_empty() {
        parts.push("nothing lost".to_owned());
    }
    format!("{}: {}", counted(coverage.events, "event"), parts.join(", "))
}
