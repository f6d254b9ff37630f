//! The kernel's side of these tests: tracefs, and tracepoints opened with minimal code.

use std::{
    ffi::CString,
    fs, io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::PathBuf,
    sync::OnceLock,
};

use perf_event_open_sys::{self as perf, bindings};
use perilune::decode::format::Format;

use crate::live::skip;

/// Returns the path of tracefs, which is mounted if necessary. Ends the test if it cannot be read.
pub(crate) fn tracefs() -> PathBuf {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(find).clone().unwrap_or_else(|| skip("tracefs is not readable"))
}

fn find() -> Option<PathBuf> {
    let known = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    let readable = |p: &PathBuf| fs::read_dir(p.join("events")).is_ok();
    if let Some(path) = known.iter().find(|p| readable(p)) {
        return Some(path.clone());
    }
    // SAFETY: every pointer is a NUL-terminated literal; mounting at the standard place has no side
    // effects on other processes.
    unsafe {
        libc::mount(
            c"nodev".as_ptr(),
            c"/sys/kernel/tracing".as_ptr(),
            c"tracefs".as_ptr(),
            0,
            std::ptr::null(),
        );
    }
    known.into_iter().find(readable)
}

/// Returns the format of `sys:name`; None if the kernel has no such event.
pub(crate) fn format(name: &str) -> Option<Format> {
    let (sys, event) = name.split_once(':')?;
    let path = tracefs().join("events").join(sys).join(event).join("format");
    Some(Format::parse(&fs::read_to_string(path).ok()?).unwrap())
}

/// Returns every tracepoint as (system, name).
pub(crate) fn events(root: &std::path::Path) -> Vec<(String, String)> {
    let directories = |path: PathBuf| {
        let entries = fs::read_dir(path).unwrap().map(Result::unwrap);
        let entries = entries.filter(|e| e.file_type().unwrap().is_dir());
        entries.map(|e| e.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    // ftrace's own records have formats but are not tracepoints.
    for sys in directories(root.join("events")).into_iter().filter(|sys| sys != "ftrace") {
        let names = directories(root.join("events").join(&sys));
        all.extend(names.into_iter().map(|name| (sys.clone(), name)));
    }
    all.sort();
    all
}

/// A tracepoint of this thread or of one CPU, with a ring of `pages` data pages unless `pages` is
/// 0.
pub(crate) struct Tracepoint {
    fd: OwnedFd,
    ring: Option<memmap2::MmapRaw>,
}

/// Target of a tracepoint.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    /// The calling thread.
    Me,
    /// CPU 0, every task.
    Cpu0,
}

/// One sample: the CPU and the raw record.
pub(crate) struct Sample {
    pub(crate) cpu: u32,
    pub(crate) raw: Vec<u8>,
}

impl Tracepoint {
    /// Opens it disabled, with one sample per event.
    pub(crate) fn open(id: u64, of: Of, pages: usize) -> io::Result<Tracepoint> {
        Self::open_in(None, id, of, pages)
    }

    /// Opens it as a member of a group, which the leader enables and disables at one instant.
    pub(crate) fn join(&self, id: u64, of: Of, pages: usize) -> io::Result<Tracepoint> {
        Self::open_in(Some(self), id, of, pages)
    }

    fn open_in(
        leader: Option<&Tracepoint>,
        id: u64,
        of: Of,
        pages: usize,
    ) -> io::Result<Tracepoint> {
        let mut attr = bindings::perf_event_attr {
            size: size_of::<bindings::perf_event_attr>() as u32,
            type_: bindings::PERF_TYPE_TRACEPOINT,
            config: id,
            sample_type: u64::from(bindings::PERF_SAMPLE_CPU | bindings::PERF_SAMPLE_RAW),
            ..Default::default()
        };
        attr.__bindgen_anon_1.sample_period = 1;
        attr.set_disabled(u64::from(leader.is_none()));
        let group = leader.map_or(-1, |leader| leader.fd.as_raw_fd());
        let (pid, cpu) = match of {
            Of::Me => (0, -1),
            Of::Cpu0 => (-1, 0),
        };
        // SAFETY: attr is a valid perf_event_attr of the size that it states.
        let fd = unsafe { perf::perf_event_open(&mut attr, pid, cpu, group, 8) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let ring = match pages {
            0 => None,
            _ => Some(memmap2::MmapOptions::new().len((pages + 1) * 4096).map_raw(&fd)?),
        };
        Ok(Tracepoint { fd, ring })
    }

    /// Sets a filter with PERF_EVENT_IOC_SET_FILTER.
    pub(crate) fn set_filter(&self, filter: &str) -> io::Result<()> {
        let text = CString::new(filter)?;
        // SAFETY: text is a C string that outlives the call.
        match unsafe { perf::ioctls::SET_FILTER(self.fd.as_raw_fd(), text.as_ptr().cast_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn enable(&self, on: bool) {
        // SAFETY: the ioctls take no pointer.
        let done = unsafe {
            match on {
                true => perf::ioctls::ENABLE(self.fd.as_raw_fd(), 0),
                false => perf::ioctls::DISABLE(self.fd.as_raw_fd(), 0),
            }
        };
        assert_eq!(done, 0);
    }

    /// Returns all samples so far; the event must be disabled, and no record may be lost.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let ring = self.ring.as_ref().unwrap();
        let page = ring.as_ptr().cast::<bindings::perf_event_mmap_page>();
        // SAFETY: the first page of the mapping is a perf_event_mmap_page.
        let head = unsafe { std::ptr::read_volatile(&raw const (*page).data_head) } as usize;
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        // SAFETY: this value owns the mapping and the event is disabled, so the kernel does not
        // write to it.
        let data =
            unsafe { std::slice::from_raw_parts(ring.as_ptr().add(4096), ring.len() - 4096) };
        assert!(head <= data.len(), "the ring of the test is too small: {head} bytes");
        let (mut at, mut samples) = (0, Vec::new());
        while at < head {
            let u32_at = |at: usize| u32::from_ne_bytes(data[at..at + 4].try_into().unwrap());
            let size = usize::from(u16::from_ne_bytes(data[at + 6..at + 8].try_into().unwrap()));
            let kind = u32_at(at);
            assert_ne!(kind, bindings::PERF_RECORD_LOST, "the ring of the test lost events");
            if kind == bindings::PERF_RECORD_SAMPLE {
                let raw_size = u32_at(at + 16) as usize;
                let raw = data[at + 20..at + 20 + raw_size].to_vec();
                samples.push(Sample { cpu: u32_at(at + 8), raw });
            }
            at += size;
        }
        samples
    }
}
