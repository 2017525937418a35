//! The client protocol over a WebSocket, on this machine only.
//!
//! A connection needs the token that the server prints when it starts, and a browser's pages reach it only from this machine
//! (`Origin`). What methods do is [`pijs_dialect_rummy::rpc`]'s; `hub.rs` does the work that they leave to the host. Each
//! connection has its own queue of messages; one that does not read is closed when it is full, so that a slow client holds up
//! nobody.

mod hub;

use crate::error::RummyError;
use crate::session::RummySession;
use futures_util::future::{BoxFuture, FutureExt as _, LocalBoxFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt as _, StreamExt as _};
use hub::{Audience, Hub, Place};
use pijs_environment::Wait;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

const MOST_CONNECTIONS: usize = 64;
/// Messages that one client may leave unread.
const MOST_UNREAD: usize = 1024;
/// Bytes of one message of a client.
const MOST_BYTES: usize = 16 << 20;
/// Requests and runs at a time.
const MOST_WORK: usize = 1024;
/// How long a client may take to say who it is.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The messages of a connection to the server.
enum Said {
    Opened(u64, mpsc::Sender<String>),
    Text(u64, String),
    Closed(u64),
}

/// Serves the runs of sessions on 127.0.0.1 until `stop` comes; `say` is told the address, with the token. A client chooses one
/// of their folders with `rummy/hello`. Runs go on when their client leaves, and those that a killed server left go on now.
///
/// # Errors
///
/// The port is taken, no model can be asked, or the store or the plugins fail.
pub async fn serve(
    sessions: &[RummySession],
    port: u16,
    say: impl Fn(&str),
    stop: impl Future<Output = ()>,
) -> Result<(), RummyError> {
    // Each session's plugins run while it serves.
    let mut serving: LocalBoxFuture<'_, _> = serve_all(sessions, port, say, stop).boxed_local();
    for session in sessions {
        serving = session.realm().run(serving).boxed_local();
    }
    serving.await
}

async fn serve_all(
    sessions: &[RummySession],
    port: u16,
    say: impl Fn(&str),
    stop: impl Future<Output = ()>,
) -> Result<(), RummyError> {
    let Some(first) = sessions.first() else { return Ok(()) };
    let hub = Hub::default();
    let audiences: Vec<Audience<'_>> = (0..sessions.len()).map(|session| Audience { hub: &hub, session }).collect();
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut places = Vec::new();
    for (number, (session, audience)) in sessions.iter().zip(&audiences).enumerate() {
        places.push(Place::open(session, audience).await?);
        let tell = tell.clone();
        // The receiver lives as long as this server.
        session.realm().listen(move |one| drop(tell.send((number, one))));
        hub.ready(number, session.left());
    }
    let cannot = |source| RummyError::File { path: format!("127.0.0.1:{port}").into(), source };
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let mut bytes = [0; 24];
    first.ambient().random.fill(&mut bytes);
    let token: Arc<str> = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into();
    say(&format!("ws://{address}/?token={token}"));
    let (said, mut heard) = mpsc::channel(256);
    let mut work: FuturesUnordered<LocalBoxFuture<'_, Result<(), RummyError>>> = FuturesUnordered::new();
    let mut next = 0;
    tokio::pin!(stop);
    loop {
        for (number, run_id, cancel) in hub.take_ready() {
            work.push(hub.drain(&places[number], number, run_id, cancel).boxed_local());
        }
        tokio::select! {
            () = &mut stop => {
                hub.stop();
                while let Some(done) = work.next().await {
                    done?;
                }
                return Ok(());
            }
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                if hub.connections() < MOST_CONNECTIONS {
                    next += 1;
                    let late = first.ambient().timer.sleep(Wait::Idle, HANDSHAKE);
                    tokio::spawn(connection(stream, next, Arc::clone(&token), said.clone(), late));
                }
            }
            Some(done) = work.next(), if !work.is_empty() => done?,
            Some((number, one)) = told.recv() => hub.told(number, &one),
            // The requests of clients beyond this wait in their sockets.
            Some(event) = heard.recv(), if work.len() < MOST_WORK => match event {
                Said::Opened(id, out) => hub.opened(id, out),
                Said::Closed(id) => hub.closed(id),
                Said::Text(id, text) => work.push(hub.answer(&places, id, text).boxed_local()),
            },
        }
    }
}

/// Carries one connection: what it says goes to the server, what the server says goes out.
async fn connection(
    stream: TcpStream,
    id: u64,
    token: Arc<str>,
    said: mpsc::Sender<Said>,
    late: BoxFuture<'static, ()>,
) {
    #[expect(clippy::result_large_err, reason = "tungstenite says what the refusal is")]
    let check = move |request: &Request, response: Response| match may_connect(request, &token) {
        Ok(()) => Ok(response),
        Err(why) => {
            let mut refusal = ErrorResponse::new(Some(why.to_owned()));
            *refusal.status_mut() = tokio_tungstenite::tungstenite::http::StatusCode::FORBIDDEN;
            Err(refusal)
        }
    };
    let config = WebSocketConfig::default().max_message_size(Some(MOST_BYTES)).max_frame_size(Some(MOST_BYTES));
    let shaken = tokio_tungstenite::accept_hdr_async_with_config(stream, check, Some(config));
    let socket = tokio::select! {
        shaken = shaken => match shaken {
            Ok(socket) => socket,
            Err(_) => return,
        },
        () = late => return,
    };
    let (mut sink, mut source) = socket.split();
    let (out, mut lines) = mpsc::channel::<String>(MOST_UNREAD);
    if said.send(Said::Opened(id, out)).await.is_err() {
        return;
    }
    loop {
        tokio::select! {
            line = lines.recv() => {
                let Some(line) = line else { break };
                if sink.send(Message::text(line)).await.is_err() {
                    break;
                }
            }
            message = source.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    if said.send(Said::Text(id, text.to_string())).await.is_err() {
                        break;
                    }
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => break,
            },
        }
    }
    let _ = sink.close().await;
    let _ = said.send(Said::Closed(id)).await;
}

/// Decides about a connection by what its first request says.
fn may_connect(request: &Request, token: &str) -> Result<(), &'static str> {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    if let Some(origin) = header("origin") {
        let host = origin.split_once("://").map_or(origin, |(_, rest)| rest);
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        if !matches!(host, "localhost" | "127.0.0.1" | "[::1]") {
            return Err("pages of other machines may not connect");
        }
    }
    let in_query = request.uri().query().into_iter().flat_map(|query| query.split('&'));
    let mut given = in_query.filter_map(|pair| pair.strip_prefix("token="));
    let bearer = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    match given.next().or(bearer) {
        Some(given) if is_same(given.as_bytes(), token.as_bytes()) => Ok(()),
        _ => Err("the token is missing or wrong: it stands in the address that pi rummy serve prints"),
    }
}

/// Compares in a time that does not depend on where the two differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connects(uri: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        may_connect(&request.body(()).expect("a request"), "secret").is_ok()
    }

    #[test]
    fn a_connection_needs_the_token_and_no_foreign_page() {
        let uri = "ws://127.0.0.1:3044/?token=secret";
        assert!(connects(uri, &[]) && connects("ws://127.0.0.1/", &[("authorization", "Bearer secret")]));
        assert!(connects(uri, &[("origin", "http://localhost:5173")]));
        for origin in ["https://example.org", "http://localhost.example.org", "null", "http://127.0.0.1.example.org:80"]
        {
            assert!(!connects(uri, &[("origin", origin)]), "{origin}");
        }
        for uri in [
            "ws://127.0.0.1/",
            "ws://127.0.0.1/?token=",
            "ws://127.0.0.1/?token=secre",
            "ws://127.0.0.1/?token=secrets",
        ] {
            assert!(!connects(uri, &[]), "{uri}");
        }
    }
}
