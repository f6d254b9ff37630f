//! Strings behind pointer arguments of system calls, as fields of the record.
//!
//! Since 6.19 the kernel adds the string that `filename` points to as `__filename_val`
//! (kernel/trace/trace_syscalls.c). On older kernels a BPF program writes a record with the same
//! fields; [`Format::add_user_text`] describes it.

use super::{Element, Field, FieldKind, Format};
use crate::base::event::value::ValueType;

/// A string that is added to a record, with offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserTextField {
    /// Offset of the pointer.
    pub pointer: usize,
    /// Offset of the location of the text (`__data_loc`).
    pub location: usize,
}

/// Arguments of type `const char *` that are not text that ends with a NUL.
const NOT_TEXT: [&str; 2] = ["buf", "u_msg_ptr"];

/// Arguments of type `char *` that are read: event and argument.
const TEXT_WITHOUT_CONST: [(&str, &str); 4] = [
    ("sys_enter_mount", "dev_name"),
    ("sys_enter_mount", "dir_name"),
    ("sys_enter_mount", "type"),
    ("sys_enter_umount", "name"),
];

impl Format {
    /// Returns the field with the text that a pointer field points to, if the record contains it:
    /// `__filename_val` for `filename`.
    pub fn text_of(&self, pointer: &str) -> Option<&Field> {
        let field = self.field(&format!("__{pointer}_val"))?;
        (field.value_type() == ValueType::Text).then_some(field)
    }

    /// Returns the pointer fields of a system call's entry whose text the record does not contain.
    pub fn without_text(&self) -> impl Iterator<Item = &Field> {
        let entry = self.name.starts_with("sys_enter_") && !self.is_with_texts();
        self.fields.iter().filter(move |field| entry && self.is_text(field))
    }

    /// Returns whether the kernel adds what pointers point to.
    fn is_with_texts(&self) -> bool {
        self.fields.iter().any(|field| field.name.starts_with("__") && field.name.ends_with("_val"))
    }

    fn is_text(&self, field: &Field) -> bool {
        let is_const = field.type_text == "const char *" && !NOT_TEXT.contains(&&*field.name);
        let named = (self.name.as_str(), field.name.as_str());
        field.size == size_of::<usize>() && (is_const || TEXT_WITHOUT_CONST.contains(&named))
    }

    /// Adds the text of each pointer that [`Format::without_text`] returns, as a kernel since 6.19
    /// describes it. `fixed_size` stays: a record without the added fields is valid, and their text
    /// is then empty.
    pub fn add_user_text(&mut self) {
        let pointers: Vec<Field> = self.without_text().cloned().collect();
        let first = self.fixed_size.next_multiple_of(4);
        for (index, pointer) in pointers.iter().enumerate() {
            let location = first + 4 * index;
            self.user_text.push(UserTextField { pointer: pointer.offset, location });
            let name = format!("__{}_val", pointer.name);
            self.print_text(&pointer.name, &name);
            self.fields.push(Field {
                name,
                type_text: "__data_loc char[]".to_owned(),
                offset: location,
                size: 4,
                signed: false,
                common: false,
                kind: FieldKind::DataLoc(Element::Char),
            });
        }
    }

    /// Adds the text to the `print fmt`, behind the pointer: `filename: 0x%08lx "%s"`.
    fn print_text(&mut self, pointer: &str, text: &str) {
        let (printed, value) = (format!("{pointer}: 0x%"), format!("(REC->{pointer}))"));
        let Some((head, tail)) = self.print_fmt.split_once(&printed) else { return };
        let Some((width, rest)) = tail.split_once("lx") else { return };
        let Some((before, after)) = rest.split_once(&value) else { return };
        self.print_fmt =
            format!("{head}{printed}{width}lx \\\"%s\\\"{before}{value}, __get_str({text}){after}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(name: &str, fields: &str, print: &str) -> Format {
        let text = format!(
            "name: {name}\nID: 1\nformat:\n\
             \tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n{fields}\n\
             print fmt: {print}\n"
        );
        Format::parse(&text).unwrap()
    }

    const LINK: &str = "\tfield:const char * oldname;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:const char * newname;\toffset:24;\tsize:8;\tsigned:0;\n";
    const LINK_PRINT: &str = concat!(
        r#""oldname: 0x%08lx, newname: 0x%08lx", "#,
        "((unsigned long)(REC->oldname)), ((unsigned long)(REC->newname))"
    );

    #[test]
    fn texts_are_added_as_newer_kernels_describe_them() {
        let mut link = format("sys_enter_link", LINK, LINK_PRINT);
        let fixed = link.fixed_size;
        link.add_user_text();
        assert_eq!(link.fixed_size, fixed);
        assert_eq!(
            link.user_text,
            [
                UserTextField { pointer: 16, location: 32 },
                UserTextField { pointer: 24, location: 36 }
            ]
        );
        assert_eq!(link.text_of("newname").unwrap().offset, 36);
        assert_eq!(
            link.print_fmt,
            concat!(
                r#""oldname: 0x%08lx \"%s\", newname: 0x%08lx \"%s\"", "#,
                "((unsigned long)(REC->oldname)), __get_str(__oldname_val), ",
                "((unsigned long)(REC->newname)), __get_str(__newname_val)"
            )
        );
        assert_eq!(link.without_text().count(), 0, "nothing is added twice");
    }

    #[test]
    fn buffers_results_and_other_events_get_no_text() {
        let buffer = "\tfield:const char * buf;\toffset:16;\tsize:8;\tsigned:0;\n\
            \tfield:char * path;\toffset:24;\tsize:8;\tsigned:0;\n";
        assert_eq!(format("sys_enter_write", buffer, "\"\"").without_text().count(), 0);
        assert_eq!(format("block_rq_issue", LINK, "\"\"").without_text().count(), 0);
        let since = format!(
            "{LINK}\tfield:__data_loc char[] __oldname_val;\toffset:32;\tsize:4;\tsigned:0;\n"
        );
        let since = format("sys_enter_link", &since, "\"\"");
        assert_eq!(since.without_text().count(), 0, "the kernel adds them itself");
        assert_eq!(since.text_of("oldname").unwrap().offset, 32);
        assert_eq!(since.text_of("newname"), None);
    }
}
