//! Opens plain connections: TCP to vetted addresses, sockets in the file system, and servers on loopback.
//!
//! The extension chooses a name for each connection. One asynchronous call connects (or accepts a connection) and streams
//! received data until the other side closes; `write` and `end` send. Cancelling that call, `close`, and the end of the extension
//! close the connection. A server listens on loopback or at a path, and is one asynchronous call as well. Names are resolved
//! once; every address must be public or named by a grant, literally and with its port, as for `http`. With `tls` the connection
//! is encrypted.
//!
//! Under a grant of `http` a connection carries only HTTP requests for its host ([`request_filter`]); a grant of
//! `tcp://HOST:PORT` allows any bytes.

mod request_filter;
mod socket_path;
pub(crate) mod tls;

use crate::connection_limits::{ConnectionLimits, ConnectionPermit, too_many_names};
use crate::http::address::Resolver;
use pijs_hostcall::connector::cancelled;
use pijs_hostcall::derive::net_host;
use pijs_hostcall::gate::Listening;
use pijs_hostcall::{Access, BoxFuture, ChunkSink, Connector, Output, Reason, Request};
use pijs_protocol::call::{NetCall, SocketTarget, TlsOptions};
use pijs_protocol::{ExtensionId, HostcallError, TypedCall, guard};
use request_filter::{RequestFilter, RequestServer};
use serde_json::{Value, json};
use socket_path::SocketPath;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tls::TlsSettings;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Notify;

/// Maximum number of open connections and servers of one extension.
const MAX_OPEN: usize = 256;

/// Maximum size of a chunk in bytes.
const PIECE: usize = 64 << 10;

/// Maximum time for connecting.
const CONNECT: Duration = Duration::from_secs(30);

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writer = Arc<tokio::sync::Mutex<Box<dyn AsyncWrite + Send + Unpin>>>;

/// A connection or server in the table.
enum SocketEntry {
    /// An accepted connection that no call reads yet.
    Waiting(Reader, Writer, Value, ConnectionPermit),
    /// The writing side of a connection, and the request filter if the connection may only carry HTTP requests.
    Open(Writer, Option<SharedFilter>),
    /// A server: the signal that closes it, and its registration with the gate if it listens on an address.
    Listening { close: Arc<Notify>, _known: Option<Listening> },
}

/// The request filter of a connection, shared with the call that reads the responses.
type SharedFilter = Arc<Mutex<RequestFilter>>;

type Key = (ExtensionId, String);

#[derive(Default)]
struct Table {
    entries: Mutex<BTreeMap<Key, SocketEntry>>,
}

impl Table {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<Key, SocketEntry>) -> T) -> T {
        work(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn insert(&self, key: Key, entry: SocketEntry) -> Result<(), HostcallError> {
        self.with(|table| {
            if table.keys().filter(|(owner, _)| *owner == key.0).count() >= MAX_OPEN {
                return Err(io("EMFILE", "connect", &format!("{MAX_OPEN} connections are open already")));
            }
            if table.contains_key(&key) {
                return Err(HostcallError::invalid("schema", format!("net: the name {:?} is in use", key.1)));
            }
            table.insert(key, entry);
            Ok(())
        })
    }

    fn writer(&self, key: &Key) -> Result<(Writer, Option<SharedFilter>), HostcallError> {
        self.with(|table| match table.get(key) {
            Some(SocketEntry::Open(writer, filter)) => Ok((Arc::clone(writer), filter.clone())),
            Some(SocketEntry::Waiting(_, writer, ..)) => Ok((Arc::clone(writer), None)),
            _ => Err(io("EPIPE", "write", "the connection is closed")),
        })
    }
}

/// Removes a name from the table when the call that owns it ends.
struct Lease {
    table: Arc<Table>,
    key: Key,
    _permit: ConnectionPermit,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.table.with(|table| table.remove(&self.key));
    }
}

/// Returns the host of each server at a port that the user's configuration names, with the file or variable that names it.
pub type UserServersAt = Arc<dyn Fn(u16) -> Vec<(String, String)> + Send + Sync>;

/// Creates connections to other machines.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) user_servers: UserServersAt,
    pub(crate) limits: Arc<ConnectionLimits>,
}

impl Dialer {
    /// Acquires a permit for one connection from the caller's quota; fails with `EMFILE` at the limit.
    pub(crate) fn permit(&self, request: &Request) -> Result<ConnectionPermit, HostcallError> {
        let permit = self.limits.try_acquire(request.caller.extension());
        permit.ok_or_else(|| io("EMFILE", "connect", "too many connections are open; close some first"))
    }
}

/// Serves the `net` method.
pub struct NetConnector {
    table: Arc<Table>,
    dialer: Dialer,
}

impl NetConnector {
    /// Creates a connector without connections.
    pub(crate) fn new(dialer: Dialer) -> Self {
        Self { table: Arc::default(), dialer }
    }
}

impl Connector for NetConnector {
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let (table, dialer) = (Arc::clone(&self.table), self.dialer.clone());
        Box::pin(async move {
            let cancel = request.cancel.clone();
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(cancelled("net")),
                done = run(table, dialer, request, sink) => done,
            }
        })
    }

    fn end_extension(&self, extension: &ExtensionId) {
        self.table.with(|table| table.retain(|(owner, _), _| owner != extension));
        self.dialer.limits.end(extension);
    }
}

async fn run(table: Arc<Table>, dialer: Dialer, request: Request, sink: ChunkSink) -> Result<Output, HostcallError> {
    let key = |name: &str| (request.caller.extension().clone(), name.to_owned());
    let TypedCall::Net(call) = &request.call else { return Err(request.misdirected()) };
    match call {
        NetCall::Connect { socket, at, tls, protocol } => {
            let key: Key = key(socket);
            let _permit = dialer.permit(&request)?;
            let server = requests_only(&request, at, tls.is_some(), protocol.as_deref())?;
            let (reader, writer, about) = connect(&dialer, &request, at, tls.as_ref()).await?;
            let server = server.filter(|_| !is_other_protocol(&about));
            let filter = server.map(|server| Arc::new(Mutex::new(RequestFilter::new(server))));
            table.insert(key.clone(), SocketEntry::Open(writer, filter.clone()))?;
            let _lease = Lease { table, key, _permit };
            receive(reader, about, filter, &sink).await
        }
        NetCall::Accept { socket } => {
            let key: Key = key(socket);
            let waiting = table.with(|entries| match entries.remove(&key) {
                Some(SocketEntry::Waiting(reader, writer, about, permit)) => {
                    entries.insert(key.clone(), SocketEntry::Open(writer, None));
                    Some((reader, about, permit))
                }
                Some(other) => {
                    entries.insert(key.clone(), other);
                    None
                }
                None => None,
            });
            let waiting = waiting.ok_or_else(|| io("EBADF", "accept", "there is no such connection to accept"))?;
            let (reader, about, _permit) = waiting;
            let _lease = Lease { table, key, _permit };
            receive(reader, about, None, &sink).await
        }
        NetCall::Refuse { socket } => {
            let key: Key = key(socket);
            table.with(|entries| {
                matches!(entries.get(&key), Some(SocketEntry::Waiting(..))).then(|| entries.remove(&key))
            });
            Ok(Output::empty())
        }
        NetCall::Close { server } => {
            let key: Key = key(server);
            let close = table.with(|entries| match entries.get(&key) {
                Some(SocketEntry::Listening { close, .. }) => Some(Arc::clone(close)),
                _ => None,
            });
            close.ok_or_else(|| io("EBADF", "close", "there is no such server"))?.notify_one();
            Ok(Output::empty())
        }
        NetCall::Write { socket, data } => {
            let (writer, filter) = table.writer(&key(socket))?;
            let mut writer = writer.lock().await;
            let data = match filter {
                Some(filter) => filter.lock().unwrap_or_else(PoisonError::into_inner).filter(data)?.into(),
                None => Cow::Borrowed(&**data),
            };
            writer.write_all(&data).await.map_err(|error| failed(&error, "write"))?;
            writer.flush().await.map_err(|error| failed(&error, "write"))?;
            Ok(Output::empty())
        }
        NetCall::End { socket } => {
            let (writer, _) = table.writer(&key(socket))?;
            writer.lock().await.shutdown().await.map_err(|error| failed(&error, "shutdown"))?;
            Ok(Output::empty())
        }
        NetCall::Listen { server, at } => {
            let key: Key = key(server);
            listen(table, &dialer, &request, at, key, &sink).await
        }
    }
}

/// Streams all data that the other side sends, then the end of the data. The writing side stays open until the call is cancelled.
async fn receive(
    mut reader: Reader,
    about: Value,
    filter: Option<SharedFilter>,
    sink: &ChunkSink,
) -> Result<Output, HostcallError> {
    sink.send(Output::new(json!({ "connected": about })))?;
    let mut piece = vec![0; PIECE];
    loop {
        sink.ready().await;
        let count = reader.read(&mut piece).await.map_err(|error| failed(&error, "read"))?;
        if count == 0 {
            sink.send(Output::new(json!({ "end": true })))?;
            break;
        }
        if let Some(filter) = &filter {
            filter.lock().unwrap_or_else(PoisonError::into_inner).inspect_response(&piece[..count]);
        }
        sink.send(Output::default().with_bytes("data", piece[..count].to_vec()))?;
    }
    // The call stays open until it is cancelled, so that the other direction can continue.
    std::future::pending().await
}

/// Both directions of a connection, and the members that Node reports about it.
pub(crate) type Connected = (Reader, Writer, Value);

fn halves(
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
) -> (Reader, Writer) {
    (Box::new(reader), Arc::new(tokio::sync::Mutex::new(Box::new(writer))))
}

/// Returns the local and the remote address of a connection.
fn ends(stream: &TcpStream) -> Result<(SocketAddr, SocketAddr), HostcallError> {
    let ends = stream.local_addr().and_then(|local| Ok((local, stream.peer_addr()?)));
    ends.map_err(|error| failed(&error, "connect"))
}

fn about(local: SocketAddr, remote: SocketAddr) -> Value {
    json!({
        "localAddress": local.ip().to_string(), "localPort": local.port(),
        "remoteAddress": remote.ip().to_string(), "remotePort": remote.port(),
        "family": if remote.is_ipv4() { "IPv4" } else { "IPv6" },
    })
}

fn tcp(stream: TcpStream) -> Result<Connected, HostcallError> {
    let (local, remote) = ends(&stream)?;
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    let (reader, writer) = halves(reader, writer);
    Ok((reader, writer, about(local, remote)))
}

fn unix(stream: UnixStream) -> Connected {
    let (reader, writer) = stream.into_split();
    let (reader, writer) = halves(reader, writer);
    (reader, writer, json!({}))
}

/// Returns the server if the connection may only carry HTTP requests for it. Returns `None` if any bytes are allowed: to a socket
/// in the file system, to a server of the extension itself, and under a grant for raw bytes.
fn requests_only(
    request: &Request,
    at: &SocketTarget,
    is_tls: bool,
    protocol: Option<&str>,
) -> Result<Option<RequestServer>, HostcallError> {
    let SocketTarget::Host(written, port) = at else { return Ok(None) };
    let (host, port) = (net_host(written)?, *port);
    let permit = &request.permit;
    let is_own = literal(&host).is_some_and(|address| permit.is_own_server(SocketAddr::new(address, port)));
    if is_own || (protocol != Some("http") && permit.sends_raw(&host, port)) {
        return Ok(None);
    }
    let mut names = vec![host];
    let spelled = written.trim_end_matches('.').to_ascii_lowercase();
    names.push(if spelled.contains(':') && !spelled.starts_with('[') { format!("[{spelled}]") } else { spelled });
    Ok(Some(RequestServer { names, port, is_tls }))
}

/// Returns whether both sides negotiated a protocol other than HTTP in the TLS handshake. The server then does not interpret the
/// bytes as requests.
fn is_other_protocol(about: &Value) -> bool {
    let agreed = about["alpn"].as_str().unwrap_or_default().to_ascii_lowercase();
    let is_http = agreed.starts_with("http")
        || agreed.starts_with("h2")
        || agreed.starts_with("h3")
        || agreed.starts_with("spdy");
    !agreed.is_empty() && !is_http
}

async fn connect(
    dialer: &Dialer,
    request: &Request,
    at: &SocketTarget,
    tls: Option<&TlsOptions>,
) -> Result<Connected, HostcallError> {
    match at {
        SocketTarget::Path(path) => {
            let socket = SocketPath::of(request, path, Access::Speak)?;
            socket.connect().await.map(unix).map_err(|error| failed(&error, "connect").with("path", path.as_str()))
        }
        SocketTarget::Host(written, port) => {
            let host = net_host(written)?;
            let wanted = tls.map(|tls| TlsSettings::of(tls, &host)).transpose()?;
            dial(dialer, request, &host, *port, wanted).await
        }
    }
}

/// Connects to a host if all of its addresses are allowed, with TLS when `wanted` is set.
pub(crate) async fn dial(
    dialer: &Dialer,
    request: &Request,
    host: &str,
    port: u16,
    wanted: Option<TlsSettings>,
) -> Result<Connected, HostcallError> {
    let found = addresses(dialer, request, host, port).await?;
    let mut last = io("ENOTFOUND", "getaddrinfo", &format!("getaddrinfo ENOTFOUND {host}"));
    for address in found {
        match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                return match &wanted {
                    None => tcp(stream),
                    Some(wanted) => {
                        let ends = ends(&stream)?;
                        let _ = stream.set_nodelay(true);
                        wanted.connect(stream, host, ends).await
                    }
                };
            }
            Ok(Err(error)) => {
                last = failed(&error, "connect").with("address", address.ip().to_string()).with("port", port)
            }
            Err(_) => last = io("ETIMEDOUT", "connect", &format!("connect ETIMEDOUT {address}")),
        }
    }
    Err(last)
}

/// Returns the addresses of a host; fails if any of them is not allowed.
async fn addresses(
    dialer: &Dialer,
    request: &Request,
    host: &str,
    port: u16,
) -> Result<Vec<SocketAddr>, HostcallError> {
    let named = literal(host);
    let found: Vec<SocketAddr> = match named {
        Some(address) => vec![SocketAddr::new(address, port)],
        None => {
            let missing =
                |errno| io(errno, "getaddrinfo", &format!("getaddrinfo {errno} {host}")).with("hostname", host);
            let finding = dialer.limits.look_up(request.caller.extension(), &dialer.resolver, host);
            let found = tokio::time::timeout(CONNECT, finding).await.map_err(|_| missing("EAI_AGAIN"))?;
            let found = found.map_err(|error| match too_many_names(&error) {
                Some(refused) => refused.refusal("net"),
                None => missing("ENOTFOUND"),
            })?;
            found.into_iter().map(|address| SocketAddr::new(address, port)).collect()
        }
    };
    let permit = &request.permit;
    let this_machine = host == "localhost" && permit.names_localhost(port);
    let allowed = |address: &SocketAddr| {
        dialer.resolver.is_elsewhere(address.ip())
            || (this_machine && address.ip().is_loopback())
            || (named.is_some() && (permit.names_address(address.ip(), port) || permit.is_own_server(*address)))
    };
    if guard!(NetPublic) && !found.iter().all(allowed) {
        return Err(Reason::BlockedAddress.refusal("net", "http", &format!("{host}:{port}")));
    }
    Ok(found)
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

async fn listen(
    table: Arc<Table>,
    dialer: &Dialer,
    request: &Request,
    at: &SocketTarget,
    key: Key,
    sink: &ChunkSink,
) -> Result<Output, HostcallError> {
    let _permit = dialer.permit(request)?;
    let (listener, own, about, _bound) = match at {
        SocketTarget::Path(path) => {
            let socket = SocketPath::of(request, path, Access::Write)?;
            let bound = socket.bind(request);
            let (listener, bound) = bound.map_err(|error| failed(&error, "listen").with("path", path.as_str()))?;
            (Listener::Unix(listener), None, json!({ "path": path }), Some(bound))
        }
        SocketTarget::Host(written, port) => {
            let (host, port) = (net_host(written)?, *port);
            let address = literal(&host).filter(|address| address.is_loopback() || !guard!(NetLoopback));
            let Some(address) = address else {
                return Err(Reason::BlockedAddress.refusal("net", "http", &format!("listening on {host}")));
            };
            let bound = TcpListener::bind((address, port)).await;
            let listener =
                bound.map_err(|error| failed(&error, "listen").with("address", host.as_str()).with("port", port))?;
            let at = listener.local_addr().map_err(|error| failed(&error, "listen"))?;
            // No connection is accepted before this check; the system may have chosen the port.
            check_no_users_server(dialer, at).await?;
            let family = if at.is_ipv4() { "IPv4" } else { "IPv6" };
            let about = json!({ "address": at.ip().to_string(), "port": at.port(), "family": family });
            (Listener::Tcp(listener), Some(at), about, None)
        }
    };
    let known = own.map(|address| request.permit.listens(address));
    let close = Arc::new(Notify::new());
    table.insert(key.clone(), SocketEntry::Listening { close: Arc::clone(&close), _known: known })?;
    let lease = Lease { table: Arc::clone(&table), key: key.clone(), _permit };
    sink.send(Output::new(json!({ "listening": about })))?;
    for number in 1_u64.. {
        let (reader, writer, about) = tokio::select! {
            biased;
            () = close.notified() => break,
            accepted = accept(&listener) => accepted?,
        };
        let name = format!("{}/{number}", lease.key.1);
        // Beyond the quota, the connection is closed, which the other side notices.
        let Some(permit) = dialer.limits.try_acquire(&key.0) else { continue };
        let announced = json!({ "connection": name, "about": about });
        if table.insert((key.0.clone(), name), SocketEntry::Waiting(reader, writer, about, permit)).is_ok() {
            sink.send(Output::new(announced))?;
        }
    }
    Ok(Output::empty())
}

/// Fails if the user's configuration names a server of this machine at the port: requests to it carry the user's keys, and its
/// answers count as those of the user's model or tools. All addresses of the machine count, since a name may have several.
async fn check_no_users_server(dialer: &Dialer, at: SocketAddr) -> Result<(), HostcallError> {
    for (host, named_by) in (dialer.user_servers)(at.port()).iter().filter(|_| guard!(NetUserServers)) {
        let found = match net_host(host).ok().and_then(|host| literal(&host)) {
            Some(address) => vec![address],
            None => dialer.resolver.resolve(host).await.unwrap_or_default(),
        };
        let is_here = |address: &IpAddr| address.is_unspecified() || dialer.resolver.is_own(*address);
        if found.iter().map(IpAddr::to_canonical).any(|address| address.is_loopback() || is_here(&address)) {
            let why = format!("listening on {at}, a server of the user according to {named_by}; use another port");
            return Err(Reason::BlockedAddress.refusal("net", "http", &why));
        }
    }
    Ok(())
}

async fn accept(listener: &Listener) -> Result<Connected, HostcallError> {
    let refused = |error: std::io::Error| failed(&error, "accept");
    match listener {
        Listener::Tcp(listener) => tcp(listener.accept().await.map_err(refused)?.0),
        Listener::Unix(listener) => Ok(unix(listener.accept().await.map_err(refused)?.0)),
    }
}

/// Parses a literal address.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn io(errno: &str, syscall: &str, message: &str) -> HostcallError {
    HostcallError::io(errno, syscall, format!("net: {message}"))
}

pub(crate) fn failed(error: &std::io::Error, syscall: &str) -> HostcallError {
    use rustix::io::Errno;
    let (name, words) = match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED) => ("ECONNREFUSED", "connection refused"),
        Some(Errno::CONNRESET) => ("ECONNRESET", "connection reset by peer"),
        Some(Errno::ADDRINUSE) => ("EADDRINUSE", "address already in use"),
        Some(Errno::PIPE) => ("EPIPE", "broken pipe"),
        Some(Errno::HOSTUNREACH) => ("EHOSTUNREACH", "host is unreachable"),
        Some(Errno::NETUNREACH) => ("ENETUNREACH", "network is unreachable"),
        Some(Errno::TIMEDOUT) => ("ETIMEDOUT", "connection timed out"),
        _ => crate::fs::system_error(error),
    };
    io(name, syscall, words)
}
