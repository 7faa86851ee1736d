//! Which of the box's ports are taken, and by which process: parses the kernel's socket tables. `preflight` calls it.
use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::layout::Port;
use super::process;

/// A listening socket on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listener {
    address: IpAddr,
    port: u16,
    inode: u64,
}

/// One line for each wanted port that is taken, with its holder and what to do.
pub(super) fn conflicts(wanted: &[Port]) -> Vec<String> {
    let listeners: Vec<Listener> = ["tcp", "tcp6", "udp", "udp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/net/{table}")).ok())
        .flat_map(|text| parse(&text))
        .collect();
    let taken = taken(wanted, &listeners);
    if taken.is_empty() {
        return Vec::new();
    }
    let holders = holders();
    let mut lines: Vec<String> = taken
        .into_iter()
        .map(|(port, listener)| describe(port, listener, holders.get(&listener.inode).copied()))
        .collect();
    lines.dedup();
    lines
}

fn describe(port: &Port, listener: &Listener, holder: Option<i32>) -> String {
    let who = match holder {
        Some(pid) => format!("pid {pid} ({}) holds it: end that program", process::name(pid)),
        None => "another program holds it (`ss -lntup` shows which): end that program".to_owned(),
    };
    format!(
        "port {} on {} is taken, {} needs it; {who}, then run this again",
        port.number, listener.address, port.component
    )
}

/// A wanted port is taken if another socket listens on the same number at the same address or at every address.
fn taken<'a>(wanted: &'a [Port], listeners: &'a [Listener]) -> Vec<(&'a Port, &'a Listener)> {
    wanted
        .iter()
        .filter_map(|port| {
            let found = listeners.iter().find(|listener| {
                listener.port == port.number
                    && (listener.address.is_unspecified() || listener.address.to_string() == port.address)
            })?;
            Some((port, found))
        })
        .collect()
}

/// Lines of /proc/net/tcp and the like: the second column is the local address, the fourth the state (0A listens for
/// TCP, 07 is an unconnected UDP socket), the tenth the inode.
fn parse(text: &str) -> Vec<Listener> {
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (address, port) = fields.get(1)?.split_once(':')?;
            matches!(*fields.get(3)?, "0A" | "07").then_some(())?;
            Some(Listener {
                address: parse_address(address)?,
                port: u16::from_str_radix(port, 16).ok()?,
                inode: fields.get(9)?.parse().ok()?,
            })
        })
        .collect()
}

/// The kernel prints each 32-bit word of an address in host order (little-endian on every machine we support).
fn parse_address(text: &str) -> Option<IpAddr> {
    let bytes: Vec<u8> = (0..text.len() / 8)
        .filter_map(|index| u32::from_str_radix(text.get(index * 8..index * 8 + 8)?, 16).ok())
        .flat_map(u32::to_le_bytes)
        .collect();
    match bytes.len() {
        4 => Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?))),
        16 => Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical()),
        _ => None,
    }
}

/// Socket inode to pid, as far as /proc shows it.
fn holders() -> BTreeMap<u64, i32> {
    let mut found = BTreeMap::new();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        for file in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let inode = fs::read_link(file.path()).ok().and_then(|link| socket_inode(link.to_str()?));
            if let Some(inode) = inode {
                found.insert(inode, pid);
            }
        }
    }
    found
}

fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        \x20  0: 00000000:403B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 8123 1 0 100 0 0 10 0\n\
        \x20  1: 0100007F:305B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 8124 1 0 100 0 0 10 0\n\
        \x20  2: 0100007F:4699 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 8125 1 0 100 0 0 10 0\n";

    fn port(address: &'static str, number: u16) -> Port {
        Port { component: "test", address, number }
    }

    #[test]
    fn only_listening_sockets_count() {
        let found: Vec<String> = parse(TABLE)
            .iter()
            .map(|each| format!("{} {} {}", each.address, each.port, each.inode))
            .collect();
        assert_eq!(found, ["0.0.0.0 16443 8123", "127.0.0.1 12379 8124"]);
    }

    #[test]
    fn a_listener_on_every_address_takes_the_port_and_one_elsewhere_does_not() {
        let listeners = parse(TABLE);
        assert_eq!(taken(&[port("10.217.1.1", 16443)], &listeners).len(), 1);
        assert_eq!(taken(&[port("127.0.0.1", 12379)], &listeners).len(), 1);
        assert_eq!(taken(&[port("10.217.1.1", 12379)], &listeners), []);
    }

    #[test]
    fn a_mapped_address_is_an_ipv4_address() {
        assert_eq!(parse_address("0000000000000000FFFF00000100007F"), Some(IpAddr::from([127, 0, 0, 1])));
        assert_eq!(parse_address("00000000000000000000000000000000"), Some(Ipv6Addr::UNSPECIFIED.into()));
    }

    #[test]
    fn the_message_names_port_holder_and_remedy() {
        let listener = Listener { address: Ipv4Addr::LOCALHOST.into(), port: 12379, inode: 1 };
        let text = describe(&port("127.0.0.1", 12379), &listener, None);
        assert!(
            text.contains("12379") && text.contains("test needs it") && text.contains("end that program"),
            "{text}"
        );
    }
}
