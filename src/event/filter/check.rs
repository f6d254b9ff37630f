//! Checks that an event has the fields of a filter and that they can be compared as in the filter.

use super::{FieldReading, Filter, FilterNode, FilterOperand, Predicate};
use crate::{
    decode::format::{Field, FieldKind, Format},
    event::{field, syntax::SyntaxError},
};

impl Filter {
    /// Checks every condition against the event's format with the kernel's rules. `event` is the
    /// event's name, for messages.
    ///
    /// # Errors
    /// A field does not exist, or cannot be compared with the value or by the operator.
    pub fn check(&self, event: &str, format: &Format) -> Result<(), SyntaxError> {
        check(&self.root, event, format)
    }
}

fn check(node: &FilterNode, event: &str, format: &Format) -> Result<(), SyntaxError> {
    match node {
        FilterNode::Not(inner) => check(inner, event, format),
        FilterNode::And(nodes) | FilterNode::Or(nodes) => {
            nodes.iter().try_for_each(|node| check(node, event, format))
        }
        FilterNode::Is(predicate) => predicate.check(event, format),
    }
}

/// The subject of a condition, looked up in the kernel's order: the event's own field, the CPU or
/// the name of the task, a common field.
pub(super) enum Subject<'a> {
    Cpu,
    Comm,
    Field(&'a Field, Class),
}

/// How the kernel classifies a field, by the text of its type.
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
    /// Several integers, or another size: cannot be compared with a number.
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

    /// Returns the field with the text that the condition's pointer points to. Records of system
    /// calls have it since Linux 6.19, truncated after 63 bytes, or from a BPF program.
    pub(super) fn recorded_text<'a>(&self, format: &'a Format) -> Option<&'a Field> {
        format.text_of(&self.field)
    }

    /// Returns whether it compares text in a task's memory, behind a pointer, without `.ustring`.
    pub(super) fn is_of_task(&self, event: &str, format: &Format) -> bool {
        let pointed =
            || matches!(self.subject(format), Some(Subject::Field(_, Class::PointedText)));
        event.starts_with("syscalls:")
            && self.reading == FieldReading::Plain
            && matches!(self.value, FilterOperand::Text { .. })
            && (pointed() || self.recorded_text(format).is_some())
    }

    fn check(&self, event: &str, format: &Format) -> Result<(), SyntaxError> {
        let name = &self.field;
        let subject = self
            .subject(format)
            .ok_or_else(|| self.fault(self.field_at, field::unknown(event, name, format)))?;
        if self.reading == FieldReading::Function {
            return self.check_function(&subject);
        }
        let class = match subject {
            Subject::Cpu => Class::Number,
            Subject::Comm => Class::Text,
            Subject::Field(_, class) => class,
        };
        match (&self.value, class) {
            (FilterOperand::Text { .. }, Class::Text | Class::PointedText) => Ok(()),
            (FilterOperand::Text { .. }, _) if self.recorded_text(format).is_some() => Ok(()),
            (FilterOperand::Text { .. }, _) => Err(self
                .fault(self.value_at, format!("`{name}` is not text; compare it with a number"))),
            (_, Class::Text | Class::PointedText) => {
                Err(self.fault(self.value_at, format!("`{name}` is text; quote the value")))
            }
            (_, Class::Many) => Err(self.fault(
                self.field_at,
                format!("`{name}` is an array, which a filter cannot compare"),
            )),
            (FilterOperand::Cpus { .. }, Class::CpuMask | Class::Number) => Ok(()),
            (_, Class::CpuMask) => Err(self.fault(
                self.value_at,
                format!("`{name}` is a set of CPUs; compare it with CPUS{{...}}"),
            )),
            (FilterOperand::Number { value, .. }, Class::Number) => {
                self.check_range(*value, &subject)
            }
            (FilterOperand::Function(_), Class::Number) => Ok(()),
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
            // `-0` is zero, but the kernel does not parse a sign for an unsigned field.
            false
                if matches!(
                    &self.value,
                    FilterOperand::Number { text, .. } if text.starts_with('-')
                ) =>
            {
                Err(self.fault(self.value_at, format!("`{name}` is unsigned; omit the sign")))
            }
            _ => Ok(()),
        }
    }

    fn check_function(&self, subject: &Subject<'_>) -> Result<(), SyntaxError> {
        match subject {
            Subject::Field(field, _) if field.size == size_of::<usize>() => Ok(()),
            // A recording may have the name of the function instead of its address.
            Subject::Field(_, Class::Text) => Ok(()),
            _ => {
                let message = format!("`{}` is not an address; `.function` needs one", self.field);
                Err(self.fault(self.field_at, message))
            }
        }
    }
}

fn class(field: &Field) -> Class {
    if field.kind == FieldKind::Float {
        // Only user space can compare it, as an expression.
        return Class::Many;
    }
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
