//! Rules of `top`: titles, order and sorting of columns, and names of rows.
//!
//! Each rule is a run over `tests/scripts/demo.events` and the whole expected table, with blanks
//! squeezed; `tests/scripts` checks the widths of columns.

use std::process::Command;

/// A rule, the selectors and options, and the titles and rows.
type Rule = (&'static str, &'static str, &'static [&'static str]);

#[rustfmt::skip]
const RULES: &[Rule] = &[
    ("a row collects what each event adds to its key; top-by columns sort before the others, by \
      their order; only events with comm= name it",
     "sys:A//key=fieldA/top-by=value1/top-add=value2/,sys:B//key=fieldB/,\
      sys:C//key=fieldC/top-by=value3/comm=comm1/",
     &["FIELDA VALUE1 VALUE2 B VALUE3 COMM1", "2 10 5 0 7 second", "1 10 1 1 0",
       "3 0 0 2 9 third"]),
    // Key column.
    ("without a key it is the thread's number under PID, with its name under COMM",
     "sys:B", &["PID B COMM", "300 2 gamma", "100 1 alpha"]),
    ("the key's title is the expression of the first event that has one",
     "sys:B//key=fieldB/,sys:C//key=fieldC/", &["FIELDB B C", "3 2 2", "1 1 0", "2 0 1"]),
    ("-k is the key of every event",
     "sys:B,sys:C -k common_pid", &["COMMON_PID B C", "300 2 0", "100 1 0", "400 0 3"]),
    ("key= of an event takes precedence over -k",
     "sys:B,sys:C//key=fieldC/ -k common_pid",
     &["COMMON_PID B C", "300 2 0", "100 1 0", "3 0 2", "2 0 1"]),
    ("a text is a key as well, also beside numbers",
     "sys:A//key=text/,sys:B//key=fieldB/", &["TEXT A B", "one 1 0", "two 1 0", "3 0 2", "1 0 1"]),
    ("printkey= prints the key; rows are still distinguished by the key",
     "sys:B//key=fieldB/printkey=key/", &["FIELDB B", "3 2", "1 1"]),
    ("printkey= is an expression of the key",
     "w:wide//key=(id<<8)|7/printkey=printf(\"%d:%d\",key>>8,(int)key&255)/top-by=size*2/",
     &["(ID<<8)|7 SIZE*2", "9007199254740993:7 36028797018963972", "5:7 2",
       "9007199254740992:7 -2"]),
    ("two keys that are printed alike remain two rows",
     "sys:B//key=fieldB/printkey=7/", &["FIELDB B", "7 2", "7 1"]),
    // Value columns.
    ("an event without top-by and top-add is counted under its name",
     "sys:B//key=fieldB/", &["FIELDB B", "3 2", "1 1"]),
    ("an alias is the title of the count, in capitals",
     "sys:B//key=fieldB/alias=num/", &["FIELDB NUM", "3 2", "1 1"]),
    ("an alias is the title of the first value only",
     "sys:A//key=fieldA/top-add=value1/top-by=value2/alias=run(us)/",
     &["FIELDA RUN(US) VALUE2", "2 10 5", "1 10 1"]),
    ("columns have the order of definition, also if a later one sorts first",
     "sys:A//key=fieldA/top-add=value2/,sys:C//key=fieldC/top-by=value3/",
     &["FIELDA VALUE2 VALUE3", "3 0 9", "2 5 7", "1 1 0"]),
    ("of several top-by the first sorts, then the second",
     "sys:A//key=fieldA/top-by=value1/top-by=value2/",
     &["FIELDA VALUE1 VALUE2", "2 10 5", "1 10 1"]),
    ("top-add and counts have equal rank: they sort in the order of definition",
     "sys:B//key=fieldB/,sys:A//key=fieldA/top-add=value2/",
     &["FIELDB B VALUE2", "3 2 0", "1 1 1", "2 0 5"]),
    ("top-add and counts have equal rank: they sort in the order of definition, reversed",
     "sys:A//key=fieldA/top-add=value2/,sys:B//key=fieldB/",
     &["FIELDA VALUE2 B", "2 5 0", "1 1 1", "3 0 2"]),
    ("an event may be named twice, with a key for each",
     "sys:C//key=fieldC/alias=by-field/,sys:C//key=value3/alias=by-value/",
     &["FIELDC BY-FIELD BY-VALUE", "3 2 0", "2 1 0", "0 0 1", "7 0 1", "9 0 1"]),
    // Name column.
    ("with keys and no comm= there is no name", "sys:C//key=fieldC/", &["FIELDC C", "3 2", "2 1"]),
    ("with keys, only events with comm= give names, and the first name is kept",
     "sys:B//key=fieldB/,sys:C//key=fieldC/comm=comm1/",
     &["FIELDB B C COMM1", "3 2 2 third", "1 1 0", "2 0 1 second"]),
    ("without keys an event names its row by comm=, another by the process",
     "sys:B,sys:C//comm=comm1/",
     &["PID B C COMM1", "300 2 0 gamma", "100 1 0 alpha", "400 0 3 second"]),
    // --only-comm.
    ("--only-comm has a row per name, without the key",
     "sys:C//comm=comm1/ --only-comm", &["C COMM1", "1 late", "1 second", "1 third"]),
    ("--only-comm without comm= uses the process",
     "sys:B --only-comm", &["B COMM", "2 gamma", "1 alpha"]),
    ("--only-comm ignores the keys",
     "sys:C//key=fieldC/top-by=value3/comm=comm1/ --only-comm",
     &["VALUE3 COMM1", "9 third", "7 second", "0 late"]),
    ("--only-comm uses the process for events without comm=, also if some have a key",
     "sys:C//key=fieldC/comm=comm1/,sys:B --only-comm",
     &["C B COMM1", "1 0 late", "1 0 second", "1 0 third", "0 2 gamma", "0 1 alpha"]),
    // Exact numbers.
    ("keys and sums above 2^53 are exact, and neighbours are two rows",
     "w:wide//key=id/top-by=size/",
     &["ID SIZE", "9007199254740992 9223372036854775807", "9007199254740993 18014398509481986",
       "5 1"]),
];

/// Rejected options, and the error line.
#[rustfmt::skip]
const REFUSALS: &[(&str, &str)] = &[
    ("sys:A//key=fieldA/,sys:B",
     "sys:B: other events have a key, this one does not; add key=, as in sys:B//key=pid/"),
    ("sys:A//key=fieldA/ --only-comm", "--only-comm needs a name: add comm= to an event"),
    ("sys:A -e sys:B", "give it once, the events joined by ','"),
    ("sys:A//key=text/printkey=key+1/",
     "printkey= formats a number, and the key is text; omit printkey="),
    ("sys:A//top-by=text/", "text is text; it must be a number"),
    ("sys:A//comm=value1/", "value1 is a number; it must be text"),
    ("sys:A//key=fieldB/", "sys:A has no field 'fieldB'"),
    ("sys:A//key=fieldA/printkey=fieldA/", "fieldA"),
];

#[test]
fn every_rule_prints_its_table() {
    let mut wrong = String::new();
    for (rule, words, expected) in RULES {
        let (out, err) = top(words);
        // The line with the time is not part of the table.
        let printed: Vec<String> = out.lines().skip(1).map(squeezed).collect();
        if printed != *expected {
            wrong += &format!(
                "{rule}\n  {words}\n  expected {expected:#?}\n  printed {printed:#?}\n{err}"
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn invalid_combinations_are_refused() {
    for (words, expected) in REFUSALS {
        let (out, err) = top(words);
        assert!(err.contains(expected) && out.is_empty(), "{words}: {err}{out}");
    }
}

#[test]
fn the_title_follows_the_time() {
    let (out, _) = top("sys:B");
    let title = "2026-11-21 09:00:00.012000 perilune - 09:00:00 sample 3 events";
    assert_eq!(out.lines().next().map(squeezed).as_deref(), Some(title));
}

/// 64-bit fields with the top bit set: of unsigned events, signed ones, and pointers.
const EXTREMES: &str = "0.1 0 1 a s:unsigned: k=18446744073709551615 v=18446744073709551615\n\
     0.2 0 1 a s:unsigned: k=18446744073709551615 v=9223372036854775809\n\
     0.3 0 1 a s:signed: k=-1 v=-3\n0.4 0 1 a s:signed: k=-9223372036854775807 v=0\n\
     0.5 0 1 a s:pointer: k=0xffffffff81000000\n0.6 0 1 a s:pointer: k=0xffff888012345678\n";

/// Returns the rows that `top` prints for these events as JSON, without the text before their
/// columns.
fn extremes(selectors: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("extremes.events");
    std::fs::write(&file, EXTREMES).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["top", "--json", "-e", selectors, "--replay"])
        .arg(&file)
        .output()
        .expect("the built command runs");
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let columns = |line: &str| line.split_once("\"table\":\"kv\",").map(|(_, row)| row.to_owned());
    text.lines().filter_map(columns).collect()
}

#[test]
fn a_key_has_the_sign_of_its_field_and_a_pointer_is_hexadecimal() {
    let of = extremes("s:unsigned//key=k/");
    assert_eq!(of, [r#""k":18446744073709551615,"unsigned":2}"#]);
    let of = extremes("s:signed//key=k/");
    assert_eq!(of, [r#""k":-1,"signed":1}"#, r#""k":-9223372036854775807,"signed":1}"#]);
    let of = extremes("s:pointer//key=k/");
    let expected =
        [r#""k":"0xffff888012345678","pointer":1}"#, r#""k":"0xffffffff81000000","pointer":1}"#];
    assert_eq!(of, expected);
}

#[test]
fn keys_of_different_types_do_not_collide() {
    let of = extremes("s:unsigned//key=k/,s:signed//key=k/,s:pointer//key=k/");
    let keys: Vec<&str> = of.iter().filter_map(|row| row.split(',').next()).collect();
    let expected = [
        r#""k":18446744073709551615"#,
        r#""k":-1"#,
        r#""k":-9223372036854775807"#,
        r#""k":18446612682375452280"#,
        r#""k":18446744071578845184"#,
    ];
    assert_eq!(keys, expected);
}

#[test]
fn a_sum_of_unsigned_values_is_not_negative() {
    let of = extremes("s:unsigned//key=k/top-by=v/");
    let sum = u128::from(u64::MAX) + (1 << 63) + 1;
    assert_eq!(of, [format!(r#""k":18446744073709551615,"v":{sum}}}"#)]);
    assert_eq!(extremes("s:signed//key=1/top-by=v/"), [r#""1":1,"v":-3}"#]);
}

#[test]
fn wide_numbers_are_numbers_in_json() {
    let (out, _) = top("w:wide//key=id/top-by=size/ --json");
    let row = out.lines().nth(1).unwrap_or_default();
    assert!(row.contains("\"id\":9007199254740993,\"size\":18014398509481986"), "{row}");
}

/// Returns stdout and stderr of `top -e WORDS` over the demo recording.
fn top(words: &str) -> (String, String) {
    let events = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts/demo.events");
    let output = Command::new(env!("CARGO_BIN_EXE_perilune"))
        .args(["top", "--replay", events, "-e"])
        .args(words.split_whitespace())
        .env("TZ", "UTC")
        .env("NO_COLOR", "1")
        .env_remove("PERILUNE_PATH")
        .output()
        .expect("perilune can be executed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
