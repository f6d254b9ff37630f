//! Groups that end with their members, and pinned groups without a counter.

use super::*;
use crate::source::open::counter_reading::CounterReading;

fn group(members: &[u64]) -> CounterGroup {
    // Its reading ends at once, like that of a pinned event without a counter.
    let fd = std::fs::File::open("/dev/null").unwrap().into();
    let attr = attr::of_leader(&Attr::counter(0, 0), false);
    let leader = PerfEvent::of_fd(fd, attr);
    CounterGroup { leader, members: members.to_vec(), enabled: Cell::new(true) }
}

#[test]
fn members_of_a_pinned_group_without_a_counter_are_not_counted() {
    let key = GroupKey { requested: Some(EventGroup::named("pinned")), cgroup: None, pmu: None };
    let all = HashMap::from([((key, 0, -1), vec![group(&[7, 9])])]);
    let read = CounterGroups { all, words: Vec::new() }.read();
    let none = GroupRead::Unscheduled;
    assert_eq!(read, HashMap::from([(7, none), (9, none)]));
}

#[test]
fn a_group_is_closed_with_its_last_member() {
    let key = || GroupKey { requested: None, cgroup: None, pmu: None };
    let both = [((key(), 0, -1), vec![group(&[7, 9])]), ((key(), 1, -1), vec![group(&[8])])];
    let mut groups = CounterGroups { all: HashMap::from(both), words: Vec::new() };
    let open = |id, cpu, place| OpenEvent {
        counted: CounterReading::default(),
        carried: CounterReading::default(),
        event: group(&[]).leader,
        id,
        place,
        members: Vec::new(),
        opening: 0,
        cpu,
        tid: -1,
    };
    groups.leave(&open(7, 0, GroupPlace::Member));
    assert_eq!(groups.all[&(key(), 0, -1)][0].members, [9]);
    groups.leave(&open(8, 1, GroupPlace::Member));
    assert_eq!(groups.all.len(), 1);
    groups.leave(&open(9, 0, GroupPlace::Alone));
    assert_eq!(groups.all.len(), 1, "an event that is in no group");
    groups.leave(&open(9, 0, GroupPlace::Member));
    assert!(groups.all.is_empty());
}
