//! Servers of a scope: names, addresses and ports.

use super::{CompiledScope, ScopeError};
use std::net::IpAddr;

/// Stands before a server to which any bytes may be sent, not only HTTP requests.
pub(crate) const RAW: &str = "tcp://";

/// Servers that a scope covers.
#[derive(Debug, Clone)]
pub(super) struct HostPattern {
    /// `example.com`, or `.example.com` for its sub-domains, or empty for any.
    name: String,
    sub_domains: bool,
    any: bool,
    port: Port,
    /// `tcp://` before it: raw connections, and nothing else.
    raw: bool,
}

/// The ports that a pattern allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    /// The scheme's own.
    Usual,
    One(u16),
    /// `:*`.
    All,
}

impl Port {
    /// Whether `port` was written down, alone or among all of them.
    fn names(self, port: u16) -> bool {
        self == Self::All || self == Self::One(port)
    }
}

impl CompiledScope {
    /// Whether a server is inside. A pattern without a port means the scheme's own.
    pub fn host(&self, scheme: &str, host: &str, port: u16) -> bool {
        let fits = |pattern: &HostPattern| (!pattern.raw || scheme == "tcp") && pattern.covers(scheme, host, port);
        self.hosts.as_ref().is_none_or(|patterns| patterns.iter().any(fits))
    }

    /// Whether a pattern says that any bytes may be sent to a server: `tcp://` and the server.
    pub fn raw_host(&self, host: &str, port: u16) -> bool {
        let fits = |pattern: &HostPattern| pattern.raw && pattern.covers("tcp", host, port);
        self.hosts.as_ref().is_some_and(|patterns| patterns.iter().any(fits))
    }

    /// Whether the user named this very address and port: what a private address needs.
    pub fn names_address(&self, address: IpAddr, port: u16) -> bool {
        let name = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        self.hosts.as_ref().is_some_and(|patterns| {
            patterns.iter().any(|pattern| !pattern.sub_domains && pattern.name == name && pattern.port.names(port))
        })
    }

    /// Whether the user named this machine by its name, `localhost`, with this very port.
    pub fn names_localhost(&self, port: u16) -> bool {
        let names =
            |pattern: &HostPattern| !pattern.sub_domains && pattern.name == "localhost" && pattern.port.names(port);
        self.hosts.as_ref().is_some_and(|patterns| patterns.iter().any(names))
    }

    /// Whether the user named this very host and port: an address, or `localhost`.
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
            Port::Usual => self.any || port == usual,
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

/// Whether a host is this machine or in its networks, by what is written: such a one has to be named.
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

/// Unwraps an address that carries another one: `[::ffff:127.0.0.1]`. A connection is judged by the inner one.
pub(crate) fn is_near_inside(host: &str) -> bool {
    literal(host).is_some_and(|address| is_near(&address.to_canonical().to_string()))
}

/// Returns the address that a host is written as.
pub(crate) fn literal(host: &str) -> Option<IpAddr> {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host).parse().ok()
}

/// Compiles a pattern of servers.
pub(super) fn compile_host(pattern: &str) -> Result<HostPattern, ScopeError> {
    let fail = |problem: &str| ScopeError { pattern: pattern.to_owned(), problem: problem.to_owned() };
    let (raw, server) = match pattern.strip_prefix(RAW) {
        Some(server) => (true, server),
        None => (false, pattern),
    };
    if server == "*" {
        return Ok(HostPattern { name: String::new(), sub_domains: false, any: true, port: Port::Usual, raw });
    }
    let (sub_domains, rest) = match server.strip_prefix("*.") {
        Some(rest) => (true, rest),
        None => (false, server),
    };
    let (all_ports, rest) = match rest.strip_suffix(":*") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    // The URL parser is the judge of what a host is: case, IDN and address forms come out as
    // they will in a request.
    let parse = |scheme: &str| {
        let url = url::Url::parse(&format!("{scheme}://{rest}/")).ok()?;
        let is_bare = url.username().is_empty() && url.password().is_none() && url.path() == "/";
        (is_bare && url.query().is_none() && url.fragment().is_none()).then_some(url)
    };
    // A scheme without a port of its own keeps every port that is written.
    let port = match parse("any").and_then(|url| url.port()) {
        Some(_) if all_ports => return Err(fail("two ports")),
        Some(port) => Port::One(port),
        None if all_ports => Port::All,
        None if raw => return Err(fail("a raw connection has no usual port: write one, or `:*` for all of them")),
        None => Port::Usual,
    };
    let host = parse("http").and_then(|url| url.host_str().map(str::to_owned));
    match host {
        Some(host) if !rest.contains('*') => {
            let host = host.strip_suffix('.').unwrap_or(&host).to_owned();
            let name = if sub_domains { format!(".{host}") } else { host };
            Ok(HostPattern { name, sub_domains, any: false, port, raw })
        }
        _ => Err(fail(
            "not a host name, an address, or `*.` before a name; a port, or `*` for all of them, follows a colon",
        )),
    }
}
