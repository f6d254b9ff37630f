//! Properties of an event that depend on its kind. Other modules ask for these and never for the
//! kind itself, so that a new kind is one more implementation.

use anyhow::Result;
use perf_event_open_sys::bindings as abi;

use super::Event;
use crate::decode::format::Format;
use crate::event::exclude::{EventModes, Exclude};
use crate::event::sampling::{Sampling, SamplingRate};
use crate::sys::dynamic_event::ProbePoint;

/// The `perf_event_attr` fields that select an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EventAttr {
    /// `perf_event_attr.type`.
    pub type_: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// `perf_event_attr.config1`.
    pub config1: u64,
    /// `perf_event_attr.config2`.
    pub config2: u64,
    /// `perf_event_attr.config3`.
    pub config3: u64,
    /// `perf_event_attr.config4`.
    pub config4: u64,
    /// Modes in which it does not count.
    pub exclude: Exclude,
    /// `perf_event_attr.precise_ip`, 0 to 3.
    pub precise_ip: u8,
    /// `perf_event_attr.pinned`.
    pub pinned: bool,
    /// `perf_event_attr.exclusive`.
    pub exclusive: bool,
}

impl EventAttr {
    /// Returns the config field of this name.
    pub(super) fn config_field(&mut self, name: &str) -> Option<&mut u64> {
        match name {
            "config" => Some(&mut self.config),
            "config1" => Some(&mut self.config1),
            "config2" => Some(&mut self.config2),
            "config3" => Some(&mut self.config3),
            "config4" => Some(&mut self.config4),
            _ => None,
        }
    }
}

/// The unit of a PMU's counts: `.unit`, `.scale` and `.snapshot` in its `events` directory.
#[derive(Clone, Debug, PartialEq)]
pub struct CountUnit {
    /// The unit, such as `Joules`; empty if only the scale is declared.
    pub unit: String,
    /// Units per count.
    pub scale: f64,
    /// Whether a reading is the current value, not a sum of occurrences.
    pub is_snapshot: bool,
}

/// Registers that the samples of an event have instead of a raw record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterFields {
    /// One bit for each register: `perf_event_attr.sample_regs_intr`.
    pub mask: u64,
    /// Whether they are valid for a 32-bit task, too.
    pub of_any_task: bool,
}

/// Names of events that were looked up on the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundNames {
    /// The word of `list` for such an event.
    pub category: &'static str,
    /// The names, sorted.
    pub names: Vec<String>,
}

/// Properties of an event that depend on its kind. The defaults are those of a counter that the
/// kernel counts in software.
pub trait EventProperties {
    /// Returns the fields that select the event. `config` of a probe is 0 until it is made.
    fn attr(&self) -> EventAttr;

    /// Returns further fields of `perf_event_attr`, by the kernel's names.
    fn attr_fields(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Returns the fields of `perf_event_attr` that depend on the watched task; -1 stands for all
    /// tasks.
    ///
    /// # Errors
    /// The task's process has not mapped the event's file, or its mappings cannot be read; the
    /// message does not have the event's name.
    fn attr_fields_for_task(&self, _tid: i32) -> Result<Vec<(&'static str, u64)>> {
        Ok(Vec::new())
    }

    /// Returns the event restricted to user mode, under the name that says so; None for a kind
    /// without modifiers, or if it is restricted already.
    fn in_user_mode(&self, _name: &str) -> Option<Event> {
        None
    }

    /// Returns the event, under this name, with the registers of a call instead of the values that
    /// the kernel reads; None if it has none of these.
    fn without_parameters(&self, _name: &str) -> Option<Event> {
        None
    }

    /// Returns whether a process must execute its program before [`Self::attr_fields_for_task`].
    fn awaits_program(&self) -> bool {
        false
    }

    /// Returns the reason why this machine may not deliver each such event; None if none is known.
    fn doubt(&self) -> Option<String> {
        None
    }

    /// Returns whether what it awaits is a library, which a process maps after the exec.
    fn awaits_library(&self) -> bool {
        false
    }

    /// Returns the bits of `sample_type` for the data that only samples of this kind have.
    fn sample_type(&self) -> u64 {
        u64::from(abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_ADDR | abi::PERF_SAMPLE_PERIOD)
    }

    /// Returns the layout of the fields that a sample has; None if it has none.
    fn format(&self) -> Option<&Format> {
        None
    }

    /// Returns the layout of the raw record of a tracepoint, which begins with the common fields
    /// and which an in-kernel filter can check; None for any other kind.
    fn raw_format(&self) -> Option<&Format> {
        None
    }

    /// Returns the registers that its fields are read from; None if it has a raw record or no
    /// fields.
    fn registers(&self) -> Option<RegisterFields> {
        None
    }

    /// Returns the location of the probe for which an event is made in tracefs. Such an event is
    /// opened for whole CPUs only, closes slowly, and needs privileges that no setting grants.
    fn probe(&self) -> Option<ProbePoint<'_>> {
        None
    }

    /// Returns whether it is a probe in code.
    fn is_probe(&self) -> bool {
        self.probe().is_some()
    }

    /// Returns whether the kernel raises it only for events of whole CPUs, not for those of tasks.
    fn is_hidden_from_tasks(&self) -> bool {
        false
    }

    /// Returns whether it is a call or return of a function, or an instruction inside of one.
    fn is_function(&self) -> bool {
        false
    }

    /// Returns whether the kernel's tracing raises it (`perf_event_is_tracing()`,
    /// kernel/events/core.c): its filter can compare `common_pid`.
    fn is_tracing(&self) -> bool {
        self.is_probe() || self.raw_format().is_some()
    }

    /// Returns whether it is raised at the first instruction of a user-space function.
    fn is_user_entry(&self) -> bool {
        false
    }

    /// Returns whether it is one of the kernel's clocks, which count nanoseconds and keep running
    /// on an idle CPU.
    fn is_clock(&self) -> bool {
        false
    }

    /// Returns whether it occurs so often that it is sampled at a rate instead of at each
    /// occurrence.
    fn has_rate(&self) -> bool {
        false
    }

    /// Returns the rate in its name, which applies if neither its evsel nor its selector has one.
    fn rate(&self) -> Option<SamplingRate> {
        None
    }

    /// Returns the CPUs on which it can be opened; None if there is no limit.
    fn cpus(&self) -> Option<&[u32]> {
        None
    }

    /// Returns whether it can be counted, but takes no samples.
    fn only_counts(&self) -> bool {
        self.cpu_time().is_some()
    }

    /// Returns the name of its PMU if that counts for whole CPUs only.
    fn uncore_pmu(&self) -> Option<&str> {
        None
    }

    /// Returns the unit of its counts; None if they are occurrences.
    fn unit(&self) -> Option<&CountUnit> {
        None
    }

    /// Returns the field of its record that the kernel adds to its count; None if it adds 1.
    fn counted_field(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether each counted event writes a sample if the period is 1.
    fn samples_each(&self) -> bool {
        false
    }

    /// Returns whether its count is nanoseconds instead of events.
    fn counts_time(&self) -> bool {
        false
    }

    /// Returns whether a hardware counter counts it, of the CPU or of another PMU. There are few of
    /// these, so it may be multiplexed.
    fn uses_hardware_counter(&self) -> bool {
        false
    }

    /// Returns the modes in which the kernel counts it (`is_counted`) or samples it.
    fn modes(&self, _is_counted: bool) -> EventModes {
        EventModes::Separate
    }

    /// Returns whether it can be counted in the group of software counters.
    fn joins_software_group(&self) -> bool {
        false
    }

    /// Returns its index in [`crate::sys::proc_stat::Ticks`] if it is read from /proc/stat instead
    /// of being opened.
    fn cpu_time(&self) -> Option<usize> {
        None
    }

    /// Returns whether a monitor makes it of other events: it is not opened.
    fn is_derived(&self) -> bool {
        false
    }

    /// Returns whether its description may become outdated and is therefore not cached.
    fn may_change(&self) -> bool {
        false
    }

    /// Checks that the kernel can open it as requested. With `of_tasks`, only some tasks are
    /// watched.
    ///
    /// # Errors
    /// It does not support an option; the message does not have its name.
    fn check_options(&self, _sampling: &Sampling, _of_tasks: bool) -> Result<()> {
        Ok(())
    }

    /// Prepares for being opened.
    ///
    /// # Errors
    /// The file that it refers to has changed; the message does not have its name.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the key of its type and config in JSON.
    fn label(&self) -> &'static str {
        "counter"
    }

    /// Returns the text behind its name where it is described.
    fn title(&self) -> String {
        let EventAttr { type_, config, .. } = self.attr();
        format!("a counter (type {type_}, config {config:#x})")
    }

    /// Returns remarks on its samples.
    fn notes(&self) -> Vec<String> {
        vec![
            "no fields; its samples have _period, _ip and _addr, and in scripts those that are \
             recorded on request (docs/events.md)"
                .to_owned(),
        ]
    }

    /// Returns why it cannot be counted with a filter of which the kernel does not accept
    /// `condition`.
    fn count_filter_refusal(&self, _condition: &str) -> String {
        "only tracepoints can be filtered while counting; omit the filter".to_owned()
    }
}
