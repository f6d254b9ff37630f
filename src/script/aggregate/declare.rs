//! A kind of aggregate, and an aggregate that its constructor makes of a script's table, with the
//! plan from which the prelude generates `add`.

use super::{
    body::AggregateBody,
    settings::AggregateSettings,
    spec::{AggregateSpec, Checked, KeyColumn},
};
use crate::stat::leaf::{self, EventLeaf, Leaf, SharedAggregate};
use mlua::{LightUserData, Lua, Table, Value};
use std::{cell::RefCell, rc::Rc};

/// Maximum number of columns in a key: each has a bit in the flags, and its double a register.
const KEYS: usize = 8;

/// A kind of aggregate: a row of [`super::kind::AGGREGATE_KINDS`].
pub(super) struct AggregateKind {
    /// The name of the constructor: `latency`, `hist.log2`.
    pub(super) name: &'static str,
    /// Whether reports show it and `each()` returns its rows.
    pub(super) is_drawn: bool,
    /// Whether it can be estimated from a part of the events.
    pub(super) estimates: bool,
    /// Creates an aggregate from the table of the constructor. The error is a message for the
    /// author of the script.
    pub(super) declare: fn(&Value, &AggregateSettings) -> Checked<NewAggregate>,
    /// The constructor in Lua. None: the object has `add`, and `each` if it is drawn.
    pub(super) prelude: Option<KindPrelude>,
}

/// The constructor of a kind whose objects have methods of their own, in Lua.
pub(super) struct KindPrelude {
    /// Its source.
    pub(super) source: &'static str,
    /// Returns the addresses of the leaves that it calls.
    pub(super) leaves: fn(&Lua) -> mlua::Result<Table>,
}

/// An aggregate as it was declared.
pub(super) struct DeclaredAggregate {
    /// Its key in JSON; empty if it is not drawn.
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) columns: Vec<Option<KeyColumn>>,
    /// Whether it keeps its rows over intervals.
    pub(super) keep: bool,
    pub(super) body: Box<dyn AggregateBody>,
}

impl DeclaredAggregate {
    /// Returns whether reports show it.
    pub(super) fn is_drawn(&self) -> bool {
        !self.name.is_empty()
    }

    /// Returns an aggregate that is never drawn.
    pub(super) fn hidden(body: impl AggregateBody + 'static) -> DeclaredAggregate {
        DeclaredAggregate {
            name: String::new(),
            title: None,
            columns: Vec::new(),
            keep: true,
            body: Box::new(body),
        }
    }
}

/// A new aggregate and what Lua needs to know about it.
pub(super) struct NewAggregate {
    declared: DeclaredAggregate,
    pointer: LightUserData,
    leaf: Option<LightUserData>,
    parameters: Vec<Parameter>,
    /// Whether `add` returns the number that the leaf returns.
    returns: bool,
    /// The names of the values of a state.
    fields: Vec<String>,
    /// Numbers in the plan that only one kind has.
    extra: Vec<(&'static str, usize)>,
}

/// A parameter of `add`: its name, and `value`, `unsigned` (a value), `key`, `root` or `ignored`.
pub(super) type Parameter = (String, &'static str);

impl NewAggregate {
    /// Returns an aggregate whose `add` takes these parameters.
    pub(super) fn new<T: Leaf>(
        shared: &SharedAggregate<T>,
        parameters: Vec<Parameter>,
        declared: DeclaredAggregate,
    ) -> NewAggregate {
        let doubles = parameters.iter().filter(|(_, is)| *is != "ignored").count();
        NewAggregate {
            leaf: leaf::take::<T>(doubles).map(LightUserData),
            parameters,
            ..NewAggregate::empty(shared, declared)
        }
    }

    /// Returns an aggregate whose leaf takes an event, two doubles and the values of these fields.
    pub(super) fn of_events<T: EventLeaf>(
        shared: &SharedAggregate<T>,
        fields: Vec<String>,
        parameters: Vec<Parameter>,
        declared: DeclaredAggregate,
    ) -> NewAggregate {
        NewAggregate {
            leaf: leaf::open::<T>(2 + fields.len()).map(LightUserData),
            parameters,
            fields,
            ..NewAggregate::empty(shared, declared)
        }
    }

    /// Lets `add` return the number that the leaf returns.
    pub(super) fn returning(self) -> NewAggregate {
        NewAggregate { returns: true, ..self }
    }

    /// Adds numbers that only this kind has in its plan.
    pub(super) fn with<const N: usize>(self, extra: [(&'static str, usize); N]) -> NewAggregate {
        NewAggregate { extra: extra.to_vec(), ..self }
    }

    fn empty<T>(shared: &SharedAggregate<T>, declared: DeclaredAggregate) -> NewAggregate {
        NewAggregate {
            declared,
            pointer: LightUserData(leaf::pointer(shared)),
            leaf: None,
            parameters: Vec::new(),
            returns: false,
            fields: Vec::new(),
            extra: Vec::new(),
        }
    }

    /// Returns the plan for the prelude, and the aggregate:
    ///
    /// - `pointer`, the first argument of the leaf function, and `leaf`, its address,
    /// - `parameters` of `add`, in order: `{ name, is }`, and whether it `returns` a number,
    /// - `fields`, and the numbers that only one kind has (`keys`, `present`, `sums`, `keep`,
    ///   `nested`, `values`).
    ///
    /// # Errors
    /// Lua is out of memory.
    pub(super) fn plan(self, lua: &Lua) -> mlua::Result<(Table, DeclaredAggregate)> {
        let plan = lua.create_table()?;
        plan.set("pointer", self.pointer)?;
        plan.set("leaf", self.leaf)?;
        let parameters = lua.create_table()?;
        for (name, is) in self.parameters {
            let parameter = lua.create_table()?;
            parameter.set("name", name)?;
            parameter.set("is", is)?;
            parameters.push(parameter)?;
        }
        plan.set("parameters", parameters)?;
        plan.set("returns", self.returns)?;
        for (name, value) in self.extra {
            plan.set(name, value)?;
        }
        plan.set("fields", lua.create_sequence_from(self.fields)?)?;
        Ok((plan, self.declared))
    }
}

/// Reads the columns of a key, beside which the leaf takes `values` doubles.
///
/// # Errors
/// A column is malformed, or there are too many.
pub(super) fn key_columns(
    constructor: &str,
    spec: &AggregateSpec<'_>,
    values: usize,
) -> Checked<Vec<Option<KeyColumn>>> {
    let columns = spec.columns()?;
    let most = KEYS - values;
    if present(&columns) > most {
        return Err(format!(
            "{constructor} has {} columns; it takes at most {most}",
            present(&columns)
        ));
    }
    Ok(columns)
}

/// Returns the number of columns that are not false.
pub(super) fn present(columns: &[Option<KeyColumn>]) -> usize {
    columns.iter().flatten().count()
}

/// Returns the parameters of `add` for the columns of a key.
pub(super) fn keys(columns: &[Option<KeyColumn>]) -> impl Iterator<Item = Parameter> {
    columns.iter().map(|column| match column {
        Some(column) => (column.title.clone(), "key"),
        None => ("_".to_owned(), "ignored"),
    })
}

/// Returns the parameters of `add` for a value and the columns of a key.
pub(super) fn value_and_keys(name: &str, columns: &[Option<KeyColumn>]) -> Vec<Parameter> {
    std::iter::once((name.to_owned(), "value")).chain(keys(columns)).collect()
}

/// Shares an aggregate with compiled Lua.
pub(super) fn share<T>(value: T) -> SharedAggregate<T> {
    Rc::new(RefCell::new(value))
}

/// Returns addresses by name, for a prelude.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn named_leaves<const N: usize>(
    lua: &Lua,
    all: [(&'static str, *mut std::ffi::c_void); N],
) -> mlua::Result<Table> {
    let leaves = lua.create_table()?;
    for (name, address) in all {
        leaves.set(name, LightUserData(address))?;
    }
    Ok(leaves)
}
