//! `perf_event_attr`, with every field and bit accessible by the kernel's name.
//!
//! [`Attr`] always contains its size. Names are those of `include/uapi/linux/perf_event.h`; one
//! table (`FIELDS`) serves setting, getting and printing, so that a field is added in one place.
//!
//! Members of a union are separate entries in the table. Setting a member also sets the switch that
//! selects it (`sample_freq` sets `freq`, `wakeup_watermark` sets `watermark`; `sample_period` and
//! `wakeup_events` clear them). Getting returns the bits, whichever member they were set through;
//! [`Attr::nonzero`] lists only the active member.

use crate::base::matching::nearest::{did_you_mean, nearest};
use perf_event_open_sys::bindings::{self, perf_event_attr};
use std::mem::{offset_of, size_of};

/// Task and CPU of an event, as `perf_event_open(2)` takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfTarget {
    /// Thread id; 0 is the calling thread, -1 is every task of `cpu`.
    pub pid: i32,
    /// CPU number; -1 is every CPU that the thread runs on.
    pub cpu: i32,
}

/// [`PerfTarget::pid`] that stands for every task.
pub const EVERY_TASK: i32 = -1;

/// The event to count or sample, and the contents of its records: the argument of
/// `perf_event_open(2)`.
#[derive(Clone, Copy)]
pub struct Attr(perf_event_attr);

/// Reason why a field could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownField {
    /// `perf_event_attr` has no such field; the nearest names, best first, at most three.
    #[error("no perf_event_attr field '{name}'{}", did_you_mean(.nearest))]
    Name {
        /// The requested name.
        name: String,
        /// The nearest names.
        nearest: Vec<&'static str>,
    },
    /// The field has too few bits for the value.
    #[error("{value} does not fit perf_event_attr field '{name}'; its largest value is {max}")]
    Value {
        /// The field.
        name: &'static str,
        /// The requested value.
        value: u64,
        /// The largest value that fits.
        max: u64,
    },
}

impl Attr {
    /// Returns the attr of a tracepoint, given the number in its `id` file.
    pub fn tracepoint(id: u64) -> Attr {
        Attr::counter(bindings::PERF_TYPE_TRACEPOINT, id)
    }

    /// Returns the attr of a software event, one of `PERF_COUNT_SW_*`.
    pub fn software(config: u64) -> Attr {
        Attr::counter(bindings::PERF_TYPE_SOFTWARE, config)
    }

    /// Returns the attr of any event, given the number of its PMU
    /// (`/sys/bus/event_source/devices/*/type`) and its configuration.
    pub fn counter(pmu_type: u32, config: u64) -> Attr {
        Attr(perf_event_attr {
            type_: pmu_type,
            config,
            size: size_of::<perf_event_attr>() as u32,
            ..perf_event_attr::default()
        })
    }

    /// Sets a field by its kernel name.
    ///
    /// # Errors
    /// The name is unknown, or the value needs more bits than the field has.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), UnknownField> {
        let Some(field) = field(name) else {
            let nearest = nearest(name, Attr::names());
            return Err(UnknownField::Name { name: name.to_owned(), nearest });
        };
        let max = u64::MAX >> (64 - u32::from(field.bits));
        if value > max {
            return Err(UnknownField::Value { name: field.name, value, max });
        }
        (field.set)(&mut self.0, value);
        match field.name {
            "sample_freq" => self.0.set_freq(1),
            "sample_period" => self.0.set_freq(0),
            "wakeup_watermark" => self.0.set_watermark(1),
            "wakeup_events" => self.0.set_watermark(0),
            _ => {}
        }
        Ok(())
    }

    /// Returns a field by its kernel name; None if there is no such field.
    pub fn get(&self, name: &str) -> Option<u64> {
        Some((field(name)?.get)(&self.0))
    }

    /// Returns the fields that are not zero, in the kernel's order; of a union, only the active
    /// member.
    pub fn nonzero(&self) -> Vec<(&'static str, u64)> {
        let values = FIELDS.iter().map(|f| (f.name, (f.get)(&self.0)));
        values.filter(|(name, value)| *value != 0 && self.in_force(name)).collect()
    }

    /// Returns the structure, for changes in place.
    pub fn raw(&mut self) -> &mut perf_event_attr {
        &mut self.0
    }

    /// Returns the structure.
    pub fn as_raw(&self) -> &perf_event_attr {
        &self.0
    }

    /// Returns the names of all fields, in the kernel's order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        FIELDS.iter().map(|f| f.name)
    }

    /// Returns the non-zero fields beyond `size` bytes, which a kernel with a smaller structure
    /// refuses.
    pub(super) fn nonzero_beyond(&self, size: u32) -> Vec<&'static str> {
        let beyond = FIELDS.iter().filter(|f| f.offset >= size as usize);
        beyond.filter(|f| (f.get)(&self.0) != 0 && self.in_force(f.name)).map(|f| f.name).collect()
    }

    /// Returns whether a union's member is the active one; true for a field outside of unions.
    fn in_force(&self, name: &str) -> bool {
        let breakpoint = self.0.type_ == bindings::PERF_TYPE_BREAKPOINT;
        match name {
            "sample_freq" => self.0.freq() == 1,
            "sample_period" => self.0.freq() == 0,
            "wakeup_watermark" => self.0.watermark() == 1,
            "wakeup_events" => self.0.watermark() == 0,
            "bp_addr" | "bp_len" => breakpoint,
            "config1" | "config2" => !breakpoint,
            // Other names of config1 and config2, and of the three aux bits.
            "kprobe_func" | "uprobe_path" | "kprobe_addr" | "probe_offset" | "aux_action" => false,
            _ => true,
        }
    }
}

impl std::fmt::Debug for Attr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.nonzero()).finish()
    }
}

fn field(name: &str) -> Option<&'static AttrField> {
    FIELDS.iter().find(|f| f.name == name)
}

struct AttrField {
    name: &'static str,
    bits: u8,
    /// Offset, in bytes, of the integer that contains the field.
    offset: usize,
    get: fn(&perf_event_attr) -> u64,
    set: fn(&mut perf_event_attr, u64),
}

/// A whole integer; a union's member also names its union.
macro_rules! integer {
    ($name:ident: $type:ty) => {
        integer!(stringify!($name), $name: $type, in $name)
    };
    ($name:ident: $type:ty, in $place:ident) => {
        integer!(stringify!($name), $name: $type, in $place)
    };
    ($name:expr, $member:ident: $type:ty, in $place:ident) => {
        AttrField {
            name: $name,
            bits: <$type>::BITS as u8,
            offset: offset_of!(perf_event_attr, $place),
            get: |attr| attr.$member as u64,
            set: |attr, value| attr.$member = value as $type,
        }
    };
}

/// A bit field of the flags.
macro_rules! bit {
    ($get:ident, $set:ident) => {
        bit!($get, $set, 1)
    };
    ($get:ident, $set:ident, $bits:literal) => {
        AttrField {
            name: stringify!($get),
            bits: $bits,
            offset: offset_of!(perf_event_attr, _bitfield_1),
            get: |attr| attr.$get(),
            set: |attr, value| attr.$set(value),
        }
    };
}

/// A bit of the aux_action union.
macro_rules! aux_bit {
    ($get:ident, $set:ident) => {
        AttrField {
            name: stringify!($get),
            bits: 1,
            offset: offset_of!(perf_event_attr, __bindgen_anon_5),
            // SAFETY: both members of the union are 32 plain bits, so that either may be read.
            get: |attr| u64::from(unsafe { attr.__bindgen_anon_5.__bindgen_anon_1.$get() }),
            // SAFETY: the bit lies within the 32 plain bits of the union, all of which are valid.
            set: |attr, value| unsafe { attr.__bindgen_anon_5.__bindgen_anon_1.$set(value as u32) },
        }
    };
}

/// Every field that is not reserved, in the order of the structure.
const FIELDS: &[AttrField] = &[
    integer!("type", type_: u32, in type_),
    integer!(size: u32),
    integer!(config: u64),
    integer!(sample_period: u64, in __bindgen_anon_1),
    integer!(sample_freq: u64, in __bindgen_anon_1),
    integer!(sample_type: u64),
    integer!(read_format: u64),
    bit!(disabled, set_disabled),
    bit!(inherit, set_inherit),
    bit!(pinned, set_pinned),
    bit!(exclusive, set_exclusive),
    bit!(exclude_user, set_exclude_user),
    bit!(exclude_kernel, set_exclude_kernel),
    bit!(exclude_hv, set_exclude_hv),
    bit!(exclude_idle, set_exclude_idle),
    bit!(mmap, set_mmap),
    bit!(comm, set_comm),
    bit!(freq, set_freq),
    bit!(inherit_stat, set_inherit_stat),
    bit!(enable_on_exec, set_enable_on_exec),
    bit!(task, set_task),
    bit!(watermark, set_watermark),
    bit!(precise_ip, set_precise_ip, 2),
    bit!(mmap_data, set_mmap_data),
    bit!(sample_id_all, set_sample_id_all),
    bit!(exclude_host, set_exclude_host),
    bit!(exclude_guest, set_exclude_guest),
    bit!(exclude_callchain_kernel, set_exclude_callchain_kernel),
    bit!(exclude_callchain_user, set_exclude_callchain_user),
    bit!(mmap2, set_mmap2),
    bit!(comm_exec, set_comm_exec),
    bit!(use_clockid, set_use_clockid),
    bit!(context_switch, set_context_switch),
    bit!(write_backward, set_write_backward),
    bit!(namespaces, set_namespaces),
    bit!(ksymbol, set_ksymbol),
    bit!(bpf_event, set_bpf_event),
    bit!(aux_output, set_aux_output),
    bit!(cgroup, set_cgroup),
    bit!(text_poke, set_text_poke),
    bit!(build_id, set_build_id),
    bit!(inherit_thread, set_inherit_thread),
    bit!(remove_on_exec, set_remove_on_exec),
    bit!(sigtrap, set_sigtrap),
    bit!(defer_callchain, set_defer_callchain),
    bit!(defer_output, set_defer_output),
    integer!(wakeup_events: u32, in __bindgen_anon_2),
    integer!(wakeup_watermark: u32, in __bindgen_anon_2),
    integer!(bp_type: u32),
    integer!(bp_addr: u64, in __bindgen_anon_3),
    integer!(kprobe_func: u64, in __bindgen_anon_3),
    integer!(uprobe_path: u64, in __bindgen_anon_3),
    integer!(config1: u64, in __bindgen_anon_3),
    integer!(bp_len: u64, in __bindgen_anon_4),
    integer!(kprobe_addr: u64, in __bindgen_anon_4),
    integer!(probe_offset: u64, in __bindgen_anon_4),
    integer!(config2: u64, in __bindgen_anon_4),
    integer!(branch_sample_type: u64),
    integer!(sample_regs_user: u64),
    integer!(sample_stack_user: u32),
    // Signed in the kernel; its values are small and positive (CLOCK_*), and its bits are kept as
    // they are.
    AttrField {
        name: "clockid",
        bits: 32,
        offset: offset_of!(perf_event_attr, clockid),
        get: |attr| u64::from(attr.clockid.cast_unsigned()),
        set: |attr, value| attr.clockid = (value as u32).cast_signed(),
    },
    integer!(sample_regs_intr: u64),
    integer!(aux_watermark: u32),
    integer!(sample_max_stack: u16),
    integer!(aux_sample_size: u32),
    integer!(aux_action: u32, in __bindgen_anon_5),
    aux_bit!(aux_start_paused, set_aux_start_paused),
    aux_bit!(aux_pause, set_aux_pause),
    aux_bit!(aux_resume, set_aux_resume),
    integer!(sig_data: u64),
    integer!(config3: u64),
    integer!(config4: u64),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_keeps_its_largest_value() {
        for field in FIELDS {
            let max = u64::MAX >> (64 - u32::from(field.bits));
            let mut attr = Attr::tracepoint(1);
            attr.set(field.name, max).unwrap();
            assert_eq!(attr.get(field.name), Some(max), "{}", field.name);
            if max < u64::MAX {
                let refused = attr.set(field.name, max + 1);
                assert!(matches!(refused, Err(UnknownField::Value { .. })), "{}", field.name);
            }
        }
    }

    #[test]
    fn fields_outside_unions_do_not_touch_each_other() {
        // Each name with the names that share its bits or are set with it.
        let shared: &[&[&str]] = &[
            &["sample_period", "sample_freq", "freq"],
            &["wakeup_events", "wakeup_watermark", "watermark"],
            &["bp_addr", "kprobe_func", "uprobe_path", "config1"],
            &["bp_len", "kprobe_addr", "probe_offset", "config2"],
            &["aux_action", "aux_start_paused", "aux_pause", "aux_resume"],
        ];
        let share = |a, b| a == b || shared.iter().any(|s| s.contains(&a) && s.contains(&b));
        for set in FIELDS {
            let mut attr = Attr(perf_event_attr::default());
            attr.set(set.name, 1).unwrap();
            for other in FIELDS.iter().filter(|f| !share(f.name, set.name)) {
                assert_eq!(attr.get(other.name), Some(0), "{} changed {}", set.name, other.name);
            }
        }
    }

    #[test]
    fn the_table_covers_every_bit_of_the_flags() {
        let flags = offset_of!(perf_event_attr, _bitfield_1);
        let named = || FIELDS.iter().filter(|f| f.offset == flags);
        let mut attr = perf_event_attr::default();
        named().for_each(|field| (field.set)(&mut attr, u64::MAX));
        let bits: u32 = named().map(|field| u32::from(field.bits)).sum();
        assert_eq!(attr._bitfield_1.get(0, 64).count_ones(), bits, "each bit has one name");
        attr.set___reserved_1(u64::MAX);
        assert_eq!(attr._bitfield_1.get(0, 64), u64::MAX, "every bit has a name");
    }

    #[test]
    fn an_unknown_name_suggests_similar_ones() {
        let error = Attr::software(1).set("sample_perod", 1).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with(
                "no perf_event_attr field 'sample_perod'; did you mean 'sample_period'"
            ),
            "{text}"
        );
        assert_eq!(
            Attr::software(1).set("zzz", 1).unwrap_err().to_string(),
            "no perf_event_attr field 'zzz'"
        );
    }

    #[test]
    fn only_the_member_in_force_is_printed() {
        let mut attr = Attr::software(0);
        attr.set("sample_freq", 99).unwrap();
        attr.set("wakeup_watermark", 4096).unwrap();
        let size = size_of::<perf_event_attr>() as u64;
        assert_eq!(
            attr.nonzero(),
            [
                ("type", 1),
                ("size", size),
                ("sample_freq", 99),
                ("freq", 1),
                ("watermark", 1),
                ("wakeup_watermark", 4096)
            ]
        );
        attr.set("sample_period", 7).unwrap();
        assert_eq!(attr.get("freq"), Some(0));

        let mut breakpoint = Attr::counter(bindings::PERF_TYPE_BREAKPOINT, 0);
        breakpoint.set("bp_addr", 0x1000).unwrap();
        assert!(breakpoint.nonzero().contains(&("bp_addr", 0x1000)));
        assert!(!breakpoint.nonzero().iter().any(|(name, _)| *name == "config1"));
    }
}
