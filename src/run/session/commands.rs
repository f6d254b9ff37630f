//! The commands after a colon at the beginning of a line: one table for `:help` and completion.

/// Commands as they are completed, the argument, and the description.
const COMMANDS: [(&str, &str, &str); 10] = [
    (":clear", "", "remove all events, timers and monitors"),
    (":cost", "", "show the overhead of each event"),
    (":doc ", "NAME", "describe a function, such as latency"),
    (":events ", "GLOB", "list events"),
    (":fields ", "EVENT", "list the fields of an event"),
    (":help", "", "list these commands"),
    (":jobs", "", "list the monitors that run"),
    (":lost", "", "show the numbers of events seen and lost"),
    (":save ", "NAME", "write the definitions of the session as a monitor"),
    (":stop ", "N|NAME", "end a monitor that run started"),
];

/// Returns the commands as they are completed.
pub(super) fn names() -> Vec<String> {
    COMMANDS.iter().map(|(name, ..)| (*name).to_owned()).collect()
}

/// Returns the text of `:help`.
pub(super) fn help() -> String {
    let line = |(name, argument, text): &(&str, &str, &str)| {
        let call = format!("{name}{argument}");
        format!("{call:14} {text}\n")
    };
    let lines: String = COMMANDS.iter().map(line).collect();
    format!("{lines}{:14} end the session; any other line is Lua", "Ctrl-D")
}
