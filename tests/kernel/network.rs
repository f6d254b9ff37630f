//! tcp, net and dns over connections, packets and look-ups that the test makes.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::functions::Program;
use crate::live::live_tests;
use crate::tool::{Run, Tool};

live_tests! {
    each_connection_has_its_bytes_and_its_duration,
    sockets_pass_through_their_states,
    dropped_packets_have_a_reason_and_a_function,
    sent_packets_belong_to_their_process,
    look_ups_are_timed_by_name_and_result,
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
    let tool = Tool::attach(&["tcp", "--each", "--rtt", "--port", &port, "-m", "256"]);
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
        assert!(trip > 0.0 && trip < 1e6, "{row}");
        assert_eq!(row["pid"], own, "{row}");
    }
    if !perilune::sys::machine::is_linux_since((6, 3)) {
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
