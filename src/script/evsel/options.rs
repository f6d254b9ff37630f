//! Options of an `evsel` call besides the event: the keys of its table and the attributes of its
//! selector.

use std::fmt::Display;

use mlua::{Table, Value};

use super::role::Refused;
use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::base::text::cpulist;
use crate::event::attr_option;
use crate::event::kind::Event;
use crate::event::sample_field::{SAMPLE_FIELDS, SampleFields};
use crate::event::sampling::{CallGraph, ChainPart, EventGroup, Sampling, StackSampling};
use crate::event::selector::Selector;
use crate::sys::attr::Attr;

/// Options of an `evsel` call.
#[derive(Default)]
pub(in crate::script) struct EvselOptions {
    pub(in crate::script) sampling: Sampling,
    pub(in crate::script) task: Option<String>,
    pub(in crate::script) filter: Option<String>,
    /// Fields of samples that are recorded although no handler names them.
    pub(in crate::script) extra: SampleFields,
    pub(in crate::script) optional: bool,
    pub(in crate::script) title: Option<String>,
    /// Whether the fields of a function are the registers of its call, not its parameters.
    pub(in crate::script) registers: bool,
}

const NAMES: [&str; 18] = [
    "stack",
    "fields",
    "count",
    "freq",
    "period",
    "filter",
    "exclude",
    "optional",
    "title",
    "max_stack",
    "cpus",
    "task",
    "all_tasks",
    "hide_self",
    "functions",
    "registers",
    "group",
    "cgroup",
];

impl EvselOptions {
    /// Reads the table of an `evsel` call and the attributes of its selector. The rate and the
    /// stack depth of the selector take precedence, and the CPUs of the table. `from` is the
    /// script's own table of that selector.
    ///
    /// # Errors
    /// An unknown option, an invalid value, or options that exclude each other.
    pub(in crate::script) fn read(
        table: &Table,
        chosen: &Selector,
        from: Option<&Table>,
        usual: StackSampling,
    ) -> Result<Self, Refused> {
        let stack = chosen.stack() || from.is_some_and(|t| truthy(t, "stack"));
        let cpus = chosen
            .cpus()
            .map(|list| cpulist::parse(list).map_err(|why| format!("cpus={list}: {why:#}")));
        let sampling = Sampling {
            stack: stack.then(|| StackSampling { depth: chosen.max_stack(), ..usual }),
            cpus: cpus.transpose()?,
            group: chosen.group.clone(),
            ..Sampling::default()
        };
        let mut options = EvselOptions { sampling, ..EvselOptions::default() };
        let mut depth = None;
        for pair in table.pairs::<String, Value>() {
            let (key, value) =
                pair.map_err(|_| "the options of an evsel need names: { freq = 99 }".to_owned())?;
            match (key.as_str(), &value) {
                (_, Value::Boolean(false) | Value::Nil) => {}
                ("max_stack", _) => {
                    depth = Some(number(&key, &value)?.clamp(1, u64::from(u16::MAX)) as u16);
                }
                ("group", _) if chosen.group.is_some() => {
                    return Err("an event in braces is in their group: omit 'group'".to_owned());
                }
                _ => options.set(&key, &value, usual)?,
            }
        }
        // In a selector, `max-stack=` also requests stacks; here it only limits the depth of stacks
        // that are taken.
        match (&mut options.sampling.stack, depth) {
            (Some(stack), Some(depth)) => _ = stack.depth.get_or_insert(depth),
            (None, Some(_)) if !matches!(table.raw_get("stack"), Ok(Value::Boolean(false))) => {
                return Err("'max_stack' of an evsel has no effect: no stack is recorded; add \
                            stack = true, or omit it"
                    .to_owned());
            }
            _ => {}
        }
        options.narrow_stack()?;
        options.check(chosen)?;
        if let Some(rate) = chosen.rate() {
            options.sampling.set_rate(rate);
        }
        options.sampling.whole_cpus = options.task.is_some() || options.sampling.all_tasks;
        Ok(options)
    }

    /// Sets the option `key` to a value that is neither nil nor false.
    fn set(&mut self, key: &str, value: &Value, usual: StackSampling) -> Result<(), Refused> {
        let sampling = &mut self.sampling;
        match key {
            "stack" => {
                let walk = walk(value)?.unwrap_or(usual.walk);
                sampling.stack = Some(StackSampling { walk, ..sampling.stack.unwrap_or(usual) });
            }
            "count" => sampling.count = true,
            "freq" => sampling.freq = Some(positive(key, value)?),
            "period" => sampling.period = Some(positive(key, value)?),
            "cpus" => {
                let cpus = cpulist::parse(&text(key, value)?).map_err(|e| format!("{e:#}"))?;
                sampling.cpus = Some(cpus);
            }
            "filter" => self.filter = Some(text(key, value)?),
            "title" => self.title = Some(text(key, value)?),
            "fields" => self.extra = listed(&text(key, value)?)?,
            "functions" => sampling.functions = true,
            "registers" if matches!(value, Value::Boolean(_)) => self.registers = true,
            "registers" => {
                return Err(format!(
                    "'registers' of an evsel is true or false, not of type {}",
                    value.type_name()
                ));
            }
            "task" => self.task = Some(text(key, value)?),
            // `cgroup` is also a field of perf_event_attr: a number sets that field.
            "cgroup" if matches!(value, Value::String(_)) => {
                sampling.cgroup = Some(text(key, value)?.into());
            }
            "group" => sampling.group = Some(EventGroup::named(&text(key, value)?)),
            "all_tasks" => sampling.all_tasks = true,
            "hide_self" => sampling.hide_self = true,
            "optional" => self.optional = true,
            "exclude" => exclude(sampling, value)?,
            "pinned" if matches!(value, Value::Boolean(_)) => sampling.pinned = true,
            field if Attr::names().any(|name| name == field) => match attr_option::refusal(field) {
                None => sampling.fields.push((key.to_owned(), number(key, value)?)),
                Some(why) => return Err(format!("'{field}' of an evsel: {why}")),
            },
            _ => {
                let known = NAMES.into_iter().chain(attr_option::ATTR_OPTIONS);
                let hint = did_you_mean(&nearest(key, known));
                return Err(format!("an evsel has no '{key}'{hint}"));
            }
        }
        Ok(())
    }

    /// Applies `exclude_callchain_*` to the method of call chains, too: without user frames, no
    /// stack is copied.
    fn narrow_stack(&mut self) -> Result<(), Refused> {
        let Sampling { stack: Some(stack), fields, .. } = &mut self.sampling else { return Ok(()) };
        for (field, left, other) in [
            ("exclude_callchain_kernel", ChainPart::User, "--kernel-callchain"),
            ("exclude_callchain_user", ChainPart::Kernel, "--user-callchain"),
        ] {
            let before = fields.len();
            fields.retain(|(name, value)| name != field || *value == 0);
            if fields.len() == before {
                continue;
            }
            if stack.part != ChainPart::Both && stack.part != left {
                return Err(format!("'{field}' of an evsel leaves no frames with {other}"));
            }
            stack.part = left;
        }
        Ok(())
    }

    /// Refuses options that exclude each other, or attributes of the selector.
    fn check(&self, chosen: &Selector) -> Result<(), Refused> {
        let sampling = &self.sampling;
        if sampling.all_tasks && self.task.is_some() {
            return Err(
                "an evsel has 'all_tasks' or 'task', not both: 'task' selects watched tasks"
                    .to_owned(),
            );
        }
        let is_named_group = sampling.group.as_ref().is_some_and(|group| !group.is_in_braces);
        if !sampling.count && (is_named_group || sampling.cgroup.is_some()) {
            return Err("an evsel with 'group' or 'cgroup' only counts: add count = true".into());
        }
        if sampling.count {
            if !chosen.members.is_empty() {
                return Err(format!(
                    "{}: the events are counted, not sampled; omit the modifier S",
                    chosen.text
                ));
            }
            let unused = [
                ("stack", sampling.stack.is_some() && !chosen.stack()),
                ("freq", sampling.freq.is_some()),
                ("period", sampling.period.is_some()),
                ("fields", !self.extra.is_empty()),
                ("functions", sampling.functions),
                ("hide_self", sampling.hide_self),
            ];
            if let Some((name, _)) = unused.into_iter().find(|(_, is_given)| *is_given) {
                return Err(format!(
                    "'{name}' of an evsel has no effect: the event is counted, not sampled; omit it"
                ));
            }
            let attrs = ["freq", "period", "stack", "max-stack"];
            if let Some(name) = attrs.into_iter().find(|name| chosen.attr(name).is_some()) {
                return Err(format!(
                    "{}: the event is counted, not sampled; omit the attribute '{name}'",
                    chosen.name
                ));
            }
        }
        if sampling.freq.is_some() && sampling.period.is_some() {
            return Err("an evsel has 'freq' or 'period', not both: each sets the rate".into());
        }
        Ok(())
    }
}

/// Returns the integer of the option `key`.
fn number(key: &str, value: &Value) -> Result<u64, Refused> {
    match value {
        Value::Integer(n) if *n >= 0 => Ok(*n as u64),
        Value::Number(n) if *n >= TOO_LARGE => {
            Err(format!("'{key}' of an evsel is a whole number below 2^64, not {n:?}"))
        }
        Value::Number(n) if *n >= 0.0 && n.fract() == 0.0 => Ok(*n as u64),
        Value::Integer(n) => Err(negative_or_fraction(key, n)),
        Value::Number(n) => Err(negative_or_fraction(key, n)),
        Value::Boolean(b) => Ok(u64::from(*b)),
        other => Err(format!("'{key}' of an evsel is a number, not {}", type_of(other))),
    }
}

fn negative_or_fraction(key: &str, number: &dyn Display) -> Refused {
    format!("'{key}' of an evsel is a whole number of at least 0, not {number}")
}

/// 2^64, the smallest number that a field of 64 bits cannot hold.
const TOO_LARGE: f64 = 18_446_744_073_709_551_616.0;

/// Returns the type of a value with its article, for messages.
fn type_of(value: &Value) -> String {
    match value {
        Value::Integer(_) | Value::Number(_) => "a number".to_owned(),
        Value::Other(_) => "a 64-bit cdata, such as 1LL; convert it with tonumber".to_owned(),
        other => format!("a {}", other.type_name()),
    }
}

/// Returns the integer of the option `key`, which is not 0.
fn positive(key: &str, value: &Value) -> Result<u64, Refused> {
    if let Value::Boolean(_) = value {
        return Err(format!("'{key}' of an evsel is a number, such as {key} = 1000"));
    }
    match number(key, value)? {
        0 => Err(format!("'{key}' of an evsel is greater than 0")),
        number => Ok(number),
    }
}

/// Returns the text of the option `key`.
fn text(key: &str, value: &Value) -> Result<String, Refused> {
    match value {
        Value::String(text) => Ok(text.to_string_lossy()),
        other => Err(format!("'{key}' of an evsel is text, not {}", type_of(other))),
    }
}

/// Parses the list of fields of samples: `fields = "_cgroup,_weight"`.
fn listed(list: &str) -> Result<SampleFields, Refused> {
    let mut all = SampleFields::default();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        all = all.or(SampleFields::named(name).ok_or_else(|| {
            let hint = did_you_mean(&nearest(name, SAMPLE_FIELDS.iter().map(|field| field.name)));
            format!("'fields' of an evsel: samples have no '{name}'{hint}")
        })?);
    }
    Ok(all)
}

/// Parses the stack mode of `stack = "dwarf,16384"`; `None` leaves it to the run, as for
/// `stack = true`.
fn walk(value: &Value) -> Result<Option<CallGraph>, Refused> {
    match value {
        Value::String(text) => CallGraph::parse(&text.to_string_lossy())
            .map(Some)
            .map_err(|why| format!("'stack' of an evsel: {why}")),
        _ => Ok(None),
    }
}

const EXCLUDES: &str = "{ user = true, kernel = true, host = true, guest = true, idle = true }";

fn exclude(sampling: &mut Sampling, value: &Value) -> Result<(), Refused> {
    let Value::Table(modes) = value else {
        return Err(format!("'exclude' of an evsel is a table: {EXCLUDES}"));
    };
    for pair in modes.pairs::<String, Value>() {
        let (mode, on) =
            pair.map_err(|_| format!("'exclude' of an evsel needs names: {EXCLUDES}"))?;
        let on = !matches!(on, Value::Boolean(false));
        match mode.as_str() {
            "user" => sampling.exclude.user |= on,
            "kernel" => sampling.exclude.kernel |= on,
            "host" => sampling.exclude.host |= on,
            "guest" => sampling.exclude.guest |= on,
            "idle" => sampling.exclude.idle |= on,
            _ => return Err(format!("'exclude' of an evsel has no '{mode}': {EXCLUDES}")),
        }
    }
    Ok(())
}

fn truthy(table: &Table, key: &str) -> bool {
    !matches!(table.raw_get::<Value>(key), Ok(Value::Nil | Value::Boolean(false)) | Err(_))
}

/// Checks that a field of the event can hold a thread id.
///
/// # Errors
/// The event is not a tracepoint, it has no such field, or the field has another size.
pub(in crate::script) fn names_thread(event: &Event, field: &str) -> Result<(), Refused> {
    let Some(format) = event.format() else {
        return Err(format!("{}: only a tracepoint has a field that names a thread", event.name));
    };
    match format.field(field) {
        Some(found) if matches!(found.size, 4 | 8) => Ok(()),
        Some(_) => Err(format!(
            "{}: '{field}' is not a thread ID, which has 4 bytes, or 8 in a recording",
            event.name
        )),
        None => {
            let near = nearest(field, format.fields.iter().map(|f| f.name.as_str()));
            Err(format!("{} has no field '{field}'{}", event.name, did_you_mean(&near)))
        }
    }
}

#[cfg(test)]
mod tests {
    use mlua::Lua;

    use super::*;

    fn read(options: &str) -> Result<EvselOptions, Refused> {
        let lua = Lua::new();
        let table: Table = lua.load(options).eval().unwrap();
        let chosen = Selector::parse_list("cpu-clock").unwrap().remove(0);
        EvselOptions::read(&table, &chosen, None, StackSampling::default())
    }

    #[test]
    fn a_rate_is_a_whole_number() {
        assert_eq!(read("{ period = 20000 }").unwrap().sampling.period, Some(20000));
        for (options, why) in [
            ("{ period = 10.5 }", "'period' of an evsel is a whole number of at least 0, not 10.5"),
            ("{ freq = -1.5 }", "'freq' of an evsel is a whole number of at least 0, not -1.5"),
            ("{ freq = 1/0 }", "'freq' of an evsel is a whole number below 2^64, not inf"),
            ("{ freq = 1e308 }", "'freq' of an evsel is a whole number below 2^64, not 1e308"),
            ("{ period = -1 }", "'period' of an evsel is a whole number of at least 0, not -1"),
            (
                "{ period = 1LL }",
                "'period' of an evsel is a number, not a 64-bit cdata, such as 1LL; convert it \
                 with tonumber",
            ),
            ("{ title = 7 }", "'title' of an evsel is text, not a number"),
            ("{ freq = true }", "'freq' of an evsel is a number, such as freq = 1000"),
            ("{ freq = 0 }", "'freq' of an evsel is greater than 0"),
            ("{ period = '1K' }", "'period' of an evsel is a number, not a string"),
        ] {
            assert_eq!(read(options).err().as_deref(), Some(why), "{options}");
        }
        assert!(read("{ pinned = true }").unwrap().sampling.pinned);
    }

    #[test]
    fn registers_are_requested_by_true_only() {
        assert!(read("{ registers = true }").unwrap().registers);
        assert!(!read("{ registers = false }").unwrap().registers);
        let why = read("{ registers = 'yes' }").err().unwrap();
        assert_eq!(why, "'registers' of an evsel is true or false, not of type string");
    }
}
