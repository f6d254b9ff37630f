//! Groups in braces: their events, modifiers and mistakes.

use crate::event::selector::Selector;

fn one(text: &str) -> Selector {
    Selector::parse_list(text).unwrap_or_else(|e| panic!("{e}")).remove(0)
}

fn names(text: &str) -> Vec<String> {
    let list = Selector::parse_list(text).unwrap_or_else(|e| panic!("{e}"));
    list.into_iter().map(|one| one.name).collect()
}

#[test]
fn the_events_in_braces_share_a_group() {
    let list = Selector::parse_list("a:b,{c:d/x in {1,2}/key=k,2/,cs},{cycles:k}:W").unwrap();
    let group = |at: usize| list[at].group.as_ref().map(|of| (&*of.name, of.is_weak));
    let names: Vec<&str> = list.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a:b", "c:d", "cs", "cycles:k"]);
    assert_eq!(list[1].filter.as_deref(), Some("x in {1,2}"));
    assert_eq!(list[1].attr("key"), Some(Some("k,2")));
    let braces = "{c:d/x in {1,2}/key=k,2/,cs}";
    assert_eq!((group(0), group(1), group(2)), (None, Some((braces, false)), group(1)));
    assert_eq!(group(3), Some(("{cycles:k}:W", true)));
}

#[test]
fn the_modifiers_of_a_group_are_those_of_its_events() {
    assert_eq!(names("{cycles,r1a8:k,msr/tsc/}:u"), ["cycles:u", "r1a8:ku", "msr/tsc/u"]);
    assert_eq!(names("{cycles:u|cpu-clock,cs}:uW"), ["cycles:u|cpu-clock:u", "cs:u"]);
    assert_eq!(names("{cycles:p,instructions}:pD"), ["cycles:ppD", "instructions:p"]);
    let one = &Selector::parse_list("{ cpu/event=1/p/stack/ , cs }:k").unwrap()[0];
    assert_eq!((one.text.as_str(), one.stack()), ("cpu/event=1/pk/stack/", true));
    // A tracepoint has no modifiers, which is reported when its name is looked up.
    assert_eq!(names("{a:b,cs}:u"), ["a:b:u", "cs:u"]);
}

#[test]
fn the_first_event_of_a_sampled_group_has_the_others() {
    let text = "{raw_syscalls:sys_enter/id==1/period=9/, page-faults//alias=faults/}:Su";
    let list = Selector::parse_list(&format!("cs,{text}")).unwrap();
    assert_eq!(list.len(), 2);
    let (leader, members) = (&list[1], &list[1].members);
    assert_eq!((leader.text.as_str(), leader.group.as_ref()), (text, None));
    assert_eq!(leader.filter.as_deref(), Some("id==1"));
    assert_eq!((members.len(), members[0].name.as_str()), (1, "page-faults:u"));
    assert_eq!(members[0].alias(), Some("faults"));
    // Scripts pass the text of a selector on.
    assert_eq!(&one(text), leader);
    let why = |text| one(text).check_attrs(&["key"]).unwrap_err().to_string();
    assert_eq!(
        why("{cpu-clock,cs/period=9/}:S"),
        "cs: only counted in the group of cpu-clock; omit the attribute 'period'"
    );
    assert_eq!(one("{cpu-clock/freq=9/,cs//alias=x/}:S").check_attrs(&[]).ok(), Some(()));
}

#[test]
fn a_mistake_in_a_group_is_reported_at_its_position() {
    for (text, place, why) in [
        ("cs,{cycles,cs", 3, "this `{` is not closed"),
        ("cs,page-faults}", 14, "this `}` closes no group"),
        ("{cs}}", 4, "attributes belong to an event"),
        ("{}", 1, "an event is missing here"),
        ("{cs,}", 4, "an event is missing here"),
        ("{cs,{cycles}}", 4, "cannot contain another"),
        ("{cs,a:b c}", 7, "joined with `,`"),
        ("{cs}:", 5, "expected modifiers of the group"),
        ("{cs,cycles}:uxS", 13, "expected modifiers of the group"),
        ("{cs}/stack/", 4, "attributes belong to an event"),
        ("{cs} cycles", 5, "joined with `,`"),
        ("a:b,{cs}:S", 4, "needs a second event"),
        ("{msr/tsc,cs}", 4, "the terms of a PMU end with a `/`"),
        ("{a:b/x == (1/,cs}", 10, "this `(` is not closed"),
    ] {
        let error = Selector::parse_list(text).unwrap_err();
        assert!(error.fault.message.contains(why), "{text}: {error}");
        assert_eq!(error.fault.at, place, "{text}: {error}");
    }
}
