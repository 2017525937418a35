//! A client of the protocol that uses no code of this crate, and servers for it.

use futures_util::{SinkExt as _, StreamExt as _};
use pijs_rummy::{RummySession, SessionOptions, server};
use pijs_runtime::throwaway::surroundings;
use pijs_runtime::{Environment, Interface, Notices};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tokio_tungstenite::tungstenite::Message;
/// A client of the protocol that uses no code of this crate.
pub(crate) struct Peer {
    socket: tokio_tungstenite::WebSocketStream<tokio::net::TcpStream>,
    told: Vec<Value>,
    next: u64,
    /// Runs that received notifications named.
    pub(crate) runs: BTreeSet<String>,
}

impl Peer {
    pub(crate) async fn connect(address: &str) -> Result<Self, String> {
        let host = address.strip_prefix("ws://").and_then(|rest| rest.split('/').next()).expect("an address");
        let stream = tokio::net::TcpStream::connect(host).await.expect("it listens");
        let shaken = tokio_tungstenite::client_async(address, stream).await;
        let (socket, _) = shaken.map_err(|error| error.to_string())?;
        Ok(Self { socket, told: Vec::new(), next: 0, runs: BTreeSet::new() })
    }

    async fn hear(&mut self) -> Value {
        loop {
            let message = self.socket.next().await.expect("it is open").expect("a message");
            if let Ok(text) = message.to_text() {
                let heard: Value = serde_json::from_str(text).expect("JSON");
                self.runs.extend(heard["params"]["run"].as_str().map(str::to_owned));
                return heard;
            }
        }
    }

    /// Keeps a notification, but without the history of its run, which grows with each turn.
    fn keep(&mut self, mut heard: Value) {
        if let Some(params) = heard["params"].as_object_mut() {
            params.remove("history");
        }
        self.told.push(heard);
    }

    /// Connects, and performs the `rummy/hello` handshake.
    pub(crate) async fn greeted(address: &str, project: &str, root: &Path) -> Self {
        let mut peer = Self::connect(address).await.expect("connected");
        peer.done("rummy/hello", json!({ "name": project, "projectRoot": root })).await;
        peer
    }

    /// Calls a method, and panics on an error.
    pub(crate) async fn done(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params).await;
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let call = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.socket.send(Message::text(call.to_string())).await.expect("sent");
        loop {
            let heard = self.hear().await;
            if heard["id"] == self.next {
                return heard;
            }
            self.keep(heard);
        }
    }

    /// Waits for a matching notification.
    pub(crate) async fn until(&mut self, method: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let is_it = |heard: &Value| heard["method"] == method && fits(&heard["params"]);
        if let Some(at) = self.told.iter().position(is_it) {
            return self.told.remove(at);
        }
        loop {
            let heard = self.hear().await;
            if is_it(&heard) {
                return heard;
            }
            self.keep(heard);
        }
    }
}

/// Writes a script with these replies for a recorded model. Returns the model's name.
pub(crate) fn script(folder: &Path, name: &str, replies: &[String]) -> String {
    let line = |reply: &String| json!({ "events": [{ "text": reply }], "stop": "end_turn" }).to_string();
    let path = folder.join(name);
    std::fs::write(&path, replies.iter().map(line).collect::<Vec<_>>().join("\n")).expect("written");
    format!("script:{}", path.display())
}

/// Serves sessions of folders, and runs clients against them.
pub(crate) fn serving(folders: usize, model: &str, talk: impl AsyncFnOnce(Vec<PathBuf>, String)) {
    let base = tempfile::tempdir().expect("a folder");
    let mut environment = Environment::capture().expect("an environment");
    environment.notices = Notices::new(|_| {});
    let environment = surroundings(&environment, base.path()).expect("made");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let (mut sessions, mut roots) = (Vec::new(), Vec::new());
        for number in 0..folders {
            let mut environment = environment.clone();
            environment.dirs.cwd = base.path().join(format!("project{number}"));
            std::fs::create_dir_all(&environment.dirs.cwd).expect("made");
            roots.push(environment.dirs.cwd.clone());
            let mut options = SessionOptions::default();
            options.config.permissions.allow = ["read", "write", "exec"].map(str::to_owned).to_vec();
            options.config.model.name = Some(model.to_owned());
            let session = RummySession::open(&environment, options, Interface::default()).await;
            sessions.push(session.unwrap_or_else(|error| panic!("{error}")));
        }
        let (found, address) = tokio::sync::oneshot::channel();
        let found = std::cell::Cell::new(Some(found));
        let say = |line: &str| drop(found.take().map(|found| found.send(line.to_owned())));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let served = server::serve(&sessions, 0, say, async { drop(stopped.await) });
        let talk = async {
            talk(roots, address.await.expect("an address")).await;
            stop.send(()).expect("the server is running");
        };
        tokio::join!(served, talk).0.unwrap_or_else(|error| panic!("{error}"));
        sessions.into_iter().for_each(RummySession::close);
    });
}

/// Variables that pass the folder and the model to a server in a separate process.
pub(crate) const SERVED: [&str; 2] = ["RUMMY_TEST_SERVED", "RUMMY_TEST_MODEL"];

/// Serves a folder until the process is killed.
pub(crate) fn serve_for_ever(base: &Path) {
    let mut environment = Environment::capture().expect("an environment");
    environment.notices = Notices::new(|_| {});
    let environment = surroundings(&environment, base).expect("made");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut options = SessionOptions::default();
        options.config.permissions.allow = ["read", "write", "exec"].map(str::to_owned).to_vec();
        options.config.model.name = std::env::var(SERVED[1]).ok();
        let session = RummySession::open(&environment, options, Interface::default()).await;
        let session = session.unwrap_or_else(|error| panic!("{error}"));
        let say = |line: &str| {
            use std::io::Write as _;
            writeln!(std::io::stdout(), "{line}").expect("the test listens");
        };
        let served = server::serve(std::slice::from_ref(&session), 0, say, std::future::pending()).await;
        served.unwrap_or_else(|error| panic!("{error}"));
    });
}

/// A server in a separate process, which is killed on drop.
pub(crate) struct Served(std::process::Child, pub(crate) String);

impl Served {
    pub(crate) fn start(base: &Path, model: &str) -> Self {
        use std::io::BufRead as _;
        let mut child = std::process::Command::new(std::env::current_exe().expect("this test has a file"))
            .env(SERVED[0], base)
            .env(SERVED[1], model)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut output = std::io::BufReader::new(child.stdout.take().expect("it is piped"));
        let mut address = String::new();
        output.read_line(&mut address).expect("it prints its address");
        Self(child, address.trim().to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ended");
    }
}
