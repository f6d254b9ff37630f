//! `test [--bless] [FILE…]`: runs monitors over recorded or written events, and compares what they
//! print. Needs no privilege.
//!
//! A case is a file `NAME.events`, printed by `trace --events` or written by hand (see
//! [`crate::source::replay`]). Each of its lines `# run MONITOR [OPTION…]` is a run over the file,
//! in the file's own folder; without such a line it is `NAME.lua` beside it. The output of the runs
//! is compared with `NAME.out`, which `--bless` writes if every run started. A FILE is a case, a
//! monitor (its cases are `NAME.events` and `NAME-*.events` beside it) or a folder; the default is
//! the current folder. A monitor without a case is loaded, and declares its events. The exit code
//! is 1 if a case fails, or a monitor does not load.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use similar::TextDiff;

use super::{CommandError, runtime::Runtime};
use crate::base::text::units::counted;
use crate::base::text::{escape, message};
use crate::output::file;

/// Runs the cases that `words` name, and reports the results to `out`.
///
/// # Errors
/// A file is none of the three, or cannot be read.
pub fn run(
    words: &[OsString],
    bless: bool,
    runtime: &mut dyn Runtime,
    out: &mut dyn Write,
) -> Result<u8, CommandError> {
    let here = OsString::from(".");
    let words = if words.is_empty() { std::slice::from_ref(&here) } else { words };
    let (mut cases, mut failed, mut unloaded) = (Vec::new(), 0, false);
    for word in words {
        match cases_of(Path::new(word))? {
            none if none.is_empty() => unloaded |= !loads(word, runtime, out)?,
            some => cases.extend(some),
        }
    }
    for case in &cases {
        let verdict = judge(case, bless)?;
        failed += u64::from(verdict.failed);
        writeln!(out, "{}  {}", verdict.status, message::path(case))?;
        show(&verdict.shown, out)?;
    }
    if !cases.is_empty() {
        let all = counted(cases.len() as u64, "case");
        let how = if failed > 0 { format!("{failed} failed") } else { "all as expected".into() };
        writeln!(out, "{all}, {how}")?;
    }
    Ok(u8::from(failed > 0 || unloaded))
}

/// Checks a monitor without a case: returns whether it loads.
fn loads(script: &OsStr, runtime: &mut dyn Runtime, out: &mut dyn Write) -> Result<bool> {
    let name = message::path(Path::new(script));
    match runtime.check(&script.to_string_lossy()) {
        Ok(None) => writeln!(out, "loads    {name}; there is no case (perilune help test)")?,
        Ok(Some(why)) => writeln!(
            out,
            "loads    {name}; its events were not checked ({why}), and there is no case \
             (perilune help test)"
        )?,
        Err(why) => {
            writeln!(out, "FAILED   {name}")?;
            show(&format!("{why:#}"), out)?;
            return Ok(false);
        }
    }
    Ok(true)
}

/// Prints indented lines that explain the line above them.
fn show(lines: &str, out: &mut dyn Write) -> Result<()> {
    for line in lines.lines() {
        let mut text = b"    ".to_vec();
        escape::push_shown(&mut text, line.as_bytes());
        writeln!(out, "{}", String::from_utf8_lossy(&text).trim_end())?;
    }
    Ok(())
}

/// Returns the cases of a command line argument; the list is empty only for a monitor.
fn cases_of(word: &Path) -> Result<Vec<PathBuf>> {
    let extension = word.extension().and_then(|e| e.to_str());
    if extension == Some("events") {
        return Ok(vec![word.to_owned()]);
    }
    let (folder, of) = match (word.is_dir(), extension) {
        (true, _) => (word, None),
        (false, Some("lua")) => {
            ensure!(word.is_file(), "no file '{}'; check the path", word.display());
            let folder = word.parent().filter(|folder| *folder != "");
            (folder.unwrap_or(Path::new(".")), word.file_stem().and_then(|stem| stem.to_str()))
        }
        _ => bail!("'{}' is not a FILE.events, FILE.lua or folder", word.display()),
    };
    let is_of = |path: &Path| {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let rest = of.map_or(Some(""), |name| stem.strip_prefix(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let entries =
        fs::read_dir(folder).with_context(|| format!("failed to list `{}`", folder.display()))?;
    let mut cases: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "events") && is_of(path))
        .collect();
    cases.sort();
    ensure!(
        of.is_some() || !cases.is_empty(),
        "no *.events in `{}`; perilune new writes one",
        folder.display()
    );
    Ok(cases)
}

/// The result of a case.
struct Verdict {
    failed: bool,
    status: &'static str,
    shown: String,
}

/// Runs a case, and writes its output as the expected one.
///
/// # Errors
/// The case cannot be run or written, or one of its runs did not begin.
pub(super) fn bless(case: &Path) -> Result<()> {
    let verdict = judge(case, true)?;
    ensure!(!verdict.failed, "{}", verdict.shown.trim_end());
    Ok(())
}

fn judge(case: &Path, bless: bool) -> Result<Verdict> {
    let Printed { text: got, refused } = printed(case)?;
    let path = case.with_extension("out");
    let expected = fs::read_to_string(&path).ok();
    let verdict = |failed, status, shown| Ok(Verdict { failed, status, shown });
    match expected {
        Some(expected) if expected == got => verdict(false, "ok     ", String::new()),
        _ if bless && !refused.is_empty() => {
            let shown = format!("not blessed: a run did not start:\n{refused}");
            verdict(true, "FAILED ", shown)
        }
        _ if bless => {
            file::write(&path, got.as_bytes())?;
            verdict(false, "blessed", String::new())
        }
        None => verdict(
            true,
            "FAILED ",
            format!(
                "there is no {}; if this output is correct, accept it with --bless:\n{got}",
                path.display()
            ),
        ),
        Some(expected) => {
            let diff = TextDiff::from_lines(&expected, &got);
            let shown = diff.unified_diff().header("expected", "printed").to_string();
            verdict(true, "FAILED ", shown)
        }
    }
}

/// The output of the runs of a case.
struct Printed {
    /// Each output after its command, with the error if the run failed.
    text: String,
    /// The command and error of each run that did not begin.
    refused: String,
}

fn printed(case: &Path) -> Result<Printed> {
    let (mut text, mut refused) = (String::new(), String::new());
    let own = std::env::current_exe()?;
    let folder = case.parent().filter(|folder| *folder != "").unwrap_or(Path::new("."));
    let file = case.file_name().context("the case has no file name")?;
    for run in runs(case)? {
        text += &format!("$ perilune {run}\n");
        let words = words(&run).with_context(|| format!("{}: # run {run}", case.display()))?;
        let output = Command::new(&own)
            .args(&words)
            .arg("--replay")
            .arg(file)
            .current_dir(folder)
            .env("TZ", "UTC")
            .env("NO_COLOR", "1")
            .env_remove("PERILUNE_PATH")
            .stdin(Stdio::null())
            .output()
            .context("failed to start a run")?;
        text += &String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            text += &format!("{}\n{why}", output.status);
            // A run that began has printed at least the number of its errors.
            if output.stdout.is_empty() {
                refused += &format!("$ perilune {run}\n{why}");
            }
        }
    }
    Ok(Printed { text, refused })
}

/// Returns the lines `# run …` of a case, or the monitor with its name.
fn runs(case: &Path) -> Result<Vec<String>> {
    let text =
        fs::read_to_string(case).with_context(|| format!("failed to read `{}`", case.display()))?;
    let runs: Vec<String> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# run "))
        .map(|run| run.trim().trim_start_matches("perilune ").to_owned())
        .collect();
    if !runs.is_empty() {
        return Ok(runs);
    }
    let monitor = case.with_extension("lua");
    ensure!(
        monitor.is_file(),
        "{}: names no monitor; begin it with `# run MONITOR [OPTION…]`",
        case.display()
    );
    Ok(vec![monitor.file_name().unwrap_or_default().to_string_lossy().into_owned()])
}

/// Splits a command at blanks outside of quotes of either kind.
fn words(command: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in command.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    ensure!(quote.is_none(), "a quote is not closed");
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_separated_by_blanks_outside_quotes() {
        let all = words("top  -e 'a:b/x == \"y\"/' --k= ''").unwrap();
        assert_eq!(all, ["top", "-e", "a:b/x == \"y\"/", "--k=", ""]);
        assert!(words("top 'x").is_err());
    }
}
