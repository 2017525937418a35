//! Accepts WebSocket handshakes: checks the client, and limits the number and the duration of handshakes in progress.
//!
//! A handshake of an honest client on this machine takes a millisecond. So if there are too many, the oldest handshake in
//! progress is ended, rather than the newest refused: connections that send nothing cannot lock out others.

use futures_util::future::BoxFuture;
use pijs_environment::{Timer, Wait};
use pijs_protocol::guard;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_util::sync::CancellationToken;

/// Maximum number of connected clients.
const MAX_CLIENTS: usize = 64;
/// Maximum number of handshakes in progress. A further one ends the oldest.
const MAX_HANDSHAKES: usize = 16;
/// Time limit of a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Maximum size of a client's message in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Admits clients to the server. Clones share the limits.
#[derive(Clone)]
pub(super) struct ClientAdmission {
    timer: Arc<dyn Timer>,
    token: Arc<str>,
    clients: Arc<Semaphore>,
    handshakes: Arc<Mutex<Handshakes>>,
}

/// Handshakes in progress, oldest first.
#[derive(Default)]
struct Handshakes {
    started: u64,
    in_progress: VecDeque<(u64, CancellationToken)>,
}

/// A handshake in progress, which counts toward the limit until it is dropped.
pub(super) struct Handshake {
    admission: ClientAdmission,
    number: u64,
    evicted: CancellationToken,
    late: BoxFuture<'static, ()>,
}

/// A client that passed the handshake. It counts toward the limit of clients until it is dropped.
pub(super) struct AdmittedClient {
    pub(super) socket: WebSocketStream<TcpStream>,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl ClientAdmission {
    pub(super) fn new(timer: Arc<dyn Timer>, token: Arc<str>) -> Self {
        Self { timer, token, clients: Arc::new(Semaphore::new(MAX_CLIENTS)), handshakes: Arc::default() }
    }

    fn handshakes(&self) -> MutexGuard<'_, Handshakes> {
        self.handshakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a handshake. This may end the oldest one.
    pub(super) fn begin(&self) -> Handshake {
        let evicted = CancellationToken::new();
        let mut handshakes = self.handshakes();
        handshakes.started += 1;
        let number = handshakes.started;
        if handshakes.in_progress.len() == MAX_HANDSHAKES
            && let Some((_, oldest)) = handshakes.in_progress.pop_front()
        {
            oldest.cancel();
        }
        handshakes.in_progress.push_back((number, evicted.clone()));
        drop(handshakes);
        let late = self.timer.sleep(Wait::Idle, HANDSHAKE_TIME);
        Handshake { admission: self.clone(), number, evicted, late }
    }
}

impl Handshake {
    /// Performs the handshake. Returns `None` if the client is refused, too slow, or evicted by newer ones.
    pub(super) async fn perform(mut self, stream: TcpStream) -> Option<AdmittedClient> {
        let mut permit = None;
        #[expect(clippy::result_large_err, reason = "the signature of tungstenite")]
        let check = |request: &Request, response: Response| {
            if let Err(why) = may_connect(request, &self.admission.token) {
                return Err(refusal(StatusCode::FORBIDDEN, why));
            }
            permit = Arc::clone(&self.admission.clients).try_acquire_owned().ok();
            match permit {
                Some(_) => Ok(response),
                None => Err(refusal(StatusCode::SERVICE_UNAVAILABLE, TOO_MANY_CLIENTS)),
            }
        };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let done = tokio_tungstenite::accept_hdr_async_with_config(stream, check, Some(config));
        let socket = tokio::select! {
            done = done => done.ok()?,
            () = &mut self.late => return None,
            () = self.evicted.cancelled() => return None,
        };
        Some(AdmittedClient { socket, _permit: permit? })
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.admission.handshakes().in_progress.retain(|(number, _)| *number != self.number);
    }
}

const TOO_MANY_CLIENTS: &str = "this server has reached its limit of clients; close one of them";

fn refusal(status: StatusCode, why: &str) -> ErrorResponse {
    let mut refusal = ErrorResponse::new(Some(why.to_owned()));
    *refusal.status_mut() = status;
    refusal
}

/// Decides whether to accept a connection by its HTTP request.
fn may_connect(request: &Request, token: &str) -> Result<(), &'static str> {
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
    // An origin that is not valid text counts as foreign.
    let is_foreign = request.headers().contains_key("origin") && !header("origin").is_some_and(is_of_this_machine);
    if is_foreign && guard!(RummyOrigin) {
        return Err("pages of other machines may not connect");
    }
    let in_query = request.uri().query().into_iter().flat_map(|query| query.split('&'));
    let mut given = in_query.filter_map(|pair| pair.strip_prefix("token="));
    let bearer = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let is_right = given.next().or(bearer).is_some_and(|given| is_equal(given.as_bytes(), token.as_bytes()));
    if !is_right && guard!(RummyToken) {
        return Err("the token is missing or wrong; it is part of the address that pi rummy serve prints");
    }
    Ok(())
}

fn is_of_this_machine(origin: &str) -> bool {
    let host = origin.split_once("://").map_or(origin, |(_, rest)| rest);
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

/// Compares in constant time, so that the time does not reveal the token.
fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_protocol::Now;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    fn connects(uri: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        may_connect(&request.body(()).expect("a request"), "secret").is_ok()
    }

    #[test]
    fn a_connection_needs_the_token_and_a_local_origin() {
        let uri = "ws://127.0.0.1:3044/?token=secret";
        assert!(connects(uri, &[]) && connects("ws://127.0.0.1/", &[("authorization", "Bearer secret")]));
        assert!(connects(uri, &[("origin", "http://localhost:5173")]));
        let foreign = [
            "https://example.org",
            "http://localhost.example.org",
            "null",
            "http://127.0.0.1.example.org:80",
            "http://\u{e9}",
        ];
        for origin in foreign {
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

    /// A timer whose waits end when the test cancels a token.
    struct HeldTimer(CancellationToken);

    impl Timer for HeldTimer {
        fn now(&self) -> Now {
            Now::default()
        }

        fn sleep(&self, _: Wait, duration: Duration) -> BoxFuture<'static, ()> {
            assert_eq!(duration, HANDSHAKE_TIME);
            Box::pin(self.0.clone().cancelled_owned())
        }
    }

    /// A server that only admits clients.
    struct Gatekeeper {
        listener: TcpListener,
        admission: ClientAdmission,
        passed: CancellationToken,
    }

    impl Gatekeeper {
        async fn start() -> Self {
            let passed = CancellationToken::new();
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let admission = ClientAdmission::new(Arc::new(HeldTimer(passed.clone())), "secret".into());
            Self { listener, admission, passed }
        }

        /// Connects without sending anything. The handshake is in progress when this returns.
        async fn connect(&self) -> (TcpStream, tokio::task::JoinHandle<Option<AdmittedClient>>) {
            let address = self.listener.local_addr().expect("bound");
            let (client, accepted) = tokio::join!(TcpStream::connect(address), self.listener.accept());
            let (stream, _) = accepted.expect("accepted");
            let handshake = self.admission.begin();
            (client.expect("connected"), tokio::spawn(handshake.perform(stream)))
        }

        /// Connects and completes the handshake; returns the status line.
        async fn complete(&self) -> (String, Option<AdmittedClient>) {
            let (mut client, server) = self.connect().await;
            let request = "GET /?token=secret HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                           sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
            client.write_all(request.as_bytes()).await.expect("written");
            let mut said = vec![0; 12];
            client.read_exact(&mut said).await.expect("a status line");
            (String::from_utf8(said).expect("text"), server.await.expect("no panic"))
        }

        fn in_progress(&self) -> usize {
            self.admission.handshakes().in_progress.len()
        }
    }

    #[tokio::test]
    async fn silent_connections_are_limited_and_do_not_lock_out_others() {
        let server = Gatekeeper::start().await;
        let mut silent = Vec::new();
        for _ in 0..MAX_HANDSHAKES {
            silent.push(server.connect().await);
        }
        assert_eq!(server.in_progress(), MAX_HANDSHAKES);
        let (said, admitted) = server.complete().await;
        assert!(said.ends_with("101") && admitted.is_some(), "{said}");
        let (mut oldest, ended) = silent.remove(0);
        assert!(ended.await.expect("no panic").is_none(), "the oldest one was ended");
        assert_eq!(oldest.read(&mut [0; 1]).await.expect("closed"), 0);
        assert_eq!(server.in_progress(), MAX_HANDSHAKES - 1, "the finished one counts no more");
        // The other connections end by the clock of the session.
        assert!(silent.iter().all(|(_, ended)| !ended.is_finished()));
        server.passed.cancel();
        for (mut client, ended) in silent {
            assert!(ended.await.expect("no panic").is_none());
            assert_eq!(client.read(&mut [0; 1]).await.expect("closed"), 0);
        }
        assert_eq!(server.in_progress(), 0);
    }

    #[tokio::test]
    async fn clients_are_limited_until_one_leaves() {
        let server = Gatekeeper::start().await;
        let mut clients = Vec::new();
        for _ in 0..MAX_CLIENTS {
            clients.push(server.complete().await.1.expect("admitted"));
        }
        let (said, admitted) = server.complete().await;
        assert!(said.ends_with("503") && admitted.is_none(), "{said}");
        clients.pop();
        assert!(server.complete().await.1.is_some());
    }
}
