//! Checks an expression against events without opening them.

use anyhow::{Context as _, anyhow};

use crate::base::text::number::IntegerType;
use crate::decode::format::Format;
use crate::event::catalog::{Catalog, expand};
use crate::event::expr::Expr;
use crate::event::filter::split::Split;
use crate::event::selector::Selector;

/// Returns a line `EVENT: TYPE` for each event of a list of selectors, with the type of the
/// expression over its fields: `signed`, `unsigned`, `pointer` or `text`.
///
/// # Errors
/// An event does not exist, or its filter or the expression is invalid for it. The error has the
/// position and, for an unknown name, the existing names.
pub fn types(text: &str, selectors: &str, catalog: &dyn Catalog) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    for selector in Selector::parse_list(selectors).context("-e")? {
        for event in expand(catalog, &selector)? {
            if let Some(filter) = &selector.filter {
                Split::parse(filter, &event).map_err(|why| anyhow!("{why}"))?;
            }
            let empty = Format::default();
            let expr = Expr::parse(text, &event.name, event.format().unwrap_or(&empty))?;
            let kind = expr.integer_type().map_or("text", IntegerType::name);
            lines.push(format!("{}: {kind}", event.name));
        }
    }
    Ok(lines.join("\n"))
}
