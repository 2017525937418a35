//! Tests the two wire formats over loopback HTTP, as seen by the server.

use crate::support::{Fake, World, inject};
use pijs_agent::settings::{RetrySettings, Settings};
use pijs_agent::{Ending, Outcome, VerdictCaps};
use pijs_llm::provider::http::HttpOptions;
use pijs_llm::provider::sse::SseLimits;
use pijs_llm::provider::{ErrorKind, ProviderOptions};
use pijs_protocol::StreamSource;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// The server's reaction to a request.
#[derive(Clone)]
enum ServerReply {
    /// Status, an additional header, and body.
    Status(u16, &'static str, &'static str),
    /// An event stream with these chunks.
    Stream(Vec<String>),
    /// An event stream with these chunks, which then stalls until the client disconnects.
    Hang(Vec<String>),
}

/// A server that records requests.
struct TestServer {
    url: String,
    bodies: Arc<Mutex<Vec<Value>>>,
    /// Receives a message for each stalled request whose client disconnected.
    gone: mpsc::UnboundedReceiver<()>,
}

async fn serve(replies: Vec<ServerReply>) -> TestServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let (sender, gone) = mpsc::unbounded_channel();
    let seen = bodies.clone();
    tokio::spawn(async move {
        for reply in replies {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(answer(stream, reply, seen.clone(), sender.clone()));
        }
    });
    TestServer { url, bodies, gone }
}

async fn answer(
    mut stream: TcpStream,
    reply: ServerReply,
    bodies: Arc<Mutex<Vec<Value>>>,
    gone: mpsc::UnboundedSender<()>,
) {
    let body = read_request(&mut stream).await;
    bodies.lock().unwrap().push(body);
    match reply {
        ServerReply::Status(status, header, body) => {
            let head = format!(
                "HTTP/1.1 {status} X\r\n{header}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
        ServerReply::Stream(chunks) => {
            start(&mut stream, &chunks).await;
            stream.write_all(b"0\r\n\r\n").await.unwrap();
        }
        ServerReply::Hang(chunks) => {
            start(&mut stream, &chunks).await;
            // The client sends nothing more, so this read returns when the client disconnects.
            let mut rest = [0; 16];
            while matches!(stream.read(&mut rest).await, Ok(1..)) {}
            gone.send(()).unwrap();
        }
    }
}

async fn start(stream: &mut TcpStream, chunks: &[String]) {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    for chunk in chunks {
        stream.write_all(format!("{:x}\r\n{chunk}\r\n", chunk.len()).as_bytes()).await.unwrap();
    }
}

async fn read_request(stream: &mut TcpStream) -> Value {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).await.unwrap();
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes);
        if let Some(at) = text.find("\r\n\r\n") {
            let length = text[..at]
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length: ").and_then(|n| n.parse::<usize>().ok())
                })
                .unwrap_or(0);
            if bytes.len() >= at + 4 + length {
                return serde_json::from_slice(&bytes[at + 4..]).unwrap();
            }
        }
        assert!(count > 0, "the client went before its request was complete");
    }
}

fn openai(texts: &[&str]) -> Vec<String> {
    texts
        .iter()
        .map(|text| format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}}]})))
        .collect()
}

fn openai_done(texts: &[&str]) -> Vec<String> {
    let mut chunks = openai(texts);
    chunks.push(
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n".to_owned(),
    );
    chunks
}

fn anthropic(texts: &[&str]) -> Vec<String> {
    let mut chunks = vec![
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}\n\n"
            .to_owned(),
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
            .to_owned(),
    ];
    chunks.extend(texts.iter().map(|text| {
        format!(
            "data: {}\n\n",
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
        )
    }));
    chunks
}

fn anthropic_done(texts: &[&str]) -> Vec<String> {
    let mut chunks = anthropic(texts);
    chunks.push("data: {\"type\":\"content_block_stop\",\"index\":0}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\ndata: {\"type\":\"message_stop\"}\n\n".to_owned());
    chunks
}

fn trips_once() -> Fake {
    let mut fired = false;
    Fake::default().judges(&[StreamSource::Text], move |_, text| {
        (text.contains("TRIP") && !std::mem::replace(&mut fired, true)).then(|| inject("RULE"))
    })
}

/// Time limit that aborts a hanging test; far above the time that a slow machine needs.
const CEILING: Duration = Duration::from_secs(120);

fn world(model: &str, server: &TestServer, fake: Fake) -> World {
    patient_world(model, server, fake, CEILING)
}

/// Creates a session in which a reply times out when nothing arrives for `idle`.
fn patient_world(model: &str, server: &TestServer, fake: Fake, idle: Duration) -> World {
    let http = HttpOptions {
        idle,
        backoff: Duration::from_millis(1),
        retries: 4,
        sse: SseLimits { line: 10_000, body: 100_000 },
        ..HttpOptions::default()
    };
    let options = ProviderOptions {
        base_url: Some(server.url.clone()),
        openai_key: Some("k".to_owned()),
        anthropic_key: Some("k".to_owned()),
        http,
    };
    World::with(model, fake, &options, VerdictCaps::default())
}

async fn ask(reply: Vec<ServerReply>) -> (Outcome, TestServer, World) {
    let server = serve(reply).await;
    let world = world("openai/m", &server, Fake::default());
    let outcome = world.agent.prompt("go").await.unwrap();
    (outcome, server, world)
}

fn kind(outcome: &Outcome) -> ErrorKind {
    match &outcome.ending {
        Ending::Failed(error) => error.kind(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn openai_gets_the_injection_as_a_system_message_and_loses_the_connection_at_once() {
    let mut server =
        serve(vec![ServerReply::Hang(openai(&["junk", " TRIP"])), ServerReply::Stream(openai_done(&["clean"]))]).await;
    let world = world("openai/m", &server, trips_once());
    let outcome = world.agent.prompt("go").await.unwrap();
    assert_eq!(outcome.message.unwrap().text(), "clean");
    tokio::time::timeout(CEILING, server.gone.recv()).await.expect("the connection was closed").unwrap();
    let bodies = server.bodies.lock().unwrap().clone();
    assert_eq!(bodies.len(), 2);
    assert!(!bodies[1].to_string().contains("junk") && !bodies[1].to_string().contains("TRIP"), "{}", bodies[1]);
    let messages = bodies[1]["messages"].as_array().unwrap();
    assert_eq!(messages.last().unwrap(), &json!({"role": "system", "content": "RULE"}));
}

#[tokio::test]
async fn anthropic_gets_the_injection_as_a_marked_user_message() {
    let mut server =
        serve(vec![ServerReply::Hang(anthropic(&["junk", " TRIP"])), ServerReply::Stream(anthropic_done(&["clean"]))])
            .await;
    let world = world("anthropic/m", &server, trips_once());
    let outcome = world.agent.prompt("go").await.unwrap();
    let message = outcome.message.unwrap();
    assert_eq!(message.text(), "clean");
    assert_eq!(message.usage.total_tokens, 5);
    tokio::time::timeout(CEILING, server.gone.recv()).await.expect("the connection was closed").unwrap();
    let bodies = server.bodies.lock().unwrap().clone();
    assert!(!bodies[1].to_string().contains("junk"), "{}", bodies[1]);
    let content = bodies[1]["messages"][0]["content"].as_array().unwrap();
    assert_eq!(bodies[1]["messages"][0]["role"], "user");
    assert_eq!(content[1]["text"], "<system-reminder>\nRULE\n</system-reminder>");
}

#[tokio::test]
async fn a_429_is_retried() {
    let (outcome, server, world) = ask(vec![
        ServerReply::Status(429, "Retry-After: 0", "{}"),
        ServerReply::Status(503, "X-A: b", "later"),
        ServerReply::Stream(openai_done(&["ok"])),
    ])
    .await;
    assert_eq!(outcome.message.unwrap().text(), "ok");
    assert_eq!(server.bodies.lock().unwrap().len(), 3);
    assert_eq!(world.events_of("auto_retry_start").len(), 2);
}

/// Runs a prompt with the retry settings of the command line: no retries in the HTTP client, some in the agent.
async fn ask_again(reply: Vec<ServerReply>) -> (Outcome, usize, Vec<Value>) {
    let server = serve(reply).await;
    let options = ProviderOptions {
        base_url: Some(server.url.clone()),
        openai_key: Some("k".to_owned()),
        ..ProviderOptions::default()
    };
    let world = World::with("openai/m", Fake::default(), &options, VerdictCaps::default());
    let retry = RetrySettings { max_retries: 2, base_delay_ms: 1, ..RetrySettings::default() };
    world.agent.set_settings(Settings { retry, ..Settings::default() });
    let outcome = world.agent.prompt("go").await.unwrap();
    let requests = server.bodies.lock().unwrap().len();
    (outcome, requests, world.events_of("auto_retry_start"))
}

#[tokio::test]
async fn only_the_agent_retries() {
    let failing = || ServerReply::Status(503, "X-A: b", "later");
    let (outcome, requests, starts) =
        ask_again(vec![failing(), failing(), ServerReply::Stream(openai_done(&["ok"]))]).await;
    assert_eq!(outcome.message.unwrap().text(), "ok");
    assert_eq!(requests, 3);
    assert_eq!(starts.iter().map(|start| start["maxAttempts"].clone()).collect::<Vec<_>>(), [2, 2]);
    let (outcome, requests, _) = ask_again(vec![failing(), failing(), failing(), failing()]).await;
    assert_eq!((kind(&outcome), requests), (ErrorKind::Unavailable, 3));
}

#[tokio::test]
async fn the_agent_waits_as_long_as_the_provider_asks() {
    let busy = ServerReply::Status(429, "Retry-After: 1", "slow down");
    let (outcome, requests, starts) = ask_again(vec![busy, ServerReply::Stream(openai_done(&["ok"]))]).await;
    assert_eq!(outcome.message.unwrap().text(), "ok");
    assert_eq!((requests, &starts[0]["delayMs"]), (2, &json!(1000)));
}

#[tokio::test]
async fn an_exhausted_account_is_not_retried() {
    let used_up = ServerReply::Status(
        429,
        "X-A: b",
        r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details."}}"#,
    );
    let (outcome, requests, _) = ask_again(vec![used_up, ServerReply::Stream(openai_done(&["no"]))]).await;
    assert_eq!((kind(&outcome), requests), (ErrorKind::RateLimited, 1));
}

#[tokio::test]
async fn a_rejected_key_is_not_retried() {
    let (outcome, server, _) = ask(vec![
        ServerReply::Status(401, "X-A: b", r#"{"error":{"message":"bad key"}}"#),
        ServerReply::Stream(openai_done(&["no"])),
    ])
    .await;
    assert_eq!(kind(&outcome), ErrorKind::Auth);
    assert!(outcome.message.unwrap().error_message.unwrap().contains("bad key"));
    assert_eq!(server.bodies.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_unknown_model_is_named() {
    let (outcome, ..) = ask(vec![ServerReply::Status(404, "X-A: b", "no such model")]).await;
    assert_eq!(kind(&outcome), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_response_without_an_event_stream_is_malformed() {
    let (outcome, ..) = ask(vec![ServerReply::Status(200, "Content-Type: text/html", "<html>")]).await;
    assert_eq!(kind(&outcome), ErrorKind::Malformed);
    let (outcome, ..) = ask(vec![ServerReply::Stream(vec!["data: {\"choices\":[{\n\n".to_owned()])]).await;
    assert_eq!(kind(&outcome), ErrorKind::Malformed);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_refused() {
    let (outcome, ..) = ask(vec![ServerReply::Stream(vec!["data: ".to_owned() + &"x".repeat(20_000)])]).await;
    assert_eq!(kind(&outcome), ErrorKind::TooLarge);
}

#[tokio::test]
async fn a_stalled_reply_ends_and_keeps_the_received_part() {
    let server = serve(vec![ServerReply::Hang(openai(&["partial"]))]).await;
    // Far above the time that a slow machine needs for the chunks that arrive.
    let world = patient_world("openai/m", &server, Fake::default(), Duration::from_secs(10));
    let outcome = world.agent.prompt("go").await.unwrap();
    assert_eq!(kind(&outcome), ErrorKind::Stalled);
    assert_eq!(outcome.message.unwrap().text(), "partial");
}

#[tokio::test]
async fn a_truncated_reply_is_incomplete() {
    let (outcome, ..) = ask(vec![ServerReply::Stream(openai(&["partial"]))]).await;
    assert_eq!(kind(&outcome), ErrorKind::Network);
}
