//! Lines from a terminal: rustyline edits them, with what the session and the descriptions know.

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::mpsc::Sender;

use anyhow::Context as _;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hinter, HistoryHinter};
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Cmd, CompletionType, Config, Context, Editor, Helper, KeyEvent};

use super::above::Above;
use super::{Line, highlight, history};
use crate::run::session::Typed;
use crate::script::doc;
use crate::script::syntax::Syntax;
use crate::sys::namespace::tid_in_records;
use crate::sys::signal::{self, typed_line};
use crate::sys::slice::Front;
use crate::sys::terminal::typeahead;

const PROMPT: &str = "> ";

/// What of a CPU keys may use in front of everybody else: they need hardly any, but what is printed above them, or pasted, might.
const OF_A_CPU: u64 = 10;

/// What the thread says when it is there: its number and others of ours, and how to print.
pub(super) type Hello = anyhow::Result<(Vec<i32>, Option<Above>)>;

/// Reads lines until Ctrl-D, or until the session ends.
pub(super) fn read(line: Line, listening: bool, hello: &Sender<Hello>) {
    let mut editor = match begin(line, listening) {
        Ok((editor, above, printing)) => {
            // Whoever waits for it is there until it comes.
            let _ = hello.send(Ok((vec![tid_in_records(), printing], Some(above))));
            editor
        }
        Err(why) => {
            let _ = hello.send(Err(why));
            return;
        }
    };
    let kept = history::path();
    if let Some(path) = &kept {
        // There is none yet.
        let _ = editor.load_history(path);
    }
    while wanted(&editor) {
        // In this order: input that is kept at a Ctrl-C belongs to a line that it can cancel.
        typed_line::begin();
        typeahead::set_editing(true);
        let typed = editor.readline(PROMPT);
        typeahead::set_editing(false);
        match typed {
            Ok(text) => {
                send(&editor, Typed::Line(text.clone()));
                typed_line::entered();
                remember(&mut editor, &text, kept.as_ref());
            }
            // Ctrl-C: what was typed is not wanted, the session is.
            Err(ReadlineError::Interrupted) => {
                typed_line::abandoned();
                send(&editor, Typed::Line(String::new()));
            }
            // Ctrl-D, a signal from elsewhere, a terminal that has gone.
            Err(_) => {
                typed_line::abandoned();
                break;
            }
        }
    }
    send(&editor, Typed::End);
}

type Prompt = Editor<Companion, FileHistory>;

/// `listening`: a thread takes the signals ([`signal::listener`]).
fn begin(line: Line, listening: bool) -> anyhow::Result<(Prompt, Above, i32)> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .auto_add_history(false)
        .max_history_size(history::LINES)
        .and_then(|config| config.history_ignore_dups(true))
        .context("failed to prepare the prompt")?
        .history_ignore_space(true)
        .tab_stop(4)
        .enable_signals(listening)
        .build();
    let mut editor = Editor::with_config(config).context("failed to ask the terminal")?;
    // The keys of SIGTSTP and SIGQUIT, as far as `set_editing` has disabled their characters; a
    // disabled character is NUL, which is no key then.
    editor.bind_sequence(KeyEvent::ctrl('Z'), Cmd::Suspend);
    editor.bind_sequence(KeyEvent::ctrl('\\'), Cmd::Interrupt);
    editor.bind_sequence(KeyEvent::ctrl('@'), Cmd::Noop);
    let printer = editor.create_external_printer().context("failed to ask the terminal")?;
    let calls = doc::calls();
    let past = HistoryHinter::new();
    let (above, tid) = Above::start(printer)?;
    let front = RefCell::new(Front::ask(OF_A_CPU));
    editor.set_helper(Some(Companion { line, syntax: Syntax::new(), calls, past, front }));
    Ok((editor, above, tid))
}

fn wanted(editor: &Prompt) -> bool {
    editor.helper().is_some_and(|helper| helper.line.is_wanted())
}

fn send(editor: &Prompt, typed: Typed) {
    if let Some(helper) = editor.helper() {
        helper.line.send(typed);
    }
}

fn remember(editor: &mut Prompt, text: &str, kept: Option<&PathBuf>) {
    // A line that cannot be kept is still run.
    let added = editor.add_history_entry(text).unwrap_or(false);
    if let (true, Some(path)) = (added, kept) {
        let _ = editor.append_history(path);
    }
}

/// What helps while a line is typed.
struct Companion {
    line: Line,
    syntax: Syntax,
    /// How words are called, by name.
    calls: Vec<(String, String)>,
    past: HistoryHinter,
    /// A key should not wait for tasks that never sleep. The kernel lets those of another session go first for seconds.
    front: RefCell<Option<Front>>,
}

impl Helper for Companion {}

impl Validator for Companion {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match self.syntax.is_complete(context.input()) {
            true => {
                // Meant for the line before; one that comes while a line is typed is not counted.
                signal::forget_interrupts();
                ValidationResult::Valid(None)
            }
            false => ValidationResult::Incomplete,
        })
    }
}

impl Completer for Companion {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.line.names(line.get(..at).unwrap_or_default()))
    }
}

impl Hinter for Companion {
    type Hint = String;

    /// Behind `word(` the rest of its call, else how such a line went on before.
    fn hint(&self, line: &str, at: usize, context: &Context<'_>) -> Option<String> {
        let typed = line.get(..at).filter(|typed| typed.len() == line.len())?;
        let word = typed.strip_suffix('(').map(|code| {
            let of_word = |c: char| c.is_ascii_alphanumeric() || "._:".contains(c);
            &code[code.trim_end_matches(of_word).len()..]
        });
        let word = word.map(|word| word.rsplit(':').next().unwrap_or(word));
        let call = word.and_then(|word| self.calls.iter().find(|(name, _)| name == word));
        match call {
            Some((_, call)) => Some(call.split_once('(')?.1.to_owned()),
            None => self.past.hint(line, at, context),
        }
    }
}

impl Highlighter for Companion {
    /// Behind each key, and behind each text that was printed above, the line is drawn anew.
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if let Some(front) = &mut *self.front.borrow_mut() {
            front.turn();
        }
        highlight::line(line)
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[2m{hint}\x1b[0m"))
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        true
    }
}
