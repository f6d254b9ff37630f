//! Profiles: the stacks of an interval. The signal is alpha in OTLP, and its definition may change.
//!
//! Frames were named when they were recorded, so a location has a function and no address. The
//! first entry of each table is the empty one that the format requires.

use super::super::profile::{StringTable, sample_type};
use super::{Any, OtlpResource, scope};
use crate::base::report::flame::{Flame, FrameKind};
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Line, Link, Location, Mapping, Profile, ProfilesDictionary,
    ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
};
use prost::Message as _;
use std::collections::HashMap;

/// The attribute of a location that separates kernel and user functions, by the semantic
/// conventions of OpenTelemetry.
const FRAME_TYPE: &str = "profile.frame.type";

/// The stacks of a table in an interval.
pub struct OtlpProfile<'a> {
    /// The table's name.
    pub table: &'a str,
    /// Its stacks.
    pub flame: &'a Flame,
    /// Begin of the interval: nanoseconds since 1970.
    pub begin_ns: u64,
    /// Its end; equal to the begin if the stacks are a current state.
    pub end_ns: u64,
}

/// Returns the request that has these profiles of a monitor.
pub fn profiles_request(
    resource: &OtlpResource,
    monitor: &str,
    profiles: &[OtlpProfile<'_>],
) -> Vec<u8> {
    let mut tables = Tables::new();
    let profiles = profiles.iter().map(|profile| tables.profile(profile)).collect();
    let scope = Some(scope(&format!("perilune.{monitor}")));
    let scope_profiles = vec![ScopeProfiles { scope, profiles, ..ScopeProfiles::default() }];
    let resource_profiles = vec![ResourceProfiles {
        resource: Some(resource.message()),
        scope_profiles,
        ..ResourceProfiles::default()
    }];
    let string_table = tables.strings.into_strings();
    let dictionary = Some(ProfilesDictionary { string_table, ..tables.dictionary });
    ExportProfilesServiceRequest { resource_profiles, dictionary }.encode_to_vec()
}

/// The tables of a request, and the indexes of their entries.
struct Tables {
    dictionary: ProfilesDictionary,
    strings: StringTable,
    locations: HashMap<(i32, bool), i32>,
    stacks: HashMap<Vec<i32>, i32>,
}

impl Tables {
    fn new() -> Tables {
        let dictionary = ProfilesDictionary {
            mapping_table: vec![Mapping::default()],
            location_table: vec![Location::default()],
            function_table: vec![Function::default()],
            link_table: vec![Link::default()],
            string_table: Vec::new(),
            attribute_table: vec![KeyValueAndUnit::default()],
            stack_table: vec![Stack::default()],
        };
        let strings = StringTable::default();
        let (locations, stacks) = (HashMap::new(), HashMap::new());
        let mut tables = Tables { dictionary, strings, locations, stacks };
        // Attributes 1 and 2: see `location`.
        tables.add_frame_type("native");
        tables.add_frame_type("kernel");
        tables
    }

    fn add_frame_type(&mut self, name: &str) {
        let value = Some(AnyValue { value: Some(Any::StringValue(name.to_owned())) });
        let key_strindex = self.string(FRAME_TYPE);
        let attribute = KeyValueAndUnit { key_strindex, value, unit_strindex: 0 };
        self.dictionary.attribute_table.push(attribute);
    }

    fn profile(&mut self, profile: &OtlpProfile<'_>) -> Profile {
        let OtlpProfile { table, flame, begin_ns, end_ns } = *profile;
        let (name, unit) = sample_type(table, flame);
        let sample_type =
            Some(ValueType { type_strindex: self.string(name), unit_strindex: self.string(unit) });
        let mut samples = Vec::new();
        for (frames, weight) in flame.stacks() {
            let stack = frames.iter().rev().map(|frame| self.location(flame, *frame)).collect();
            samples.push(Sample {
                stack_index: self.stack(stack),
                values: vec![i64::try_from(weight).unwrap_or(i64::MAX)],
                ..Sample::default()
            });
        }
        Profile {
            sample_type,
            samples,
            time_unix_nano: begin_ns,
            duration_nano: end_ns.saturating_sub(begin_ns),
            ..Profile::default()
        }
    }

    fn string(&mut self, text: &str) -> i32 {
        self.strings.index(text) as i32
    }

    fn location(&mut self, flame: &Flame, frame: u32) -> i32 {
        let is_kernel = flame.mark_of(frame) == FrameKind::Kernel;
        let name_strindex = self.string(flame.name_of(frame));
        let locations = &mut self.dictionary.location_table;
        let next = locations.len() as i32;
        let index = *self.locations.entry((name_strindex, is_kernel)).or_insert(next);
        if index == next {
            let functions = &mut self.dictionary.function_table;
            let function_index = functions.len() as i32;
            functions.push(Function { name_strindex, ..Function::default() });
            let lines = vec![Line { function_index, ..Line::default() }];
            let attribute_indices = vec![1 + i32::from(is_kernel)];
            locations.push(Location { lines, attribute_indices, ..Location::default() });
        }
        index
    }

    fn stack(&mut self, location_indices: Vec<i32>) -> i32 {
        let stacks = &mut self.dictionary.stack_table;
        let next = stacks.len() as i32;
        let index = *self.stacks.entry(location_indices.clone()).or_insert(next);
        if index == next {
            stacks.push(Stack { location_indices });
        }
        index
    }
}
