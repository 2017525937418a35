//! Tests WebSocket connections to servers that violate the protocol, in frames and in handshakes.

mod support;

use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Call, World, hosts};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Starts a server that completes the handshake, sends the bytes `first`, then `then` repeatedly; returns its port and the number
/// of sent bytes.
async fn frames(first: Vec<u8>, then: Vec<u8>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let sent = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&sent);
    tokio::spawn(async move {
        let stream = listener.accept().await.unwrap().0;
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let stream = socket.get_mut();
        let _ = stream.write_all(&first).await;
        while !then.is_empty() && stream.write_all(&then).await.is_ok() {
            counts.fetch_add(then.len(), Ordering::Relaxed);
        }
        // The server keeps the connection open until the client closes it.
        while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {}
    });
    (port, sent)
}

/// Starts a server that answers any request with `first`, then sends `then` endlessly.
async fn says(first: &'static [u8], then: Vec<u8>) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let sent = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&sent);
    tokio::spawn(async move {
        let mut stream: TcpStream = listener.accept().await.unwrap().0;
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(first).await;
        while !then.is_empty() && stream.write_all(&then).await.is_ok() {
            counts.fetch_add(then.len(), Ordering::Relaxed);
        }
    });
    (port, sent)
}

fn world(ports: &[u16]) -> World {
    World::new(&[hosts(&ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>())])
}

fn open(world: &World, port: u16) -> Call {
    let url = format!("ws://127.0.0.1:{port}/");
    world.start("http", "websocket", json!({"op": "open", "socket": format!("s{port}"), "url": url}), vec![])
}

/// Returns the close code of a connection, or the reason of its failure.
async fn end(call: Call) -> String {
    let last = call.all().await.pop().unwrap();
    match &last.error {
        Some(error) => format!("{}:{}", error.code, error.details["reason"].as_str().unwrap()),
        None => last.output["code"].to_string(),
    }
}

#[tokio::test]
async fn frames_that_claim_too_much_or_never_end_close_the_connection() {
    const LARGE: &str = "invalid_request:too_large";
    /// Close code of a connection that ended without a close frame.
    const LOST: &str = "1006";
    let claims = |size: u64| [&[0x82, 127][..], &size.to_be_bytes()].concat();
    // Continuation frames of one kilobyte each.
    let more = [&[0x00, 126, 4, 0][..], &[b'x'; 1024]].concat().repeat(64);
    let cases = [
        (claims(1 << 62), vec![], LARGE),
        (claims((32 << 20) + 1), vec![], LARGE),
        (claims(u64::MAX), vec![], LARGE),
        // An endless message in frames of that size.
        (vec![0x02, 0], more.clone(), LARGE),
        (vec![0x01, 0], more, LARGE),
        // Compression that was not negotiated, another reserved bit, and an unknown opcode.
        (vec![0xc1, 5, 0xf2, 0x48, 0xcd, 0xc9, 0x07], vec![], LOST),
        (vec![0xa1, 0], vec![], LOST),
        (vec![0x83, 0], vec![], LOST),
        // A continuation without a message, a new message inside of one, a fragmented ping, and a ping that is too long.
        (vec![0x80, 0], vec![], LOST),
        (vec![0x01, 0, 0x81, 0], vec![], LOST),
        (vec![0x09, 0], vec![], LOST),
        (vec![0x89, 126, 0, 126], vec![0; 126], LOST),
        // A masked frame, which only clients may send, and invalid UTF-8.
        (vec![0x81, 0x81, 1, 2, 3, 4, 5], vec![], LOST),
        (vec![0x81, 2, 0xc3, 0x28], vec![], LOST),
    ];
    for (first, then, expected) in cases {
        let (port, sent) = frames(first.clone(), then).await;
        let world = world(&[port]);
        assert_eq!(end(open(&world, port)).await, expected, "{first:02x?}");
        assert!(sent.load(Ordering::Relaxed) < 64 << 20, "{first:02x?}");
    }
}

#[tokio::test]
async fn a_handshake_that_never_ends_or_is_none_is_given_up() {
    let cases: [(&'static [u8], &[u8]); 8] = [
        (b"HTTP/1.1 101 Go\r\n", b"x-a: b\r\n"),
        (b"HTTP/1.1 101 Go\r\nx-a: ", b"x"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (b"HTTP/1.1 101 Go\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n", b""),
        (b"HTTP/1.1 101 Go\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: eA==\r\n\r\n", b""),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\0\x04\0\0\0\0\0"),
        (b"\0\0\0\0", b"\0"),
        (b"", b""),
    ];
    for (first, then) in cases {
        let (port, sent) = says(first, then.repeat(1000)).await;
        let world = world(&[port]);
        let end = end(open(&world, port)).await;
        assert!(["io:EPROTO", "io:ECONNRESET"].contains(&&*end), "{first:?}: {end}");
        assert!(sent.load(Ordering::Relaxed) < 16 << 20, "{first:?}");
    }
}
