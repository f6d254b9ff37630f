//! Reads lines from a terminal: rustyline edits them, with completions from the session and hints
//! from the descriptions.

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

use super::above::LinePrinter;
use super::{LineReader, highlight, history};
use crate::run::session::ConsoleMessage;
use crate::script::load::doc;
use crate::script::vm::syntax::Syntax;
use crate::sys::own_tid::tid_in_records;
use crate::sys::sched::RtBoost;
use crate::sys::signal::{self, typed_line};
use crate::sys::terminal::typeahead;

const PROMPT: &str = "> ";

/// Percent of a CPU for keys at real-time priority. Keys need very little, but printing above them,
/// or pasted text, may need more.
const OF_A_CPU: u64 = 10;

/// The reading thread's first message: the ids of perilune's threads, and the writer above the
/// line.
pub(super) type Hello = anyhow::Result<(Vec<i32>, Option<LinePrinter>)>;

/// Reads lines until Ctrl-D, or until the session ends.
pub(super) fn read(line: LineReader, listening: bool, hello: &Sender<Hello>) {
    let mut editor = match begin(line, listening) {
        Ok((editor, above, printing)) => {
            // The receiver waits for the message until it comes.
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
        // A missing history is not an error.
        let _ = editor.load_history(path);
    }
    while wanted(&editor) {
        // The order matters: input that is kept at a Ctrl-C belongs to a line that it can cancel.
        typed_line::begin();
        typeahead::set_editing(true);
        let typed = editor.readline(PROMPT);
        typeahead::set_editing(false);
        match typed {
            Ok(text) => {
                send(&editor, ConsoleMessage::Line(text.clone()));
                typed_line::entered();
                remember(&mut editor, &text, kept.as_ref());
            }
            // Ctrl-C discards the typed line, and the session continues.
            Err(ReadlineError::Interrupted) => {
                typed_line::abandoned();
                send(&editor, ConsoleMessage::Line(String::new()));
            }
            // Ctrl-D, a signal from another process, a terminal that is gone.
            Err(_) => {
                typed_line::abandoned();
                break;
            }
        }
    }
    send(&editor, ConsoleMessage::End);
}

type Prompt = Editor<LineHelper, FileHistory>;

/// Prepares the editor; `listening` means that a thread takes the signals ([`signal::listener`]).
fn begin(line: LineReader, listening: bool) -> anyhow::Result<(Prompt, LinePrinter, i32)> {
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
    let mut editor = Editor::with_config(config).context("failed to query the terminal")?;
    // Binds the keys of SIGTSTP and SIGQUIT while `set_editing` has disabled their characters. A
    // disabled character is NUL, which must not act as a key then.
    editor.bind_sequence(KeyEvent::ctrl('Z'), Cmd::Suspend);
    editor.bind_sequence(KeyEvent::ctrl('\\'), Cmd::Interrupt);
    editor.bind_sequence(KeyEvent::ctrl('@'), Cmd::Noop);
    let printer = editor.create_external_printer().context("failed to query the terminal")?;
    let calls = doc::calls();
    let past = HistoryHinter::new();
    let (above, tid) = LinePrinter::start(printer)?;
    let front = RefCell::new(RtBoost::request(OF_A_CPU));
    editor.set_helper(Some(LineHelper { line, syntax: Syntax::new(), calls, past, front }));
    Ok((editor, above, tid))
}

fn wanted(editor: &Prompt) -> bool {
    editor.helper().is_some_and(|helper| helper.line.is_wanted())
}

fn send(editor: &Prompt, typed: ConsoleMessage) {
    if let Some(helper) = editor.helper() {
        helper.line.send(typed);
    }
}

fn remember(editor: &mut Prompt, text: &str, kept: Option<&PathBuf>) {
    // A line that cannot be saved is still run.
    let added = editor.add_history_entry(text).unwrap_or(false);
    if let (true, Some(path)) = (added, kept) {
        let _ = editor.append_history(path);
    }
}

/// The helper of the line editor.
struct LineHelper {
    line: LineReader,
    syntax: Syntax,
    /// Calls of functions with their arguments, by name.
    calls: Vec<(String, String)>,
    past: HistoryHinter,
    /// Real-time priority: a key should not wait for tasks that never sleep. The kernel runs those
    /// of another session first for seconds.
    front: RefCell<Option<RtBoost>>,
}

impl Helper for LineHelper {}

impl Validator for LineHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match self.syntax.is_complete(context.input()) {
            true => {
                // It was meant for the line before; interrupts while a line is edited are not
                // counted.
                signal::forget_interrupts();
                ValidationResult::Valid(None)
            }
            false => ValidationResult::Incomplete,
        })
    }
}

impl Completer for LineHelper {
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

impl Hinter for LineHelper {
    type Hint = String;

    /// Returns the arguments after `name(`, else the rest of an earlier line with this beginning.
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

impl Highlighter for LineHelper {
    /// Called after each key, and after each text printed above, when the line is redrawn.
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if let Some(front) = &mut *self.front.borrow_mut() {
            front.update();
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
