//! Functions `expr_of` and `exprs_of`: expressions of options and attributes, compiled to functions
//! of the record.
//!
//! [`crate::event::expr`] generates the code, which runs on `prelude/expression.lua`. Names that a
//! function of an expression looks up are computed here, once per value: Lua caches them.

use mlua::{Function, Lua, Table, Value};

use super::registry::Registry;
use crate::base::kernel::exit_reason::{self, Isa};
use crate::base::kernel::names;
use crate::base::report::draw::Level;
use crate::base::text::number::{IntegerType, Number};
use crate::decode::format::Format;
use crate::event::expr::{Expr, ExprNames, ExprScope, ResultKind};
use crate::event::sample_field::SampleFields;
use crate::script::context::shared::SharedContext;
use crate::script::context::state::ScriptState;
use crate::script::dispatch::view;
use crate::script::vm::trusted::{address, template_function};
use crate::sys::machine;

const EXPRESSION: &str = include_str!("../prelude/expression.lua");

/// Loads the prelude of expressions, which exports `expression_of(first, codes)` and
/// `expression_of_key(code)`: they make functions of the code from [`Expr::lua`] and
/// [`Expr::condition`].
///
/// # Errors
/// The prelude failed to load.
pub(super) fn register(api: &Registry<'_>) -> mlua::Result<()> {
    let native = native(api.lua(), api.shared)?;
    // The cell does not move: it is boxed, and the functions that Lua holds keep the state alive.
    native.set("undefined", address(api.state.borrow().undefined.as_ptr()))?;
    native.set("glob", address(view::glob as *const ()))?;
    native.set("fill", template_function(api.lua())?)?;
    native.set("slot_of_kept", api.slot_of_kept()?)?;
    api.trusted.run("expression", EXPRESSION, native)
}

/// Creates the Rust half: `compile(sources, index, kind, mixed) → function, types | nil, why`;
/// without an index, for a key. With a kind, `number` or `text`, the values must be of that kind.
/// The types are names of [`IntegerType`], `text`, or `mixed` where the events of a glob differ.
/// With `mixed`, see [`Expr::lua_mixed`]. With `system`, expressions may start programs.
///
/// # Errors
/// Lua is out of memory.
pub(super) fn compiler(api: &Registry<'_>, system: bool) -> mlua::Result<Function> {
    let (state, exports) = (api.state.clone(), api.trusted.exports.clone());
    type Asked = (Vec<String>, Option<usize>, Option<String>, Option<bool>);
    api.lua().create_function(move |lua, (sources, index, kind, mixed): Asked| {
        let kind = kind.as_deref().map(|kind| match kind {
            "text" => ResultKind::Text,
            _ => ResultKind::Number,
        });
        let wanted = ExprRequirements { kind, mixed: mixed.unwrap_or(false), system };
        let made = match index {
            Some(index) => of_event(&exports, &state.borrow(), &sources, index, wanted),
            None => of_key(&exports, &sources, wanted),
        };
        Ok(match made {
            Ok((function, types)) => {
                (Value::Function(function), Value::Table(lua.create_sequence_from(types)?))
            }
            Err(why) => (Value::Nil, Value::String(lua.create_string(why)?)),
        })
    })
}

/// Requirements on expressions.
#[derive(Clone, Copy)]
struct ExprRequirements {
    /// The kind that their values must have.
    kind: Option<ResultKind>,
    /// Whether values of other types are used together with theirs.
    mixed: bool,
    /// Whether they may start programs.
    system: bool,
}

/// A function of expressions, and the type of each of its values.
type Typed = (Function, Vec<&'static str>);

fn of_event(
    exports: &Table,
    state: &ScriptState,
    sources: &[String],
    index: usize,
    wanted: ExprRequirements,
) -> Result<Typed, String> {
    let (mut evsels, live) = (state.evsels.borrow_mut(), state.records_samples());
    let sealed = evsels.sealed;
    let empty = Format::default();
    let (mut codes, mut types, mut reads_names) = (Vec::new(), Vec::new(), false);
    for role in evsels.roles_of_mut(index) {
        let format = role.event.format().unwrap_or(&empty);
        let names = ExprNames::Event { event: &role.event.name, format };
        let scope = ExprScope { names, system: wanted.system };
        let (code, of_role, extra) = joined(sources, &scope, wanted)?;
        if sealed && !extra.without(role.sampling.extra).is_empty() {
            return Err(format!(
                "{} must be requested before the run: call expr_of in init",
                extra.names()
            ));
        }
        role.request(extra, live)?;
        match types.is_empty() {
            true => types = of_role,
            false => types.iter_mut().zip(of_role).for_each(|(all, one)| {
                if *all != one {
                    *all = IntegerType::Mixed.name();
                }
            }),
        }
        reads_names |= code.contains("own_comm(") || code.contains("comm_of(");
        codes.push(code);
    }
    evsels.names_tasks |= reads_names;
    if codes.is_empty() {
        return Err("an expression needs the evsel of its fields".to_owned());
    }
    let function = made(exports, "expression_of", (evsels.indexes_of(index).start, codes))?;
    Ok((function, types))
}

fn of_key(exports: &Table, sources: &[String], wanted: ExprRequirements) -> Result<Typed, String> {
    let scope = ExprScope { names: ExprNames::Key, system: wanted.system };
    let (code, types, _) = joined(sources, &scope, wanted)?;
    Ok((made(exports, "expression_of_key", code)?, types))
}

/// Compiles all sources to the code of a value list, and returns the values' types, and the fields
/// of samples that they read and that are recorded only on request.
fn joined(
    sources: &[String],
    scope: &ExprScope<'_>,
    wanted: ExprRequirements,
) -> Result<(String, Vec<&'static str>, SampleFields), String> {
    let mut extra = SampleFields::default();
    let mut code = |source: &String| {
        let expr = Expr::parse_in(source, scope).map_err(|why| why.to_string())?;
        match (wanted.kind, expr.kind()) {
            (Some(ResultKind::Number), ResultKind::Text) => {
                return Err(format!("{source} is text; it must be a number"));
            }
            (Some(ResultKind::Text), ResultKind::Number) => {
                return Err(format!("{source} is a number; it must be text"));
            }
            _ => {}
        }
        extra = extra.or(expr.extra());
        let code = if wanted.mixed { expr.lua_mixed() } else { expr.lua() };
        Ok((code.to_owned(), expr.integer_type().map_or("text", IntegerType::name)))
    };
    let typed: Vec<_> = sources.iter().map(&mut code).collect::<Result<_, _>>()?;
    let (codes, types): (Vec<_>, Vec<_>) = typed.into_iter().unzip();
    let code = match &codes[..] {
        // Not a tail call: see prelude/view.lua.
        [one] => format!("({one})"),
        all => all.join(", "),
    };
    Ok((code, types, extra))
}

fn made(exports: &Table, make: &str, from: impl mlua::IntoLuaMulti) -> Result<Function, String> {
    let make: Function = exports.get(make).map_err(|why| why.to_string())?;
    let (function, why): (Option<Function>, Option<String>) =
        make.call(from).map_err(|why| why.to_string())?;
    // Only Lua's own limits can fail here: constants, nesting, names.
    let why = why.unwrap_or_default();
    function.ok_or_else(|| format!("the expressions are too long for Lua ({why}); split them"))
}

/// Creates the lookups of expressions: names of addresses, system calls and exits.
fn native(lua: &Lua, shared: &SharedContext) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let symbols = shared.symbols();
    let shared = shared.clone();
    let ksymbol = lua.create_function(move |_, key: Value| {
        let Some(address) = bits(&key) else { return Ok(String::new()) };
        let name = symbols.name(address).map(str::to_owned);
        if let Some(why) = symbols.take_error() {
            shared.note(Level::Warning, &why);
        }
        Ok(name.unwrap_or_else(|| format!("{address:#x}")))
    })?;
    table.set("ksymbol", ksymbol)?;
    let syscall = lua.create_function(|_, key: Value| {
        Ok(names::syscall_name(Number::Int(bits(&key).map_or(-1, |bits| bits as i64).into())))
    })?;
    table.set("syscall_name", syscall)?;
    let own = if machine::is_amd() { Isa::Svm } else { Isa::Vmx };
    let exit_reason = lua.create_function(move |_, key: u64| {
        let isa = match key >> 32 {
            1 => Isa::Vmx,
            2 => Isa::Svm,
            _ => own,
        };
        Ok(exit_reason::name(isa, key as u32))
    })?;
    table.set("exit_reason", exit_reason)?;
    Ok(table)
}

/// Returns the 64 bits of a value that an expression computed.
fn bits(key: &Value) -> Option<u64> {
    match key {
        Value::Integer(n) => Some(*n as u64),
        Value::Number(n) => Some(*n as i64 as u64),
        Value::String(text) => {
            let text = text.to_str().ok()?;
            u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
        }
        _ => None,
    }
}
