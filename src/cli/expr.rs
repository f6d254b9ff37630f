//! `expr EXPRESSION [-e EVENT]`: the value and type of an expression on constants, or its type for
//! the fields of an event. No event is opened, and no privilege is needed without `-e`.

use std::io::Write;

use super::{CommandError, runtime::Runtime};
use crate::event::expr::{Expr, ExprNames, ExprScope};
use crate::run::expression;
use crate::script::load::library::{Script, ScriptOrigin};

/// Prints the value or the types.
///
/// # Errors
/// The arguments or the expression are invalid, or the event does not exist.
pub fn write(
    words: &[&str],
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let usage = |why: &str| CommandError::Usage(format!("expr: {why}"));
    let (text, event) = match *words {
        [text] => (text, None),
        [text, "-e" | "--event", event] | ["-e" | "--event", event, text] => (text, Some(event)),
        _ => return Err(usage("write perilune expr 'EXPRESSION' [-e EVENT]")),
    };
    let Some(event) = event else {
        let scope = ExprScope { names: ExprNames::Key, system: false };
        Expr::parse_in(text, &scope).map_err(|why| usage(&why.to_string()))?;
        // The value is computed where those of monitors are: a script returns it as its summary.
        let origin = ScriptOrigin::Bundled;
        let script = Script { name: "expr".to_owned(), origin, text: script_of(text) };
        writeln!(out, "{}", runtime.load_text(&script)?.summary)?;
        return Ok(0);
    };
    let catalog = runtime.catalog(None)?;
    let types = expression::types(text, event, &*catalog);
    writeln!(out, "{}", types.map_err(|why| usage(&format!("{why:#}")))?)?;
    Ok(0)
}

/// Returns a script whose summary is the value of an expression, as `4095 (0xfff, signed)`.
fn script_of(text: &str) -> String {
    // Each byte as an escape: no text can end the string.
    let quoted: String = text.bytes().map(|byte| format!("\\{byte:03}")).collect();
    format!(
        "local value, as = expr_of(\"{quoted}\", \"key\")\n\
         value = value(0)\n\
         local named = {{ ['\\n'] = '\\\\n', ['\\t'] = '\\\\t' }}\n\
         local function escaped(c) return named[c] or ('\\\\%03d'):format(c:byte()) end\n\
         if as == 'text' then value = value:gsub('%c', escaped) end\n\
         local large = as ~= 'signed' and tostring(value):find '^[-]'\n\
         local exact = type(value) == 'number' and ('%.0f'):format(value) or value\n\
         local text = as == 'text' and ('\"%s\" (text)'):format(value)\n\
           or ('%s (%s, %s)'):format(large and hex(value) or exact, hex(value), as)\n\
         local m = monitor {{ summary = text }}\n\
         function m.init() end\n\
         return m\n"
    )
}

#[cfg(test)]
mod tests {
    use super::script_of;

    #[test]
    fn an_expression_cannot_leave_its_string() {
        let script = script_of("\"\n]]");
        let expected = "local value, as = expr_of(\"\\034\\010\\093\\093\", \"key\")\n";
        assert!(script.starts_with(expected), "{script}");
    }
}
