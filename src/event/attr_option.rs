//! Fields of `perf_event_attr` as options of an evsel: those that a script may set, and what to
//! write instead of any other.
//!
//! The runtime owns the layout of records, the rings and the switching of events. A field that
//! would change these, or that would have no effect, is refused with the reason.

/// Fields that a script may set.
pub const ATTR_OPTIONS: [&str; 10] = [
    "wakeup_events",
    "wakeup_watermark",
    "watermark",
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
        "write_backward" => "rings are drained all the time; -m N makes them larger",
        _ => "the runtime sets it",
    })
}

/// Returns why a field has no effect on an event; None if it has one. `is_hardware` is whether a
/// hardware counter counts the event, `has_branches` whether its samples have branch records.
pub fn without_effect(field: &str, is_hardware: bool, has_branches: bool) -> Option<&'static str> {
    match field {
        "precise_ip" if !is_hardware => Some("only hardware counters sample imprecisely; omit it"),
        "branch_sample_type" if !has_branches => {
            Some("it selects the branches of e._branches; read these, or omit it")
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
        assert!(without_effect("precise_ip", false, false).is_some());
        assert!(without_effect("precise_ip", true, false).is_none());
        assert!(without_effect("branch_sample_type", true, false).is_some());
        assert!(without_effect("branch_sample_type", true, true).is_none());
        assert!(without_effect("wakeup_events", false, false).is_none());
    }
}
