//! Types of the events that tracefs makes on request
//! (Documentation/trace/{kprobetrace,uprobetracer,fprobetrace}.rst). The kernel has no perf events
//! of event probes (eprobetrace.rst): it accepts one, and writes no record
//! (`eprobe_register()` in kernel/trace/trace_eprobe.c).

/// Type of such an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeType {
    /// At an instruction of the kernel, or at the return of its function.
    Kprobe,
    /// At an instruction of a program, or at the return of its function.
    Uprobe,
    /// At the call or return of a kernel function, by ftrace.
    Fprobe,
    /// At a tracepoint of the kernel, with the values that it is passed.
    Tprobe,
}

impl ProbeType {
    /// Returns the name of the file in tracefs that makes such events.
    pub fn list(self) -> &'static str {
        match self {
            ProbeType::Kprobe => "kprobe_events",
            ProbeType::Uprobe => "uprobe_events",
            ProbeType::Fprobe | ProbeType::Tprobe => "dynamic_events",
        }
    }

    /// Returns the letter with which the line of an event begins.
    pub(super) fn letter(self, at_return: bool) -> char {
        match self {
            ProbeType::Kprobe | ProbeType::Uprobe if at_return => 'r',
            ProbeType::Kprobe | ProbeType::Uprobe => 'p',
            ProbeType::Fprobe => 'f',
            ProbeType::Tprobe => 't',
        }
    }

    /// Returns whether a README of tracefs describes the syntax of such events.
    pub(super) fn is_in(self, readme: &str) -> bool {
        let begin = format!("{}[:[<group>/]", self.letter(false));
        readme.lines().any(|line| match line.trim_start().strip_prefix("Format: ") {
            Some(format) => format.starts_with(&begin),
            None => line.trim_start().starts_with(&begin),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_of_tracefs_shows_the_types() {
        let readme = "\t   Format: p[:[<group>/][<event>]] <place> [<args>]\n\
            \t           r[maxactive][:[<group>/][<event>]] <place> [<args>]\n\
            \t           t[:[<group>/][<event>]] <tracepoint> [<args>]\n\
            \t           -:[<group>/][<event>]\n";
        let has = |of: ProbeType| of.is_in(readme);
        assert!(has(ProbeType::Kprobe) && has(ProbeType::Tprobe));
        assert!(!has(ProbeType::Fprobe) && !ProbeType::Tprobe.is_in(""));
    }
}
