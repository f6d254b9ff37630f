//! The lists in `monitor {}`: options, and the columns of `emits`, which are declared like options.

use anyhow::{Result, bail, ensure};
use mlua::{AnyUserData, Table, Value};

use crate::base::matching::nearest::{did_you_mean, nearest};
use crate::event::kind::DerivedColumn;
use crate::script::option::declare::described;
use crate::script::option::{OptionKind, OptionSpec, shared};

/// Collects the options that were declared with a constructor, and shared options by name.
pub(super) fn options(list: &Table) -> Result<Vec<OptionSpec>> {
    let mut options = Vec::new();
    for pair in list.pairs::<Value, Value>() {
        let (key, value) = pair?;
        ensure!(
            matches!(key, Value::Integer(_)),
            "options is a list; write text {{ \"name\", … }} instead of name = …"
        );
        options.push(match &value {
            Value::String(name) => {
                options.extend(shared_options(&name.to_str()?)?);
                continue;
            }
            Value::UserData(declared) => match declared.borrow::<OptionSpec>() {
                Ok(option) => option.clone(),
                Err(_) => bail!("options holds a value that is not an option"),
            },
            Value::Function(_) => {
                bail!("an option in options needs its table: flag {{ \"name\" }}")
            }
            other => bail!(
                "options takes options such as flag {{ \"name\" }} and names of shared options, \
                 not {}",
                described(other)
            ),
        });
    }
    Ok(options)
}

/// Collects the columns of `emits`, which are declared like options.
pub(super) fn columns(list: &Table) -> Result<Vec<DerivedColumn>> {
    let usage =
        "emits is a list of columns: emits = { text { \"state\" }, number { \"delay_us\" } }";
    let mut columns: Vec<DerivedColumn> = Vec::new();
    for value in list.sequence_values::<AnyUserData>() {
        let Ok(declared) = value.and_then(|value| Ok(value.borrow::<OptionSpec>()?.clone())) else {
            bail!(usage);
        };
        let is_number = match declared.kind {
            OptionKind::Number => true,
            OptionKind::Text => false,
            _ => bail!("{usage}; a column is a text or a number"),
        };
        let name = declared.long;
        let is_field =
            name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.starts_with('_');
        ensure!(is_field, "emits: '{name}' is not the name of a field: use letters and '_'");
        ensure!(!columns.iter().any(|other| other.name == name), "emits: '{name}' is there twice");
        columns.push(DerivedColumn { name, is_number });
    }
    ensure!(list.pairs::<Value, Value>().count() == columns.len(), usage);
    Ok(columns)
}

fn shared_options(name: &str) -> Result<Vec<OptionSpec>> {
    let found = shared::find(name);
    if !found.is_empty() {
        return Ok(found);
    }
    let all = shared::options();
    let names: Vec<&str> = all.iter().map(|o| o.long.as_str()).collect();
    let near = nearest(name, names.iter().copied());
    let hint = match near.is_empty() {
        true => format!("; there are {}", names.join(", ")),
        false => did_you_mean(&near),
    };
    bail!("no shared option '{name}'{hint}")
}
