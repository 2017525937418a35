//! Decides which addresses are public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether an address is public: not an address of this machine, of a local network, or of a reserved range. An address
/// that contains an IPv4 address (mapped, NAT64, 6to4, ISATAP) is judged by the latter.
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
        // ISATAP: packets are sent to the embedded IPv4 address.
        [.., 0 | 0x200, 0x5efe, high, low] if !embedded(high, low) => false,
        // Global unicast is 2000::/3; everything else is the host itself, link-local, site-local, or reserved.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2600:1:2:3:0:5efe:808:808",
        ] {
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
            "64:ff9b::a00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "::ffff:0:7f00:1",
            "2002:a00:1::1",
            "2002:c0a8:101::1",
            "2001:0:a00:1::1",
            "2600:1:2:3:0:5efe:a00:1",
            "2600:1:2:3:200:5efe:c0a8:101",
            "5f00::1",
            "fd00:ec2::254",
            "100::1",
            "3fff::1",
        ] {
            assert!(!is_public(blocked.parse().unwrap()), "{blocked}");
        }
    }
}
