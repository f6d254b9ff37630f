//! Profiles for pprof: a gzipped `perftools.profiles.Profile`, as
//! <https://github.com/google/pprof/blob/main/proto/profile.proto> defines it.
//!
//! Each table is a type of samples, so a sample has a value for its own table and 0 for the others.
//! Frames are functions without addresses: they were named when they were recorded.

use super::profile::{StringTable, sample_type};
use crate::base::report::draw::Stamp;
use crate::base::report::flame::{Flame, FrameKind};
use flate2::{Compression, write::GzEncoder};
use prost::Message;
use std::collections::HashMap;
use std::io::{self, Write as _};

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueKind>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<WeightedSample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<NamedFunction>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
}

/// `ValueType`: indexes of strings.
#[derive(Clone, PartialEq, Message)]
struct ValueKind {
    #[prost(int64, tag = "1")]
    name: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

/// `Sample`: locations innermost first, and a value for each type.
#[derive(Clone, PartialEq, Message)]
struct WeightedSample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<FunctionLine>,
}

/// `Line`.
#[derive(Clone, PartialEq, Message)]
struct FunctionLine {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

/// `Function`.
#[derive(Clone, PartialEq, Message)]
struct NamedFunction {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}

/// Mappings that frames belong to: pprof shows their names beside the functions.
const MAPPINGS: [&str; 2] = ["[user]", "[kernel]"];

/// Returns the file of a run from `begin` to `end` with these tables: names and stacks.
///
/// # Errors
/// The compression failed.
pub fn pprof(tables: &[(&str, &Flame)], begin: Stamp, end: Stamp) -> io::Result<Vec<u8>> {
    let profile = profile(tables, begin, end);
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(&profile.encode_to_vec())?;
    out.finish()
}

fn profile(tables: &[(&str, &Flame)], begin: Stamp, end: Stamp) -> Profile {
    let mut strings = StringTable::default();
    let mut profile = Profile {
        time_nanos: begin.wall_ns,
        duration_nanos: end.wall_ns.saturating_sub(begin.wall_ns),
        ..Profile::default()
    };
    for (id, name) in (1..).zip(MAPPINGS) {
        let filename = strings.index(name) as i64;
        profile.mapping.push(Mapping { id, filename, has_functions: true });
    }
    let mut locations: HashMap<(i64, bool), u64> = HashMap::new();
    for (at, (name, flame)) in tables.iter().enumerate() {
        let (name, unit) = sample_type(name, flame);
        let kind = ValueKind { name: strings.index(name) as i64, unit: strings.index(unit) as i64 };
        profile.sample_type.push(kind);
        for (frames, weight) in flame.stacks() {
            let mut location_id = Vec::with_capacity(frames.len());
            for frame in frames.iter().rev() {
                let kernel = flame.mark_of(*frame) == FrameKind::Kernel;
                let name = strings.index(flame.name_of(*frame)) as i64;
                let next = locations.len() as u64 + 1;
                let id = *locations.entry((name, kernel)).or_insert(next);
                if id == next {
                    profile.function.push(NamedFunction { id, name, system_name: name });
                    let line = vec![FunctionLine { function_id: id }];
                    let mapping_id = 1 + u64::from(kernel);
                    profile.location.push(Location { id, mapping_id, line });
                }
                location_id.push(id);
            }
            let mut value = vec![0; tables.len()];
            if let Some(value) = value.get_mut(at) {
                *value = i64::try_from(weight).unwrap_or(i64::MAX);
            }
            profile.sample.push(WeightedSample { location_id, value });
        }
    }
    profile.string_table = strings.into_strings();
    profile
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn a_profile_reads_back_with_its_stacks_and_weights() {
        let mut cpu = Flame::new("", "samples");
        let [main, work, irq] = [
            cpu.name("main", FrameKind::Plain),
            cpu.name("work", FrameKind::Plain),
            cpu.name("work", FrameKind::Kernel),
        ];
        cpu.push(&[main, work], 3);
        cpu.push(&[main, irq], 2);
        let mut heap = Flame::new("", "bytes");
        let main = heap.name("main", FrameKind::Plain);
        heap.push(&[main], 4096);
        let begin = Stamp { wall_ns: 1_000_000_000, clock_ns: 0 };
        let end = Stamp { wall_ns: 3_500_000_000, clock_ns: 0 };
        let file = pprof(&[("cpu", &cpu), ("heap", &heap)], begin, end).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&file[..]).read_to_end(&mut bytes).unwrap();
        let read = Profile::decode(&bytes[..]).unwrap();
        assert_eq!((read.time_nanos, read.duration_nanos), (1_000_000_000, 2_500_000_000));
        let text = |index: i64| read.string_table[index as usize].as_str();
        assert_eq!(text(0), "");
        let kinds: Vec<_> = read.sample_type.iter().map(|k| (text(k.name), text(k.unit))).collect();
        assert_eq!(kinds, [("cpu", "count"), ("heap", "bytes")]);
        let frame = |id: &u64| {
            let location = read.location.iter().find(|l| l.id == *id).unwrap();
            let function = location.line[0].function_id;
            let function = read.function.iter().find(|f| f.id == function).unwrap();
            let mapping = read.mapping.iter().find(|m| m.id == location.mapping_id).unwrap();
            format!("{} {}", text(function.name), text(mapping.filename))
        };
        let samples: Vec<_> = (read.sample.iter())
            .map(|s| (s.location_id.iter().map(frame).collect::<Vec<_>>().join(";"), &s.value[..]))
            .collect();
        assert_eq!(
            samples,
            [
                ("work [user];main [user]".to_owned(), &[3, 0][..]),
                ("work [kernel];main [user]".to_owned(), &[2, 0]),
                ("main [user]".to_owned(), &[0, 4096]),
            ]
        );
    }
}
