//! Every format of the running kernel.

use std::fs;

use perilune::decode::format::{FieldKind, Format};

use crate::kernel;
use crate::live::live_tests;

live_tests! {
    root: [],
    any: [
        every_format_of_this_kernel_parses_with_sane_offsets,
    ]
}

fn every_format_of_this_kernel_parses_with_sane_offsets() {
    let root = kernel::tracefs();
    let (mut formats, mut fields, mut unread) = (0, 0, Vec::new());
    for (sys, name) in kernel::events(&root) {
        let path = root.join("events").join(&sys).join(&name).join("format");
        // An event that was created in tracefs (a probe) may disappear meanwhile.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let format = Format::parse(&text).unwrap_or_else(|e| panic!("{sys}:{name}: {e}\n{text}"));
        assert_eq!(format.name, name, "{sys}");
        assert_eq!(format.fields.len(), text.matches("\tfield:").count(), "{sys}:{name}");
        assert!(text.trim_end().ends_with(&format.print_fmt), "{sys}:{name}");

        let mut by_offset: Vec<_> = format.fields.iter().filter(|f| f.size > 0).collect();
        by_offset.sort_by_key(|f| f.offset);
        for pair in by_offset.windows(2) {
            let end = pair[0].offset + pair[0].size;
            assert!(end <= pair[1].offset, "{sys}:{name}: {} and {}", pair[0].name, pair[1].name);
        }
        assert!(format.field("common_type").is_some_and(|f| f.common && f.size == 2));
        assert!(format.field("common_pid").is_some_and(|f| f.common && f.signed));

        let zeros = vec![0; format.fixed_size];
        for field in &format.fields {
            assert!(field.offset + field.size <= format.fixed_size);
            assert!(field.read(&zeros).is_ok(), "{sys}:{name}: {}", field.name);
            if field.size > 0 {
                let short = &zeros[..field.offset + field.size - 1];
                assert!(field.read(short).is_err(), "{sys}:{name}: {}", field.name);
            }
            let known = ["struct", "union", "u8", "unsigned char", "guid_t", "uuid_t"];
            if field.kind == FieldKind::Bytes && !known.iter().any(|k| field.type_text.contains(k))
            {
                unread.push(format!("{sys}:{name}: {} {}", field.type_text, field.name));
            }
        }
        formats += 1;
        fields += format.fields.len();
    }
    eprintln!("{formats} formats, {fields} fields; read as bytes: {unread:#?}");
    assert!(formats > 0);
    // A kernel may add an unknown type, which is read as bytes; such types must stay rare.
    assert!(unread.len() * 100 <= fields, "{unread:#?}");
}
