//! Network addresses: `%pI4`, `%pI6`, `%pIS` and their variants.

use super::number;
use crate::base::text::digits;

/// Format of a network address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ip {
    /// `i`: all digits, without colons.
    bare: bool,
    /// Bytes in little-endian order.
    reversed: bool,
    compressed: bool,
    port: bool,
    flow: bool,
    scope: bool,
}

impl Ip {
    /// Parses the letters after `%pI4`, `%pI6` and `%pIS`; `bare` for `%pi…`.
    pub(super) fn parse(bare: bool, letters: &[u8]) -> Ip {
        let has = |letter| letters.contains(&letter);
        Ip {
            bare,
            reversed: has(b'l') || (cfg!(target_endian = "little") && has(b'h')),
            compressed: has(b'c'),
            port: has(b'p'),
            flow: has(b'f'),
            scope: has(b's'),
        }
    }
}

/// Copies as many bytes as both have.
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

/// Appends an IPv4 address.
pub(super) fn push_ip4(out: &mut Vec<u8>, bytes: &[u8], ip: Ip) {
    let mut address = [0u8; 4];
    copy(&mut address, bytes);
    if ip.reversed {
        address.reverse();
    }
    for (i, byte) in address.into_iter().enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        digits::push_padded(out, byte.into(), if ip.bare { 3 } else { 1 }, b'0');
    }
}

/// Appends an IPv6 address.
pub(super) fn push_ip6(out: &mut Vec<u8>, bytes: &[u8], ip: Ip) {
    let mut address = [0u8; 16];
    copy(&mut address, bytes);
    let mut groups = [0u16; 8];
    for (group, bytes) in groups.iter_mut().zip(address.chunks_exact(2)) {
        *group = bytes.first_chunk().map_or(0, |bytes| u16::from_be_bytes(*bytes));
    }
    if ip.compressed && !ip.bare {
        return push_compressed(out, groups, &address);
    }
    for (i, group) in groups.into_iter().enumerate() {
        if i > 0 && !ip.bare {
            out.push(b':');
        }
        number::push_hex_digits(out, group.into(), 4);
    }
}

/// Appends the RFC 5952 form: the longest run of zeros as `::`, and an embedded IPv4 address in its
/// notation.
fn push_compressed(out: &mut Vec<u8>, groups: [u16; 8], address: &[u8; 16]) {
    let is_mapped = groups[..5] == [0; 5] && groups[5] == 0xffff;
    let is_isatap = groups[4] & !0x0200 == 0 && groups[5] == 0x5efe;
    let holds_ip4 = is_mapped || is_isatap;
    let groups = if holds_ip4 { &groups[..6] } else { &groups[..] };
    let run = |from: usize| groups[from..].iter().take_while(|group| **group == 0).count();
    let mut gap = 0..0;
    for from in 0..groups.len() {
        if run(from) > gap.len().max(1) {
            gap = from..from + run(from);
        }
    }
    let mut colon = false;
    for (i, group) in groups.iter().enumerate() {
        if gap.contains(&i) {
            if i == gap.start {
                out.extend_from_slice(if colon || i == 0 { b"::" } else { b":" });
                colon = false;
            }
            continue;
        }
        if colon {
            out.push(b':');
        }
        number::push_hex_digits(out, (*group).into(), 1);
        colon = true;
    }
    if holds_ip4 {
        if colon {
            out.push(b':');
        }
        push_ip4(out, &address[12..], Ip::default());
    }
}

/// Appends an address with its family, from `struct sockaddr_in` or `sockaddr_in6`.
pub(super) fn push_socket(out: &mut Vec<u8>, bytes: &[u8], ip: Ip) {
    const INET: u16 = 2;
    const INET6: u16 = 10;
    let part = |from: usize| bytes.get(from..).unwrap_or_default();
    let family = bytes.first_chunk().map(|family| u16::from_ne_bytes(*family));
    let number = |from| part(from).first_chunk().map_or(0, |n| u32::from_be_bytes(*n));
    let port = |out: &mut Vec<u8>| {
        out.push(b':');
        digits::push_u64(out, (number(2) >> 16).into());
    };
    match family {
        Some(INET) if bytes.len() >= 8 => {
            push_ip4(out, part(4), ip);
            if ip.port {
                port(out);
            }
        }
        Some(INET6) if bytes.len() >= 24 => {
            let bracketed = ip.port || ip.flow || ip.scope;
            out.extend(bracketed.then_some(b'['));
            push_ip6(out, part(8), ip);
            out.extend(bracketed.then_some(b']'));
            if ip.port {
                port(out);
            }
            if ip.flow {
                out.push(b'/');
                digits::push_u64(out, (number(4) & 0x0fff_ffff).into());
            }
            if ip.scope {
                out.push(b'%');
                let scope = part(24).first_chunk().map_or(0, |n| u32::from_ne_bytes(*n));
                digits::push_u64(out, scope.into());
            }
        }
        _ => out.extend_from_slice(b"(einval)"),
    }
}
