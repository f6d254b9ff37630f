//! A short workload that uses many parts of the kernel: tasks, signals, files, memory, sockets,
//! timers.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// Runs every part, in well under a second.
pub(crate) fn run() {
    files();
    sockets();
    tasks();
    memory();
    // Triggers clock events, deferred work and the idle processors' events.
    std::thread::sleep(Duration::from_millis(50));
}

fn files() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("file");
    for turn in 0..3 {
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&vec![turn; 100_000]).unwrap();
        file.sync_all().unwrap();
        let mut read = Vec::new();
        std::fs::File::open(&path).unwrap().read_to_end(&mut read).unwrap();
    }
    std::fs::rename(&path, directory.path().join("renamed")).unwrap();
}

fn sockets() {
    let (a, b) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("[::1]:0").unwrap());
    for _ in 0..3 {
        a.send_to(b"datagram", a.local_addr().unwrap()).unwrap();
        let _ = b.send_to(b"datagram", b.local_addr().unwrap());
    }
    // No process listens on this port.
    let _ = a.send_to(b"datagram", "127.0.0.1:9");
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(listen) else { continue };
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"hello").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        server.write_all(&[1; 20_000]).unwrap();
    }
    // The connection is refused.
    let _ = TcpStream::connect("127.0.0.1:9");
}

fn tasks() {
    for _ in 0..3 {
        let _ = Command::new("/bin/true").status();
    }
    let worker = std::thread::Builder::new().name("perilune-work".into());
    worker.spawn(|| std::thread::sleep(Duration::from_millis(2))).unwrap().join().unwrap();
    // SAFETY: signal 0 only checks that the process exists, SIGURG and SIGCHLD are ignored by
    // default; alarm and affinity are those of this thread.
    unsafe {
        libc::kill(libc::getpid(), 0);
        libc::kill(libc::getpid(), libc::SIGURG);
        libc::kill(libc::getpid(), libc::SIGCHLD);
        libc::getppid();
        let mut before: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut before);
        for cpu in [0, 1, 0] {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut one);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &before);
        let timer = libc::itimerval {
            it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
            it_value: libc::timeval { tv_sec: 100, tv_usec: 0 },
        };
        let none = libc::itimerval { it_value: timer.it_interval, ..timer };
        libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &none, std::ptr::null_mut());
    }
}

fn memory() {
    const LEN: usize = 4 << 20;
    // SAFETY: the mapping is new, and this function unmaps it.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            LEN,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(memory, libc::MAP_FAILED);
        for page in (0..LEN).step_by(4096) {
            memory.cast::<u8>().add(page).write(1);
        }
        libc::mprotect(memory, LEN, libc::PROT_READ);
        libc::munmap(memory, LEN);
        // Writes a line to the kernel's log.
        let _ = std::fs::write("/dev/kmsg", "<7>perilune: a test of print formats\n");
    }
}
