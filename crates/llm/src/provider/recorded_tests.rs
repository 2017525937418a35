//! Plays recorded streams to the clients and compares the results with the results of pi's clients (`fixtures/providers`, written
//! by `capture.mjs` there).

use super::{Model, Origin, Outgoing, Provider, ProviderOptions, Request, RequestMessage};
use crate::message::{Block, StopReason};
use crate::models::{Credentials, open_http};
use crate::one_reply::collect;
use crate::partial::Partial;
use pijs_environment::Ambient;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/providers")
}

fn model(api: &str, base_url: &str) -> Model {
    Model::new("p", "m", api)
        .with("baseUrl", base_url)
        .with("reasoning", true)
        .with("cost", json!({"input": 1, "output": 10, "cacheRead": 0.1, "cacheWrite": 2}))
}

pub(super) fn opened(model: Model) -> Arc<dyn Provider> {
    let credentials = Credentials { key: Some("the-key".to_owned()), ..Credentials::default() };
    open_http(model, credentials, &ProviderOptions::default(), &Ambient::system()).unwrap()
}

/// Answers one request with a stream. Returns the head of the request in lower case, and its body.
pub(super) async fn serve(listener: TcpListener, body: Vec<u8>) -> (String, String) {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    let (head, length) = loop {
        let mut piece = [0; 4096];
        let read = socket.read(&mut piece).await.unwrap();
        request.extend_from_slice(&piece[..read]);
        let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(request[..end].to_vec()).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        break (head.clone(), end + 4 + length.parse::<usize>().unwrap());
    };
    while request.len() < length {
        let mut piece = [0; 4096];
        let read = socket.read(&mut piece).await.unwrap();
        request.extend_from_slice(&piece[..read]);
    }
    let asked = String::from_utf8(request[head.len() + 4..].to_vec()).unwrap();
    let answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", body.len());
    socket.write_all(answer.as_bytes()).await.unwrap();
    socket.write_all(&body).await.unwrap();
    (head, asked)
}

async fn replayed(api: &str, stream: Vec<u8>) -> Value {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let model = model(api, &format!("http://{}", listener.local_addr().unwrap()));
    let server = tokio::spawn(serve(listener, stream));
    let provider = opened(model);
    let request = Request { messages: vec![RequestMessage::user("hi")], ..Request::default() };
    let mut partial = Partial::new(provider.model(), 1);
    let outgoing = Outgoing::from(provider.payload(&request));
    let ending = collect(&mut partial, provider.send(outgoing, CancellationToken::new()), &()).await;
    server.await.unwrap();
    partial.finish();
    partial.message.stop_reason = match &ending {
        Ok(stop) => *stop,
        Err(error) => {
            partial.message.error_message = Some(error.message().to_owned());
            StopReason::Error
        }
    };
    let mut message = serde_json::to_value(&partial.message).unwrap();
    for block in message["content"].as_array_mut().unwrap() {
        // Only ids that the server chose are compared; generated ids begin with the name of the tool and are masked.
        if block["id"].as_str().is_some_and(|id| id.starts_with("read_")) {
            block["id"] = json!("*");
        }
    }
    message["failed"] = json!(ending.is_err());
    for member in ["role", "api", "provider", "model", "timestamp"] {
        message.as_object_mut().unwrap().shift_remove(member);
    }
    message["api"] = json!(api);
    message
}

#[tokio::test]
async fn recorded_streams_become_pi_s_messages() {
    let mut names: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "sse"));
    names.sort();
    assert!(names.len() >= 12, "{names:?}");
    for path in names {
        let expected = std::fs::read_to_string(path.with_extension("expected.json")).unwrap();
        let mut expected: Value = serde_json::from_str(&expected).unwrap();
        assert_eq!(expected.as_object_mut().unwrap().shift_remove("pi"), Some(json!("0.87.1")), "{path:?}");
        let actual = replayed(expected["api"].as_str().unwrap(), std::fs::read(&path).unwrap()).await;
        // JavaScript writes integers without a decimal point.
        assert_eq!(numbers(&actual), numbers(&expected), "{path:?}");
    }
}

fn numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(numbers).collect(),
        Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), numbers(value))).collect(),
        other => other.clone(),
    }
}

/// Checks that a second request returns the signatures of the first reply, and sends the key.
#[tokio::test]
async fn signatures_are_returned_with_their_blocks() {
    let tool = super::ToolDescription {
        name: "read".into(),
        description: "Reads".into(),
        parameters: json!({"type": "object"}),
    };
    for (api, url, key, recorded, pointer) in [
        (
            "openai-responses",
            "/responses",
            "authorization: bearer the-key",
            "responses-tool",
            "/input/2/encrypted_content",
        ),
        (
            "google-generative-ai",
            "/models/m:streamgeneratecontent?alt=sse",
            "x-goog-api-key: the-key",
            "google-tool",
            "/contents/1/parts/1/thoughtSignature",
        ),
    ] {
        let expected: Value =
            serde_json::from_slice(&std::fs::read(folder().join(format!("{recorded}.expected.json"))).unwrap())
                .unwrap();
        let blocks: Vec<Block> = serde_json::from_value(expected["content"].clone()).unwrap();
        let calls = blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(RequestMessage::ToolResult {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                content: vec![Block::text("content")],
                is_error: false,
            }),
            _ => None,
        });
        let user = RequestMessage::user("hi");
        let origin = Origin { api: api.to_owned(), provider: "p".to_owned(), model: "m".to_owned() };
        let reply = RequestMessage::Assistant { content: blocks.clone(), origin };
        let messages: Vec<RequestMessage> = [user, reply].into_iter().chain(calls).collect();
        let request = Request {
            system: "Be brief.".into(),
            messages,
            tools: vec![tool.clone()],
            thinking: Some("low".into()),
            max_tokens: Some(100),
            ..Request::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = opened(model(api, &format!("http://{}", listener.local_addr().unwrap())));
        let stream = std::fs::read(folder().join(format!("{recorded}.sse"))).unwrap();
        let server = tokio::spawn(serve(listener, stream));
        assert!(provider.headers().values().all(|value| !value.contains("the-key")), "extensions see these");
        let outgoing = Outgoing::from(provider.payload(&request));
        collect(&mut Partial::new(provider.model(), 1), provider.send(outgoing, CancellationToken::new()), &())
            .await
            .unwrap();
        let (head, body) = server.await.unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        assert!(head.starts_with(&format!("post {url} ")) && head.contains(key), "{head}");
        assert!(body.pointer(pointer).is_some_and(Value::is_string), "{pointer} in {body}");
        let text = body.to_string();
        for part in ["Be brief.", "\"content\"", "100", "\"description\":\"Reads\""] {
            assert!(text.to_lowercase().contains(&part.to_lowercase()), "{part} in {text}");
        }
    }
}
