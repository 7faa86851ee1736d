//! IPv4 subnets: parsing and overlap, for the check that the box's network is free.
use std::net::Ipv4Addr;

use anyhow::{Context, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subnet {
    address: u32,
    prefix: u8,
}

impl Subnet {
    /// Parses `10.0.0.0/8`, or a single address.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (address, prefix) = text.split_once('/').unwrap_or((text, "32"));
        let address: Ipv4Addr = address.parse().with_context(|| format!("{text:?} is not an IPv4 subnet"))?;
        let prefix: u8 = prefix.parse().with_context(|| format!("{text:?} is not an IPv4 subnet"))?;
        Ok(Self { address: u32::from(address), prefix: prefix.min(32) })
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix.min(other.prefix))).unwrap_or(0);
        self.address & mask == other.address & mask
    }
}

/// The lines of `ip -4 route show table all` whose destination overlaps with `network`. A default route is ignored.
pub(super) fn overlapping(network: Subnet, routes: &str) -> Vec<&str> {
    const KINDS: [&str; 7] =
        ["local", "broadcast", "unicast", "blackhole", "unreachable", "prohibit", "throw"];
    routes
        .lines()
        .filter(|line| {
            line.split_whitespace()
                .find(|word| !KINDS.contains(word))
                .and_then(|word| Subnet::parse(word).ok())
                .is_some_and(|route| route.prefix > 0 && network.overlaps(route))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_overlap_when_one_holds_the_other() {
        let network = Subnet::parse("10.217.0.0/16").expect("valid");
        for (other, expected) in [
            ("10.217.3.0/24", true),
            ("10.0.0.0/8", true),
            ("10.217.5.5", true),
            ("10.216.0.0/16", false),
            ("192.168.0.0/16", false),
        ] {
            assert_eq!(network.overlaps(Subnet::parse(other).expect("valid")), expected, "{other}");
        }
    }

    #[test]
    fn routes_of_others_are_found_and_the_default_route_is_not() {
        let routes = "default via 192.0.2.1 dev eth0\n10.0.0.0/8 dev tun0 scope link\n192.0.2.0/24 dev eth0\n\
            local 10.217.9.9 dev wg0 table local\nbroadcast 192.0.2.255 dev eth0\n";
        let network = Subnet::parse("10.217.0.0/16").expect("valid");
        assert_eq!(
            overlapping(network, routes),
            ["10.0.0.0/8 dev tun0 scope link", "local 10.217.9.9 dev wg0 table local"]
        );
    }
}
