//! Whether an event has the fields, and whether they can be compared so.

use super::{Filter, Node, Operand, Predicate, Reading};
use crate::{
    decode::format::{Field, Format},
    event::{field, syntax::SyntaxError},
};

impl Filter {
    /// Checks every condition against the event's format, with the kernel's rules. `event` is its name, for messages.
    pub fn check(&self, event: &str, format: &Format) -> Result<(), SyntaxError> {
        check(&self.root, event, format)
    }
}

fn check(node: &Node, event: &str, format: &Format) -> Result<(), SyntaxError> {
    match node {
        Node::Not(inner) => check(inner, event, format),
        Node::And(nodes) | Node::Or(nodes) => {
            nodes.iter().try_for_each(|node| check(node, event, format))
        }
        Node::Is(predicate) => predicate.check(event, format),
    }
}

/// What a name stands for, in the kernel's order: the event's own field, the CPU or the task, a common field.
pub(super) enum Subject<'a> {
    Cpu,
    Comm,
    Field(&'a Field, Class),
}

/// What the kernel takes a field for, by its type's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Text in the record, fixed or dynamic.
    Text,
    /// Text behind a pointer.
    PointedText,
    /// A dynamic mask of CPUs.
    CpuMask,
    /// One integer.
    Number,
    /// Several: nothing that a number could be compared with.
    Many,
}

impl Predicate {
    pub(super) fn subject<'a>(&self, format: &'a Format) -> Option<Subject<'a>> {
        let field = format.field(&self.field);
        match (field, self.field.as_str()) {
            (Some(own), _) if !own.common => Some(Subject::Field(own, class(own))),
            (_, "CPU" | "cpu") => Some(Subject::Cpu),
            (_, "COMM" | "comm") => Some(Subject::Comm),
            (common, _) => common.map(|f| Subject::Field(f, class(f))),
        }
    }

    /// The field that holds the text which the pointer of the condition leads to, as a system
    /// call's record does since 6.19: `__filename_val` beside `filename`. Beyond 63 bytes it is
    /// cut.
    pub(super) fn recorded_text<'a>(&self, format: &'a Format) -> Option<&'a Field> {
        let field = format.field(&format!("__{}_val", self.field))?;
        (class(field) == Class::Text).then_some(field)
    }

    /// Whether it compares text with what a pointer of a task leads to, and does not say so.
    pub(super) fn is_of_task(&self, event: &str, format: &Format) -> bool {
        let pointed =
            || matches!(self.subject(format), Some(Subject::Field(_, Class::PointedText)));
        event.starts_with("syscalls:")
            && self.reading == Reading::Plain
            && matches!(self.value, Operand::Text { .. })
            && (pointed() || self.recorded_text(format).is_some())
    }

    fn check(&self, event: &str, format: &Format) -> Result<(), SyntaxError> {
        let name = &self.field;
        let subject = self
            .subject(format)
            .ok_or_else(|| self.fault(self.field_at, field::unknown(event, name, format)))?;
        if self.reading == Reading::Function {
            return self.check_function(&subject);
        }
        let class = match subject {
            Subject::Cpu => Class::Number,
            Subject::Comm => Class::Text,
            Subject::Field(_, class) => class,
        };
        match (&self.value, class) {
            (Operand::Text { .. }, Class::Text | Class::PointedText) => Ok(()),
            (Operand::Text { .. }, _) if self.recorded_text(format).is_some() => Ok(()),
            (Operand::Text { .. }, _) => {
                Err(self
                    .fault(self.value_at, format!("`{name}` is no text; compare it with a number")))
            }
            (_, Class::Text | Class::PointedText) => Err(self.fault(
                self.value_at,
                format!("`{name}` is a text; quote what it is compared with"),
            )),
            (_, Class::Many) => Err(self.fault(
                self.field_at,
                format!("`{name}` is an array, which a filter cannot compare"),
            )),
            (Operand::Cpus { .. }, Class::CpuMask | Class::Number) => Ok(()),
            (_, Class::CpuMask) => Err(self.fault(
                self.value_at,
                format!("`{name}` is a set of CPUs; compare it with CPUS{{...}}"),
            )),
            (Operand::Number { value, .. }, Class::Number) => self.check_range(*value, &subject),
            (Operand::Function(_), Class::Number) => Ok(()),
        }
    }

    fn check_range(&self, value: i128, subject: &Subject<'_>) -> Result<(), SyntaxError> {
        let signed = match subject {
            Subject::Field(field, _) => field.signed,
            _ => true,
        };
        let name = &self.field;
        match signed {
            true if value > i128::from(i64::MAX) => {
                Err(self
                    .fault(self.value_at, format!("`{name}` is signed; this is above 2^63 - 1")))
            }
            false if value < 0 => {
                Err(self
                    .fault(self.value_at, format!("`{name}` is unsigned; it is never negative")))
            }
            // `-0` is zero, but the kernel reads no sign for an unsigned field.
            false if matches!(&self.value, Operand::Number { text, .. } if text.starts_with('-')) => {
                Err(self.fault(self.value_at, format!("`{name}` is unsigned; leave the sign out")))
            }
            _ => Ok(()),
        }
    }

    fn check_function(&self, subject: &Subject<'_>) -> Result<(), SyntaxError> {
        match subject {
            Subject::Field(field, _) if field.size == size_of::<usize>() => Ok(()),
            // A recording may name the function itself.
            Subject::Field(_, Class::Text) => Ok(()),
            _ => {
                let message = format!("`{}` is no address; `.function` wants one", self.field);
                Err(self.fault(self.field_at, message))
            }
        }
    }
}

fn class(field: &Field) -> Class {
    let text = field.type_text.as_str();
    if text.contains("__data_loc") || text.contains("__rel_loc") {
        return match text {
            _ if text.contains("char") => Class::Text,
            _ if text.contains("cpumask_t") => Class::CpuMask,
            _ => Class::Many,
        };
    }
    match field.size {
        _ if text.contains('[') && text.contains("char") => Class::Text,
        _ if matches!(text, "char *" | "const char *") => Class::PointedText,
        1 | 2 | 4 | 8 => Class::Number,
        _ => Class::Many,
    }
}
