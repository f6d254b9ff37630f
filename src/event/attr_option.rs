//! Fields of `perf_event_attr` as options of an evsel: those that a script may set, and what to
//! write instead of any other.
//!
//! The runtime owns the layout of records, the rings and the switching of events. A field that
//! would change these, or that would have no effect, is refused with the reason.

/// Fields that a script may set.
pub const ATTR_OPTIONS: [&str; 8] = [
    "wakeup_events",
    "pinned",
    "exclusive",
    "precise_ip",
    "branch_sample_type",
    "sample_max_stack",
    "exclude_callchain_kernel",
    "exclude_callchain_user",
];

/// Returns why a script cannot set a field, and what to write instead; None if it may.
///
/// A field that is not known here is refused as well: its effect is not known either.
#[rustfmt::skip]
pub fn refusal(field: &str) -> Option<&'static str> {
    Some(match field {
        _ if ATTR_OPTIONS.contains(&field) => return None,
        "inherit_stat" => "its only effect is a record with the counts of a task at each switch \
            between tasks that inherited the event, which nothing reads; counts of a run include \
            threads and children",
        "sigtrap" | "sig_data" => "each event would send SIGTRAP to the traced program, which ends \
            it unless it expects the signal; events are delivered as samples",
        "remove_on_exec" => "an event of a task is watched beyond its exec, except a breakpoint, \
            which sets this itself; to stop at an exec, switch the event off in on_exec",
        "aux_output" | "aux_watermark" | "aux_sample_size" | "aux_action" | "aux_start_paused"
        | "aux_pause" | "aux_resume" =>
            "AUX areas (Intel PT, CoreSight) are not read; use samples",
        "exclude_user" | "exclude_kernel" | "exclude_host" | "exclude_guest" | "exclude_idle" =>
            "write exclude = { kernel = true }, with user, kernel, host, guest or idle",
        "exclude_hv" => "use the modifiers u k h of the event",
        "freq" | "sample_freq" => "write freq = HZ",
        "sample_period" => "write period = N",
        "sample_type" => "samples have the fields that handlers read; list further ones in fields, \
            as in fields = \"_weight\"",
        "sample_regs_intr" => "e._regs has all registers of the interrupted code",
        "sample_regs_user" => "e._user_regs has all registers of the user code",
        "sample_stack_user" => "write stack = \"dwarf,BYTES\"",
        "read_format" => "count = true counts an event; e._counts has the counts of a group",
        "context_switch" => "define m.on_switch",
        "namespaces" => "define m.on_namespaces",
        "cgroup" => "define m.on_cgroup to get records of new cgroups; as text, it is a cgroup's \
            path",
        "ksymbol" => "define m.on_ksymbol",
        "bpf_event" => "define m.on_bpf",
        "text_poke" => "define m.on_text_poke",
        "build_id" | "mmap" | "mmap2" | "mmap_data" => "define m.on_mmap, whose records have the \
            build_id",
        "comm" | "comm_exec" | "task" => "records of tasks are always there: define m.on_comm, \
            m.on_exec, m.on_fork or m.on_exit",
        "type" | "size" | "config" | "config1" | "config2" | "config3" | "config4" =>
            "name the event: PMU/config=N,config1=N/",
        "bp_type" | "bp_addr" | "bp_len" => "name the breakpoint: mem:ADDRESS/LEN:rw",
        "kprobe_func" | "kprobe_addr" | "uprobe_path" | "probe_offset" =>
            "name the function: kprobe:FUNCTION, uprobe:FILE:FUNCTION",
        "disabled" | "enable_on_exec" => "all events of a run begin at once; an evsel's off and on \
            switch one",
        "inherit" | "inherit_thread" => "-p and a COMMAND include threads and children, -t selects \
            a thread",
        "use_clockid" | "clockid" | "sample_id_all" => "all events of a run share one clock and \
            one layout of records",
        "watermark" | "wakeup_watermark" => "all events of a CPU share its ring, whose fill level \
            --watermark sets; wakeup_events = 1 handles each event at once",
        "write_backward" => "rings are drained all the time; -m N makes them larger",
        _ => "the runtime sets it",
    })
}

/// How an event is opened, as far as the effect of fields depends on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FieldUse {
    /// Whether a hardware counter counts the event.
    pub is_hardware: bool,
    /// Whether it is counted together with other events.
    pub is_grouped: bool,
    /// Whether it is counted, not sampled.
    pub is_counted: bool,
    /// Whether its samples have call chains that the kernel records.
    pub has_call_chain: bool,
    /// Whether its samples have branch records.
    pub has_branches: bool,
}

/// Returns why a field has no effect on an event; None if it has one.
pub fn without_effect(field: &str, on: FieldUse) -> Option<&'static str> {
    match field {
        "pinned" | "exclusive" if !(on.is_hardware || on.is_grouped) => {
            Some("software events need no hardware counter; omit it")
        }
        "pinned" | "exclusive" => None,
        "precise_ip" if !on.is_hardware => {
            Some("only hardware counters sample imprecisely; omit it")
        }
        _ if on.is_counted => Some("the event is counted, not sampled; omit it"),
        "branch_sample_type" if !on.has_branches => {
            Some("it selects the branches of e._branches; read these, or omit it")
        }
        "sample_max_stack" | "exclude_callchain_kernel" | "exclude_callchain_user"
            if !on.has_call_chain =>
        {
            Some("the event has no call chains of the kernel; add stack = \"fp\", or omit it")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::attr::Attr;

    #[test]
    fn every_field_can_be_set_or_is_refused_with_its_own_reason() {
        let general = refusal("no such field");
        let without_reason = |field: &&str| refusal(field) == general;
        let missing: Vec<&str> = Attr::names().filter(without_reason).collect();
        assert_eq!(missing, ["defer_callchain", "defer_output"]);
        for field in ATTR_OPTIONS {
            assert!(Attr::names().any(|name| name == field), "{field}");
        }
    }

    #[test]
    fn a_field_without_effect_on_an_event_is_named() {
        let (plain, hardware) =
            (FieldUse::default(), FieldUse { is_hardware: true, ..FieldUse::default() });
        let grouped = FieldUse { is_grouped: true, ..plain };
        let counted = FieldUse { is_counted: true, ..hardware };
        let with_stack = FieldUse { has_call_chain: true, ..plain };
        let with_branches = FieldUse { has_branches: true, ..plain };
        for (field, effective, ineffective) in [
            ("precise_ip", &[hardware][..], &[plain, grouped, counted][..]),
            ("pinned", &[hardware, grouped, counted], &[plain, with_stack]),
            ("exclusive", &[hardware, grouped, counted], &[plain, with_stack]),
            ("branch_sample_type", &[with_branches], &[plain, hardware, counted]),
            ("wakeup_events", &[plain, hardware], &[counted]),
            ("sample_max_stack", &[with_stack], &[plain, hardware, counted]),
            ("exclude_callchain_kernel", &[with_stack], &[plain, counted]),
            ("exclude_callchain_user", &[with_stack], &[plain, counted]),
        ] {
            assert!(ATTR_OPTIONS.contains(&field), "{field}");
            for on in effective {
                assert_eq!(without_effect(field, *on), None, "{field} {on:?}");
            }
            for on in ineffective {
                assert!(without_effect(field, *on).is_some(), "{field} {on:?}");
            }
        }
    }
}
