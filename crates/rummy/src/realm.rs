//! [`PluginRealm`]: the realms that run the plugins of a session.
//!
//! A realm is opened like that of any extension: the staged package is compiled, its grants are decided, its calls pass the gate
//! and the ledger, and the worker process is sandboxed where the system supports it. The dialect registers one command, `rummy`,
//! and each delivery is a call of its handler.
//!
//! A plugin of another package has its own package, realm, grants and ledger lines (`realm/parts.rs`). Deliveries reach all
//! realms in one order (`realm/route.rs`).

mod parts;
mod route;

use crate::error::RummyError;
use crate::service::{CallPath, EntryConnector, Ticket};
use crate::settings;
use crate::stage::{ExternalPlugin, PluginSet, Staged, options_with_externals, remove_others};
use parts::{Answer, Emitted, RealmPart};
use pijs_extc::FileAccess;
use pijs_host::{CallbackOutcome, Host};
use pijs_protocol::ExtensionId;
use pijs_runtime::compile::{Compiler, input_of};
use pijs_runtime::{
    CopiedPackage, Environment, ExtensionConfig, Interface, LoadedSession, Notices, SessionBuilder, SessionChoice,
    SessionConfig, StoreConfig,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the command whose handler receives deliveries.
const COMMAND: &str = "rummy";

/// Maximum number of skipped files that a notice lists; the ledger lists all of them.
const MAX_NOTED: usize = 8;

/// Notifies the user about files that were not copied into the plugin package.
fn note_refused(environment: &Environment, refused: &[String]) {
    for reason in refused.iter().take(MAX_NOTED) {
        environment.notices.warn(format_args!("a file of the plugins was skipped: {reason}"));
    }
    if let Some(more) = refused.len().checked_sub(MAX_NOTED).filter(|more| *more > 0) {
        environment
            .notices
            .warn(format_args!("skipped {more} more files of the plugins; see `extension.build` in the ledger"));
    }
}

/// Settings of a realm of plugins.
#[derive(Debug, Clone)]
pub struct RealmOptions {
    /// The generation of rummy that the plugins are written for: `2.x` or `0.5`.
    pub profile: String,
    /// Whether the bundled plugins are loaded: the model's tools, and the views of entries.
    pub bundled: bool,
    /// Whether an exception of a plugin ends the operation, as in rummy; otherwise it is isolated.
    pub faithful: bool,
    /// Folder of the package of plugins. Its previous contents are replaced.
    pub stage: PathBuf,
    /// Configuration of the session, which loads the plugins and the extensions of pi that the configuration names.
    pub session: SessionConfig,
}

impl RealmOptions {
    /// Creates options with the profile `2.x`, the bundled plugins and isolated exceptions.
    pub fn new(stage: impl Into<PathBuf>) -> Self {
        let (profile, session) = ("2.x".to_owned(), SessionConfig::default());
        Self { profile, bundled: true, faithful: false, stage: stage.into(), session }
    }
}

/// An exception of a subscriber, which was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Fault {
    /// Name of the plugin.
    pub plugin: String,
    /// Name of the hook.
    pub hook: String,
    /// Message of the exception.
    pub message: String,
}

/// The result of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivered {
    /// Value that the dialect returned.
    pub value: Value,
    /// Exceptions of subscribers since the last delivery ended.
    pub faults: Vec<Fault>,
}

/// The outcome of loading one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PluginReport {
    /// Name of the plugin.
    pub name: String,
    /// Path at which the plugin was found.
    pub path: String,
    /// `class`, `register`, `none` (the file is not a plugin) or `failed`.
    pub kind: String,
    /// Reason why the plugin is not loaded; `None` if it is.
    pub error: Option<String>,
    /// Schemes that the plugin registered.
    pub schemes: Vec<String>,
}

/// The plugins, tools and hooks that are loaded.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Loaded {
    /// The plugins, in the order in which they were constructed.
    pub plugins: Vec<PluginReport>,
    /// Names of tools, in the order of the model's list.
    pub tools: Vec<String>,
    /// Names of the tools that are listed for the model.
    pub advertised: Vec<String>,
    /// Number of subscribers of each hook.
    pub hooks: BTreeMap<String, u64>,
}

/// The result of the handlers of a scheme.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Dispatched {
    /// The entry after the handlers.
    pub entry: Value,
    /// Whether a handler ended the chain.
    #[serde(default)]
    pub stopped: bool,
    /// The refusal of the store that ended a handler; `None` if no handler was ended by one.
    #[serde(default)]
    pub refused: Option<HandlerRefusal>,
}

/// A refusal of the store that a handler did not catch.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct HandlerRefusal {
    /// Outcome of the handler's entry, for example `permission:403`.
    pub outcome: String,
    /// Reason, in words for the model.
    pub message: String,
}

/// An event of a plugin for clients.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ClientEvent {
    /// Name of the hook: `ui.render`, `ui.notify` or `stream.cancelled`.
    pub hook: String,
    /// Payload of the event.
    pub payload: Value,
}

/// Callback for events that plugins send to clients.
type Listener = Box<dyn Fn(ClientEvent)>;

/// The realms that run the plugins of a session.
///
/// The value stays on one thread, in a `tokio` [`LocalSet`](tokio::task::LocalSet). Deliveries make progress only inside of
/// [`run`](Self::run).
pub struct PluginRealm {
    session: LoadedSession,
    host: Host,
    entries: EntryConnector,
    /// The shared realm, then the realms of plugins of other packages.
    parts: Vec<RealmPart>,
    /// Events of plugins that other realms have not received yet, with the index of the emitting realm.
    emitted: RefCell<VecDeque<(usize, Emitted)>>,
    /// Documentation of the tools of all realms except the first.
    docs: RefCell<Value>,
    /// Whether the callable functions of each realm have been collected.
    is_surveyed: Cell<bool>,
    /// Whether each realm has the current registrations of the others.
    is_shared: Cell<bool>,
    listener: RefCell<Option<Listener>>,
    notices: Notices,
    /// Commands of refusals that were shown.
    noted_cures: RefCell<BTreeSet<String>>,
}

impl PluginRealm {
    /// Stages, compiles and loads plugins, and registers their schemes at the store.
    ///
    /// # Errors
    ///
    /// Fails when a package cannot be staged, compiled or loaded. The failure of a single plugin is not an error, see
    /// [`Self::loaded`].
    pub async fn open(
        environment: &Environment,
        plugins: &PluginSet,
        entries: EntryConnector,
        interface: Interface,
        options: RealmOptions,
    ) -> Result<Self, RummyError> {
        let RealmOptions { profile, bundled, faithful, stage, session } = options;
        let externals = plugins.externals();
        let options_json = json!({ "profile": profile, "bundled": bundled, "faithful": faithful });
        let options_json = options_with_externals(options_json, externals);
        let access = FileAccess::new(environment.places());
        remove_others(&stage, externals)?;
        let mut staged = vec![(stage_compilable(environment, plugins, &stage, &options_json, &access)?, None)];
        for external in externals {
            staged.push((external.stage(&stage, &options_json, &access)?, Some(external)));
        }
        let packages: Vec<CopiedPackage> =
            staged.into_iter().map(|(staged, external)| copied(environment, staged, external)).collect();
        // The configuration's extensions of pi are loaded after the plugins.
        let mut named: Vec<String> = packages.iter().map(|package| package.root.display().to_string()).collect();
        named.extend(session.extensions.named.iter().cloned());
        let config = SessionConfig {
            extensions: ExtensionConfig { named, only_named: true, fail_on_error: true },
            store: StoreConfig { choice: SessionChoice::InMemory, ..session.store },
            ..session
        };
        let connector: Arc<EntryConnector> = Arc::new(entries.clone());
        let variables = settings::variables(environment);
        let builder = SessionBuilder::new(environment)
            .config(config)
            .host_options(move |options| {
                if let Some(env) = options.facts.get_mut("env").and_then(Value::as_object_mut) {
                    env.extend(variables);
                }
            })
            .interface(interface)
            .connectors(move |connectors, _| {
                connectors.with("rummy.entries", Arc::clone(&connector) as _).with("rummy.db", connector as _)
            });
        let session = packages.into_iter().fold(builder, SessionBuilder::copied).load().await?;
        let commands: Vec<String> =
            std::iter::once(COMMAND.to_owned()).chain(externals.iter().map(ExternalPlugin::command)).collect();
        let Some(parts) = parts_of(session.host(), &commands) else {
            session.close();
            return Err(RummyError::NotLoaded("a plugin package registered no command".to_owned()));
        };
        parts.iter().for_each(|part| entries.subscribe(part.owner.extension.as_str()));
        let host = session.host().clone();
        let (emitted, docs, is_surveyed, is_shared, listener, noted_cures) = Default::default();
        let notices = environment.notices.clone();
        Ok(Self {
            session,
            host,
            entries,
            parts,
            emitted,
            docs,
            is_surveyed,
            is_shared,
            listener,
            notices,
            noted_cures,
        })
    }

    /// Sets the listener for events that plugins send to clients.
    pub fn listen(&self, listener: impl Fn(ClientEvent) + 'static) {
        self.listener.replace(Some(Box::new(listener)));
    }

    /// Runs work that delivers to the plugins, and serves their hostcalls at the same time.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.host.run(work).await
    }

    /// Returns the session.
    pub fn session(&self) -> &LoadedSession {
        &self.session
    }

    /// Returns the host of the plugins and of the session's other extensions.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the connector to the entry store.
    pub fn entries(&self) -> &EntryConnector {
        &self.entries
    }

    /// Ends the session.
    pub fn close(self) {
        self.session.close();
    }

    /// Delivers `{op, ...members}` to the dialect; `dialect/index.ts` lists the ops.
    ///
    /// # Errors
    ///
    /// Fails if a plugin throws and exceptions are not isolated, if a realm was stopped, or if the called function does not
    /// exist.
    pub async fn deliver(&self, op: &str, members: Value) -> Result<Delivered, RummyError> {
        let members = match members {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        match self.parts.len() {
            1 => self.deliver_to(0, op, members).await,
            _ => self.deliver_to_several(op, members).await,
        }
    }

    /// Delivers to one realm.
    async fn deliver_to(
        &self,
        part: usize,
        op: &str,
        mut request: Map<String, Value>,
    ) -> Result<Delivered, RummyError> {
        let RealmPart { owner, handle, order } = &self.parts[part];
        request.insert("op".to_owned(), op.into());
        let changes = self.entries.take_untold(owner.extension.as_str());
        if !changes.is_empty() && self.hears_changes(part) {
            request.insert("changes".to_owned(), changes.into());
        }
        let args = vec![Value::Object(request)];
        let outcome = self.host.call_back(&owner.extension, owner.entry, *handle, args).await;
        let answer = match outcome {
            CallbackOutcome::Returned(answer) => answer.unwrap_or_default(),
            CallbackOutcome::Threw(error) => return Err(RummyError::Threw(Box::new(error))),
            CallbackOutcome::Gone => {
                return Err(RummyError::NotLoaded("their realm was stopped; start the session again".to_owned()));
            }
            CallbackOutcome::Ended(reason) => return Err(RummyError::Ended(reason)),
        };
        let answer: Answer = self.read(op, answer)?;
        if let Some(now) = answer.order.filter(|now| *now != *order.borrow()) {
            order.replace(now);
            self.is_shared.set(false);
        }
        self.emitted.borrow_mut().extend(answer.emitted.into_iter().map(|one| (part, one)));
        if let Some(listener) = self.listener.borrow().as_deref() {
            answer.told.into_iter().for_each(listener);
        }
        self.note_cures(&owner.extension, &answer.faults);
        if answer.absent {
            return Err(RummyError::Absent(op.to_owned()));
        }
        Ok(Delivered { value: answer.value, faults: answer.faults })
    }

    /// Shows the commands that prevent faults which refusals of the gate caused, each command once.
    fn note_cures(&self, extension: &ExtensionId, faults: &[Fault]) {
        let gate = self.session.dispatcher().gate();
        for fault in faults {
            let cure = gate.cure(extension, &fault.message);
            if let Some(command) = cure.filter(|command| self.noted_cures.borrow_mut().insert(command.clone())) {
                self.notices
                    .show(&format!("a call of the plugin {} was refused; to allow it: {command}", fault.plugin));
            }
        }
    }

    /// Returns the loaded plugins, tools and hooks.
    ///
    /// # Errors
    ///
    /// As [`Self::deliver`].
    pub async fn loaded(&self) -> Result<Loaded, RummyError> {
        let delivered = self.deliver("plugins", json!({})).await?;
        self.read("plugins", delivered.value)
    }

    /// Registers the schemes of the dialect and the plugins at the store, and gives the plugins access to the store.
    ///
    /// # Errors
    ///
    /// As [`Self::deliver`]; also fails if the store rejects a scheme.
    pub async fn initialise(&self) -> Result<(), RummyError> {
        let schemes = self.deliver("init", json!({})).await?.value;
        for scheme in schemes.as_array().into_iter().flatten() {
            self.entries.with(|store| match store.options().profile.has_numeric_status {
                // Before 2.0, plugins write the schemes of the system, too.
                true => store.statement("upsert_scheme", "run", scheme),
                false => store.plugin_statement("upsert_scheme", "run", scheme),
            })?;
        }
        Ok(())
    }

    /// Creates or updates the `rummy` object of a turn or a call. Writes through it may use at most the writer that `path` allows
    /// ([`CallPath::ceiling`]).
    ///
    /// # Errors
    ///
    /// As [`Self::deliver`].
    pub async fn context(&self, name: &str, facts: Value, path: CallPath) -> Result<TurnContext<'_>, RummyError> {
        let ticket = self.entries.issue(path);
        let members = json!({ "ref": name, "facts": facts, "ticket": ticket.0 });
        self.deliver("open", members).await?;
        Ok(TurnContext { realm: self, name: name.to_owned(), ticket })
    }

    /// Emits an event.
    ///
    /// # Errors
    ///
    /// As [`Self::deliver`].
    pub async fn emit(&self, hook: &str, args: Vec<Value>) -> Result<Vec<Fault>, RummyError> {
        Ok(self.deliver("emit", json!({ "hook": hook, "args": args })).await?.faults)
    }

    /// Threads a value through a filter.
    ///
    /// # Errors
    ///
    /// As [`Self::deliver`].
    pub async fn filter(&self, hook: &str, value: Value, args: Vec<Value>) -> Result<Value, RummyError> {
        Ok(self.deliver("filter", json!({ "hook": hook, "value": value, "args": args })).await?.value)
    }

    /// Calls a function that a plugin assigned to the hook tree. Returns `None` if no plugin assigned one.
    ///
    /// # Errors
    ///
    /// As [`Self::deliver`].
    pub async fn call(&self, path: &str, args: Vec<Value>) -> Result<Option<Value>, RummyError> {
        match self.deliver("call", json!({ "path": path, "args": args })).await {
            Ok(delivered) => Ok(Some(delivered.value)),
            Err(RummyError::Absent(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Runs the handlers of a scheme.
    ///
    /// # Errors
    ///
    /// As [`Self::deliver`]; a handler that throws is an error.
    pub async fn dispatch(
        &self,
        scheme: &str,
        entry: Value,
        rummy: &TurnContext<'_>,
    ) -> Result<Dispatched, RummyError> {
        let members = json!({ "scheme": scheme, "entry": entry, "rummy": rummy.reference() });
        let delivered = self.deliver("dispatch", members).await?;
        self.read("dispatch", delivered.value)
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, op: &str, value: Value) -> Result<T, RummyError> {
        serde_json::from_value(value)
            .map_err(|error| RummyError::Answer { op: op.to_owned(), detail: error.to_string() })
    }
}

/// Stages the plugins of the shared realm. A plugin with an error that keeps the package from being compiled is left out, and
/// [`PluginRealm::loaded`] reports it.
fn stage_compilable(
    environment: &Environment,
    plugins: &PluginSet,
    stage: &Path,
    options: &Value,
    access: &FileAccess,
) -> Result<Staged, RummyError> {
    let mut staged = plugins.stage(stage, options, access)?;
    if plugins.plugins().is_empty() {
        return Ok(staged);
    }
    // The session finds the artifact of this build in the cache.
    let compiler = Compiler::new(environment);
    let id = format!("path:{}", stage.display());
    let input = input_of(&id, stage, &[stage.join("index.js")]);
    let mut plugins = plugins.clone();
    while let Err(failure) = compiler.build(&id, &input) {
        if !plugins.leave_out_broken(&failure) {
            break;
        }
        staged = plugins.stage(stage, options, access)?;
    }
    Ok(staged)
}

/// Returns the package of plugins for the session. Notifies the user about files that were left out.
fn copied(environment: &Environment, staged: Staged, external: Option<&ExternalPlugin>) -> CopiedPackage {
    note_refused(environment, &staged.record().refused);
    let (root, record) = staged.into_parts();
    let identity: Option<(ExtensionId, _)> = external.map(|external| (external.id.clone(), external.installed));
    CopiedPackage { root, record, identity }
}

/// Returns the realms that registered these commands, in the order of the commands; `None` if a command is missing.
fn parts_of(host: &Host, commands: &[String]) -> Option<Vec<RealmPart>> {
    let registered = host.commands();
    let part = |name: &String| {
        let command = registered.iter().find(|command| command.spec.name == *name)?;
        let order = RefCell::default();
        Some(RealmPart { owner: command.owner.clone(), handle: command.spec.handle, order })
    };
    commands.iter().map(part).collect()
}

/// A `rummy` object of the realm, until it is closed.
pub struct TurnContext<'a> {
    realm: &'a PluginRealm,
    name: String,
    ticket: Ticket,
}

impl TurnContext<'_> {
    /// Returns a reference to this object, for arguments.
    pub fn reference(&self) -> Value {
        json!({ "$rummy": self.name })
    }

    /// Returns a reference to the store for arguments. Writes through it have this context's writer.
    pub fn store(&self) -> Value {
        json!({ "$entries": self.ticket.0 })
    }

    /// Returns a reference to an object that the realm keeps under a name, so that every receiver gets the same object.
    pub fn shared(&self, name: &str, value: Value) -> Value {
        json!({ "$shared": format!("{}/{name}", self.name), "value": value })
    }

    /// Updates the facts of the object.
    ///
    /// # Errors
    ///
    /// As [`PluginRealm::deliver`].
    pub async fn adopt(&self, facts: Value) -> Result<(), RummyError> {
        let members = json!({ "ref": self.name, "facts": facts, "ticket": self.ticket.0 });
        self.realm.deliver("open", members).await.map(drop)
    }

    /// Aborts the object's signal, and releases the object and everything that was shared in it.
    ///
    /// # Errors
    ///
    /// As [`PluginRealm::deliver`].
    pub async fn close(self) -> Result<(), RummyError> {
        let closed = self.realm.deliver("close", json!({ "ref": self.name })).await;
        self.realm.entries.withdraw(&self.ticket);
        closed.map(drop)
    }
}
