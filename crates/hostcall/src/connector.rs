//! What a connector is given and what it gives.
//!
//! A [`Connector`] does one kind of thing (`fs`, `exec`, `http`, ...) once the gate allowed it.
//! It trusts the [`Request`] for one purpose only, to say what was asked: where it resolves a
//! name further (a symbolic link, a redirect), it asks [`Request::permit`] about the result.

use crate::flight::Flight;
use crate::gate::{Decision, Permit};
use crate::places::normal;
pub use pijs_protocol::hostcall::bytes_index;
use pijs_protocol::{CallId, ErrorCode, ExtensionId, HostcallError, Method, guard};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Tells a running call that nobody waits for it any more.
pub use tokio_util::sync::CancellationToken as CancelToken;

/// Runs allowed calls of one method.
pub trait Connector: Send + Sync {
    /// Runs an allowed call to its end. `sink` takes chunks of a streaming answer; when chunks
    /// were sent, what this returns is the last of them.
    ///
    /// Deadline and cancellation drop the future; a connector that left something behind
    /// (a process, a temporary file) cleans up on drop or watches [`Request::cancel`].
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>>;

    /// The synchronous form. Nothing else runs in the realm meanwhile, so the connector itself
    /// keeps to [`Request::timeout_ms`] and [`Request::cancel`].
    ///
    /// The default refuses with `invalid_request`.
    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        Err(HostcallError::invalid(
            "sync",
            format!("`{}` has no synchronous form; use the asynchronous one", request.method),
        ))
    }

    /// The extension's realm ended: closes what it left open (file handles, processes).
    fn end_extension(&self, extension: &ExtensionId) {
        let _ = extension;
    }
}

/// An allowed call.
#[derive(Debug, Clone)]
pub struct Request {
    /// Whose call.
    pub caller: Caller,
    /// Its id, for messages and logs.
    pub call_id: CallId,
    /// Which method, as in [`crate::vocabulary`].
    pub method: Method,
    /// Method-specific parameters; bytes are `{"$bytes": i}`, an index into `bytes`.
    pub params: Map<String, Value>,
    /// Raw attachments.
    pub bytes: Vec<Vec<u8>>,
    /// What the gate decided.
    pub decision: Decision,
    /// What the caller may touch: asked again for everything that resolution brings up.
    pub permit: Permit,
    /// Wall-clock limit. The dispatcher enforces it for [`Connector::call`].
    pub timeout_ms: Option<u64>,
    /// Fires when the call is cancelled.
    pub cancel: CancelToken,
}

/// What a connector answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// Method-specific value; bytes are `{"$bytes": i}`.
    pub value: Value,
    /// Raw attachments.
    pub bytes: Vec<Vec<u8>>,
}

impl Output {
    /// An answer without attachments.
    pub fn new(value: Value) -> Self {
        Self { value, bytes: Vec::new() }
    }

    /// `{}`: done, nothing to say.
    pub fn empty() -> Self {
        Self::new(Value::Object(Map::new()))
    }

    /// An answer whose member `key` holds raw bytes.
    pub fn with_bytes(mut self, key: &str, bytes: Vec<u8>) -> Self {
        if !self.value.is_object() {
            self.value = Value::Object(Map::new());
        }
        if let Value::Object(members) = &mut self.value {
            members.insert(key.to_owned(), bytes_ref(self.bytes.len()));
        }
        self.bytes.push(bytes);
        self
    }
}

/// `{"$bytes": index}`.
pub fn bytes_ref(index: usize) -> Value {
    let mut members = Map::new();
    members.insert("$bytes".to_owned(), Value::from(index));
    Value::Object(members)
}

/// Who calls, and from where.
#[derive(Debug, Clone)]
pub struct Caller {
    /// What stays the same as long as the extension is loaded.
    pub profile: Arc<Profile>,
    /// What the realm is doing.
    pub during: During,
    /// The tool call, command or event that is running, for the ledger.
    pub tool_call_id: Option<Arc<str>>,
    /// Event delivery that is running, for the ledger.
    pub event_id: Option<Arc<str>>,
}

impl Caller {
    /// An extension doing ordinary work.
    pub fn new(profile: Arc<Profile>) -> Self {
        Self { profile, during: During::Turn, tool_call_id: None, event_id: None }
    }

    /// The calling extension.
    pub fn extension(&self) -> &ExtensionId {
        &self.profile.extension
    }

    /// The same extension as the one whose message the model follows.
    #[must_use]
    pub fn behind_model(mut self) -> Self {
        self.during = During::Model;
        self
    }

    /// The same caller inside a verdict: nothing may wait for a person.
    #[must_use]
    pub fn in_verdict(mut self) -> Self {
        self.during = During::Verdict;
        self
    }
}

/// What stays the same as long as an extension is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The extension.
    pub extension: ExtensionId,
    /// Folder of its package; readable without asking. For a loose file the folder it lies in, of which only `files` are its.
    pub package_root: Option<PathBuf>,
    /// What belongs to a loose file: itself and the files that are compiled into it.
    pub files: Option<Vec<PathBuf>>,
    /// Folders of packages beside it whose code is compiled into it; readable as well.
    pub dependencies: Vec<PathBuf>,
    /// `sha256:HEX` of its artifact, for the ledger.
    pub artifact_id: Option<String>,
}

impl Profile {
    /// A profile with only a name, as a loose file or a test has it.
    pub fn new(extension: impl Into<ExtensionId>) -> Self {
        let (package_root, files, dependencies, artifact_id) = Default::default();
        Self { extension: extension.into(), package_root, files, dependencies, artifact_id }
    }

    /// Names the package's folder.
    #[must_use]
    pub fn at(mut self, package_root: impl Into<PathBuf>) -> Self {
        self.package_root = Some(package_root.into());
        self
    }

    /// Names the packages whose code is compiled into it, by what an artifact lists as its inputs
    /// (`dep:NAME@VERSION/PATH`): those lie in the `node_modules` folder that the package itself lies in, else in one of a folder
    /// around it.
    #[must_use]
    pub fn with_inputs<'a>(mut self, inputs: impl IntoIterator<Item = &'a str>) -> Self {
        let Some(root) = self.package_root.as_deref() else { return self };
        let is_modules = |folder: &&Path| folder.file_name().is_some_and(|name| name == "node_modules");
        let around = || root.ancestors().skip(1);
        let modules: Vec<PathBuf> = match around().take(2).find(is_modules) {
            Some(modules) => vec![modules.to_path_buf()],
            None => around().map(|folder| folder.join("node_modules")).collect(),
        };
        let names: BTreeSet<&str> = inputs.into_iter().filter_map(dependency).collect();
        self.dependencies = names.iter().flat_map(|name| modules.iter().map(move |folder| folder.join(name))).collect();
        self
    }

    /// Says that it is no package but one file, `file`, in whatever folder: a download, or a script in the home. What lies
    /// there besides is not its own, but for what is compiled into it (`inputs` seen from `place`, as an artifact lists them)
    /// and what bears its name: `todo.json` and `todo/` beside `todo.ts`. Dependencies lie in a `node_modules` folder of a
    /// folder around it.
    #[must_use]
    pub fn loose<'a>(mut self, file: &Path, place: &Path, inputs: impl IntoIterator<Item = &'a str>) -> Self {
        let folder = file.parent().unwrap_or(file);
        let mut files = vec![file.to_path_buf()];
        for input in inputs {
            match dependency(input) {
                Some(name) => {
                    self.dependencies.extend(folder.ancestors().map(|folder| folder.join("node_modules").join(name)))
                }
                // It says what imports mean and is not compiled; in a home or a project it says more of others.
                None if input.rsplit('/').next() == Some("package.json") => {}
                None => files.push(normal(place, Path::new(input))),
            }
        }
        self.dependencies.sort_unstable();
        self.dependencies.dedup();
        self.package_root = Some(folder.to_path_buf());
        self.files = Some(files);
        self
    }

    /// What a path belongs to that is the extension's own: the folder of the package, or of one whose code is compiled
    /// into it; of a loose file that, another file, or what bears its name.
    pub fn own_folder(&self, path: &Path) -> Option<PathBuf> {
        let of_dependency = || self.dependencies.iter().find(|folder| path.starts_with(folder)).cloned();
        let root = self.package_root.as_deref().filter(|root| path.starts_with(root));
        let Some(files) = self.files.as_ref().filter(|_| guard!(GateLooseFolder)) else {
            return root.map(Path::to_path_buf).or_else(of_dependency);
        };
        let bears_its_name = || {
            let beside = path.strip_prefix(root?).ok()?.iter().next()?;
            let own = files.first()?.file_stem()?;
            (Path::new(beside).file_stem()? == own).then(|| root.map(|root| root.join(beside)))?
        };
        files.iter().find(|file| path == *file).cloned().or_else(bears_its_name).or_else(of_dependency)
    }
}

/// The package that an input of an artifact is from, if it is not the artifact's own.
fn dependency(input: &str) -> Option<&str> {
    let rest = input.strip_prefix("dep:")?;
    // The first character may be that of a scope.
    let version = rest.get(1..)?.find('@')? + 1;
    let name = &rest[..version];
    let is_plain = name.split('/').all(|part| !matches!(part, "" | "." | ".."));
    is_plain.then_some(name)
}

/// What a realm is doing while it calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum During {
    /// An ordinary macrotask.
    Turn,
    /// A streamed delta waits for the answer: a prompt would hold up the model, so it is denied.
    Verdict,
    /// The model calls a tool in a turn that a message of the extension led to. What a person answers here holds for
    /// such calls alone: it gives the extension itself nothing.
    Model,
}

/// How an extension comes to the hands of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// A message of it led to the turn; whether a person may be asked.
    Message {
        /// Whether a person may be asked.
        asks: bool,
    },
    /// It changed what a tool is called with, or called it in the model's place, by this capability.
    Call(&'static str),
    /// The reply is its own: it brought the model, and no person chose that one.
    Reply,
}

/// Takes chunks of a streaming answer and numbers them.
#[derive(Clone)]
pub struct ChunkSink {
    pub(crate) flight: Arc<Flight>,
}

impl ChunkSink {
    /// Sends one chunk. Fails when the call has ended meanwhile or its result quota is used up;
    /// the connector then stops.
    pub fn send(&self, chunk: Output) -> Result<(), HostcallError> {
        self.flight.chunk(chunk)
    }

    /// Waits until the realm has taken enough of what it was sent that there is room for more. Whoever reads from somebody
    /// who sends without end waits before each piece; what is not read is the sender's to keep.
    pub async fn ready(&self) {
        self.flight.ready().await;
    }
}

impl std::fmt::Debug for ChunkSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkSink").finish_non_exhaustive()
    }
}

/// The error of a call that was cancelled.
pub fn cancelled(method: &str) -> HostcallError {
    HostcallError::new(ErrorCode::Timeout, format!("{method}: cancelled")).with("reason", "cancelled")
}

/// The error of a call that ran out of time.
pub fn deadline(method: &str, timeout_ms: u64) -> HostcallError {
    HostcallError::new(ErrorCode::Timeout, format!("{method}: no answer within {timeout_ms} ms"))
        .with("reason", "deadline")
        .with("timeout_ms", timeout_ms)
        .retryable()
}
