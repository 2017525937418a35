//! The interface of connectors, which perform allowed calls.
//!
//! A [`Connector`] performs one kind of call (`fs`, `exec`, `http`, ...) after the gate has allowed it. The [`Request`] describes
//! the call as it was decided; where a connector resolves a name further (a symbolic link, a redirect), it asks
//! [`Request::permit`] about the result.

use crate::derive::{Required, required};
use crate::gate::{Decision, Permit};
use crate::in_flight::InFlightCall;
use crate::places::normal;
pub use pijs_protocol::hostcall::bytes_index;
use pijs_protocol::{CallId, ErrorCode, ExtensionId, HostcallError, Method, TypedCall, guard};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Signals a running call that its result is no longer needed.
pub use tokio_util::sync::CancellationToken as CancelToken;

/// Performs allowed calls of one method.
pub trait Connector: Send + Sync {
    /// Performs an allowed call. `sink` takes chunks of a streaming answer; after chunks, the returned output is the last one.
    ///
    /// Deadline and cancellation drop the future; a connector that left something behind (a process, a temporary file) cleans up
    /// on drop or watches [`Request::cancel`].
    fn call(&self, request: Request, sink: ChunkSink) -> BoxFuture<'static, Result<Output, HostcallError>>;

    /// Performs a synchronous call. It blocks the realm, so the connector itself enforces [`Request::timeout_ms`] and
    /// [`Request::cancel`].
    ///
    /// The default refuses with `invalid_request`.
    fn call_sync(&self, request: &Request) -> Result<Output, HostcallError> {
        Err(HostcallError::invalid(
            "sync",
            format!("`{}` has no synchronous form; use the asynchronous one", request.method),
        ))
    }

    /// Releases resources of an extension whose realm has ended (file handles, processes).
    fn end_extension(&self, extension: &ExtensionId) {
        let _ = extension;
    }
}

/// An allowed call.
#[derive(Debug, Clone)]
pub struct Request {
    /// The calling extension.
    pub caller: Caller,
    /// Id of the call, for messages and logs.
    pub call_id: CallId,
    /// The method, as in [`crate::vocabulary`].
    pub method: Method,
    /// Op and parameters.
    pub call: TypedCall,
    /// Parameters of an untyped method; bytes are `{"$bytes": i}`, an index into `bytes`.
    pub params: Map<String, Value>,
    /// Attachments of an untyped method.
    pub bytes: Vec<Vec<u8>>,
    /// The gate's decision.
    pub decision: Decision,
    /// Decides about everything that the connector resolves further.
    pub permit: Permit,
    /// Wall-clock limit in milliseconds. The dispatcher enforces it for [`Connector::call`].
    pub timeout_ms: Option<u64>,
    /// Signalled when the call is cancelled.
    pub cancel: CancelToken,
}

impl Request {
    /// Returns what was decided about.
    pub fn required(&self) -> Result<Required<'_>, HostcallError> {
        required(&self.method, &self.call, &self.params)
    }

    /// Returns the error of a request that a connector of another method got.
    pub fn misdirected(&self) -> HostcallError {
        HostcallError::new(ErrorCode::Internal, format!("`{}` came to a connector of another method", self.method))
            .with("reason", "invariant")
    }
}

/// The output of a connector.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// Method-specific value; bytes are `{"$bytes": i}`.
    pub value: Value,
    /// Raw attachments.
    pub bytes: Vec<Vec<u8>>,
}

impl Output {
    /// Creates an output without attachments.
    pub fn new(value: Value) -> Self {
        Self { value, bytes: Vec::new() }
    }

    /// Creates the empty output `{}`.
    pub fn empty() -> Self {
        Self::new(Value::Object(Map::new()))
    }

    /// Adds a member `key` with raw bytes.
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

/// Returns `{"$bytes": index}`.
pub fn bytes_ref(index: usize) -> Value {
    let mut members = Map::new();
    members.insert("$bytes".to_owned(), Value::from(index));
    Value::Object(members)
}

/// The caller of a hostcall, and the activity of its realm.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Facts that do not change while the extension is loaded.
    pub profile: Arc<Profile>,
    /// Activity of the realm.
    pub during: During,
    /// Id of the running tool call, command or event, for the ledger.
    pub tool_call_id: Option<Arc<str>>,
    /// Id of the running event delivery, for the ledger.
    pub event_id: Option<Arc<str>>,
}

impl Caller {
    /// Creates the caller of an ordinary turn.
    pub fn new(profile: Arc<Profile>) -> Self {
        Self { profile, during: During::Turn, tool_call_id: None, event_id: None }
    }

    /// The calling extension.
    pub fn extension(&self) -> &ExtensionId {
        &self.profile.extension
    }

    /// Returns the caller for a call that the model makes after a message of the extension.
    #[must_use]
    pub fn behind_model(mut self) -> Self {
        self.during = During::Model;
        self
    }

    /// Returns the caller inside a verdict, where no prompt may block.
    #[must_use]
    pub fn in_verdict(mut self) -> Self {
        self.during = During::Verdict;
        self
    }
}

/// Facts about an extension that do not change while it is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The extension.
    pub extension: ExtensionId,
    /// Folder of its package, which it reads without consent. For a loose file the folder that contains it, of which only `files`
    /// belong to the extension.
    pub package_root: Option<PathBuf>,
    /// Files of a loose extension: the file itself and those that are compiled into it.
    pub files: Option<Vec<PathBuf>>,
    /// Folders of dependencies whose code is compiled into it; readable as well.
    pub dependencies: Vec<PathBuf>,
    /// `sha256:HEX` of its artifact, for the ledger.
    pub artifact_id: Option<String>,
}

impl Profile {
    /// Creates a profile with a name only.
    pub fn new(extension: impl Into<ExtensionId>) -> Self {
        let (package_root, files, dependencies, artifact_id) = Default::default();
        Self { extension: extension.into(), package_root, files, dependencies, artifact_id }
    }

    /// Sets the package's folder.
    #[must_use]
    pub fn at(mut self, package_root: impl Into<PathBuf>) -> Self {
        self.package_root = Some(package_root.into());
        self
    }

    /// Adds the dependencies whose code is compiled into it, from the inputs of the artifact (`dep:NAME@VERSION/PATH`). Each lies
    /// in the `node_modules` folder that contains the package, else in one of a parent folder.
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

    /// Makes this the profile of a single file that lies in any folder, such as a download or a script in the home. Of that
    /// folder the extension owns the file, the files that are compiled into it (`inputs` relative to `place`, as an artifact
    /// lists them) and those that bear its name: `todo.json` and `todo/` beside `todo.ts`. Dependencies lie in a `node_modules`
    /// folder of a parent folder.
    #[must_use]
    pub fn loose<'a>(mut self, file: &Path, place: &Path, inputs: impl IntoIterator<Item = &'a str>) -> Self {
        let folder = file.parent().unwrap_or(file);
        let mut files = vec![file.to_path_buf()];
        for input in inputs {
            match dependency(input) {
                Some(name) => {
                    self.dependencies.extend(folder.ancestors().map(|folder| folder.join("node_modules").join(name)))
                }
                // A manifest directs imports and is not compiled; in a home or a project it describes other code.
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

    /// Returns the folder or file of the extension that a path belongs to: its package, a dependency, or for a loose file the
    /// file itself, another file of it, or a sibling with its name.
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

/// Returns the package of an artifact's input, unless it is the artifact's own.
fn dependency(input: &str) -> Option<&str> {
    let rest = input.strip_prefix("dep:")?;
    // The first character may be the `@` of a scope.
    let version = rest.get(1..)?.find('@')? + 1;
    let name = &rest[..version];
    let is_plain = name.split('/').all(|part| !matches!(part, "" | "." | ".."));
    is_plain.then_some(name)
}

/// The activity of a realm at the time of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum During {
    /// An ordinary macrotask.
    Turn,
    /// A streamed delta awaits the verdict; a prompt would block the model, so the call is denied instead.
    Verdict,
    /// The model calls a tool in a turn that a message of the extension started. The user's answers apply to such calls only and
    /// grant the extension itself nothing.
    Model,
}

/// The influence of an extension on a model's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// A message of it led to the turn.
    Message {
        /// Whether the user may be prompted.
        asks: bool,
    },
    /// It changed the arguments of a tool, or called the tool for the model, by this capability.
    Call(&'static str),
    /// It wrote the reply: it provides the model, which the user did not choose.
    Reply,
}

/// Sends the chunks of a streaming answer, numbered.
#[derive(Clone)]
pub struct ChunkSink {
    pub(crate) in_flight_call: Arc<InFlightCall>,
}

impl ChunkSink {
    /// Sends one chunk. Fails when the call has ended or its result quota is used up; the connector stops then.
    pub fn send(&self, chunk: Output) -> Result<(), HostcallError> {
        self.in_flight_call.chunk(chunk)
    }

    /// Waits until the realm has taken enough earlier results that there is room for another. A connector that reads from an
    /// unbounded source waits before each chunk, which leaves unread data with the sender.
    pub async fn ready(&self) {
        self.in_flight_call.ready().await;
    }
}

impl std::fmt::Debug for ChunkSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkSink").finish_non_exhaustive()
    }
}

/// Returns the error of a cancelled call.
pub fn cancelled(method: &str) -> HostcallError {
    HostcallError::new(ErrorCode::Timeout, format!("{method}: cancelled")).with("reason", "cancelled")
}

/// Returns the error of a call that exceeded its deadline.
pub fn deadline(method: &str, timeout_ms: u64) -> HostcallError {
    HostcallError::new(ErrorCode::Timeout, format!("{method}: no answer within {timeout_ms} ms"))
        .with("reason", "deadline")
        .with("timeout_ms", timeout_ms)
        .retryable()
}
