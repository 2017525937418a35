//! An npm registry on loopback: serves package documents and tarballs over HTTP/1.1, and simulates failures of a registry.

use base64::Engine as _;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Reply to requests for a path.
#[derive(Clone)]
pub enum Reply {
    Body {
        content_type: &'static str,
        bytes: Vec<u8>,
    },
    Redirect(String),
    Status(u16),
    /// Reads the request and never answers; the connection stays open until the registry is dropped.
    Silence,
}

#[derive(Default)]
struct State {
    documents: BTreeMap<String, Value>,
    replies: BTreeMap<String, Reply>,
    requests: Vec<Request>,
    silent: Vec<TcpStream>,
}

/// A request that was received.
#[derive(Debug, Clone)]
pub struct Request {
    pub path: String,
    pub authorization: Option<String>,
}

/// A registry server. Dropping it ends its thread.
pub struct Registry {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Registry {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = listener.local_addr().expect("bound");
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::downgrade(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(state) = shared.upgrade() else { return };
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Self { address, state }
    }

    /// Returns `http://127.0.0.1:PORT/`.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Publishes the packages that the fixtures depend on, and the fixtures.
    pub fn with_fixtures(self, fixtures: &Path) -> Self {
        for folder in ["pi-ttsr", "greets-cjs", "greets-esm", "npm/tiny-words", "npm/tiny-case", "npm/@tiny/colors"] {
            self.publish_folder(&fixtures.join(folder));
        }
        self
    }

    /// Publishes a folder as `npm publish` would.
    pub fn publish_folder(&self, folder: &Path) {
        let mut files = BTreeMap::new();
        read_folder(folder, folder, &mut files);
        let manifest = serde_json::from_slice(&files["package.json"]).expect("a manifest");
        self.publish_tarball(&manifest, &pack(&files), |_| {});
    }

    /// Publishes a package made of a manifest and files.
    pub fn publish(&self, manifest: Value, files: &[(&str, &str)]) {
        let mut all: BTreeMap<String, Vec<u8>> =
            files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
        all.insert("package.json".to_owned(), serde_json::to_vec(&manifest).expect("json"));
        self.publish_tarball(&manifest, &pack(&all), |_| {});
    }

    /// Publishes an extension with one entry that does nothing.
    pub fn publish_extension(&self, name: &str, version: &str, dependencies: Value) {
        let manifest = json!({"name": name, "version": version, "pi": {"extensions": ["./index.ts"]}, "dependencies": dependencies});
        self.publish(manifest, &[("index.ts", "export default () => {};\n")]);
    }

    /// Publishes arbitrary bytes as a tarball; `change` edits the registry's metadata about it.
    pub fn publish_tarball(&self, manifest: &Value, tarball: &[u8], change: impl FnOnce(&mut Map<String, Value>)) {
        let (name, version) = (text(manifest, "name"), text(manifest, "version"));
        let path = format!("/{name}/-/{}-{version}.tgz", name.rsplit('/').next().expect("a part"));
        let mut entry = manifest.as_object().expect("a manifest").clone();
        entry.remove("pi");
        entry.insert(
            "dist".to_owned(),
            json!({"tarball": format!("{}{}", self.url(), &path[1..]), "integrity": integrity(tarball), "shasum": "0000000000000000000000000000000000000000"}),
        );
        change(&mut entry);
        let mut state = self.state.lock().expect("not poisoned");
        let document = state
            .documents
            .entry(name.clone())
            .or_insert_with(|| json!({"name": name, "dist-tags": {}, "versions": {}}));
        document["versions"][&version] = Value::Object(entry);
        document["dist-tags"]["latest"] = Value::String(version);
        state.replies.insert(path, Reply::Body { content_type: "application/octet-stream", bytes: tarball.to_vec() });
    }

    /// Changes a published document: tags, versions, integrity.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Value)) {
        change(self.state.lock().expect("not poisoned").documents.get_mut(name).expect("published"));
    }

    /// Sets the reply for a path.
    pub fn reply(&self, path: &str, reply: Reply) {
        self.state.lock().expect("not poisoned").replies.insert(path.to_owned(), reply);
    }

    /// Returns the requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.state.lock().expect("not poisoned").requests.clone()
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Wakes the thread, which sees that the server was dropped and ends.
        self.state = Arc::default();
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let path = line.split(' ').nth(1).unwrap_or("/").to_owned();
    let mut authorization = None;
    loop {
        line.clear();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("authorization")
        {
            authorization = Some(value.trim().to_owned());
        }
    }
    let reply = {
        let mut state = state.lock().expect("not poisoned");
        state.requests.push(Request { path: path.clone(), authorization });
        let document = state.documents.get(&path[1..].replace("%2f", "/"));
        match (state.replies.get(&path), document) {
            (Some(reply), _) => reply.clone(),
            (None, Some(document)) => Reply::Body {
                content_type: "application/vnd.npm.install-v1+json",
                bytes: serde_json::to_vec(document).expect("json"),
            },
            (None, None) => Reply::Status(404),
        }
    };
    let head = |status: &str, extra: &str, length: usize| {
        format!("HTTP/1.1 {status}\r\n{extra}content-length: {length}\r\nconnection: close\r\n\r\n")
    };
    // A client may close the connection early.
    let _ = match reply {
        Reply::Body { content_type, bytes } => stream
            .write_all(head("200 OK", &format!("content-type: {content_type}\r\n"), bytes.len()).as_bytes())
            .and_then(|()| stream.write_all(&bytes)),
        Reply::Redirect(to) => stream.write_all(head("302 Found", &format!("location: {to}\r\n"), 0).as_bytes()),
        Reply::Status(status) => stream.write_all(head(&format!("{status} X"), "", 0).as_bytes()),
        Reply::Silence => {
            state.lock().expect("not poisoned").silent.push(stream);
            Ok(())
        }
    };
}

/// Creates a tarball as `npm pack` does.
pub fn pack(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("package/{path}"), bytes.as_slice()).expect("memory");
    }
    gzip(&builder.into_inner().expect("memory"))
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

pub fn integrity(bytes: &[u8]) -> String {
    format!("sha512-{}", base64::engine::general_purpose::STANDARD.encode(Sha512::digest(bytes)))
}

fn text(manifest: &Value, key: &str) -> String {
    manifest[key].as_str().expect("a string").to_owned()
}

fn read_folder(root: &Path, dir: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read_folder(root, &path, files);
        } else {
            let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
            files.insert(name, std::fs::read(&path).expect("readable"));
        }
    }
}
