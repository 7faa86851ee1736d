//! Limits for storage that a tenant describes: its settings come from an object that anyone with rights in one namespace can
//! write, and the server sends the requests. [`Guard`] decides which addresses may be connected to. `http` checks every
//! address that a host name resolves to, each time a connection is opened, so that a name cannot change its address after
//! the check.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::error::AddressRefused;

/// Which addresses a tenant's storage may have. By default none of the machine itself (loopback, unspecified), of its
/// network link (link-local), of groups of machines (multicast, broadcast) and of the metadata services of clouds.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    allows_loopback: bool,
}

impl Guard {
    /// For tests, whose servers listen on this machine: loopback addresses are allowed, every other limit holds.
    #[cfg(feature = "testing")]
    pub fn allowing_loopback() -> Self {
        Self { allows_loopback: true }
    }

    /// Fails if `address`, which `host` has, must not be connected to.
    pub(crate) fn check(&self, host: &str, address: IpAddr) -> Result<(), AddressRefused> {
        match kind(address) {
            None => Ok(()),
            Some(LOOPBACK) if self.allows_loopback => Ok(()),
            Some(kind) => Err(AddressRefused { host: host.to_owned(), address, kind }),
        }
    }

    /// Checks the address of a URL that names one instead of a host: it is connected to without being resolved.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), AddressRefused> {
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        self.check(url.host_str().unwrap_or_default(), address)
    }

    /// The addresses of a host, if every one of them may be connected to. One that may not is no oversight.
    fn checked(&self, host: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, AddressRefused> {
        for address in &found {
            self.check(host, address.ip())?;
        }
        Ok(found)
    }
}

/// Resolves host names as the system does and refuses those with an address that the guard does not allow.
#[derive(Debug)]
pub(crate) struct GuardedResolver(pub(crate) Guard);

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            let host = name.as_str();
            let found = tokio::net::lookup_host((host, 0)).await?.collect();
            Ok(Box::new(guard.checked(host, found)?.into_iter()) as Addrs)
        })
    }
}

const LOOPBACK: &str = "an address of the machine itself";
const UNSPECIFIED: &str = "an address that stands for the machine itself";
const LINK: &str = "an address of the machine's own network link";
const GROUP: &str = "an address of a group of machines";
const METADATA: &str = "the address of a cloud's metadata service";

/// Metadata services outside of the link-local range: Azure, Alibaba, Oracle.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];

/// The first two segments of the IPv6 addresses of Amazon's and Google's metadata services.
const METADATA_V6: [[u16; 2]; 2] = [[0xfd00, 0x0ec2], [0xfd20, 0x00ce]];

/// The kind of an address that is never allowed; None for an ordinary one.
fn kind(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => kind_of_v4(address),
        IpAddr::V6(address) => kind_of_v6(address),
    }
}

fn kind_of_v4(address: Ipv4Addr) -> Option<&'static str> {
    if address.is_loopback() {
        Some(LOOPBACK)
    } else if address.octets()[0] == 0 {
        Some(UNSPECIFIED)
    } else if address.is_link_local() {
        Some(LINK)
    } else if address.is_multicast() || address.is_broadcast() {
        Some(GROUP)
    } else if METADATA_V4.contains(&address) {
        Some(METADATA)
    } else {
        None
    }
}

fn kind_of_v6(address: Ipv6Addr) -> Option<&'static str> {
    let [first, second, ..] = address.segments();
    if address.is_loopback() {
        Some(LOOPBACK)
    } else if address.is_unspecified() {
        Some(UNSPECIFIED)
    } else if address.is_unicast_link_local() {
        Some(LINK)
    } else if address.is_multicast() {
        Some(GROUP)
    } else if METADATA_V6.contains(&[first, second]) {
        Some(METADATA)
    } else {
        embedded(address).and_then(kind_of_v4)
    }
}

/// The IPv4 address that an IPv6 address contains: mapped, compatible, NAT64, 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let at = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, .., high, low] | [0x2002, high, low, ..] => {
            Some(at(high, low))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::loopback("127.0.0.1")]
    #[case::elsewhere_in_loopback("127.8.9.10")]
    #[case::unspecified("0.0.0.0")]
    #[case::this_network("0.1.2.3")]
    #[case::metadata_of_most_clouds("169.254.169.254")]
    #[case::pod_identity("169.254.170.23")]
    #[case::multicast("224.0.0.1")]
    #[case::broadcast("255.255.255.255")]
    #[case::azure("168.63.129.16")]
    #[case::alibaba("100.100.100.200")]
    #[case::oracle("192.0.0.192")]
    #[case::loopback_v6("::1")]
    #[case::unspecified_v6("::")]
    #[case::link_local_v6("fe80::1")]
    #[case::end_of_link_local_v6("febf::1")]
    #[case::multicast_v6("ff02::1")]
    #[case::amazon_v6("fd00:ec2::254")]
    #[case::google_v6("fd20:ce::254")]
    #[case::mapped("::ffff:127.0.0.1")]
    #[case::mapped_link_local("::ffff:169.254.169.254")]
    #[case::compatible("::169.254.169.254")]
    #[case::translated("64:ff9b::169.254.169.254")]
    #[case::tunnelled("2002:a9fe:a9fe::1")]
    fn an_address_of_the_machine_or_of_its_link_is_refused(#[case] address: IpAddr) {
        let refused = Guard::default().check("storage.example", address).unwrap_err();
        assert_eq!((refused.host.as_str(), refused.address), ("storage.example", address));
    }

    #[rstest]
    #[case::public("52.216.0.1")]
    #[case::pod("10.42.0.7")]
    #[case::service("172.20.0.10")]
    #[case::home("192.168.1.20")]
    #[case::public_v6("2600:1f18::1")]
    #[case::private_v6("fd12:3456::1")]
    #[case::mapped("::ffff:10.42.0.7")]
    #[case::translated("64:ff9b::52.216.0.1")]
    fn any_other_address_is_allowed(#[case] address: IpAddr) {
        Guard::default().check("storage.example", address).unwrap();
    }

    #[rstest]
    #[case::plain("http://127.0.0.1:9000/bucket")]
    #[case::short("http://127.1/")]
    #[case::number("http://2130706433/")]
    #[case::hexadecimal("http://0x7f.0.0.1/")]
    #[case::octal("http://0177.0.0.1/")]
    #[case::v6("http://[::1]/")]
    #[case::mapped("http://[::ffff:7f00:1]/")]
    fn an_address_in_a_url_is_found_however_it_is_written(#[case] url: Url) {
        assert!(Guard::default().check_url(&url).is_err());
    }

    #[test]
    fn a_name_with_one_refused_address_is_refused() {
        let found = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        let guard = Guard::default();
        assert_eq!(guard.checked("a", found(&["10.0.0.1:0", "[fd12::1]:0"])).unwrap().len(), 2);
        assert!(guard.checked("a", found(&["10.0.0.1:0", "169.254.169.254:0"])).is_err());
    }

    #[test]
    fn a_test_may_use_this_machine_and_nothing_else() {
        let guard = Guard { allows_loopback: true };
        guard.check("localhost", Ipv4Addr::LOCALHOST.into()).unwrap();
        assert!(guard.check("a", "169.254.169.254".parse().unwrap()).is_err());
        assert!(guard.check("a", "::ffff:169.254.169.254".parse().unwrap()).is_err());
    }
}
