//! Permissions of a query: it reads tables and calls functions. Everything else is refused before
//! it is compiled, so a query cannot attach, write or load a file.

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The restriction of a database.
pub(super) struct Restriction {
    /// Whether the runtime itself compiles statements.
    is_lifted: Arc<AtomicBool>,
}

impl Restriction {
    /// Refuses all but reading from now on.
    pub(super) fn begin(db: &mut Connection) -> rusqlite::Result<Restriction> {
        let is_lifted = Arc::new(AtomicBool::new(false));
        let lifted = is_lifted.clone();
        db.authorizer(Some(move |context: AuthContext<'_>| match lifted.load(Relaxed) {
            true => Authorization::Allow,
            false => authorize(&context.action),
        }))?;
        Ok(Restriction { is_lifted })
    }

    /// Does work of the runtime itself without the restriction.
    pub(super) fn lift<R>(
        &self,
        db: &Connection,
        work: impl FnOnce(&Connection) -> rusqlite::Result<R>,
    ) -> rusqlite::Result<R> {
        self.is_lifted.store(true, Relaxed);
        let result = work(db);
        self.is_lifted.store(false, Relaxed);
        result
    }
}

/// Functions of SQLite that load code, in lower case.
const LOADING: [&str; 2] = ["load_extension", "fts3_tokenizer"];

fn authorize(action: &AuthAction<'_>) -> Authorization {
    match action {
        AuthAction::Function { function_name }
            if LOADING.contains(&function_name.to_ascii_lowercase().as_str()) =>
        {
            Authorization::Deny
        }
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Function { .. }
        | AuthAction::Recursive => Authorization::Allow,
        _ => Authorization::Deny,
    }
}
