//! Profiles for the Firefox Profiler (<https://profiler.firefox.com>).
//!
//! Each table is a thread, and each of its stacks a sample with a weight: the stacks are those of
//! the whole run, so the call tree and the flame graph have a meaning, and the time line does not.
//! Weights of 32 bits may need a larger unit. Then the sum of the weights is exact to one unit: the
//! remainder of a stack is carried to the next one. A stack whose weight becomes 0 is omitted, and
//! the name of the thread counts these.

use crate::base::report::draw::Stamp;
use crate::base::report::flame::{Flame, FrameKind};
use crate::base::text::units::counted;
use fxprof_processed_profile::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, ReferenceTimestamp,
    SamplingInterval, Timestamp, WeightType,
};
use std::io;
use std::time::Duration;

/// Returns the file of a run of `monitor` from `begin` to `end` with these tables: names and
/// stacks.
///
/// # Errors
/// The profile cannot be converted to JSON.
pub fn firefox(
    monitor: &str,
    tables: &[(&str, &Flame)],
    begin: Stamp,
    end: Stamp,
) -> io::Result<Vec<u8>> {
    let wall = Duration::from_nanos(begin.wall_ns.max(0).unsigned_abs());
    let reference = ReferenceTimestamp::from_duration_since_unix_epoch(wall);
    let mut profile = Profile::new("perilune", reference, SamplingInterval::from_millis(1));
    profile.set_os_name("Linux");
    let user = profile.add_category("User", CategoryColor::Yellow);
    let kernel = profile.add_category("Kernel", CategoryColor::Orange);
    let start = Timestamp::from_nanos_since_reference(0);
    let ended = end.wall_ns.saturating_sub(begin.wall_ns).max(0).unsigned_abs();
    let ended = Timestamp::from_nanos_since_reference(ended);
    let process = profile.add_process(monitor, 0, start);
    for (tid, (name, flame)) in (1..).zip(tables) {
        let unit = if flame.unit.is_empty() { "stacks" } else { &flame.unit };
        let (divisor, factor) = scale(flame);
        let thread = profile.add_thread(process, tid, start, false);
        if unit == "bytes" && divisor == 1 {
            profile.set_thread_samples_weight_type(thread, WeightType::Bytes);
        }
        let (mut rounding, mut omitted) = (CarriedRounding::new(divisor), OmittedStacks::default());
        for (frames, exact) in flame.stacks() {
            let weight = rounding.units(exact);
            if weight == 0 {
                omitted.add(exact);
                continue;
            }
            let mut infos = Vec::with_capacity(frames.len());
            for number in frames {
                let text = profile.intern_string(flame.name_of(*number));
                let is_kernel = flame.mark_of(*number) == FrameKind::Kernel;
                infos.push(FrameInfo {
                    frame: Frame::Label(text),
                    category_pair: if is_kernel { kernel } else { user }.into(),
                    flags: FrameFlags::empty(),
                });
            }
            let stack = profile.intern_stack_frames(thread, infos.into_iter());
            let weight = i32::try_from(weight).unwrap_or(i32::MAX);
            profile.add_sample(thread, ended, stack, CpuDelta::ZERO, weight);
        }
        let name = if name.is_empty() { monitor } else { name };
        let omitted = omitted.text(unit);
        profile.set_thread_name(thread, &format!("{name} ({factor}{unit}{omitted})"));
    }
    Ok(serde_json::to_vec(&profile)?)
}

/// Rounds weights to units so that their sum differs from the exact one by at most half a unit.
struct CarriedRounding {
    divisor: u128,
    exact: u128,
    units: u128,
}

impl CarriedRounding {
    fn new(divisor: u64) -> CarriedRounding {
        CarriedRounding { divisor: divisor.into(), exact: 0, units: 0 }
    }

    /// Returns the units of the next weight: at most those of the weight rounded up.
    fn units(&mut self, weight: u64) -> u64 {
        self.exact += u128::from(weight);
        let units = (self.exact + self.divisor / 2) / self.divisor;
        let added = units - std::mem::replace(&mut self.units, units);
        u64::try_from(added).unwrap_or(u64::MAX)
    }
}

/// Stacks whose weight is 0 after rounding.
#[derive(Default)]
struct OmittedStacks {
    stacks: u64,
    weight: u64,
}

impl OmittedStacks {
    fn add(&mut self, weight: u64) {
        // A stack without a weight is not a loss.
        self.stacks += u64::from(weight > 0);
        self.weight = self.weight.saturating_add(weight);
    }

    /// Returns a text for the name of a thread; empty if there are none.
    fn text(&self, unit: &str) -> String {
        match self.stacks {
            0 => String::new(),
            stacks => format!("; omitted {} of {} {unit}", counted(stacks, "stack"), self.weight),
        }
    }
}

/// Returns the divisor with which the largest weight fits the 32 bits of the format, and its text
/// before the unit.
fn scale(flame: &Flame) -> (u64, &'static str) {
    let most = flame.stacks().map(|(_, weight)| weight).max().unwrap_or(0);
    let scales = [(1, ""), (1000, "1000 "), (1_000_000, "1000000 ")];
    let fits = |divisor: u64| most.div_ceil(divisor) <= i32::MAX.unsigned_abs().into();
    scales.into_iter().find(|(divisor, _)| fits(*divisor)).unwrap_or((1 << 33, "2^33 "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Returns the profile's stacks as text, with their weights.
    fn stacks(profile: &Value) -> Vec<(String, i64)> {
        let thread = &profile["threads"][0];
        let strings = match &profile["shared"]["stringArray"] {
            Value::Null => &thread["stringArray"],
            shared => shared,
        };
        let number = |value: &Value| value.as_u64().map(|n| n as usize);
        let text = |stack: usize| {
            let (mut names, mut at) = (Vec::new(), Some(stack));
            while let Some(stack) = at {
                let frame = number(&thread["stackTable"]["frame"][stack]).unwrap();
                let function = number(&thread["frameTable"]["func"][frame]).unwrap();
                let name = number(&thread["funcTable"]["name"][function]).unwrap();
                names.push(strings[name].as_str().unwrap());
                at = number(&thread["stackTable"]["prefix"][stack]);
            }
            names.join(";")
        };
        let samples = thread["samples"]["stack"].as_array().unwrap().iter();
        let weights = thread["samples"]["weight"].as_array().unwrap().iter();
        samples.zip(weights).map(|(s, w)| (text(number(s).unwrap()), w.as_i64().unwrap())).collect()
    }

    fn profile(flame: &Flame) -> Value {
        let at = |wall_ns| Stamp { wall_ns, clock_ns: 0 };
        let file = firefox("profile", &[("", flame)], at(5_000_000_000), at(6_000_000_000));
        serde_json::from_slice(&file.unwrap()).unwrap()
    }

    #[test]
    fn a_profile_reads_back_with_its_stacks_and_weights() {
        let mut flame = Flame::new("", "samples");
        let main = flame.name("main", FrameKind::Plain);
        let irq = flame.name("irq", FrameKind::Kernel);
        flame.push(&[main], 7);
        flame.push(&[main, irq], 2);
        let read = profile(&flame);
        assert_eq!(stacks(&read), [("main".to_owned(), 7), ("irq;main".to_owned(), 2)]);
        assert_eq!(read["meta"]["startTime"], 5000.0);
        assert_eq!(read["threads"][0]["name"], "profile (samples)");
    }

    #[test]
    fn weights_beyond_32_bits_are_scaled_and_the_thread_names_the_unit() {
        let mut flame = Flame::new("", "ns");
        let main = flame.name("main", FrameKind::Plain);
        flame.push(&[main], 5_000_000_000);
        let read = profile(&flame);
        assert_eq!(stacks(&read), [("main".to_owned(), 5_000_000)]);
        assert_eq!(read["threads"][0]["name"], "profile (1000 ns)");
    }

    #[test]
    fn scaled_weights_add_up_and_stacks_below_a_unit_are_counted() {
        let mut flame = Flame::new("", "ns");
        let names = ["large", "a", "b", "c", "d"].map(|name| flame.name(name, FrameKind::Plain));
        for (name, weight) in names.iter().zip([5_000_000_000, 400, 400, 400, 300]) {
            flame.push(&[*name], weight);
        }
        let read = profile(&flame);
        // 5,000,001,500 ns: `b` brings the sum above half a unit, `d` to one and a half.
        let expected = [("large", 5_000_000), ("b", 1), ("d", 1)];
        assert_eq!(stacks(&read), expected.map(|(name, weight)| (name.to_owned(), weight)));
        let name = "profile (1000 ns; omitted 2 stacks of 800 ns)";
        assert_eq!(read["threads"][0]["name"], name);
    }

    #[test]
    fn the_sum_of_rounded_weights_is_exact_to_half_a_unit() {
        for (weight, count) in [(1, 999), (499, 1000), (500, 7), (501, 1000), (1999, 333)] {
            let mut rounding = CarriedRounding::new(1000);
            let units: u64 = (0..count).map(|_| rounding.units(weight)).sum();
            assert_eq!(units, (weight * count + 500) / 1000, "{count} times {weight}");
        }
        assert_eq!(CarriedRounding::new(1).units(u64::MAX), u64::MAX);
    }
}
