//! tcp beside the figures of iproute2 and of the sockets themselves.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::Command;

use crate::functions::Program;
use crate::live::{live_tests, skip_anywhere};
use crate::tool::Tool;

live_tests! {
    each_attempt_of_a_socket_and_each_reset_of_an_older_connection_is_counted,
    the_bytes_of_a_connection_are_those_that_ss_shows,
    segments_that_are_lost_at_random_are_counted_as_the_socket_counts_them,
}

/// Returns the figures that `ss` shows of the connections from a local port: `name:value`.
fn ss(port: u16) -> HashMap<String, u64> {
    let filter = format!("( sport = :{port} )");
    let output = Command::new("ss").args(["-tinH", "state", "established", &filter]).output();
    let Ok(output) = output else { skip_anywhere("ss of iproute2 is not installed") };
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.split_whitespace().filter_map(|figure| figure.split_once(':'));
    figures.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

fn the_bytes_of_a_connection_are_those_that_ss_shows() {
    if !perilune::sys::machine::is_linux_since((6, 3)) {
        skip_anywhere("the kernel reports the bytes of sockets since Linux 6.3");
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let address = listener.local_addr().expect("it is bound");
    let port = address.port().to_string();
    let tool = Tool::attach(&["tcp", "--each", "--port", &port, "-m", "256"]);
    let mut client = TcpStream::connect(address).expect("it listens");
    let (mut peer, _) = listener.accept().expect("a client connects");
    for length in [1, 1000, 30_000] {
        client.write_all(&vec![1; length]).expect("it is connected");
        peer.read_exact(&mut vec![0; length]).expect("they were sent");
        peer.write_all(&vec![1; length / 2 + 1]).expect("it is connected");
        client.read_exact(&mut vec![0; length / 2 + 1]).expect("they were sent");
    }
    // The last segment is acknowledged after 40 ms or with the next one, so the count of the peer,
    // which has received it, is compared.
    let shown = ss(address.port());
    drop((client, peer));
    let run = tool.finish();
    run.is_complete();
    let row = run.of("row").find(|row| row["how"] == "accept" && row["ms"].is_number());
    let row = row.unwrap_or_else(|| panic!("no connection: {:?}", run.objects));
    assert_eq!(shown.get("bytes_received").copied(), row["received"].as_u64(), "{row} {shown:?}");
    assert_eq!(shown.get("bytes_sent").copied(), row["sent"].as_u64(), "{row} {shown:?}");
}

/// `chain PORT`: connects one socket three times to a closed port.
const REFUSED: &str = r#"
#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
int main(int argc, char **argv) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    for (int i = 0; i < 3; i++)
        if (!connect(s, (void *)&at, sizeof at)) return 1;
    return 0;
}
"#;

fn each_attempt_of_a_socket_and_each_reset_of_an_older_connection_is_counted() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(address).expect("it listens");
    let (peer, from) = listener.accept().expect("a client connects");
    drop(listener);
    let port = address.port().to_string();
    let tool = Tool::attach(&["tcp", "--each", "--port", &port, "-m", "256"]);
    let program = Program::of(REFUSED, &[]);
    let refused = Command::new(program.path()).arg(&port).status().expect("it was built");
    assert!(refused.success(), "{refused}");
    let lingers_not = libc::linger { l_onoff: 1, l_linger: 0 };
    let size = size_of_val(&lingers_not) as libc::socklen_t;
    // SAFETY: the pointer and the size are those of the structure that this option takes.
    let set = unsafe {
        let value = (&raw const lingers_not).cast();
        libc::setsockopt(client.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, value, size)
    };
    assert_eq!(set, 0);
    // A close without lingering resets the connection: both sockets go to CLOSE at once.
    drop(client);
    drop(peer);
    let run = tool.finish();
    run.is_complete();
    let failed = run.of("row").filter(|row| row["how"] == "failed" && row["ms"].is_number());
    assert_eq!(failed.count(), 3, "{:?}", run.objects);
    for peer in [address, from] {
        let rows = run.of("row").filter(|row| row["table"] == "older");
        let rows = rows.filter(|row| row["peer"] == peer.to_string() && row["comm"] == "-");
        let conns: u64 = rows.filter_map(|row| row["conns"].as_u64()).sum();
        assert_eq!(conns, 1, "{peer}: {:?}", run.objects);
    }
}

/// `chain BYTES FILE`: sends bytes to a socket that drops one in eight packets at random. Its
/// device is that of its own network namespace, where a packet is one segment. Writes how many
/// segments its socket sent again.
const LOSSY: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(4711) };
    struct tcp_info info;
    socklen_t size = sizeof info;
    static char data[65536];
    long left = atol(argv[1]);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (unshare(CLONE_NEWNET) || system("ip link set lo up mtu 1500 gso_max_segs 1")) return 10;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 1)) return 12;
    if (connect(client, (void *)&at, sizeof at)) return 13;
    int server = accept(listener, 0, 0);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_RANDOM),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 7, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, -1), BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog drops = { 4, code };
    if (setsockopt(server, SOL_SOCKET, SO_ATTACH_FILTER, &drops, sizeof drops)) return 11;
    if (fork() == 0) {
        close(client);
        while (read(server, data, sizeof data) > 0) {}
        _exit(0);
    }
    close(server);
    while (left > 0) {
        int n = write(client, data, left < 65536 ? left : 65536);
        if (n <= 0) return 14;
        left -= n;
    }
    shutdown(client, SHUT_WR);
    while (wait(NULL) > 0) {}
    if (getsockopt(client, IPPROTO_TCP, TCP_INFO, &info, &size)) return 15;
    FILE *out = fopen(argv[2], "w");
    fprintf(out, "%u", info.tcpi_total_retrans);
    return fclose(out);
}
"#;

fn segments_that_are_lost_at_random_are_counted_as_the_socket_counts_them() {
    if Command::new("ip").arg("-V").output().is_err() {
        skip_anywhere("ip of iproute2 is not installed");
    }
    // The kernel may deliver no event of an idle task.
    let _busy = crate::load::never_idle();
    // Once in about 200 runs, the kernel sends merged segments as one packet. The socket counts
    // each segment; the event is raised once. Other readers of the event count the same.
    let runs = [retransmissions(), retransmissions(), retransmissions()];
    assert!(runs.iter().all(|(shown, counted)| shown <= counted), "{runs:?}");
    assert!(runs.iter().filter(|(shown, counted)| shown == counted).count() >= 2, "{runs:?}");
}

/// Returns how many packets a run of LOSSY sent again, as perilune and its socket counted them.
fn retransmissions() -> (u64, u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("retransmitted").to_string_lossy().into_owned();
    let args = ["tcp", "--retransmits", "--port", "4711", "-a", "-m", "256"];
    let run = Program::of(LOSSY, &[]).with_arguments(&args, &["300000", &file]);
    run.is_complete();
    let counted = std::fs::read_to_string(&file).expect("the program wrote it");
    let counted: u64 = counted.parse().expect("a number");
    assert!(counted >= 5, "{counted}: {:?}", run.objects);
    let shown = run.sum("retransmits", "peer", "127.0.0.1:4711");
    let omitted = run.coverage()["undelivered"].as_u64().unwrap_or_default();
    assert!(shown > 0, "{:?}", run.objects);
    (shown + omitted, counted)
}
