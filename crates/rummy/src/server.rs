//! Serves the client protocol over a WebSocket on the loopback interface.
//!
//! A connection requires the token that the server prints when it starts; browser pages are accepted only with a local `Origin`
//! (`handshake.rs`). [`pijs_dialect_rummy::rpc`] implements the methods, `hub.rs` the work that they delegate to the host. Each
//! connection has a bounded queue of messages and is closed when the queue is full, so that a slow client does not block others.

mod handshake;
mod hub;

use crate::error::RummyError;
use crate::session::RummySession;
use futures_util::future::{FutureExt as _, LocalBoxFuture};
use futures_util::stream::FuturesUnordered;
use futures_util::{SinkExt as _, StreamExt as _};
use handshake::{ClientAdmission, Handshake};
use hub::{Audience, Hub, ServedFolder};
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

/// Maximum number of undelivered messages per client.
const MAX_UNREAD: usize = 1024;
/// Maximum number of concurrent requests and runs.
const MAX_WORK: usize = 1024;

/// Messages that a connection sends to the server.
enum Said {
    Opened(u64, mpsc::Sender<String>),
    Text(u64, String),
    Closed(u64),
}

/// Serves the runs of sessions on 127.0.0.1 until `stop` is signalled; `say` receives the address with the token. A client
/// selects a folder with `rummy/hello`. Runs continue after their client disconnects, and unfinished runs of a killed server
/// continue when it starts.
///
/// # Errors
///
/// Fails when the port is in use, when no model is available, and when the store or the plugins fail.
pub async fn serve(
    sessions: &[RummySession],
    port: u16,
    say: impl Fn(&str),
    stop: impl Future<Output = ()>,
) -> Result<(), RummyError> {
    // Each session's plugins run while the session is served.
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
    let (sender, mut events) = mpsc::unbounded_channel();
    let mut folders = Vec::new();
    for (number, (session, audience)) in sessions.iter().zip(&audiences).enumerate() {
        folders.push(ServedFolder::open(session, audience).await?);
        let sender = sender.clone();
        // The receiver lives as long as this server.
        session.realm().listen(move |one| drop(sender.send((number, one))));
        hub.ready(number, session.unfinished_runs());
    }
    let cannot = |source| RummyError::File { path: format!("127.0.0.1:{port}").into(), source };
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    let mut bytes = [0; 24];
    first.ambient().random.fill(&mut bytes);
    let token: Arc<str> = hex::encode(bytes).into();
    say(&format!("ws://{address}/?token={token}"));
    let admission = ClientAdmission::new(Arc::clone(&first.ambient().timer), token);
    let (said, mut heard) = mpsc::channel(256);
    let mut work: FuturesUnordered<LocalBoxFuture<'_, Result<(), RummyError>>> = FuturesUnordered::new();
    let mut next = 0;
    tokio::pin!(stop);
    loop {
        for (number, run_id, cancel) in hub.take_ready() {
            work.push(hub.drain(&folders[number], number, run_id, cancel).boxed_local());
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
                next += 1;
                tokio::spawn(connection(stream, next, admission.begin(), said.clone()));
            }
            Some(done) = work.next(), if !work.is_empty() => done?,
            Some((number, one)) = events.recv() => hub.forward(number, &one),
            // Further requests wait in the clients' sockets.
            Some(event) = heard.recv(), if work.len() < MAX_WORK => match event {
                Said::Opened(id, out) => hub.opened(id, out),
                Said::Closed(id) => hub.closed(id),
                Said::Text(id, text) => work.push(hub.answer(&folders, id, text).boxed_local()),
            },
        }
    }
}

/// Carries the messages of one connection in both directions.
async fn connection(stream: TcpStream, id: u64, handshake: Handshake, said: mpsc::Sender<Said>) {
    let Some(admitted) = handshake.perform(stream).await else { return };
    let (mut sink, mut source) = admitted.socket.split();
    let (out, mut lines) = mpsc::channel::<String>(MAX_UNREAD);
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
