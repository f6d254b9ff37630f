//! Sessions that watch the tasks of control groups.

use std::process::Command;

use super::piped::Session;
use crate::cgroup::Cgroup;
use crate::live::live_tests;

live_tests! {
    a_session_of_cgroups_has_the_events_of_their_tasks_only,
    a_monitor_of_whole_cpus_is_refused,
}

/// Executes programs in a group: the shell, and `true` some times. Without a group, where this test
/// runs.
fn execute(group: Option<&Cgroup>, times: u32) {
    let work = format!("sh -c 'for i in $(seq {times}); do env true; done'");
    let work = group.map_or(work.clone(), |group| group.run(&work));
    let status = Command::new("sh").args(["-c", &work]).status().expect("the shell runs");
    assert!(status.success());
}

fn a_session_of_cgroups_has_the_events_of_their_tasks_only() {
    let (one, two) = (Cgroup::new("prompt-1"), Cgroup::new("prompt-2"));
    let removed = Cgroup::new("prompt-3");
    let all = format!("{}*", one.name.trim_end_matches('1'));
    let mut session = Session::begin(&["--cgroup", &all]);
    session.ask("print(1)");
    drop(removed);
    session.ask(
        "n = 0 p = evsel(\"sched:sched_process_exec\", \
         function(e) if e.filename:match(\"/true$\") then n = n + 1 end end) p:on()",
    );
    execute(Some(&one), 3);
    execute(None, 10);
    execute(Some(&two), 4);
    session.reaches("n", 7);
    // A condition that is set later opens the event again, for both groups.
    session.ask("n = 0 p:filter(\"filename ~ '*/env'\") p:replace(function(e) n = n + 1 end)");
    execute(None, 10);
    execute(Some(&two), 2);
    execute(Some(&one), 1);
    session.reaches("n", 3);
    session.ask("run(\"0.2s\")");
    assert_eq!(session.ask("n"), "3");
    assert_eq!(session.end(), 0);
}

fn a_monitor_of_whole_cpus_is_refused() {
    let own = std::process::id().to_string();
    let group = Cgroup::new("refused-prompt");
    for words in [["-p", &own], ["--cgroup", &group.name]] {
        let mut session = Session::heard(&words);
        let answer = session.ask("run(\"irq-off\")");
        let why = "run: irq-off watches whole CPUs, but this prompt watches only some tasks";
        assert!(answer.contains(why), "{words:?}: {answer}");
        assert!(session.ask("jobs").contains("no monitor runs"));
        drop(session);
    }
}
