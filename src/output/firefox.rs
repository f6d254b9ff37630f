//! Profiles for the Firefox Profiler (<https://profiler.firefox.com>).
//!
//! Each table is a thread, and each of its stacks a sample with a weight: the stacks are those of
//! the whole run, so the call tree and the flame graph have a meaning, and the time line does not.

use crate::base::report::draw::Stamp;
use crate::base::report::flame::{Flame, FrameKind};
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
        let name = if name.is_empty() { monitor } else { name };
        let thread = profile.add_thread(process, tid, start, false);
        profile.set_thread_name(thread, &format!("{name} ({factor}{unit})"));
        if unit == "bytes" && divisor == 1 {
            profile.set_thread_samples_weight_type(thread, WeightType::Bytes);
        }
        for (frames, weight) in flame.stacks() {
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
            let weight = i32::try_from(weight.div_ceil(divisor)).unwrap_or(i32::MAX);
            profile.add_sample(thread, ended, stack, CpuDelta::ZERO, weight);
        }
    }
    Ok(serde_json::to_vec(&profile)?)
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
}
