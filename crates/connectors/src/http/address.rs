//! Decides which addresses are public, and resolves names to public addresses only.

use crate::connection_limits::{ConnectionLimits, too_many_names};
use crate::lookups::TooManyNames;
pub use pijs_environment::addresses::is_public;
use pijs_hostcall::BoxFuture;
use pijs_protocol::{ExtensionId, guard};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::{Arc, LazyLock};
use std::{fmt, io};

/// Returns whether an address belongs to this machine, that is, can be bound. This includes public addresses of this machine,
/// because a server on all interfaces is reachable at them without passing a firewall.
fn is_own(address: IpAddr) -> bool {
    fn is_bound(address: IpAddr) -> bool {
        match UdpSocket::bind((address, 0)) {
            Ok(_) => true,
            // Without IPv6 support, no IPv6 address belongs to this machine.
            Err(error) => {
                let nobodys = [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT];
                !Errno::from_io_error(&error).is_some_and(|errno| nobodys.contains(&errno))
            }
        }
    }
    // Some systems bind any address, so the test is meaningless there.
    static BINDS_ALL: LazyLock<bool> = LazyLock::new(|| is_bound(Ipv4Addr::new(240, 0, 0, 1).into()));
    !*BINDS_ALL && is_bound(address.to_canonical())
}

/// Range to which the prefix length of an IPv6 network is clamped: a site has at most a /48, and an address with a /128 mask
/// still belongs to a /64.
const NETWORK_BITS: std::ops::RangeInclusive<u32> = 48..=64;

/// Returns whether an address belongs to a network of this machine. Machines in a home or an office have public IPv6 addresses,
/// and there is no firewall between them.
fn is_neighbour(address: IpAddr) -> bool {
    let IpAddr::V6(address) = address.to_canonical() else { return false };
    // If the system does not list its networks, no address counts as a neighbour.
    own_networks().unwrap_or_default().iter().any(|own| own.holds(address))
}

/// An IPv6 network: one of its addresses, and its prefix length.
#[derive(Debug, PartialEq, Eq)]
struct Network(Ipv6Addr, u32);

impl Network {
    fn holds(&self, address: Ipv6Addr) -> bool {
        let differs = self.0.to_bits() ^ address.to_bits();
        differs.leading_zeros() >= self.1.clamp(*NETWORK_BITS.start(), *NETWORK_BITS.end())
    }
}

/// Returns the IPv6 networks of this machine's addresses.
fn own_networks() -> nix::Result<Vec<Network>> {
    let networks = nix::ifaddrs::getifaddrs()?.filter_map(|interface| {
        let own = interface.address?.as_sockaddr_in6()?.ip();
        let mask = interface.netmask.and_then(|mask| Some(mask.as_sockaddr_in6()?.ip().to_bits().leading_ones()));
        Some(Network(own, mask.unwrap_or(*NETWORK_BITS.end())))
    });
    Ok(networks.collect())
}

/// Error for a name with an address that is not public.
#[derive(Debug)]
pub(super) struct Blocked;

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name has an address that is not public")
    }
}

impl std::error::Error for Blocked {}

/// Error for a name without an address.
#[derive(Debug)]
pub(super) struct Unresolved;

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the host name does not resolve")
    }
}

impl std::error::Error for Unresolved {}

/// Resolves names. The default is the system's resolver; embedders and tests may replace it.
pub trait Resolver: Send + Sync {
    /// Returns all addresses of `name`.
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;

    /// Returns whether an address belongs to this machine.
    fn is_own(&self, address: IpAddr) -> bool {
        is_own(address)
    }

    /// Returns whether an address, although public, belongs to a network of this machine.
    fn is_neighbour(&self, address: IpAddr) -> bool {
        is_neighbour(address)
    }
}

impl dyn Resolver {
    /// Returns whether an address is public, and belongs neither to this machine nor to its networks.
    pub(crate) fn is_elsewhere(&self, address: IpAddr) -> bool {
        is_public(address)
            && !(guard!(HttpOwn) && self.is_own(address))
            && !(guard!(HttpNeighbours) && self.is_neighbour(address))
    }
}

/// The system's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        Box::pin(async move {
            crate::blocking::run_blocking(move || Ok((&*name, 0).to_socket_addrs()?.map(|found| found.ip()).collect()))
                .await?
        })
    }
}

/// The name of this machine (RFC 6761). It is never sent to a resolver; whether it may be reached is checked before.
pub(super) const LOCALHOST: &str = "localhost";

/// A resolver that fails if any address of a name is not public. The client connects to the addresses that it returns, so there
/// is no second lookup whose result could differ.
pub(super) struct PublicResolver {
    pub(super) resolver: Arc<dyn Resolver>,
    pub(super) limits: Arc<ConnectionLimits>,
    pub(super) extension: ExtensionId,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        if name.as_str() == LOCALHOST {
            let both: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            let addresses: Addrs = Box::new(both.into_iter().map(|address| SocketAddr::new(address, 0)));
            return Box::pin(std::future::ready(Ok(addresses)));
        }
        let (resolver, limits) = (Arc::clone(&self.resolver), Arc::clone(&self.limits));
        let extension = self.extension.clone();
        Box::pin(async move {
            let found = match limits.look_up(&extension, &resolver, name.as_str()).await {
                Err(error) if too_many_names(&error).is_some() => return Err(TooManyNames.into()),
                found => found.map_err(|_| Unresolved)?,
            };
            if guard!(HttpAddress) && found.iter().any(|address| !resolver.is_elsewhere(*address)) {
                return Err(Blocked.into());
            }
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_can_be_bound_are_own() {
        for (address, own) in
            [("127.0.0.1", true), ("::ffff:127.0.0.1", true), ("1.1.1.1", false), ("2606:4700::1111", false)]
        {
            assert_eq!(is_own(address.parse().unwrap()), own, "{address}");
        }
    }

    #[test]
    fn addresses_with_the_same_prefix_are_in_one_network() {
        let network = |own: &str, bits| Network(own.parse().unwrap(), bits);
        for (own, bits, near, far) in [
            ("2600:1:2:3::5", 64, "2600:1:2:3:ffff::9", "2600:1:2:4::5"),
            // A /128 counts as a /64.
            ("2600:1:2:3::5", 128, "2600:1:2:3::6", "2600:1:2:2::5"),
            ("2600:1:2:300::5", 56, "2600:1:2:3ff::1", "2600:1:2:400::1"),
            // A default route counts as a /48.
            ("2600:1:2:3::5", 3, "2600:1:2:ffff::1", "2600:1:3::1"),
        ] {
            let own = network(own, bits);
            assert!(own.holds(near.parse().unwrap()), "{own:?} {near}");
            assert!(!own.holds(far.parse().unwrap()), "{own:?} {far}");
        }
    }

    #[test]
    fn addresses_in_own_networks_are_neighbours() {
        for Network(own, _) in own_networks().unwrap() {
            assert!(is_neighbour(own.into()), "{own}");
        }
        for far in ["2606:4700::1111", "1.1.1.1", "::ffff:1.1.1.1"] {
            assert!(!is_neighbour(far.parse().unwrap()), "{far}");
        }
    }

    /// The networks equal the kernel's list, so the result of the system call is interpreted correctly.
    #[cfg(target_os = "linux")]
    #[test]
    fn own_networks_match_the_list_of_the_kernel() {
        let listed = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
        let mut listed: Vec<String> = listed
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .map(|words| (u128::from_str_radix(words[0], 16).unwrap(), u32::from_str_radix(words[2], 16).unwrap()))
            .map(|(own, bits)| format!("{:?}", Network(own.into(), bits)))
            .collect();
        let mut own: Vec<String> = own_networks().unwrap().iter().map(|own| format!("{own:?}")).collect();
        listed.sort();
        own.sort();
        assert_eq!(own, listed);
    }
}
