//! Names, arguments and scripts with terminal control sequences or forged messages: all of it is
//! printed escaped.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A terminal title, C1 and bidi characters, a byte that is not UTF-8, and a forged message.
const EVIL: &[u8] = b"x\x1b]0;owned\x07\xc2\x9b2J\xe2\x80\xae\xff\nperilune: forged";

/// Returns stdout and stderr of the command in a folder, with these arguments and these lines on
/// stdin.
fn shown(folder: &Path, words: &[&[u8]], lines: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(words.iter().map(|word| OsStr::from_bytes(word)))
        .current_dir(folder)
        .env_remove("PERILUNE_PATH")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built command runs");
    let mut input = child.stdin.take().expect("it was piped");
    // A command that does not read its stdin may have ended.
    let _ = input.write_all(lines.as_bytes());
    drop(input);
    let output = child.wait_with_output().expect("our own child can be waited for");
    let all = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(all).expect("the output is UTF-8");
    let harmful = |c: char| {
        !matches!(c, '\n' | '\t') && c.is_control() || matches!(c, '\u{202a}'..='\u{202e}')
    };
    assert!(!text.contains(harmful), "{words:?}: {text:?}");
    assert!(!text.lines().any(|line| line.starts_with("perilune: forged")), "{words:?}: {text}");
    text
}

#[test]
fn untrusted_names_cannot_control_the_terminal_or_forge_messages() {
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &[u8], text: &[u8]| {
        std::fs::write(folder.path().join(OsStr::from_bytes(name)), text)
            .expect("a file is written");
    };
    let file = [EVIL, b".lua"].concat();
    let literal: String = EVIL.iter().map(|byte| format!("\\{byte:03}")).collect();
    put(
        &file,
        b"local m = monitor { summary = 'x' }\nfunction m.init() nothing.at_all() end\nreturn m",
    );
    let script = format!(
        "local text = '{literal}'\nlocal m = monitor {{ summary = 'a \\27[2Jline' }}\n\
         print(text)\nfunction m.init() error(text) end\nreturn m"
    );
    put(b"prints.lua", script.as_bytes());
    let see = |words: &[&[u8]]| shown(folder.path(), words, "");
    for words in [
        &[EVIL][..],
        &[&file],
        &[&file, b"--help"],
        &[b"./prints.lua"],
        &[b"./prints.lua", b"--help"],
        &[b"trace", EVIL],
        &[b"trace", b"-e", EVIL],
        &[b"trace", &[b"--", EVIL].concat()],
        &[b"signal", b"--filter", b"a", b"--replay", &[EVIL, b".events"].concat()],
        &[b"signal", b"-o", &[EVIL, b"/x"].concat(), b"--replay", b"none"],
        &[b"help", EVIL],
        &[b"list", EVIL],
        &[b"list", b"--json", EVIL],
        &[b"test", &file],
        &[b"test", EVIL],
        &[b"new", EVIL, b"-e", b"x:y"],
        &[b"types", &[EVIL, b"/\0"[..1].as_ref()].concat()],
        &[b"--symbols", EVIL],
        &[b"repl", EVIL],
    ] {
        assert!(
            !see(words).is_empty() || words[0] == b"types" || words[0] == b"--symbols",
            "{words:?}"
        );
    }
    let printed = see(&[b"./prints.lua"]);
    assert!(
        printed
            .contains("\\x1b]0;owned\\x07\\xc2\\x9b2J\\xe2\\x80\\xae\\xff\n    perilune: forged"),
        "{printed}"
    );
    let lines =
        format!("print('{literal}')\nerror('{literal}')\nx = '{literal}'\n:doc {literal}\n");
    let printed = shown(folder.path(), &[b"repl"], &lines);
    assert!(
        printed.contains("    perilune: forged") && printed.contains("\\nperilune: forged"),
        "{printed}"
    );
}
