//! Web servers of a case, with scripted responses and recorded requests.

use crate::archive;
use crate::case::Reply;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time limit of each read and write.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    /// Responses by path, in order; the last one repeats. `*` matches any other path.
    replies: BTreeMap<String, Vec<Reply>>,
    folder: Option<PathBuf>,
    requests: Mutex<Vec<Value>>,
}

impl Server {
    /// Starts a server. Files in `folder` answer paths without `replies`.
    pub(crate) fn start(replies: BTreeMap<String, Vec<Reply>>, folder: Option<PathBuf>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared { replies, folder, requests: Mutex::default() });
        let theirs = Arc::downgrade(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(shared) = theirs.upgrade() else { return };
                std::thread::spawn(move || {
                    let _ = serve(&stream, &shared);
                });
            }
        });
        Self { address, shared }
    }

    /// Starts a server that answers all requests with one text.
    pub(crate) fn speaking(text: &str) -> Self {
        let reply = Reply { body: text.to_owned(), ..Reply::default() };
        Self::start(BTreeMap::from([("*".to_owned(), vec![reply])]), None)
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns `{method, path, headers, body}` of each request, in order.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Wakes the accepting thread, which then exits.
        self.shared = Arc::new(Shared { replies: BTreeMap::new(), folder: None, requests: Mutex::default() });
        let _ = TcpStream::connect(self.address);
    }
}

/// Reads a chunked body, without trailers.
fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> std::io::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let size = u64::from_str_radix(line.trim_end(), 16).unwrap_or(0);
        reader.by_ref().take(size).read_to_end(body)?;
        line.clear();
        reader.read_line(&mut line)?;
        if size == 0 {
            return Ok(());
        }
    }
}

fn serve(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(());
    }
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or("/").to_owned());
    let mut headers = serde_json::Map::new();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
        if name == "content-length" {
            length = value.parse().unwrap_or(0);
        }
        headers.insert(name, value.into());
    }
    let mut body = Vec::new();
    let is_chunked = headers.get("transfer-encoding").and_then(Value::as_str).is_some_and(|coding| coding == "chunked");
    if is_chunked {
        // A connection that is closed with unread bytes resets the client's.
        read_chunks(&mut reader, &mut body)?;
    } else {
        reader.by_ref().take(length).read_to_end(&mut body)?;
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    let earlier = {
        let mut requests = shared.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = requests.iter().filter(|request| request["path"] == path.as_str()).count();
        requests.push(json!({ "method": method, "path": path, "headers": headers, "body": body }));
        earlier
    };
    let replies = shared.replies.get(&path).or_else(|| shared.replies.get("*"));
    let reply = match replies {
        Some(replies) => replies.get(earlier).or_else(|| replies.last()).cloned().unwrap_or_default(),
        None => {
            if let Some(bytes) = shared.folder.as_ref().and_then(|folder| file(folder, &path)) {
                write!(
                    &mut &*stream,
                    "HTTP/1.1 200 X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                    bytes.len()
                )?;
                return (&mut &*stream).write_all(&bytes);
            }
            Reply { status: Some(404), ..Reply::default() }
        }
    };
    answer(stream, &reply)
}

/// Returns a file in the folder. Ignores queries, and paths that leave the folder.
fn file(folder: &Path, path: &str) -> Option<Vec<u8>> {
    let path = path.split('?').next().unwrap_or(path).trim_start_matches('/');
    let inside = Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
    inside.then(|| std::fs::read(folder.join(path)).ok()).flatten()
}

fn answer(mut stream: &TcpStream, reply: &Reply) -> std::io::Result<()> {
    if let Some(raw) = &reply.raw {
        stream.write_all(raw.as_bytes())?;
        let endless = reply.endless.as_deref().unwrap_or_default().repeat(1000);
        while !endless.is_empty() {
            stream.write_all(endless.as_bytes())?;
        }
        return Ok(());
    }
    let mut body = reply.body.clone().into_bytes();
    if let Some(content) = &reply.content {
        body = archive::content(content).map_err(std::io::Error::other)?;
    }
    let mut head = format!("HTTP/1.1 {} X\r\nconnection: close\r\n", reply.status.unwrap_or(200));
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if reply.sse.is_empty() && !reply.stall {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    if !reply.sse.is_empty() {
        head.push_str("content-type: text/event-stream\r\n");
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    match reply.drip_ms {
        Some(pause) => {
            for byte in body {
                stream.write_all(&[byte])?;
                std::thread::sleep(Duration::from_millis(pause));
            }
        }
        None => stream.write_all(&body)?,
    }
    for block in &reply.sse {
        stream.write_all(block.as_bytes())?;
        stream.flush()?;
    }
    if reply.stall {
        // Returns when the client disconnects.
        let _ = stream.read(&mut [0; 1]);
    }
    Ok(())
}
