//! Tests `WebSocket` in an extension with a server on loopback.

mod support;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use support::World;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// Starts a server that echoes until it receives `bye` and then closes with 4001. Returns its port and the requests.
fn server() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    listener.set_nonblocking(true).expect("a socket");
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = Arc::clone(&seen);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                let seen = Arc::clone(&into);
                #[expect(clippy::result_large_err, reason = "the library's signature")]
                let look = move |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
                    let header =
                        |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("-");
                    let line = format!("{} {} {}", request.uri(), header("sec-websocket-protocol"), header("x-mine"));
                    seen.lock().expect("no panic").push(line);
                    if let Some(first) =
                        header("sec-websocket-protocol").split(", ").next().filter(|first| *first != "-")
                    {
                        response.headers_mut().insert("sec-websocket-protocol", first.parse().expect("a header"));
                    }
                    Ok(response)
                };
                let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, look).await else { continue };
                while let Some(Ok(message)) = socket.next().await {
                    if message == Message::text("bye") {
                        let frame = CloseFrame { code: 4001.into(), reason: "see you".into() };
                        let _ = socket.close(Some(frame)).await;
                    } else if message.is_text() || message.is_binary() {
                        let _ = socket.send(message).await;
                    }
                }
            }
        });
    });
    (port, seen)
}

/// Runs a command with this body; returns its output.
fn said(world: &World, body: &str, allow: &[&str]) -> Vec<Value> {
    let source = format!(
        "export default (pi: any) => pi.registerCommand('go', {{ handler: async () => {{
           const say = (...what: unknown[]) => pi.appendEntry('said', what);
           const events = (socket: WebSocket) => new Promise<void>((resolve) => {{
             socket.onerror = (event: any) => say('error', event.error instanceof TypeError, event.message.includes('blocked') || event.message.includes('not granted') || event.message);
             socket.addEventListener('close', (event: any) => {{ say('close', event.wasClean, event.code, event.reason, socket.readyState); resolve(); }});
           }});
           {body} pi.sendUserMessage('x'); }} }});"
    );
    let path = world.write("ext/one.ts", source).display().to_string();
    let model = world.script(&[&["ok"]]);
    let mut args = vec!["-p", "/go", "--mode", "json", "--model", &model, "-e", &path];
    allow.iter().for_each(|allow| args.extend(["--allow", allow]));
    let run = world.pi(&args);
    run.succeeded();
    let folder = world.home().join(".pi/agent/sessions");
    let project = std::fs::read_dir(folder).expect("sessions").next().expect("a project").expect("an entry").path();
    let session = std::fs::read_dir(project).expect("sessions").next().expect("a session").expect("an entry").path();
    let text = std::fs::read_to_string(session).expect("a session");
    let entries = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("an entry"));
    entries.filter(|entry| entry["customType"] == "said").map(|entry| entry["data"].clone()).collect()
}

#[test]
fn messages_arrive_in_order_and_the_close_is_reported() {
    let (port, seen) = server();
    let world = World::new();
    let body = format!(
        "const socket = new WebSocket('ws://127.0.0.1:{port}/path?q=1', ['chat', 'other']);
         say(socket.readyState, socket.url, socket.binaryType, typeof MessageEvent);
         const ended = events(socket);
         const heard: unknown[] = [];
         socket.onmessage = async (event: any) => {{
           heard.push(typeof event.data === 'string' ? event.data : event.data instanceof ArrayBuffer ? [...new Uint8Array(event.data)] : await event.data.text());
           if (heard.length === 1) socket.binaryType = 'arraybuffer';
           if (heard.length === 3) socket.send('bye');
         }};
         socket.onopen = () => {{
           say('open', socket.readyState, socket.protocol);
           socket.send(new Blob(['blob']));
           socket.send('text \\u00e9');
           const bytes = new Uint8Array([1, 2, 3]);
           socket.send(bytes.subarray(1));
           bytes.fill(9);
           say('waiting', socket.bufferedAmount);
         }};
         await ended;
         say(heard);"
    );
    let allow = format!("http:127.0.0.1:{port}");
    assert_eq!(
        said(&world, &body, &[&allow]),
        [
            json!([0, format!("ws://127.0.0.1:{port}/path?q=1"), "blob", "function"]),
            json!(["open", 1, "chat"]),
            json!(["waiting", 12]),
            json!(["close", true, 4001, "see you", 3]),
            json!([["blob", "text é", [2, 3]]]),
        ]
    );
    assert_eq!(*seen.lock().expect("no panic"), ["/path?q=1 chat, other -"]);
}

#[test]
fn an_extension_closes_and_sends_headers() {
    let (port, seen) = server();
    let world = World::new();
    let body = format!(
        "const socket = new WebSocket('http://127.0.0.1:{port}/', {{ headers: {{ 'x-mine': 'yes' }} }} as any);
         const ended = events(socket);
         socket.onopen = () => {{ socket.send('first'); socket.close(3001, 'enough'); say(socket.readyState); socket.send('never'); }};
         await ended;
         for (const wrong of ['ftp://x', 'ws://x/#a', 'no'])
           try {{ new WebSocket(wrong); }} catch (error: any) {{ say(error.name); }}
         try {{ new WebSocket('ws://x', ['a', 'a']); }} catch (error: any) {{ say(error.name); }}"
    );
    let allow = format!("http:127.0.0.1:{port}");
    let wrong = || json!(["SyntaxError"]);
    assert_eq!(
        said(&world, &body, &[&allow]),
        [json!([2]), json!(["close", true, 3001, "enough", 3]), wrong(), wrong(), wrong(), wrong()]
    );
    assert_eq!(*seen.lock().expect("no panic"), ["/ - yes"]);
}

#[test]
fn ungranted_servers_are_not_reached() {
    let (port, seen) = server();
    let world = World::new();
    let body = format!(
        "await events(new WebSocket('ws://127.0.0.1:{port}/')); await events(new WebSocket('ws://localhost:{port}/'));"
    );
    let said = said(&world, &body, &["http:example.com"]);
    assert_eq!(said.len(), 4, "{said:?}");
    for end in [&said[1], &said[3]] {
        assert_eq!(end, &json!(["close", false, 1006, "", 3]));
    }
    assert!(seen.lock().expect("no panic").is_empty());
}
