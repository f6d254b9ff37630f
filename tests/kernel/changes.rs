//! Events that are added and removed while the rings stay: the events of a role begin and end at
//! the same moment on every CPU.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use perilune::base::event::chain::ChainBuilder;
use perilune::event::catalog::Catalog as _;
use perilune::event::filter::Filter;
use perilune::event::sampling::Sampling;
use perilune::run::catalog::MachineCatalog;
use perilune::source::live::Live;
use perilune::source::live::change::Closer;
use perilune::source::request::{MappingRecords, Opening, SampleParts, ServedRole, SourceRequest};
use perilune::source::{Batch, SideBand, Sink, UserStack};
use perilune::sys::cpus::online_cpus;

use crate::{live::live_tests, load};

live_tests! {
    a_function_of_a_rebuilt_file_has_a_separate_probe,
    the_number_of_open_probes_is_limited,
    events_turned_on_together_are_delivered_from_the_same_time_on,
    roles_that_request_the_same_event_share_it_and_leave_it_one_by_one,
    records_written_before_an_event_is_turned_off_are_delivered_even_if_it_is_on_again,
}

/// Dispatched samples: thread and role.
#[derive(Default)]
struct Seen(Vec<(u32, u16)>);

impl Sink for Seen {
    unsafe fn dispatch(&mut self, batch: &mut Batch) {
        self.0.extend(batch.slots().iter().map(|slot| (slot.tid, slot.ev)));
    }

    fn side(&mut self, _: SideBand<'_>) {}

    fn unwind(&mut self, _: &UserStack<'_>, _: &mut ChainBuilder<'_>) {}

    fn stopped(&self) -> bool {
        false
    }
}

fn rings() -> (Live, SourceRequest) {
    let request = SourceRequest {
        cpus: online_cpus(),
        watched: online_cpus(),
        tasks: None,
        processes: Vec::new(),
        cgroups: None,
        workload: false,
        off: Vec::new(),
        pages: None,
        watermark: 50,
        ordered: true,
        mmap: MappingRecords::Omitted,
        side: Default::default(),
        watch_self: true,
        own_tids: Vec::new(),
    };
    let mut live = Live::open(Vec::new(), &request, 1).expect("rings can be opened");
    live.enable(false).expect("there is nothing to enable");
    (live, request)
}

fn opening(call: &str, role: u32) -> Opening {
    let event = MachineCatalog::default().describe(&format!("syscalls:sys_enter_{call}"));
    Opening {
        event: event.expect("the event is there"),
        glob: None,
        filter: None,
        sampling: Sampling::default(),
        parts: SampleParts::ALL,
        roles: vec![ServedRole::unfiltered(role)],
        follows_cgroups: false,
        pairs: None,
    }
}

/// Opens a function of a file for a role.
fn opening_of(function: &str, role: u32) -> Opening {
    let event = MachineCatalog::default().describe(function);
    Opening { event: event.expect("it has that function"), ..opening("getppid", role) }
}

fn a_function_of_a_rebuilt_file_has_a_separate_probe() {
    let folder = tempfile::tempdir().expect("there is room");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("our own");
    let mut paths = maps.lines().filter_map(|line| line.split_whitespace().last());
    let libc = paths.find(|path| path.contains("libc.so")).expect("tests have a libc");
    let (file, other) = (folder.path().join("libc"), folder.path().join("other"));
    std::fs::copy(libc, &file).expect("there is room");
    std::fs::copy(libc, &other).expect("there is room");
    let function = format!("uprobe:{}:getppid", file.display());
    let (mut live, request) = rings();
    let mut probes = |role| {
        live.add(vec![opening_of(&function, role)], &request, 3).expect("it can be watched");
        live.probes()
    };
    assert_eq!((probes(0), probes(1)), (1, 1), "the same event is opened once");
    std::fs::rename(&other, &file).expect("it is ours");
    assert_eq!(probes(2), 2);
}

fn the_number_of_open_probes_is_limited() {
    let libc = std::fs::read_to_string("/proc/self/maps").expect("our own");
    let mut paths = libc.lines().filter_map(|line| line.split_whitespace().last());
    let libc = paths.find(|path| path.contains("libc.so")).expect("tests have a libc");
    let function = format!("uprobe:{libc}:getppid");
    let (mut live, request) = rings();
    let most = 256;
    live.add(vec![opening_of(&function, 0)], &request, 1).expect("it can be watched");
    let others = |count: usize| {
        let of = |role| {
            let mut opening = opening_of(&format!("uprobe:{libc}:getpid"), role as u32);
            // The program of a BPF link has no period.
            opening.sampling.period = Some(2);
            opening
        };
        (1..=count).map(of).collect::<Vec<_>>()
    };
    let refused = live.add(others(most), &request, most + 1).expect_err("one more than the limit");
    assert!(refused.to_string().contains("exceed the limit of 256 open at once"), "{refused}");
    assert_eq!(live.probes(), 1);
    live.add(others(3), &request, 4).expect("they are below the limit");
    assert_eq!(live.probes(), 2, "three roles share one");
}

fn events_turned_on_together_are_delivered_from_the_same_time_on() {
    let (mut live, request) = rings();
    let openings = vec![opening("getppid", 0), opening("getuid", 1)];
    live.add(openings, &request, 2).expect("the events can be opened");
    let stop = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|threads| {
        for &cpu in &request.cpus {
            let (sender, stop) = (sender.clone(), &stop);
            threads.spawn(move || {
                load::pin_to_cpu(cpu as usize);
                // SAFETY: takes no argument and never fails.
                sender.send(unsafe { libc::gettid() }.unsigned_abs()).expect("the receiver exists");
                while !stop.load(Relaxed) {
                    // SAFETY: both take no argument and never fail.
                    unsafe { (libc::getppid(), libc::getuid()) };
                }
            });
        }
        let tids: Vec<u32> = receiver.iter().take(request.cpus.len()).collect();
        let turns: Vec<Seen> = (0..20).map(|_| turn(&mut live)).collect();
        stop.store(true, Relaxed);
        for (seen, tid) in turns.iter().flat_map(|seen| tids.iter().map(move |tid| (seen, tid))) {
            let roles: Vec<u16> =
                seen.0.iter().filter(|one| one.0 == *tid).map(|one| one.1).collect();
            let twice = roles.windows(2).position(|pair| pair[0] == pair[1]);
            assert_eq!(twice, None, "of {} events of thread {tid}", roles.len());
        }
        let all: usize = turns.iter().map(|seen| seen.0.len()).sum();
        assert!(all > 1000, "{all} events are too few to judge");
    });
}

/// Enables both roles for some milliseconds, and returns the samples dispatched meanwhile.
fn turn(live: &mut Live) -> Seen {
    let mut seen = Seen::default();
    live.switch(&[(0, true), (1, true)].into()).expect("events can be enabled");
    std::thread::sleep(Duration::from_millis(5));
    live.drain(live.horizon(), &mut seen);
    live.switch(&[(0, false), (1, false)].into()).expect("events can be disabled");
    // Discards later records, which do not belong to the next turn.
    std::thread::sleep(Duration::from_millis(3));
    live.drain(live.now(), &mut Seen::default());
    seen
}

fn roles_that_request_the_same_event_share_it_and_leave_it_one_by_one() {
    // SAFETY: takes no argument and never fails.
    let tid = unsafe { libc::gettid() }.unsigned_abs();
    let (mut live, request) = rings();
    let closer = Closer::start(|| {}).expect("a thread can be started");
    // Makes this number of calls, and returns how many each role received.
    let got = |live: &mut Live, calls: u32| {
        // SAFETY: getppid has no arguments and cannot fail.
        (0..calls).for_each(|_| assert!(unsafe { libc::getppid() } >= 0));
        std::thread::sleep(Duration::from_millis(3));
        let mut seen = Seen::default();
        live.drain(live.horizon(), &mut seen);
        [0, 1].map(|role| seen.0.iter().filter(|one| **one == (tid, role)).count())
    };
    live.add(vec![opening("getppid", 0)], &request, 2).expect("the event can be opened");
    let files = live.files();
    live.switch(&[(0, true)].into()).expect("the event can be enabled");
    assert_eq!(got(&mut live, 10), [10, 0]);
    // A role does not receive records that were written before it was added.
    // SAFETY: getppid has no arguments and cannot fail.
    unsafe { libc::getppid() };
    live.add(vec![opening("getppid", 1)], &request, 2).expect("there is nothing to open");
    assert_eq!(live.files(), files, "the event is opened once");
    live.switch(&[(1, true)].into()).expect("it is enabled");
    assert_eq!(got(&mut live, 100), [101, 100]);
    live.switch(&[(0, false)].into()).expect("it stays enabled");
    assert_eq!(got(&mut live, 100), [0, 100]);
    live.switch(&[(0, true)].into()).expect("it is enabled");
    // A role whose filter is narrowed gets a separate event: the calls before and after that moment
    // are received, each of them once.
    // SAFETY: getppid has no arguments and cannot fail.
    unsafe { libc::getppid() };
    let filter = Some(Filter::parse("common_pid > 0").expect("it is a filter"));
    let narrow = Opening { filter, ..opening("getppid", 0) };
    live.renew(0, &[narrow], &request, &closer).expect("the event can be opened");
    assert_eq!(live.files(), 2 * files - request.cpus.len());
    assert_eq!(got(&mut live, 100), [101, 101]);
    live.close(1, &closer);
    assert_eq!(live.files(), files);
    assert_eq!(got(&mut live, 100), [100, 0]);
    live.add(vec![opening("getppid", 1)], &request, 2).expect("the event can be opened");
    live.switch(&[(1, true)].into()).expect("the event can be enabled");
    live.close(0, &closer);
    assert_eq!(got(&mut live, 100), [0, 100]);
    assert_eq!(live.lost(true), Some(0));
}

fn records_written_before_an_event_is_turned_off_are_delivered_even_if_it_is_on_again() {
    // SAFETY: takes no argument and never fails.
    let call = || unsafe { libc::getppid() };
    // SAFETY: gettid has no arguments and cannot fail.
    let tid = unsafe { libc::gettid() }.unsigned_abs();
    let (mut live, request) = rings();
    live.add(vec![opening("getppid", 0)], &request, 1).expect("the event can be opened");
    // Nothing is drained between two turns: they are faster than the merge.
    for calls in [10, 20, 30] {
        live.switch(&[(0, true)].into()).expect("the event can be enabled");
        (0..calls).for_each(|_| assert!(call() >= 0));
        live.switch(&[(0, false)].into()).expect("the event can be disabled");
        call();
    }
    std::thread::sleep(Duration::from_millis(3));
    let mut seen = Seen::default();
    live.drain(live.horizon(), &mut seen);
    assert_eq!(seen.0.iter().filter(|one| **one == (tid, 0)).count(), 60);
}
