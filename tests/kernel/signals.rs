//! signal: senders and targets.

use crate::live::live_tests;
use crate::{OWN_PID, load, watch};

live_tests! {
    each_signal_is_reported_with_its_sender_and_its_target,
    signals_of_children_that_end_belong_to_the_watched_parent,
}

fn each_signal_is_reported_with_its_sender_and_its_target() {
    let (sender, target) = load::signals(100);
    let (from, to) = (sender.pid(), target.pid());
    let run = watch(&["signal"], sender);
    let sent = run.events_of(from).into_iter().filter(|e| e["sig"] == libc::SIGUSR1);
    let sent: Vec<_> = sent.collect();
    assert_eq!(sent.len(), 100, "{}", run.stderr);
    for event in sent {
        assert_eq!(event["monitor"], "signal");
        assert_eq!(event["event"], "signal:signal_generate");
        assert_eq!(event["tid"], from);
        assert_eq!(event[OWN_PID], to, "{event}");
    }
    run.is_complete();
}

/// A task raises the signal of its end when it has no events of its own any more.
fn signals_of_children_that_end_belong_to_the_watched_parent() {
    let load = load::forks(20);
    let parent = load.pid();
    let run = watch(&["signal", "-p", &parent.to_string()], load);
    let of_children = run.of("event").filter(|event| event["sig"] == libc::SIGCHLD);
    let (own, others): (Vec<_>, Vec<_>) = of_children.partition(|event| event[OWN_PID] == parent);
    assert_eq!((own.len(), others.len()), (20, 0), "{:?}", run.objects);
}
