//! Parses any bytes as a record, with any layout.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use perilune::decode::record::{Record, parse};
use perilune::decode::record_attrs::RecordAttrs;
use perilune::decode::sample::{RecordLayout, identifier};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    sample_type: u64,
    read_format: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_regs_intr: u64,
    sample_id_all: bool,
    fixed_period: u64,
    record: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let layout = RecordLayout::new(RecordAttrs {
        sample_type: input.sample_type,
        read_format: input.read_format,
        branch_sample_type: input.branch_sample_type,
        sample_regs_user: input.sample_regs_user,
        sample_regs_intr: input.sample_regs_intr,
        sample_id_all: input.sample_id_all,
        fixed_period: input.fixed_period,
    });
    let record = input.record;
    let _ = (layout.time(record), layout.trailer(record), identifier(record));
    // A record whose size field does not match its length is rejected immediately, so the correct
    // size is tried as well.
    let mut sized = record.to_vec();
    if let Some(size) = sized.get_mut(6..8) {
        size.copy_from_slice(&(record.len() as u16).to_ne_bytes());
    }
    for bytes in [record, &sized] {
        match parse(bytes, &layout) {
            Ok(Record::Sample { sample, .. }) => {
                // Each list lies within the record, so it cannot be longer.
                assert!(sample.read.counts().count() <= bytes.len());
                assert!(sample.callchain.len() <= bytes.len() && sample.raw.len() <= bytes.len());
                if let Ok(rest) = layout.rest(&sample) {
                    assert!(rest.branch_stack.iter().count() <= bytes.len());
                    assert!(rest.stack_user.used().len() <= bytes.len());
                    let _ = (0..64).filter_map(|n| rest.regs_user.get(n)).count();
                    let _ = (0..64).filter_map(|n| rest.regs_intr.get(n)).count();
                }
            }
            Ok(Record::Read(read)) => assert!(read.values.counts().count() <= bytes.len()),
            _ => {}
        }
    }
});
