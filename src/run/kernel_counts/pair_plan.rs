//! Plans which pairs of a script the kernel measures.

use super::Reason;
use super::count_plan::{CountPlan, LATE_NAMES};
use crate::bpf::count::CountedEvent;
use crate::bpf::integer::{IntegerNode, IntegerWidth};
use crate::bpf::key::{KeyPart, KeyShape};
use crate::bpf::pair::layout::PairLayout;
use crate::bpf::pair::{self, PairCount, PairFinish, PairPart, PairStart, RowPart};
use crate::decode::format::Format;
use crate::event::catalog;
use crate::event::expr::in_kernel::KernelExpr;
use crate::event::kind::Event;
use crate::event::selector::Selector;
use crate::run::catalog::MachineCatalog;
use crate::run::request::CountingPlace;
use crate::script::evsel::declared_pairs::{DeclaredPairs, KeptField, PairMoment, PairSide};
use crate::script::host::Host;
use crate::source::counting::CountedRole;
use crate::source::counting::pairs::{PairRole, PairTable};

/// The event at which the start of a thread is removed.
const EXIT: &str = "sched:sched_process_exit";

/// Events of pairs while they are planned.
struct PairPlan<'a> {
    declared: &'a DeclaredPairs,
    layout: PairLayout,
    roles: Vec<PairRole>,
}

impl CountPlan<'_> {
    /// Returns the roles of pairs.
    pub(super) fn roles_of_pairs(host: &Host, declared: &DeclaredPairs) -> Vec<usize> {
        let sides = declared.finishes.iter().chain(&declared.starts);
        sides.flat_map(|side| host.roles_of_side(side)).collect()
    }

    /// Plans pairs; all of their events are taken in the same place.
    pub(super) fn pairs(&self, host: &Host, declared: &DeclaredPairs) -> Result<PairTable, Reason> {
        if let Some(why) = &declared.needs {
            return Err(why.clone());
        }
        if declared.histogram.as_ref().is_some_and(|(table, _)| !host.counts_delays(*table)) {
            return Err("a linear histogram".to_owned());
        }
        let mut plan = PairPlan { declared, layout: PairLayout::default(), roles: Vec::new() };
        // The kept values must be known before the ends, which run first if both are one event.
        for (is_start, sides) in [(true, &declared.starts), (false, &declared.finishes)] {
            let mut planned = Vec::new();
            for side in sides {
                for role in host.roles_of_side(side) {
                    let of_event = |why| format!("{}: {why}", self.roles[role].event.name);
                    let event = self.side(side, role).map_err(of_event)?;
                    let format = event.event.format().ok_or("it is not a tracepoint")?;
                    let part = match is_start {
                        true => plan.start(side, format),
                        false => plan.finish(side, format),
                    };
                    planned.push(PairRole { part: part.map_err(of_event)?, role: event });
                }
            }
            plan.roles.splice(0..0, planned);
        }
        let table = plan.table()?;
        let PairLayout { row, counts, .. } = &table.layout;
        let has_cgroup = row.has_cgroup() || counts.iter().any(KeyShape::has_cgroup);
        match has_cgroup && self.settings.counting == CountingPlace::Auto {
            true => Err(LATE_NAMES.to_owned()),
            false => Ok(table),
        }
    }

    fn side(&self, side: &PairSide, index: usize) -> Result<CountedRole, Reason> {
        let name = &self.roles[index].event.name;
        let is_of_pair = side.value.is_none();
        if is_of_pair && self.settings.counting == CountingPlace::Auto && !is_of_calls(name) {
            return Err(
                "it may hit another BPF program and be missed; use --where kernel".to_owned()
            );
        }
        let mut role = self.event(index, |format| {
            let key = vec![part(&side.key, format)?];
            Ok(CountedEvent { key, ..CountedEvent::default() })
        })?;
        if let Some(text) = &side.condition {
            let format = role.event.format().ok_or("it is not a tracepoint")?;
            role.counted.conditions.push(integer(text, format)?);
        }
        Ok(role)
    }
}

impl PairPlan<'_> {
    fn start(&mut self, side: &PairSide, format: &Format) -> Result<PairPart, Reason> {
        let kept = self.declared.fields.iter().map(|field| {
            let text = match field {
                KeptField::Same => side.same.as_ref(),
                KeptField::Column(column) => side.rows.get(*column).and_then(Option::as_ref),
            };
            part(text.ok_or("a value is missing")?, format)
        });
        let kept = kept.collect::<Result<Vec<_>, Reason>>()?;
        let counts = self.counts(PairMoment::Start, format)?;
        self.layout.kept = shape(&self.layout.kept, KeyShape::of(&kept))?;
        Ok(PairPart::Start(PairStart { kept, counts }))
    }

    fn finish(&mut self, side: &PairSide, format: &Format) -> Result<PairPart, Reason> {
        let fields = &self.declared.fields;
        let kept = |wanted: KeptField| fields.iter().position(|field| *field == wanted);
        let mut row = Vec::new();
        for (column, text) in side.rows.iter().enumerate() {
            if !self.declared.present.get(column).copied().unwrap_or(false) {
                continue;
            }
            row.push(match (text, kept(KeptField::Column(column))) {
                (Some(text), None) => RowPart::Own(part(text, format)?),
                (None, Some(index)) => RowPart::Kept(index),
                _ => return Err("its ends have different columns".to_owned()),
            });
        }
        let same = match (&side.same, kept(KeptField::Same)) {
            (Some(text), Some(index)) => Some((integer(text, format)?, index)),
            _ => None,
        };
        let parts = row.iter().filter_map(|part| match part {
            RowPart::Own(part) => KeyShape::of(std::slice::from_ref(part)).parts.first().copied(),
            RowPart::Kept(index) => self.layout.kept.parts.get(*index).copied(),
        });
        self.layout.row = shape(&self.layout.row, KeyShape { parts: parts.collect() })?;
        let (counts, singles) =
            (self.counts(PairMoment::Pair, format)?, self.counts(PairMoment::Single, format)?);
        let longer_ns = self.declared.longer_ns;
        let value = side.value.as_ref().map(|text| unsigned(text, format)).transpose()?;
        Ok(PairPart::Finish(PairFinish { value, same, row, longer_ns, counts, singles }))
    }

    fn counts(&mut self, of: PairMoment, format: &Format) -> Result<Vec<PairCount>, Reason> {
        self.layout.counts.resize(self.declared.counts.len(), KeyShape::default());
        let all = self.declared.counts.iter().enumerate().filter(|(_, count)| count.of == of);
        let mut counts = Vec::new();
        for (number, count) in all {
            let key = count.keys.iter().map(|text| part(text, format));
            let key = key.collect::<Result<Vec<_>, Reason>>()?;
            let condition = count.condition.as_ref().map(|text| integer(text, format));
            if let Some(known) = self.layout.counts.get_mut(number) {
                *known = shape(known, KeyShape::of(&key))?;
            }
            counts.push(PairCount { number, condition: condition.transpose()?, key });
        }
        Ok(counts)
    }

    fn table(mut self) -> Result<PairTable, Reason> {
        let keys: Vec<&[KeyPart]> =
            self.roles.iter().map(|role| &role.role.counted.key[..]).collect();
        let all =
            |node: IntegerNode| keys.iter().all(|key| **key == [KeyPart::Integer(node.clone())]);
        let is_by_cpu = all(IntegerNode::Cpu);
        // The end of a thread must remove its start.
        self.layout.in_place = is_by_cpu || self.declared.threads && all(IntegerNode::Thread);
        for key in keys {
            self.layout.pair = shape(&self.layout.pair, KeyShape::of(key))?;
        }
        if !pair::fits(&self.layout) {
            return Err("its keys are too large".to_owned());
        }
        let exit = self.declared.threads.then(exit_event).transpose()?;
        Ok(PairTable { layout: self.layout, is_by_cpu, roles: self.roles, exit })
    }
}

/// Returns whether an event only happens where no program runs on the CPU.
fn is_of_calls(name: &str) -> bool {
    ["raw_syscalls:", "syscalls:"].iter().any(|system| name.starts_with(system))
}

/// Returns the shape of a key; all keys of a map have the same.
fn shape(known: &KeyShape, new: KeyShape) -> Result<KeyShape, Reason> {
    match known.parts.is_empty() || *known == new {
        true => Ok(new),
        false => Err("its keys differ in size or type".to_owned()),
    }
}

fn part(text: &str, format: &Format) -> Result<KeyPart, Reason> {
    Ok(match KernelExpr::parse(text, format).map_err(|why| why.to_string())? {
        KernelExpr::Integer(node, _) => KeyPart::Integer(node),
        KernelExpr::Text(text) => KeyPart::Text(text),
        KernelExpr::Cgroup(text) => KeyPart::Cgroup(text),
    })
}

fn integer(text: &str, format: &Format) -> Result<IntegerNode, Reason> {
    typed_integer(text, format).map(|(node, _)| node)
}

/// Returns an expression whose values have no sign.
fn unsigned(text: &str, format: &Format) -> Result<IntegerNode, Reason> {
    match typed_integer(text, format)? {
        (_, IntegerWidth { signed: true, .. }) => Err(format!("`{text}` may be negative")),
        (node, _) => Ok(node),
    }
}

fn typed_integer(text: &str, format: &Format) -> Result<(IntegerNode, IntegerWidth), Reason> {
    match KernelExpr::parse(text, format).map_err(|why| why.to_string())? {
        KernelExpr::Integer(node, width) => Ok((node, width)),
        KernelExpr::Text(_) | KernelExpr::Cgroup(_) => Err(format!("`{text}`, a text")),
    }
}

fn exit_event() -> Result<Event, Reason> {
    let unknown = |_| format!("{EXIT} is not available");
    let selector = Selector::parse_list(EXIT).map_err(|_| EXIT.to_owned())?;
    let selector = selector.first().ok_or(EXIT)?;
    let found = catalog::expand(&MachineCatalog::default(), selector).map_err(unknown)?;
    found.first().map(|event| (**event).clone()).ok_or_else(|| EXIT.to_owned())
}
