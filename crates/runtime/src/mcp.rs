//! Servers of `mcp.json` in a session: their configuration, their grants, and their tools for the model.
//!
//! The user's own file grants what its servers need to start; requests of a server in a project's file are prompted for, like
//! those of an extension. Each use of a tool is prompted for in both. Answers are stored with those about extensions, under
//! `mcp:NAME` or `mcp:FOLDER#NAME`, and bound to the program or the address. A server that an extension registers has the
//! extension's grants, and makes its hostcalls in the extension's name.

pub(crate) mod auth_file;
mod command;
mod pin_file;
mod port;
mod program_files;
mod tools;

pub use self::command::NAME as COMMAND;

use self::auth_file::McpAuthFile;
use self::pin_file::PinFile;
use self::port::McpSessionPort;
use self::program_files::ProgramFiles;
use self::tools::McpTools;
use crate::config::SessionConfig;
use crate::environment::Environment;
use crate::loading::Loader;
use crate::mcp_config::{servers, servers_of_package, user_file};
use crate::models::run_own_command;
use crate::trust::Trust;
use crate::user_error::Result;
use pijs_agent::{AgentControl, ToolSource};
use pijs_connectors::exec::OwnShell;
use pijs_durable::Disk;
use pijs_environment::Ambient;
use pijs_host::{Event, Host};
use pijs_hostcall::grant_store::{AnswerValidity, CurrentPackage, PackageRecord};
use pijs_hostcall::spilled::SpilledResults;
use pijs_hostcall::{Connector, Evidence, Ledger, Profile};
use pijs_mcp::config::{self, MAX_SERVERS, Parsed, Reach, ServerConfig, Source};
use pijs_mcp::needs::grants_for;
use pijs_mcp::server::{Status, extension_of, key_of};
use pijs_mcp::values::secret_parts;
use pijs_mcp::{McpConnector, Servers, ServersOptions};
use pijs_packages::{PackageEntry, PackageManifest};
use pijs_protocol::manifest::{CAPABILITY_SCHEMA, CapabilityManifest};
use pijs_protocol::{ExtensionId, guard};
use pijs_redact::Redactor;
use pijs_tools::system::OsToolSystem;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// MCP servers of one session.
pub struct McpSession {
    servers: Servers,
    system: OsToolSystem,
    environment: Environment,
    /// Servers of the files, and errors of the files.
    files: RefCell<(Vec<ServerConfig>, Vec<String>)>,
    /// Servers of extensions that the user enabled or disabled for this session.
    switched: RefCell<BTreeMap<String, bool>>,
    /// Rejected registrations, with the reason; each is reported once.
    refused: RefCell<BTreeSet<(String, String)>>,
    /// Manifests of the discovered packages.
    manifests: RefCell<BTreeMap<ExtensionId, PackageManifest>>,
    /// Set when the session starts.
    loader: OnceCell<Rc<Loader>>,
    /// Server states that were last sent to extensions.
    told: RefCell<Vec<Value>>,
    has_begun: Cell<bool>,
    /// Whether the user trusts the working folder.
    is_trusted: bool,
}

/// pi's message about a registered server in a session that connects no servers.
const UNHANDLED: &str = "is registered, but no loaded extension connects MCP servers; another extension may have replaced the built-in MCP support";

impl McpSession {
    /// Prepares the configured servers without starting them; `None` if the user disabled MCP.
    pub(crate) fn prepare(
        environment: &Environment,
        config: &SessionConfig,
        ambient: &Ambient,
        of_session: (&Ledger, &AgentControl, bool),
    ) -> Result<Option<Rc<Self>>> {
        // As in pi, disabling discovered extensions disables the built-in one for MCP.
        if config.no_mcp || config.extensions.only_named {
            return Ok(None);
        }
        let files = servers(environment)?;
        files.1.iter().for_each(|problem| environment.notices.warn(problem));
        let is_trusted = Trust::read(environment)?.covers(&environment.dirs.cwd);
        Ok(Some(Rc::new(Self::of(environment, (files, is_trusted), ambient, of_session))))
    }

    /// Creates the session's servers.
    fn of(
        environment: &Environment,
        (files, is_trusted): ((Vec<ServerConfig>, Vec<String>), bool),
        ambient: &Ambient,
        (ledger, control, has_ui): (&Ledger, &AgentControl, bool),
    ) -> Self {
        let port = McpSessionPort {
            roots: vec![environment.dirs.cwd.clone()],
            notices: environment.notices.clone(),
            pins: PinFile::new(environment),
            programs: ProgramFiles::new(environment),
            sign_ins: McpAuthFile::new(environment),
            ledger: ledger.clone(),
            control: control.clone(),
            has_ui,
            timer: Arc::clone(&ambient.timer),
        };
        let options = ServersOptions {
            timer: Arc::clone(&ambient.timer),
            session: Arc::new(port),
            run: Some(Arc::new(|line: String| run_own_command(&line))),
            project: environment.dirs.cwd.clone(),
        };
        let shell = OwnShell::supervised(environment.variables.clone());
        Self {
            servers: Servers::new(options),
            system: OsToolSystem::new(ambient.clone(), environment.temp.clone(), shell),
            environment: environment.clone(),
            files: RefCell::new(files),
            switched: RefCell::default(),
            refused: RefCell::default(),
            manifests: RefCell::default(),
            loader: OnceCell::new(),
            told: RefCell::default(),
            has_begun: Cell::new(false),
            is_trusted,
        }
    }

    /// Returns the descriptions of tools, for questions to the user.
    pub(crate) fn describe(&self) -> Arc<pijs_hostcall::gate::DescribeMcpTool> {
        let servers = self.servers.clone();
        Arc::new(move |target| servers.describe(target))
    }

    /// Serves the hostcall `mcp`.
    pub(crate) fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(McpConnector::new(self.servers.clone()))
    }

    /// Returns tools and prompts for the agent.
    pub(crate) fn tools(self: &Rc<Self>, control: AgentControl, results: Option<SpilledResults>) -> Rc<dyn ToolSource> {
        let (servers, system) = (self.servers.clone(), Arc::new(self.system.clone().with_results(results)));
        Rc::new(McpTools { session: Rc::clone(self), servers, system, control, found: RefCell::default() })
    }

    /// Sets the grants of each server at the gate and starts them; If `waits`, returns after each has answered or timed out. From
    /// then on a server starts or stops as soon as an extension registers or withdraws it.
    pub(crate) async fn begin(self: &Rc<Self>, loader: &Rc<Loader>, waits: bool) {
        let _ = self.loader.set(Rc::clone(loader));
        let mut changes = loader.host.mcp_server_changes();
        changes.mark_unchanged();
        *self.told.borrow_mut() = loader.host.told_mcp_servers();
        self.sync();
        self.servers.start(Arc::clone(&loader.dispatcher));
        self.has_begun.set(true);
        let session = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            while changes.changed().await.is_ok() {
                let Some(session) = session.upgrade() else { return };
                session.sync();
                session.tell_extensions().await;
            }
        });
        if waits {
            for name in self.servers.settled().await {
                let notices = &loader.environment.notices;
                notices
                    .warn(format!("MCP server {name} has not answered yet; its tools become available when it does"));
            }
        }
    }

    /// Applies the servers' grants to the gate, and returns the servers for a sign-in. Starts no server.
    pub(crate) fn open(&self, loader: &Rc<Loader>) -> &Servers {
        let _ = self.loader.set(Rc::clone(loader));
        self.sync();
        self.servers.open(Arc::clone(&loader.dispatcher));
        &self.servers
    }

    /// Sends extensions the states of the servers that they registered, if these have changed.
    async fn tell_extensions(&self) {
        let Some(host) = self.loader.get().map(|loader| &loader.host) else { return };
        let told = host.told_mcp_servers();
        if self.told.replace(told.clone()) != told {
            host.emit(Event::new("mcp_servers_change").with("servers", Value::from(told))).await;
        }
    }

    /// Reads the files again: servers whose entries changed restart.
    pub(crate) fn reload(&self) -> Vec<String> {
        match servers(&self.environment) {
            Ok(files) => {
                let problems = files.1.clone();
                *self.files.borrow_mut() = files;
                self.sync();
                problems
            }
            Err(failure) => vec![failure.said()],
        }
    }

    /// Synchronises the servers with the files and with extensions' registrations.
    fn sync(&self) {
        let Some(loader) = self.loader.get() else { return };
        let mut wanted: Vec<(ServerConfig, Arc<Profile>)> = Vec::new();
        if !is_replaced(&loader.host) {
            for config in self.files.borrow().0.iter() {
                let profile = Arc::new(Profile::new(extension_of(&config.name).as_str()));
                wanted.push((config.clone(), profile));
            }
        }
        self.add_registered(loader, &mut wanted);
        self.tell_replaced(loader);
        for (config, profile) in &wanted {
            if matches!(config.source, Source::Extension(_)) || self.servers.has(config, profile) {
                continue;
            }
            let key = key_of(config, &self.environment.dirs.cwd);
            for note in admit(loader, config, &key) {
                loader.environment.notices.warn(format!("MCP server {}: {note}", config.name));
            }
        }
        self.servers.set(wanted);
    }

    /// Notifies the user, once, that an extension replaces the built-in MCP support, where servers of the user's file remain
    /// unused: the extension cannot read them.
    fn tell_replaced(&self, loader: &Loader) {
        let replacing = loader.host.commands().into_iter().find(|command| command.invocation == command::NAME);
        let Some(replacing) = replacing else { return };
        let files = self.files.borrow();
        let names: Vec<&str> = files.0.iter().map(|server| server.name.as_str()).collect();
        let id = replacing.owner.extension.to_string();
        if names.is_empty() || !self.refused.borrow_mut().insert((id.clone(), config::FILE_NAME.to_owned())) {
            return;
        }
        loader.environment.notices.warn(format!(
            "the extension {id} registers /mcp and connects MCP servers itself, so those of {} are not used: {}. Extensions \
             cannot read the file, because it contains keys. To use them, run: pi remove {id}. Or move entries into .mcp.json of the project, with \
             keys as ${{NAME}}",
            user_file(&loader.environment).display(),
            names.join(", ")
        ));
    }

    /// Sets the manifests of the discovered packages.
    pub(crate) fn set_manifests(&self, packages: &[PackageEntry]) {
        let manifests = packages.iter().map(|found| (found.id.clone(), found.manifest.clone()));
        *self.manifests.borrow_mut() = manifests.collect();
    }

    /// Returns the manifest of a package: as discovered, or, for a package that the session's caller loads, from disk.
    fn manifest_of(&self, id: &ExtensionId, root: &Path) -> PackageManifest {
        let known = self.manifests.borrow().get(id).cloned();
        known.unwrap_or_else(|| PackageManifest::read(root).unwrap_or_default())
    }

    /// Adds the servers that extensions registered. A server of a file takes precedence over one of the same name.
    fn add_registered(&self, loader: &Loader, wanted: &mut Vec<(ServerConfig, Arc<Profile>)>) {
        let packages = loader.host.packages();
        for package in &packages {
            let id = package.id().as_str();
            let Some(root) = package.profile.package_root.as_deref() else { continue };
            let manifest = self.manifest_of(package.id(), root);
            let (servers, problems) = servers_of_package(id, (root, &manifest));
            let said = |problem: &String| (id.to_owned(), problem.clone());
            for problem in problems.iter().filter(|problem| self.refused.borrow_mut().insert(said(problem))) {
                loader.environment.notices.warn(format!("{id}: {problem}"));
            }
            for server in servers {
                if !is_replaced(&loader.host)
                    && wanted.len() < MAX_SERVERS
                    && !wanted.iter().any(|(known, _)| config::same(&known.name, &server.name))
                {
                    wanted.push((self.at_session(server, &package.profile), Arc::new(package.profile.clone())));
                }
            }
        }
        for (owner, name, config) in loader.host.mcp_servers() {
            let package = packages.iter().find(|package| *package.id() == owner.extension);
            let twin = wanted.iter().find(|(known, _)| config::same(&known.name, &name)).map(|(known, _)| known);
            let problem = match (Parsed::of_extension(owner.extension.as_str(), &name, &config), twin, package) {
                _ if is_replaced(&loader.host) => Some(UNHANDLED.to_owned()),
                (Err(problem), ..) => Some(problem),
                (Ok(_), Some(ServerConfig { source: Source::Extension(other), .. }), _) => {
                    Some(format!("is already registered by extension {other}"))
                }
                // Values of the user or the project take precedence, as in pi.
                (Ok(_), Some(_), _) | (Ok(_), None, None) => None,
                (Ok(_), None, Some(_)) if wanted.len() >= MAX_SERVERS => {
                    Some(format!("is one of more than {MAX_SERVERS} servers"))
                }
                (Ok(server), None, Some(package)) => {
                    wanted.push((self.at_session(server, &package.profile), Arc::new(package.profile.clone())));
                    None
                }
            };
            if let Some(problem) = problem
                && self.refused.borrow_mut().insert((owner.path.clone(), name.clone()))
            {
                let message = format!("MCP server \"{name}\" {problem}");
                loader.host.report_error(&owner.path, "register_mcp_server", &message);
            }
        }
    }

    /// Applies the user's settings of this session to a server of an extension.
    fn at_session(&self, mut server: ServerConfig, profile: &Profile) -> ServerConfig {
        let root = profile.package_root.as_deref();
        let empty = root.and_then(|root| self.loader.get()?.dispatcher.gate().places().server_folder(root));
        if let Some(folder) = empty.filter(|_| !self.is_trusted && guard!(McpFolder)) {
            // Without the folder the program fails to start, with an error about it.
            let _ = Disk::system().create_dirs(&folder);
            server.start_in_empty(&folder.to_string_lossy());
        }
        if let Some(home) = self.environment.dirs.home.to_str() {
            server.at_home(home);
        }
        if let Some(enabled) = self.switched.borrow().get(&server.name) {
            server.enabled = *enabled;
        }
        server
    }

    /// Returns the states of the servers.
    pub fn statuses(&self) -> Vec<Status> {
        self.servers.statuses()
    }

    /// Stops the servers.
    pub(crate) fn end(&self) {
        self.servers.end();
    }
}

/// Returns whether an extension replaces the built-in support: one that registers `/mcp` connects servers itself, as in pi.
fn is_replaced(host: &Host) -> bool {
    host.commands().iter().any(|command| command.invocation == command::NAME)
}

/// Reports an error for each server that an extension registered, in a session that connects no servers.
pub(crate) fn report_unhandled(host: &Host) {
    if !host.has_handlers("mcp_servers_change") {
        for (owner, name, _) in host.mcp_servers() {
            host.report_error(&owner.path, "register_mcp_server", &format!("MCP server \"{name}\" {UNHANDLED}"));
        }
    }
}

/// Sets a server's grants at the gate. Returns notes for the user.
fn admit(loader: &Loader, config: &ServerConfig, key: &str) -> Vec<String> {
    let profile = Profile::new(extension_of(&config.name).as_str());
    let (asked, code) = present_of(config);
    let present = CurrentPackage { code: &code, asked: &asked, local: false };
    let book = loader.book.borrow();
    let record = book.packages.get(key);
    let mut notes = Vec::new();
    let mut grants = match config.source {
        Source::User => grants_for(config),
        Source::Project | Source::Extension(_) => Vec::new(),
    };
    match record.map(|record| record.standing(present)) {
        Some(AnswerValidity::Holds) => grants.extend(record.into_iter().flat_map(PackageRecord::grants)),
        Some(_) => notes
            .push("its program or address has changed since you answered; the questions are asked again".to_owned()),
        None => {}
    }
    grants.extend(loader.decided.allowed().iter().cloned());
    loader.answers.expect(profile.extension.clone(), key.to_owned(), PackageRecord::new(present));
    let gate = loader.dispatcher.gate();
    let (grants, unreadable) = loader.decided.readable(gate, &profile, grants);
    notes.extend(unreadable);
    if let Err(error) = gate.set_grants(&profile, &grants, Evidence::default()) {
        notes.push(error.to_string());
    }
    gate.set_never(&profile, &record.map(PackageRecord::never).unwrap_or_default());
    notes
}

/// Deletes the digests of a server's tools, so that the next session accepts the current ones. Returns whether any digests
/// existed.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn accept_tools(environment: &Environment, config: &ServerConfig) -> Result<bool> {
    let key = key_of(config, &environment.dirs.cwd);
    let mut known = false;
    PinFile::new(environment).change(&mut |pins| known = pins.forget(&key))?;
    Ok(known)
}

/// Returns the error of a server's last use.
pub fn problem_of(environment: &Environment, config: &ServerConfig) -> Option<String> {
    let pins = PinFile::new(environment).read();
    let problem = pins.problem(&key_of(config, &environment.dirs.cwd))?;
    Some(redactor_of(config).text(problem))
}

/// Returns a redactor for the values of a server's entry.
pub fn redactor_of(config: &ServerConfig) -> Redactor {
    let redactor = Redactor::default();
    let (Reach::Stdio { env: values, .. } | Reach::Http { headers: values, .. }) = &config.reach;
    values.values().flat_map(|value| secret_parts(value)).for_each(|part| port::learn_setting(&redactor, part));
    redactor
}

/// Returns the requests and the code digest that answers about a server are bound to.
fn present_of(config: &ServerConfig) -> (CapabilityManifest, String) {
    let asked = CapabilityManifest { schema: CAPABILITY_SCHEMA.to_owned(), capabilities: Vec::new() };
    (asked, format!("sha256:{}", hex::encode(Sha256::digest(config.identity()))))
}

/// Returns the key of the record of the server `mcp:NAME`, and an empty record. `None` when no server has this name here.
///
/// # Errors
///
/// Fails if a file cannot be read.
pub fn record_of(environment: &Environment, which: &str) -> Result<Option<(String, PackageRecord)>> {
    let Some(name) = which.strip_prefix(ExtensionId::OF_SERVERS) else { return Ok(None) };
    let (configs, _) = servers(environment)?;
    let Some(config) = configs.into_iter().find(|config| config.name == name) else { return Ok(None) };
    let (asked, code) = present_of(&config);
    let record = PackageRecord::new(CurrentPackage { code: &code, asked: &asked, local: false });
    Ok(Some((key_of(&config, &environment.dirs.cwd), record)))
}
