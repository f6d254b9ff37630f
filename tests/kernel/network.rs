//! tcp, net and dns over connections, packets and look-ups that the test makes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::functions::Program;
use crate::live::{live_tests, skip_anywhere};
use crate::tool::{Run, Tool};

live_tests! {
    each_connection_has_its_bytes_and_its_duration,
    sockets_pass_through_their_states,
    the_round_trip_is_the_one_that_the_socket_has,
    segments_are_sent_again_as_often_as_the_socket_counts,
    packets_and_bytes_are_those_that_the_device_counts,
    dropped_packets_have_a_reason_and_a_function,
    sent_packets_belong_to_their_process,
    look_ups_are_timed_by_name_and_result,
    look_ups_of_a_name_server_and_of_a_file_are_counted_by_name,
}

/// Connections, bytes in each direction, and how long each connection lasts at least.
const CONNECTIONS: usize = 5;
const ASKED: usize = 3000;
const ANSWERED: usize = 700;
const LIFE: Duration = Duration::from_millis(30);

/// Makes connections over the loopback device, one after the other; returns the server's port.
fn connect(listener: &TcpListener) -> u16 {
    let address = listener.local_addr().expect("it is bound");
    for _ in 0..CONNECTIONS {
        // The kernel completes a connection that is not accepted yet.
        let mut stream = TcpStream::connect(address).expect("the server listens");
        thread::scope(|threads| {
            threads.spawn(|| {
                let (mut peer, _) = listener.accept().expect("a client has connected");
                let mut asked = Vec::new();
                peer.read_to_end(&mut asked).expect("the client ends its side");
                assert_eq!(asked.len(), ASKED);
                peer.write_all(&[1; ANSWERED]).expect("the client reads");
            });
            stream.write_all(&[1; ASKED]).expect("the server reads");
            thread::sleep(LIFE);
            stream.shutdown(Shutdown::Write).expect("it is connected");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).expect("the server answers");
            assert_eq!(answer.len(), ANSWERED);
        });
    }
    address.port()
}

fn server() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port")
}

fn each_connection_has_its_bytes_and_its_duration() {
    let listener = server();
    let port = listener.local_addr().expect("it is bound").port().to_string();
    let probe = std::fs::read_to_string("/sys/kernel/tracing/events/tcp/tcp_probe/format");
    let has_rtt = probe.expect("tracefs is mounted").contains("skaddr");
    let mut args = vec!["tcp", "--each", "--port", &port, "-m", "256"];
    args.extend(has_rtt.then_some("--rtt"));
    let tool = Tool::attach(&args);
    connect(&listener);
    drop(listener);
    assert!(TcpStream::connect(("127.0.0.1", port.parse().expect("a port"))).is_err());
    let run = tool.finish();
    run.is_complete();
    let each: Vec<&Value> = run.of("row").filter(|row| row["ms"].is_number()).collect();
    let of = |how: &str| each.iter().filter(|row| row["how"] == how).collect::<Vec<_>>();
    let (connected, accepted, failed) = (of("connect"), of("accept"), of("failed"));
    let numbers = (connected.len(), accepted.len(), failed.len());
    assert_eq!(numbers, (CONNECTIONS, CONNECTIONS, 1), "{:?}", run.objects);
    let own = std::process::id();
    for row in connected.iter().chain(&accepted) {
        let ms = row["ms"].as_f64().unwrap_or_default();
        assert!((LIFE.as_secs_f64() * 1e3..10_000.0).contains(&ms), "{row}");
        let trip = row["rtt_us"].as_f64().unwrap_or_default();
        assert!(!has_rtt || trip > 0.0 && trip < 1e6, "{row}");
        assert_eq!(row["pid"], own, "{row}");
    }
    if !perilune::sys::machine::is_linux_since((6, 3)) {
        assert!(each.iter().all(|row| row["sent"].is_null()), "{each:?}");
        return;
    }
    let bytes = |row: &&&Value| (row["sent"].as_u64(), row["received"].as_u64());
    let (asked, answered) = (Some(ASKED as u64), Some(ANSWERED as u64));
    assert!(connected.iter().all(|row| bytes(row) == (asked, answered)), "{connected:?}");
    assert!(accepted.iter().all(|row| bytes(row) == (answered, asked)), "{accepted:?}");
    assert!(connected.iter().all(|row| row["peer"] == format!("127.0.0.1:{port}")));
    assert!(accepted.iter().all(|row| row["port"].as_u64() == port.parse().ok()), "{accepted:?}");
}

fn sockets_pass_through_their_states() {
    let listener = server();
    let port = listener.local_addr().expect("it is bound").port().to_string();
    let tool = Tool::attach(&["tcp", "--states", "--port", &port]);
    connect(&listener);
    let run = tool.finish();
    run.is_complete();
    for (from, to) in [
        ("SYN_SENT", "ESTABLISHED"),
        ("SYN_RECV", "ESTABLISHED"),
        ("ESTABLISHED", "FIN_WAIT1"),
        ("ESTABLISHED", "CLOSE_WAIT"),
        ("CLOSE_WAIT", "LAST_ACK"),
        ("LAST_ACK", "CLOSE"),
    ] {
        let row = run.of("row").find(|row| row["state"] == from && row["next"] == to);
        let row = row.unwrap_or_else(|| panic!("no {from} => {to}: {:?}", run.objects));
        assert_eq!(row["calls"], CONNECTIONS, "{row}");
    }
    let stays = run.of("row").filter(|row| row["state"] == "ESTABLISHED");
    let stays: Vec<_> = stays.filter_map(|row| row["min_us"].as_f64()).collect();
    assert!(stays.iter().all(|us| *us >= LIFE.as_secs_f64() * 1e6), "{stays:?}");
}

/// Returns the kernel's figures of a connection.
fn figures(socket: &TcpStream) -> libc::tcp_info {
    // SAFETY: a structure of integers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut size = size_of_val(&info) as libc::socklen_t;
    let (fd, at) = (socket.as_raw_fd(), (&raw mut info).cast());
    // SAFETY: an open socket, and memory of that size.
    let failed = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, at, &mut size) };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
    info
}

fn the_round_trip_is_the_one_that_the_socket_has() {
    let format = fs::read_to_string("/sys/kernel/tracing/events/tcp/tcp_probe/format");
    if format.is_ok_and(|format| !format.contains(" skaddr;")) {
        skip_anywhere("tcp:tcp_probe of this kernel does not contain the socket");
    }
    let listener = server();
    let address = listener.local_addr().expect("it is bound");
    let port = address.port().to_string();
    let tool = Tool::attach(&["tcp", "--each", "--rtt", "--port", &port]);
    let mut client = TcpStream::connect(address).expect("it listens");
    let (mut peer, _) = listener.accept().expect("a client connects");
    let mut trips = Vec::new();
    for _ in 0..100 {
        client.write_all(&[1; 100]).expect("it is connected");
        peer.read_exact(&mut [0; 100]).expect("they were sent");
        peer.write_all(&[1; 50]).expect("it is connected");
        client.read_exact(&mut [0; 50]).expect("they were sent");
        trips.push(f64::from(figures(&client).tcpi_rtt));
    }
    drop((client, peer));
    let run = tool.finish();
    run.is_complete();
    let row = run.of("row").find(|row| row["how"] == "connect" && row["rtt_us"].is_number());
    let row = row.unwrap_or_else(|| panic!("no connection: {:?}", run.objects));
    let trip = row["rtt_us"].as_f64().unwrap_or_default();
    let least = trips.iter().copied().fold(f64::MAX, f64::min);
    let most = trips.iter().copied().fold(0.0, f64::max);
    // The socket's figure changes with each segment, and was read after every fourth.
    assert!((least / 2.0..=most * 2.0).contains(&trip), "{trip} us, not {least} to {most}");
}

/// Makes a socket drop all segments that arrive, or ends that.
fn drop_segments(socket: &TcpStream, option: libc::c_int) {
    let code = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut none = libc::sock_filter { code, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut none };
    let (at, size) = ((&raw const program).cast(), size_of_val(&program) as libc::socklen_t);
    // SAFETY: an open socket, and a program of one instruction, which the kernel copies.
    let failed =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, at, size) };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
}

fn segments_are_sent_again_as_often_as_the_socket_counts() {
    // The kernel may write no record of a timer that interrupts an idle task.
    let _busy = crate::load::never_idle();
    let listener = server();
    let address = listener.local_addr().expect("it is bound");
    let port = address.port().to_string();
    let tool = Tool::attach(&["tcp", "--retransmits", "--port", &port]);
    let mut client = TcpStream::connect(address).expect("it listens");
    let (mut peer, _) = listener.accept().expect("a client connects");
    drop_segments(&peer, libc::SO_ATTACH_FILTER);
    client.write_all(&[1; 1000]).expect("it is connected");
    // The segment is sent again after 200 ms, after 400 ms more, and so on.
    thread::sleep(Duration::from_millis(1000));
    drop_segments(&peer, libc::SO_DETACH_FILTER);
    peer.read_exact(&mut [0; 1000]).expect("the segment arrives at last");
    let counted = u64::from(figures(&client).tcpi_total_retrans);
    let run = tool.finish();
    run.is_complete();
    assert!(counted >= 2, "{counted}");
    // Linux 6.18 omits the records of some events in interrupts, and counts them.
    let shown = run.sum("retransmits", "peer", address.to_string());
    let omitted = run.coverage()["undelivered"].as_u64().unwrap_or_default();
    assert_eq!(shown + omitted, counted, "{:?}", run.objects);
    assert!(shown > 0, "{:?}", run.objects);
    assert!(run.of("row").all(|row| row["state"] == "ESTABLISHED"), "{:?}", run.objects);
}

/// Returns the received bytes and packets, and the sent ones, that the loopback device counts.
fn loopback() -> [u64; 4] {
    let text = std::fs::read_to_string("/proc/net/dev").expect("procfs is mounted");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("lo:")).expect("a device");
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    [numbers[0], numbers[1], numbers[8], numbers[9]]
}

fn packets_and_bytes_are_those_that_the_device_counts() {
    const ETHERNET_HEADER: u64 = 14;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let to = socket.local_addr().expect("it is bound");
    let before = loopback();
    let tool = Tool::attach(&["net", "--device", "lo"]);
    let began = loopback();
    for _ in 0..500 {
        socket.send_to(&[1; 300], to).expect("it is sent");
        socket.recv(&mut [0; 300]).expect("it arrives");
    }
    let ended = loopback();
    let run = tool.finish();
    let after = loopback();
    run.is_complete();
    let sum = |column, direction: &str| run.sum(column, "direction", direction);
    let sent = sum("packets", "sent");
    // The device counts the bytes of sent packets without the header.
    let sent_bytes = sum("bytes", "sent") - sent * ETHERNET_HEADER;
    let shown = [sum("bytes", "received"), sum("packets", "received"), sent_bytes, sent];
    for (i, shown) in shown.into_iter().enumerate() {
        // Others use the device, too.
        let (least, most) = (ended[i] - began[i], after[i] - before[i]);
        assert!(least >= 500 && (least..=most).contains(&shown), "{i}: {least} {shown} {most}");
    }
}

/// `chain PACKETS UNUSED`: sends datagrams of 100 bytes to a port without a socket.
const SENDER: &str = r#"
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    char data[100] = { 0 };
    for (int i = 0; i < atoi(argv[1]); i++)
        if (sendto(s, data, sizeof data, 0, (void *)&to, sizeof to) != sizeof data) return 1;
    return 0;
}
"#;
const PACKETS: u32 = 200;

fn sent_by(args: &[&str]) -> Run {
    let run = Program::of(SENDER, &[]).watched(args, PACKETS, 0);
    run.is_complete();
    run
}

fn dropped_packets_have_a_reason_and_a_function() {
    for monitor in ["tcp", "net"] {
        let run = sent_by(&[monitor, "--drops"]);
        let row = run.of("row").find(|row| row["reason"] == "NO_SOCKET");
        let row = row.unwrap_or_else(|| panic!("no packet was dropped: {:?}", run.objects));
        let drops = row["drops"].as_u64().unwrap_or_default();
        // Another test may send packets to such a port, too.
        assert!((u64::from(PACKETS)..5000).contains(&drops), "{row}");
        assert_eq!(row["protocol"], "IPv4", "{row}");
        assert!(row["function"].to_string().contains("udp"), "{row}");
    }
}

fn sent_packets_belong_to_their_process() {
    let run = sent_by(&["net", "--device", "lo"]);
    let mut of_program = run.of("row").filter(|row| row["comm"] == "chain");
    let row = of_program.next().unwrap_or_else(|| panic!("it sent none: {:?}", run.objects));
    assert_eq!(row["packets"], PACKETS, "{row}");
    // Data, and the headers of UDP, IPv4 and Ethernet.
    assert_eq!(row["bytes"], PACKETS * (100 + 8 + 20 + 14), "{row}");
    let received = run.of("row").find(|row| row["direction"] == "received").expect("they arrive");
    assert!(received["packets"].as_u64() >= Some(PACKETS.into()), "{received}");
}

fn look_ups_are_timed_by_name_and_result() {
    const SOURCE: &str = r#"
#include <netdb.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    struct addrinfo *found, how = { .ai_flags = AI_NUMERICHOST };
    for (int i = 0; i < atoi(argv[1]); i++) if (getaddrinfo("127.0.0.1", 0, &how, &found)) return 1;
    for (int i = 0; i < atoi(argv[2]); i++) if (!getaddrinfo("not-a-number", 0, &how, &found)) return 1;
    return 0;
}
"#;
    let run = Program::of(SOURCE, &[]).watched(&["dns", "--each"], 3, 2);
    run.is_complete();
    let text = perilune::sys::machine::is_linux_since((6, 12));
    for (name, result, calls) in [("127.0.0.1", "ok", 3), ("not-a-number", "NONAME", 2)] {
        let name = if text { name } else { "-" };
        let fits = |row: &&Value| row["name"] == name && row["result"] == result;
        let (each, table): (Vec<_>, Vec<_>) =
            run.of("row").filter(fits).partition(|row| row["ms"].is_number());
        assert_eq!(each.len(), calls, "{:?}", run.objects);
        assert!(table.len() == 1 && table[0]["calls"] == calls, "{table:?}");
    }
}

/// `chain N UNKNOWN`: looks up a name of /etc/hosts and a name of its own server N times each, and
/// a name that does not exist. The files are its own, in a namespace of mounts.
const LOOK_UPS: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>
static void replace(const char *path, const char *text) {
    char own[] = "/tmp/look-ups-XXXXXX";
    int fd = mkstemp(own);
    if (write(fd, text, strlen(text)) < 0 || mount(own, path, 0, MS_BIND, 0)) _exit(10);
    close(fd);
    unlink(own);
}
static void serve(int s) {
    unsigned char data[512];
    struct sockaddr_in from;
    for (;;) {
        socklen_t length = sizeof from;
        int n = recvfrom(s, data, 400, 0, (void *)&from, &length), end = 12;
        if (n < 17) continue;
        while (end < n && data[end]) end += data[end] + 1;
        end += 5;
        int known = memcmp(data + 13, "none", 4) != 0;
        data[2] = 0x81, data[3] = known ? 0x80 : 0x83;
        memset(data + 6, 0, 6);
        data[7] = known;
        const unsigned char answer[] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 10, 9, 8, 7 };
        if (known) { usleep(20000); memcpy(data + end, answer, 16); end += 16; }
        sendto(s, data, end, 0, (void *)&from, length);
    }
}
int main(int argc, char **argv) {
    struct addrinfo *found, how = { .ai_family = AF_INET, .ai_socktype = SOCK_DGRAM };
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(53) };
    at.sin_addr.s_addr = htonl(0x7f090909);
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(s, (void *)&at, sizeof at)) return 11;
    if (unshare(CLONE_NEWNS) || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0)) return 12;
    replace("/etc/resolv.conf", "nameserver 127.9.9.9\n");
    replace("/etc/nsswitch.conf", "hosts: files dns\n");
    replace("/etc/hosts", "10.1.2.3 listed\n");
    pid_t server = fork();
    if (server == 0) serve(s);
    int wrong = 0;
    for (int i = 0; i < atoi(argv[1]); i++)
        wrong |= getaddrinfo("listed", 0, &how, &found) | getaddrinfo("slow.test", 0, &how, &found);
    for (int i = 0; i < atoi(argv[2]); i++)
        wrong |= getaddrinfo("none.test", 0, &how, &found) != EAI_NONAME;
    kill(server, SIGKILL);
    return wrong != 0;
}
"#;

fn look_ups_of_a_name_server_and_of_a_file_are_counted_by_name() {
    if !perilune::sys::machine::is_linux_since((6, 12)) {
        skip_anywhere("the names of look-ups need Linux 6.12");
    }
    let run = Program::of(LOOK_UPS, &[]).watched(&["dns", "--each"], 3, 2);
    run.is_complete();
    let names =
        [("listed", "ok", 3, 0.0), ("slow.test", "ok", 3, 20.0), ("none.test", "NONAME", 2, 0.0)];
    for (name, result, calls, ms) in names {
        let rows = run.of("row").filter(|row| row["name"] == name && row["result"] == result);
        let (each, table): (Vec<_>, Vec<_>) = rows.partition(|row| row["ms"].is_number());
        let longer = each.iter().filter(|row| row["ms"].as_f64() >= Some(ms)).count();
        assert_eq!(longer, calls, "{:?}", run.objects);
        assert!(table.len() == 1 && table[0]["calls"] == calls, "{table:?}");
    }
}
