//! Serves WebSocket connections: one asynchronous call opens a connection and streams its messages until the connection ends.
//!
//! The protocol is tungstenite's, TLS is rustls with the system's certificates, and addresses are vetted as for `net`. Redirects
//! are not followed. The size of a message is limited, and so is the total size of all unfinished messages of an extension; a
//! ping is read only after the previous one has been answered. Cancelling `open`, and the end of the extension, close the
//! connection.

use crate::connection_limits::ConnectionPermit;
use crate::http::headers;
use crate::net::tls::TlsSettings;
use crate::net::{Dialer, dial, failed};
use futures_util::{SinkExt as _, StreamExt as _};
use partial_messages::{CountedReader, IncompleteMessage};
use pijs_hostcall::connector::{cancelled, deadline};
use pijs_hostcall::derive::{HttpTarget, websocket_target};
use pijs_hostcall::{BoxFuture, ChunkSink, Connector, Output, Request};
use pijs_protocol::call::{HeaderPairs, Protocols, WebSocketCall, WebSocketMessage};
use pijs_protocol::{ErrorCode, ExtensionId, HostcallError, TypedCall, guard};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncWrite, Join};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

mod partial_messages;

/// Maximum number of connections of one extension.
const MAX_OPEN: usize = 64;

/// Maximum number of bytes of one message.
const MESSAGE_BYTES: usize = 32 << 20;

/// Maximum time for connecting and the handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// Maximum time for the other side to confirm a close.
const CLOSING: Duration = Duration::from_secs(5);

type Socket = WebSocketStream<Join<CountedReader, Box<dyn AsyncWrite + Send + Unpin>>>;
type Key = (ExtensionId, String);
/// A message to send, and the channel that reports when it was sent.
type OutgoingMessage = (Message, oneshot::Sender<Result<(), Error>>);

#[derive(Default)]
struct Table {
    open: Mutex<BTreeMap<Key, mpsc::Sender<OutgoingMessage>>>,
    /// Bytes of unfinished messages, by extension.
    partial: Mutex<BTreeMap<ExtensionId, Arc<AtomicUsize>>>,
}

impl Table {
    fn connections(&self) -> MutexGuard<'_, BTreeMap<Key, mpsc::Sender<OutgoingMessage>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn partial(&self, extension: &ExtensionId) -> Arc<IncompleteMessage> {
        let mut all = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        IncompleteMessage::new(Arc::clone(all.entry(extension.clone()).or_default()))
    }

    /// Reserves a name until the lease is dropped.
    fn lease(
        self: &Arc<Self>,
        key: Key,
        permit: ConnectionPermit,
    ) -> Result<(Lease, mpsc::Receiver<OutgoingMessage>), HostcallError> {
        let (send, outgoing) = mpsc::channel(1);
        let mut connections = self.connections();
        if connections.keys().filter(|(owner, _)| *owner == key.0).count() >= MAX_OPEN {
            let message = format!("websocket: {MAX_OPEN} connections are open already");
            return Err(HostcallError::io("EMFILE", "connect", message));
        }
        if connections.contains_key(&key) {
            return Err(HostcallError::invalid("schema", format!("websocket: the name {:?} is in use", key.1)));
        }
        connections.insert(key.clone(), send);
        Ok((Lease { table: Arc::clone(self), key, _permit: permit }, outgoing))
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
        self.table.connections().remove(&self.key);
    }
}

/// Serves the `websocket` method.
pub struct WebSocketConnector {
    table: Arc<Table>,
    dialer: Dialer,
}

impl WebSocketConnector {
    /// Creates a connector without connections.
    pub(crate) fn new(dialer: Dialer) -> Self {
        Self { table: Arc::default(), dialer }
    }
}

impl Connector for WebSocketConnector {
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>> {
        let (table, dialer) = (Arc::clone(&self.table), self.dialer.clone());
        Box::pin(async move {
            let cancel = request.cancel.clone();
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(cancelled("websocket")),
                done = run(table, dialer, request, sink) => done,
            }
        })
    }

    fn end_extension(&self, extension: &ExtensionId) {
        self.table.connections().retain(|(owner, _), _| owner != extension);
        self.table.partial.lock().unwrap_or_else(PoisonError::into_inner).remove(extension);
        self.dialer.limits.end(extension);
    }
}

async fn run(table: Arc<Table>, dialer: Dialer, request: Request, sink: ChunkSink) -> Result<Output, HostcallError> {
    let key = |socket: &String| -> Key { (request.caller.extension().clone(), socket.clone()) };
    let TypedCall::WebSocket(call) = &request.call else { return Err(request.misdirected()) };
    let (key, message) = match call {
        WebSocketCall::Open { socket, url, protocols: Protocols(protocols), headers } => {
            let key = key(socket);
            let partial = table.partial(&key.0);
            let (_lease, outgoing) = table.lease(key, dialer.permit(&request)?)?;
            let upgrade = upgrade(url, protocols, headers)?;
            let opening = open(&dialer, &request, upgrade, &sink, &partial);
            let socket = tokio::time::timeout(HANDSHAKE, opening).await;
            let late = |_| deadline("websocket", u64::try_from(HANDSHAKE.as_millis()).unwrap_or(u64::MAX));
            return carry(socket.map_err(late)??, outgoing, &sink, &partial).await;
        }
        WebSocketCall::Send { socket, message: WebSocketMessage::Text(text) } => (key(socket), Message::text(text)),
        WebSocketCall::Send { socket, message: WebSocketMessage::Binary(data) } => {
            (key(socket), Message::binary(data.to_vec()))
        }
        WebSocketCall::Close { socket, code, reason } => {
            (key(socket), Message::Close(frame(*code, reason.as_deref().unwrap_or_default())?))
        }
    };
    let gone = || HostcallError::io("EPIPE", "write", "websocket: the connection is closed");
    let outgoing = table.connections().get(&key).cloned().ok_or_else(gone)?;
    let (done, answer) = oneshot::channel();
    outgoing.send((message, done)).await.map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?.map_err(|error| convert_error(&error))?;
    Ok(Output::empty())
}

fn frame(code: Option<u64>, reason: &str) -> Result<Option<CloseFrame>, HostcallError> {
    let Some(code) = code else { return Ok(None) };
    let code = u16::try_from(code).ok().filter(|code| *code == 1000 || (3000..5000).contains(code));
    let code = code.ok_or_else(|| HostcallError::invalid("schema", "websocket: `code` is not one that may be sent"))?;
    if reason.len() > 123 {
        return Err(HostcallError::invalid("schema", "websocket: `reason` has more than 123 bytes"));
    }
    Ok(Some(CloseFrame { code: CloseCode::from(code), reason: reason.into() }))
}

/// The handshake request, and its server.
type Upgrade = (tokio_tungstenite::tungstenite::handshake::client::Request, HttpTarget);

fn upgrade(url: &str, protocols: &[String], pairs: &HeaderPairs) -> Result<Upgrade, HostcallError> {
    let (url, target) = websocket_target(url)?;
    let mut upgrade = url.as_str().into_client_request().map_err(|error| convert_error(&error))?;
    if !protocols.is_empty() {
        let value = HeaderValue::from_str(&protocols.join(", "));
        let value =
            value.map_err(|_| HostcallError::invalid("schema", "websocket: `protocols` are not valid in a header"))?;
        upgrade.headers_mut().insert("sec-websocket-protocol", value);
    }
    for (name, value) in &headers(pairs)? {
        if !name.as_str().starts_with("sec-websocket-") {
            upgrade.headers_mut().append(name, value.clone());
        }
    }
    Ok((upgrade, target))
}

async fn open(
    dialer: &Dialer,
    request: &Request,
    (upgrade, target): Upgrade,
    sink: &ChunkSink,
    partial: &Arc<IncompleteMessage>,
) -> Result<Socket, HostcallError> {
    let wanted = (target.scheme == "https").then(TlsSettings::default);
    let (reader, writer, _) = dial(dialer, request, &target.host, target.port, wanted).await?;
    let writer = Arc::into_inner(writer).expect("a new connection has no other writer").into_inner();
    let transport = tokio::io::join(CountedReader { inner: reader, partial: Arc::clone(partial) }, writer);
    let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES)).max_frame_size(Some(MESSAGE_BYTES));
    let (socket, response) =
        client_async_with_config(upgrade, transport, Some(config)).await.map_err(|error| convert_error(&error))?;
    partial.complete();
    let protocol = response.headers().get("sec-websocket-protocol").and_then(|value| value.to_str().ok());
    sink.send(Output::new(json!({ "open": { "protocol": protocol.unwrap_or_default() } })))?;
    Ok(socket)
}

/// Carries messages in both directions until both sides have closed, or the connection is lost.
async fn carry(
    mut socket: Socket,
    mut outgoing: mpsc::Receiver<OutgoingMessage>,
    sink: &ChunkSink,
    partial: &IncompleteMessage,
) -> Result<Output, HostcallError> {
    let mut close: Option<CloseFrame> = None;
    let mut clean = false;
    let mut close_deadline = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
    let mut closing = false;
    loop {
        let incoming = tokio::select! {
            Some((message, done)) = outgoing.recv() => {
                if message.is_close() {
                    closing = true;
                    close_deadline.as_mut().reset(tokio::time::Instant::now() + CLOSING);
                }
                // The receiver may have been dropped.
                let _ = done.send(socket.send(message).await);
                continue;
            }
            // Waiting for the sink must not delay messages to send.
            incoming = next(&mut socket, sink) => incoming,
            () = &mut close_deadline, if closing => break,
        };
        match &incoming {
            Some(Ok(Message::Ping(payload) | Message::Pong(payload))) => partial.ping(payload.len()),
            _ => partial.complete(),
        }
        match incoming {
            Some(Ok(Message::Text(text))) => sink.send(Output::new(json!({ "text": text.as_str() })))?,
            Some(Ok(Message::Binary(data))) => sink.send(Output::default().with_bytes("data", data.to_vec()))?,
            Some(Ok(Message::Close(frame))) => {
                clean = true;
                close = frame;
            }
            // Pings are answered by the library.
            Some(Ok(_)) => {}
            None => break,
            Some(Err(error)) if is_too_large(&error) => {
                let frame = CloseFrame { code: CloseCode::Size, reason: "too large".into() };
                // The other side may never read the close frame.
                let _ = tokio::time::timeout(CLOSING, socket.send(Message::Close(Some(frame)))).await;
                return Err(convert_error(&error));
            }
            // After both close frames it does not matter how the connection ends.
            Some(Err(_)) => break,
        }
    }
    let code = close.as_ref().map_or(if clean { 1005 } else { 1006 }, |frame| u16::from(frame.code));
    let reason = close.map(|frame| frame.reason.to_string()).unwrap_or_default();
    Ok(Output::new(json!({ "code": code, "reason": reason, "clean": clean })))
}

/// Returns the next message, after the sink accepts one and replies to pings have been sent: otherwise a peer that sends pings
/// without reading would fill the send buffer.
async fn next(socket: &mut Socket, sink: &ChunkSink) -> Option<Result<Message, Error>> {
    sink.ready().await;
    if guard!(WebsocketPings)
        && let Err(error) = socket.flush().await
    {
        return Some(Err(error));
    }
    socket.next().await
}

fn is_too_large(error: &Error) -> bool {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { .. }) => true,
        Error::Io(error) => error.kind() == std::io::ErrorKind::QuotaExceeded,
        _ => false,
    }
}

fn convert_error(error: &Error) -> HostcallError {
    match error {
        error if is_too_large(error) => {
            let most = MESSAGE_BYTES >> 20;
            let message = format!(
                "websocket: the other side sends a message of more than {most} MB, or too many large ones at once, and the \
                 connection is closed; have it send smaller ones"
            );
            HostcallError::new(ErrorCode::InvalidRequest, message).with("reason", "too_large")
        }
        Error::Io(error) => failed(error, "connect"),
        Error::Http(response) => HostcallError::io(
            "EPROTO",
            "connect",
            format!("websocket: the server answered {} instead of opening a connection", response.status()),
        ),
        error => HostcallError::io("EPROTO", "connect", format!("websocket: {error}")),
    }
}
