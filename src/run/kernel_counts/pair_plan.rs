//! Plans which pairs of a script the kernel measures.

use super::Reason;
use super::count_plan::{CountPlan, LATE_NAMES, may_mix, text_part};
use crate::bpf::count::{CountedEvent, ScopedTask};
use crate::bpf::integer::{IntegerNode, IntegerWidth};
use crate::bpf::key::{KeyPart, KeyShape};
use crate::bpf::pair::layout::PairLayout;
use crate::bpf::pair::{self, EndedThread, PairCount, PairMaps, PairPart, PairedEvent};
use crate::decode::format::Format;
use crate::event::catalog;
use crate::event::expr::in_kernel::KernelExpr;
use crate::event::kind::Event;
use crate::event::selector::Selector;
use crate::run::catalog::MachineCatalog;
use crate::script::evsel::declared_pairs::{DeclaredPairs, PairMoment, PairSide};
use crate::script::evsel::role::Role;
use crate::script::host::Host;
use crate::source::counting::CountedRole;
use crate::source::counting::pairs::{PairRole, PairTable};
use crate::source::written_pairs::WrittenSide;

/// The events at which the start of a thread is removed.
const EXIT: &str = "sched:sched_process_exit";
const NEW_TASK: &str = "task:task_newtask";

/// The event with which a thread leaves a CPU, also after its end.
const SWITCH: &str = "sched:sched_switch";

/// Events of pairs while they are planned.
pub(super) struct PairPlan<'a> {
    pub(super) declared: &'a DeclaredPairs,
    pub(super) layout: PairLayout,
    /// The types of the kept values that are summed.
    pub(super) kept_types: Vec<Option<IntegerWidth>>,
    roles: Vec<PairRole>,
    /// The sides of long delays.
    pub(super) sides: Vec<WrittenSide>,
    /// Whether an event removes starts that began after the end of their thread.
    pub(super) removes_ended: bool,
    /// Whether the run has `--where auto`. The kernel then pairs only what has the same result as
    /// records.
    pub(super) is_auto: bool,
}

/// An event of pairs.
#[derive(Clone, Copy)]
pub(super) struct PlannedSide<'a> {
    pub(super) side: &'a PairSide,
    /// Its number among the starts and the ends behind them.
    pub(super) number: usize,
    /// Its role; a side has several if a glob selects its events.
    pub(super) role: usize,
}

/// Plans the part of an event.
type PlannedPart<'a> =
    fn(&mut PairPlan<'a>, of: PlannedSide<'_>, format: &Format) -> Result<PairPart, Reason>;

impl CountPlan<'_> {
    /// Returns the roles of pairs.
    pub(super) fn roles_of_pairs(host: &Host, declared: &DeclaredPairs) -> Vec<usize> {
        declared.sides().flat_map(|side| host.roles_of_side(side)).collect()
    }

    /// Plans pairs; all of their events are taken in the same place.
    pub(super) fn pairs(&self, host: &Host, declared: &DeclaredPairs) -> Result<PairTable, Reason> {
        if let Some(why) = &declared.needs {
            return Err(why.clone());
        }
        if declared.histogram.as_ref().is_some_and(|(table, _)| !host.counts_delays(*table)) {
            return Err("a linear histogram".to_owned());
        }
        self.check_long(host, declared)?;
        let mut plan = PairPlan {
            declared,
            layout: PairLayout::default(),
            kept_types: Vec::new(),
            sides: Vec::new(),
            roles: Vec::new(),
            removes_ended: false,
            is_auto: self.is_auto(),
        };
        // The kept values must be known before the ends, which run first if both are one event.
        let parts: [(&[PairSide], bool, PlannedPart<'_>); 3] = [
            (&declared.starts, true, PairPlan::start),
            (&declared.drops, false, PairPlan::drop_start),
            (&declared.finishes, false, PairPlan::finish),
        ];
        for (sides, are_starts, plan_part) in parts {
            let mut planned = Vec::new();
            let before = if are_starts { 0 } else { declared.starts.len() };
            for (number, side) in (before..).zip(sides) {
                for role in host.roles_of_side(side) {
                    let of_event = |why| format!("{}: {why}", self.roles[role].event.name);
                    let event = self.side(declared, side, role, are_starts).map_err(of_event)?;
                    let format = event.event.format().ok_or("it is not a tracepoint")?;
                    let of = PlannedSide { side, number, role };
                    let part = plan_part(&mut plan, of, format).map_err(of_event)?;
                    planned.push(PairRole { part, role: event });
                }
            }
            plan.roles.splice(0..0, planned);
        }
        let table = plan.table()?;
        let PairLayout { row, counts, .. } = &table.layout;
        let has_cgroup = row.has_cgroup() || counts.iter().any(|count| count.key.has_cgroup());
        match has_cgroup && self.is_auto() {
            true => Err(LATE_NAMES.to_owned()),
            false => Ok(table),
        }
    }

    /// Plans an event of a start, or of another side.
    fn side(
        &self,
        declared: &DeclaredPairs,
        side: &PairSide,
        index: usize,
        is_start: bool,
    ) -> Result<CountedRole, Reason> {
        let Role { event, task, .. } = &self.roles[index];
        let all_tasks = self.roles[index].sampling.all_tasks;
        let watched = task.as_ref().filter(|_| self.source.tasks.is_some());
        let counts_singles = declared.counts.iter().any(|count| count.of == PairMoment::Single);
        let needs_start = !counts_singles && !declared.strict;
        let mut role = self.event(index, |format| {
            let scoped = match watched {
                Some(task) if is_start || declared.strict => {
                    ScopedTask::About(integer(task, format)?)
                }
                // There is a start only if its task is watched.
                Some(task) if is_of(task, side) && needs_start => ScopedTask::Any,
                None if all_tasks && !is_start && needs_start => ScopedTask::Any,
                _ => ScopedTask::Current,
            };
            let may_cut = may_cut(declared, self.is_auto());
            let key = side.keys.iter().map(|text| part(text, format, may_cut));
            let key = key.collect::<Result<_, _>>()?;
            Ok(CountedEvent { key, scoped, ..CountedEvent::default() })
        })?;
        let may_miss = !is_of_calls(&event.name) && *event.name != *SWITCH;
        if declared.than_ns.is_some() {
            self.check_copied(index)?;
        }
        role.place.only_raw = side.value.is_none() && self.is_auto() && may_miss;
        if role.place.only_raw && role.place.raw.as_ref().is_none_or(|raw| raw.context.nests()) {
            return Err(MAY_BE_MISSED.to_owned());
        }
        if side.once && role.counted.cpus.is_some() {
            return Err("an earlier start may have ended on another CPU".to_owned());
        }
        if let Some(text) = &side.condition {
            let format = role.event.format().ok_or("it is not a tracepoint")?;
            role.counted.conditions.push(integer(text, format)?);
        }
        Ok(role)
    }
}

impl PairPlan<'_> {
    /// Returns a part of a key of this plan.
    pub(super) fn part(&self, text: &str, format: &Format) -> Result<KeyPart, Reason> {
        part(text, format, may_cut(self.declared, self.is_auto))
    }

    fn table(mut self) -> Result<PairTable, Reason> {
        let keys: Vec<&[KeyPart]> =
            self.roles.iter().map(|role| &role.role.counted.key[..]).collect();
        let all =
            |node: IntegerNode| keys.iter().all(|key| **key == [KeyPart::Integer(node.clone())]);
        let is_by_cpu = all(IntegerNode::Cpu);
        // The last switch of a thread comes after its sched_process_exit: its start would remain.
        let may_outlive = |role: &PairRole| {
            matches!(role.part, PairPart::Start(_)) && !is_of_calls(&role.role.event.name)
        };
        let outlives_thread = self.declared.threads
            && !is_by_cpu
            && !self.removes_ended
            && self.roles.iter().any(may_outlive);
        if self.is_auto && outlives_thread {
            return Err(
                "a start may remain after the end of its thread; use --where kernel".to_owned()
            );
        }
        self.layout.in_place =
            is_by_cpu || self.declared.threads && (self.removes_ended || all(IntegerNode::Thread));
        if self.declared.strict && !self.layout.in_place {
            return Err("`strict` needs the CPU or the thread as the key".to_owned());
        }
        for key in keys {
            self.layout.pair = shape(&self.layout.pair, KeyShape::of(key))?;
        }
        self.find_constants();
        if !pair::fits(&self.layout) {
            let further = if self.layout.long.is_some() { " with what --than prints" } else { "" };
            return Err(format!("its keys{further} are too large"));
        }
        self.place_programs()?;
        let mut ends = Vec::new();
        if self.declared.threads {
            ends.push((tracepoint(EXIT)?, EndedThread::Current));
            if outlives_thread {
                let new_task = tracepoint(NEW_TASK)?;
                let pid = new_task.format().and_then(|format| format.offset_of("pid", 4));
                let at = pid.and_then(|pid| i16::try_from(pid).ok());
                ends.push((new_task, EndedThread::Before(at.ok_or("task_newtask has no pid")?)));
            }
        }
        let room = self.declared.room;
        let PairPlan { layout, roles, sides, .. } = self;
        Ok(PairTable { layout, is_by_cpu, room, roles, ends, sides })
    }
}

impl PairPlan<'_> {
    /// Finds the sums to which each event adds the same, so that they need not be stored.
    fn find_constants(&mut self) {
        for (number, layout) in self.layout.counts.iter_mut().enumerate() {
            let all = self.roles.iter().flat_map(|role| role.part.counts());
            let all: Vec<_> = all.filter(|count| count.number == number).collect();
            for column in 0..layout.sums {
                let constant = |count: &&PairCount| count.sums.get(column)?.constant();
                if let Some(one) = all.first().and_then(constant)
                    && all.iter().all(|count| constant(count) == Some(one))
                {
                    layout.constants.push((column, one));
                }
            }
        }
    }

    /// Decides whether the programs run at raw tracepoints.
    fn place_programs(&mut self) -> Result<(), Reason> {
        let places: Vec<_> = self.roles.iter().map(|role| &role.role.place).collect();
        if may_mix(&places) && !self.has_separate_requests() {
            self.roles.iter_mut().for_each(|role| role.role.place.raw = None);
        }
        let layout = &self.layout;
        for PairRole { role, part } in self.roles.iter().filter(|role| role.role.place.only_raw) {
            let paired = PairedEvent { event: role.counted.clone(), part: part.clone() };
            let code = || paired.program(layout, PairMaps::default(), |_, _| {});
            match &role.place.raw {
                None => return Err(format!("{}: {MAY_BE_MISSED}", role.event.name)),
                Some(raw) if code().and_then(|code| raw.record.before(&code)).is_none() => {
                    let why = "it reads a field that has no fixed place at the raw tracepoint";
                    return Err(format!("{}: {why}; use --where kernel", role.event.name));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Returns whether the events are those of block requests, whose programs do not change the
    /// same values: no request is issued and completed at once, and each part has one program.
    fn has_separate_requests(&self) -> bool {
        let is_of_block = |role: &PairRole| role.role.event.name.starts_with("block:");
        let parts: Vec<_> =
            self.roles.iter().map(|role| std::mem::discriminant(&role.part)).collect();
        let has_one_each = (1..parts.len()).all(|i| !parts[..i].contains(&parts[i]));
        !self.layout.in_place
            && self.layout.counts.is_empty()
            && has_one_each
            && self.roles.iter().all(is_of_block)
    }
}

/// Why an event is not paired in the kernel by default.
const MAY_BE_MISSED: &str = "it may hit another BPF program and be missed; use --where kernel";

/// Returns whether an event only happens where no program runs on the CPU.
fn is_of_calls(name: &str) -> bool {
    ["raw_syscalls:", "syscalls:"].iter().any(|system| name.starts_with(system))
}

/// Returns whether an end, or the event that drops a start, is of the task of its start.
fn is_of(task: &str, side: &PairSide) -> bool {
    side.keys == [task] || side.same.as_deref() == Some(task)
}

/// Returns the shape of a key; all keys of a map have the same.
pub(super) fn shape(known: &KeyShape, new: KeyShape) -> Result<KeyShape, Reason> {
    match known.parts.is_empty() || *known == new {
        true => Ok(new),
        false => Err("its keys differ in size or type".to_owned()),
    }
}

/// Returns whether pairs accept texts that the kernel cuts.
fn may_cut(declared: &DeclaredPairs, is_auto: bool) -> bool {
    declared.cut_texts || !is_auto
}

/// Returns a part of a key; `may_cut` is as for [`text_part`].
fn part(text: &str, format: &Format, may_cut: bool) -> Result<KeyPart, Reason> {
    Ok(match KernelExpr::parse(text, format).map_err(|why| why.to_string())? {
        KernelExpr::Integer(node, _) => KeyPart::Integer(node),
        KernelExpr::Text(text) => text_part(text, may_cut)?,
        KernelExpr::Cgroup(text) => KeyPart::Cgroup(text),
        KernelExpr::Chain => return Err("a stack".to_owned()),
    })
}

pub(super) fn integer(text: &str, format: &Format) -> Result<IntegerNode, Reason> {
    typed_integer(text, format).map(|(node, _)| node)
}

/// Returns an expression whose values have no sign.
pub(super) fn unsigned(text: &str, format: &Format) -> Result<IntegerNode, Reason> {
    match typed_integer(text, format)? {
        (_, IntegerWidth { signed: true, .. }) => Err(format!("`{text}` may be negative")),
        (node, _) => Ok(node),
    }
}

pub(super) fn typed_integer(
    text: &str,
    format: &Format,
) -> Result<(IntegerNode, IntegerWidth), Reason> {
    match KernelExpr::parse(text, format).map_err(|why| why.to_string())? {
        KernelExpr::Integer(node, width) => Ok((node, width)),
        KernelExpr::Text(_) | KernelExpr::Cgroup(_) => Err(format!("`{text}`, a text")),
        KernelExpr::Chain => Err("a stack".to_owned()),
    }
}

fn tracepoint(name: &str) -> Result<Event, Reason> {
    let unknown = |_| format!("{name} is not available");
    let selector = Selector::parse_list(name).map_err(|_| name.to_owned())?;
    let selector = selector.first().ok_or(name)?;
    let found = catalog::expand(&MachineCatalog::default(), selector).map_err(unknown)?;
    found.first().map(|event| (**event).clone()).ok_or_else(|| name.to_owned())
}
