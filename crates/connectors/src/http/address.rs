//! Which addresses are public, and a resolver that gives no others.

use crate::sockets::Sockets;
use pijs_hostcall::BoxFuture;
use pijs_protocol::{ExtensionId, guard};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::{Arc, LazyLock};
use std::{fmt, io};

/// Whether an address is reachable by the public: not this machine, its networks, or anything
/// reserved. Addresses that carry another inside (mapped, NAT64, 6to4) are judged by that one.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let blocked = address.is_unspecified()
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || (a == 100 && b & 0xc0 == 64)          // carrier-grade NAT
        || (a == 192 && b == 0 && c == 0)        // protocol assignments
        || (a == 192 && b == 88 && c == 99)      // 6to4 relays
        || (a == 198 && b & 0xfe == 18)          // benchmarks
        || address.octets() == [168, 63, 129, 16] // what a cloud tells its machines
        || a >= 240; // reserved
    !blocked
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low] => embedded(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        [0x2001, 0, ..] => false,               // Teredo
        [0x2001, b, ..] if b < 0x200 => false,  // protocol assignments
        [0x2001, 0xdb8, ..] => false,           // documentation
        [0x3fff, b, ..] if b < 0x1000 => false, // documentation
        // Global unicast is 2000::/3; everything else is this host, this link, local, or reserved.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Whether an address is one of this machine's own: nothing else can be bound to. One that is public by its number, too: what
/// listens on all addresses is reached there, and no firewall of the network stands before it.
fn is_own(address: IpAddr) -> bool {
    fn is_bound(address: IpAddr) -> bool {
        match UdpSocket::bind((address, 0)) {
            Ok(_) => true,
            // Without IPv6 no such address is anybody's.
            Err(error) => {
                let nobodys = [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT];
                !Errno::from_io_error(&error).is_some_and(|errno| nobodys.contains(&errno))
            }
        }
    }
    // Where the system binds what is nobody's, the answer says nothing.
    static BINDS_ALL: LazyLock<bool> = LazyLock::new(|| is_bound(Ipv4Addr::new(240, 0, 0, 1).into()));
    !*BINDS_ALL && is_bound(address.to_canonical())
}

/// A name that has an address which is not public.
#[derive(Debug)]
pub(super) struct Blocked;

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name has an address that is not public")
    }
}

impl std::error::Error for Blocked {}

/// A name for which no address is known.
#[derive(Debug)]
pub(super) struct Unresolved;

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no address is known for the name")
    }
}

impl std::error::Error for Unresolved {}

/// Finds the addresses of a name. The system's unless an embedder or a test brings another.
pub trait Resolver: Send + Sync {
    /// All addresses of `name`.
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;

    /// Whether an address is one of this machine's own.
    fn is_own(&self, address: IpAddr) -> bool {
        is_own(address)
    }
}

impl dyn Resolver {
    /// Whether an address is public, and another machine's.
    pub(crate) fn is_elsewhere(&self, address: IpAddr) -> bool {
        is_public(address) && !(guard::is_up("http.own") && self.is_own(address))
    }
}

/// The system's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        Box::pin(async move {
            crate::block::aside(move || Ok((&*name, 0).to_socket_addrs()?.map(|found| found.ip()).collect())).await?
        })
    }
}

/// This machine (RFC 6761); never asked of a resolver. Whether it may be reached is decided before.
pub(super) const LOCALHOST: &str = "localhost";

/// Refuses the whole answer of a resolver when one address is not public. What it returns is what is
/// connected to, so a second, different answer cannot come in between.
pub(super) struct PublicResolver {
    pub(super) resolver: Arc<dyn Resolver>,
    pub(super) sockets: Arc<Sockets>,
    pub(super) extension: ExtensionId,
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        if name.as_str() == LOCALHOST {
            let both: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            let addresses: Addrs = Box::new(both.into_iter().map(|address| SocketAddr::new(address, 0)));
            return Box::pin(std::future::ready(Ok(addresses)));
        }
        let (resolver, sockets) = (Arc::clone(&self.resolver), Arc::clone(&self.sockets));
        let extension = self.extension.clone();
        Box::pin(async move {
            let found = sockets.look_up(&extension, &resolver, name.as_str()).await.map_err(|_| Unresolved)?;
            if guard::is_up("http.address") && found.iter().any(|address| !resolver.is_elsewhere(*address)) {
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
    fn what_can_be_bound_is_this_machine_s() {
        for (address, own) in
            [("127.0.0.1", true), ("::ffff:127.0.0.1", true), ("1.1.1.1", false), ("2606:4700::1111", false)]
        {
            assert_eq!(is_own(address.parse().unwrap()), own, "{address}");
        }
    }

    #[test]
    fn only_public_addresses_are_public() {
        for public in ["1.1.1.1", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for blocked in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "168.63.129.16",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:a00:1",
            "::7f00:1",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "3fff::1",
        ] {
            assert!(!is_public(blocked.parse().unwrap()), "{blocked}");
        }
    }
}
