//! Host patterns of a scope: names, addresses and ports.

use super::{CompiledScope, ScopeError};
pub(crate) use pijs_protocol::manifest::RAW;
use std::net::IpAddr;

/// A host pattern.
#[derive(Debug, Clone)]
pub(super) struct HostPattern {
    /// `example.com`; `.example.com` for its sub-domains; or empty for any host.
    name: String,
    sub_domains: bool,
    any: bool,
    port: PortPattern,
    /// Whether the pattern has the prefix `tcp://`, which covers raw connections only.
    raw: bool,
}

/// The ports of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortPattern {
    /// Default port of the scheme.
    Usual,
    One(u16),
    /// Any port: `:*`.
    All,
}

impl PortPattern {
    /// Returns whether the pattern has an explicit port that matches.
    fn names(self, port: u16) -> bool {
        self == Self::All || self == Self::One(port)
    }
}

impl CompiledScope {
    /// Returns whether the scope covers a server. A pattern without a port covers the scheme's default.
    pub fn host(&self, scheme: &str, host: &str, port: u16) -> bool {
        let fits = |pattern: &HostPattern| (!pattern.raw || scheme == "tcp") && pattern.covers(scheme, host, port);
        self.hosts.as_ref().is_none_or(|patterns| patterns.iter().any(fits))
    }

    /// Returns whether a pattern with `tcp://` covers a server.
    pub fn raw_host(&self, host: &str, port: u16) -> bool {
        let fits = |pattern: &HostPattern| pattern.raw && pattern.covers("tcp", host, port);
        self.hosts.as_ref().is_some_and(|patterns| patterns.iter().any(fits))
    }

    /// Returns whether a pattern names this address and port, which a private address requires.
    pub fn names_address(&self, address: IpAddr, port: u16) -> bool {
        let name = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        self.hosts.as_ref().is_some_and(|patterns| {
            patterns.iter().any(|pattern| !pattern.sub_domains && pattern.name == name && pattern.port.names(port))
        })
    }

    /// Returns whether a pattern names `localhost` with this port.
    pub fn names_localhost(&self, port: u16) -> bool {
        let names =
            |pattern: &HostPattern| !pattern.sub_domains && pattern.name == "localhost" && pattern.port.names(port);
        self.hosts.as_ref().is_some_and(|patterns| patterns.iter().any(names))
    }

    /// Returns whether a pattern names this host and port exactly: an address, or `localhost`.
    pub(crate) fn names(&self, host: &str, port: u16) -> bool {
        match literal(host) {
            Some(address) => self.names_address(address, port),
            None => host == "localhost" && self.names_localhost(port),
        }
    }
}

impl HostPattern {
    fn covers(&self, scheme: &str, host: &str, port: u16) -> bool {
        let usual = if scheme == "https" { 443 } else { 80 };
        let port_fits = match self.port {
            PortPattern::Usual => self.any || port == usual,
            written => written.names(port),
        };
        let name_fits = self.any
            || if self.sub_domains {
                host.strip_suffix(self.name.as_str()).is_some_and(|front| !front.is_empty())
            } else {
                host == self.name
            };
        port_fits && name_fits
    }
}

/// Returns whether a host is, by its text, this machine or in a local network, so that a grant has to name it.
pub(crate) fn is_near(host: &str) -> bool {
    match literal(host) {
        Some(IpAddr::V4(address)) => {
            address.is_loopback() || address.is_private() || address.is_link_local() || address.is_unspecified()
        }
        Some(IpAddr::V6(address)) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local()
        }
        None => host == "localhost",
    }
}

/// Returns whether the address inside an IPv4-mapped or similar address is near: `[::ffff:127.0.0.1]`. The inner address decides
/// about a connection.
pub(crate) fn is_near_inside(host: &str) -> bool {
    literal(host).is_some_and(|address| is_near(&address.to_canonical().to_string()))
}

/// Parses a host that is an address literal.
pub(crate) fn literal(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).parse().ok()
}

/// Compiles a host pattern.
pub(super) fn compile_host(pattern: &str) -> Result<HostPattern, ScopeError> {
    let fail = |problem: &str| ScopeError { pattern: pattern.to_owned(), problem: problem.to_owned() };
    let (raw, server) = match pattern.strip_prefix(RAW) {
        Some(server) => (true, server),
        None => (false, pattern),
    };
    if server == "*" {
        return Ok(HostPattern { name: String::new(), sub_domains: false, any: true, port: PortPattern::Usual, raw });
    }
    let (sub_domains, rest) = match server.strip_prefix("*.") {
        Some(rest) => (true, rest),
        None => (false, server),
    };
    let (all_ports, rest) = match rest.strip_suffix(":*") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    // The URL parser defines hosts, so that case, IDN and address forms match those of requests.
    let parse = |scheme: &str| {
        let url = url::Url::parse(&format!("{scheme}://{rest}/")).ok()?;
        let is_bare = url.username().is_empty() && url.password().is_none() && url.path() == "/";
        (is_bare && url.query().is_none() && url.fragment().is_none()).then_some(url)
    };
    // A scheme without a default port keeps every explicit port.
    let port = match parse("any").and_then(|url| url.port()) {
        Some(_) if all_ports => return Err(fail("two ports")),
        Some(port) => PortPattern::One(port),
        None if all_ports => PortPattern::All,
        None if raw => return Err(fail("a raw connection has no default port: add one, or `:*` for all")),
        None => PortPattern::Usual,
    };
    let host = parse("http").and_then(|url| url.host_str().map(str::to_owned));
    match host {
        Some(host) if !rest.contains('*') => {
            let host = host.strip_suffix('.').unwrap_or(&host).to_owned();
            let name = if sub_domains { format!(".{host}") } else { host };
            Ok(HostPattern { name, sub_domains, any: false, port, raw })
        }
        _ => Err(fail("expected a host name, an IP address or `*.NAME`, then optionally `:PORT` or `:*`")),
    }
}
