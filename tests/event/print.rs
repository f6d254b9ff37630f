//! Every `print fmt` of the running kernel.

use std::fs;

use perilune::decode::format::Format;
use perilune::decode::print::{PrintProgram, TEXT_MAX, Unknown};
use perilune::symbol::RunningKernel;

use crate::kernel;
use crate::live::live_tests;

live_tests! {
    root: [],
    any: [
        nearly_every_print_format_of_this_kernel_is_evaluated,
        any_record_gives_a_bounded_text_or_none,
    ]
}

fn nearly_every_print_format_of_this_kernel_is_evaluated() {
    let root = kernel::tracefs();
    let (built, mut formats, mut refused) = (
        RunningKernel::new(perilune::sys::clock::ticks_per_second(), &root, std::rc::Rc::default()),
        0,
        Vec::new(),
    );
    for (sys, name) in kernel::events(&root) {
        let path = root.join("events").join(&sys).join(&name).join("format");
        // An event that was created in tracefs (a probe) may disappear meanwhile.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let format = Format::parse(&text).unwrap();
        formats += 1;
        if let Err(why) = PrintProgram::compile(&format, &built) {
            refused.push(format!("{sys}:{name}: {why}"));
        }
    }
    eprintln!("{formats} print formats; not evaluated: {refused:#?}");
    assert!(formats > 0);
    assert!(refused.len() * 100 <= formats, "{refused:#?}");
}

fn any_record_gives_a_bounded_text_or_none() {
    let root = kernel::tracefs();
    // A generator that returns the same records in every run.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (built, mut text) = (
        RunningKernel::new(perilune::sys::clock::ticks_per_second(), &root, std::rc::Rc::default()),
        Vec::new(),
    );
    for (sys, name) in kernel::events(&root) {
        let path = root.join("events").join(&sys).join(&name).join("format");
        let Ok(file) = fs::read_to_string(&path) else { continue };
        let format = Format::parse(&file).unwrap();
        let Ok(program) = PrintProgram::compile(&format, &built) else { continue };
        let size = format.fixed_size;
        let zero = vec![0; size];
        text.clear();
        let done = program.push(&mut text, &zero, &Unknown);
        // An array without elements has no first one.
        let is_short = format.print_fmt.contains("[0]");
        assert!(done.is_ok() || is_short, "{sys}:{name}: {}", format.print_fmt);
        for turn in 0..40 {
            let mut raw: Vec<u8> = (0..size + turn * 8).map(|_| random() as u8).collect();
            if turn % 2 == 0 {
                // Dynamic fields with valid locations.
                for field in &format.fields {
                    if let Some(Ok(_) | Err(_)) = field.dynamic_bytes(&raw) {
                        let rel = field.type_text.starts_with("__rel_loc");
                        let start = if rel { 0 } else { field.offset };
                        let room = raw.len() - field.offset - 4;
                        let len = random() as usize % (room + 1);
                        let word = (len as u32) << 16 | start as u32;
                        raw[field.offset..field.offset + 4].copy_from_slice(&word.to_ne_bytes());
                    }
                }
            }
            for len in [raw.len(), size, size / 2, random() as usize % (size + 1)] {
                text.clear();
                text.extend_from_slice(b"before");
                let done = program.push(&mut text, &raw[..len.min(raw.len())], &Unknown);
                assert!(text.starts_with(b"before"));
                assert!(text.len() <= 6 + TEXT_MAX, "{sys}:{name}: {} bytes", text.len());
                assert!(done.is_ok() || text == b"before", "{sys}:{name}");
                assert!(len >= size || done.is_err(), "{sys}:{name}");
            }
        }
    }
}
