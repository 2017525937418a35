//! Servers of `mcp.json` in a session: which there are, what they hold, and their tools for the model.
//!
//! The user's own file grants what its servers need to start; the needs of a server of a project's file are asked about, as those of an
//! extension are. Each use of a tool is asked about in both. Answers are kept with those about extensions, under `mcp:NAME` or
//! `mcp:FOLDER#NAME`, and hold for the program or the address that they were given for.

use crate::builder::{Interface, SessionBuilder};
use crate::config::{Permissions, SessionChoice, SessionConfig, StoreConfig};
use crate::environment::Environment;
use crate::failure::{Failure, Result, is_missing};
use crate::loading::Loader;
use crate::models::run_own_command;
use crate::notices::Notices;
use crate::trust::Trust;
use pijs_agent::{AgentControl, CommandFate, ExtensionTool, ToolFate, ToolRun, ToolSource};
use pijs_connectors::exec::OwnShell;
use pijs_durable::{Disk, Lock, Replace};
use pijs_environment::{Ambient, Timer};
use pijs_hostcall::book::{Present, Record, Standing};
use pijs_hostcall::{Caller, CancelToken, Connector, Evidence, Ledger, Profile};
use pijs_llm::message::Content;
use pijs_mcp::config::{self, Exposure, MOST_FILE_BYTES, Parsed, ServerConfig, Source};
use pijs_mcp::pins::{self, Pins};
use pijs_mcp::results::{self, Answer};
use pijs_mcp::servers::{ServerPrompt, ServerTool, SessionPort, Status, extension_of, grants_for, key_of};
use pijs_mcp::{McpConnector, Servers, ServersOptions};
use pijs_protocol::log::Level;
use pijs_protocol::manifest::{CAPABILITY_SCHEMA, CapabilityManifest};
use pijs_tools::system::{OsToolSystem, ToolSystem};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long another process may keep the file of pins.
const PATIENCE: Duration = Duration::from_secs(5);
/// Finds tools that the model was not told of.
const SEARCH: &str = "tool_search";
/// Tools that read resources, and their ops.
const RESOURCE_TOOLS: [(&str, &str); 3] = [
    ("list_mcp_resources", "list_resources"),
    ("list_mcp_resource_templates", "list_resource_templates"),
    ("read_mcp_resource", "read_resource"),
];
/// Tools that one search answers.
const MOST_FOUND: usize = 20;

/// The user's file.
pub fn user_file(environment: &Environment) -> PathBuf {
    environment.dirs.agent_dir.join(config::FILE_NAME)
}

/// The project's file.
pub fn project_file(environment: &Environment) -> PathBuf {
    environment.dirs.cwd.join(".pi").join(config::FILE_NAME)
}

/// The servers that a session here has, and what is wrong with the files. The project's file counts when the folder is trusted.
///
/// # Errors
///
/// A file cannot be read.
pub fn servers(environment: &Environment) -> Result<(Vec<ServerConfig>, Vec<String>)> {
    let user = parsed(&user_file(environment))?;
    let own = project_file(environment);
    // A home folder's `.pi` may be the agent folder itself.
    let is_there = own != user_file(environment) && own.symlink_metadata().is_ok();
    let project = match is_there && Trust::read(environment)?.covers(&environment.dirs.cwd) {
        true => parsed(&own)?,
        false => Parsed::default(),
    };
    let mut problems = Vec::new();
    let mut servers = config::merge(user, project, &mut problems);
    if let Some(home) = environment.dirs.home.to_str() {
        servers.iter_mut().for_each(|server| server.at_home(home));
    }
    Ok((servers, problems))
}

fn parsed(path: &Path) -> Result<Parsed> {
    Ok(read(path)?.map_or_else(Parsed::default, |text| Parsed::parse(&text, &path.display().to_string())))
}

/// The text of a file; `None` when there is none.
pub fn read(path: &Path) -> Result<Option<String>> {
    let failed = |what: String| Failure::failed(format!("{} cannot be read: {what}", path.display()));
    match Disk::system().read(path, MOST_FILE_BYTES) {
        Ok(None) => Ok(None),
        Ok(Some(bytes)) => String::from_utf8(bytes).map(Some).map_err(|error| failed(error.to_string())),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(failed(error.to_string()).help("correct the file, or use --no-mcp")),
    }
}

/// The servers of one session.
pub struct McpSession {
    servers: Servers,
    tools: OsToolSystemHandle,
}

/// The place for long texts.
type OsToolSystemHandle = Arc<OsToolSystem>;

impl McpSession {
    /// The servers that are configured here; `None` where there is none. Nothing is started.
    pub(crate) fn prepare(
        environment: &Environment,
        config: &SessionConfig,
        ambient: &Ambient,
        of_session: (&Ledger, &AgentControl, bool),
    ) -> Result<Option<Self>> {
        // As in pi: who wants no extensions wants nothing that is built like one.
        if config.no_mcp || config.extensions.only_named {
            return Ok(None);
        }
        let (configs, problems) = servers(environment)?;
        problems.iter().for_each(|problem| environment.notices.warn(problem));
        if configs.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self::of(environment, configs, ambient, of_session)))
    }

    /// These servers, with the session's ledger and control, and whether somebody sees dialogs.
    fn of(
        environment: &Environment,
        configs: Vec<ServerConfig>,
        ambient: &Ambient,
        (ledger, control, has_ui): (&Ledger, &AgentControl, bool),
    ) -> Self {
        let port = Port {
            roots: vec![environment.dirs.cwd.clone()],
            notices: environment.notices.clone(),
            pins: PinFile::new(environment),
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
        let tools = Arc::new(OsToolSystem::new(ambient.clone(), environment.temp.clone(), shell));
        Self { servers: Servers::new(configs, options), tools }
    }

    /// Returns what servers say of their tools, for questions to the user.
    pub(crate) fn describe(&self) -> Arc<pijs_hostcall::gate::DescribeMcpTool> {
        let servers = self.servers.clone();
        Arc::new(move |target| servers.describe(target))
    }

    /// Serves the hostcall `mcp`.
    pub(crate) fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(McpConnector::new(self.servers.clone()))
    }

    /// The tools and prompts for the agent.
    pub(crate) fn tools(&self, control: AgentControl) -> Rc<dyn ToolSource> {
        let (servers, system) = (self.servers.clone(), Arc::clone(&self.tools));
        Rc::new(McpTools { servers, system, control, found: RefCell::default() })
    }

    /// Tells the gate what each server holds, and starts them. `waits`: until they answer, or have had their time.
    pub(crate) async fn begin(&self, loader: &Loader, waits: bool) {
        let notices = &loader.environment.notices;
        for (config, key) in self.servers.keys() {
            for note in admit(loader, &config, &key) {
                notices.warn(format!("MCP server {}: {note}", config.name));
            }
        }
        self.servers.start(Arc::clone(&loader.dispatcher));
        if waits {
            for name in self.servers.settled().await {
                notices.warn(format!("MCP server {name} has not answered yet; its tools come when it does"));
            }
        }
    }

    /// How the servers are.
    pub fn statuses(&self) -> Vec<Status> {
        self.servers.statuses()
    }

    /// Ends them.
    pub(crate) fn end(&self) {
        self.servers.end();
    }
}

/// Tells the gate what a server holds. Answers what its user should know.
fn admit(loader: &Loader, config: &ServerConfig, key: &str) -> Vec<String> {
    let profile = Profile::new(extension_of(&config.name).as_str());
    let (asked, code) = present_of(config);
    let present = Present { code: &code, asked: &asked, local: false };
    let book = loader.book.borrow();
    let record = book.packages.get(key);
    let mut notes = Vec::new();
    let mut grants = match config.source {
        Source::User => grants_for(config),
        Source::Project | Source::Extension(_) => Vec::new(),
    };
    match record.map(|record| record.standing(present)) {
        Some(Standing::Holds) => grants.extend(record.into_iter().flat_map(Record::grants)),
        Some(_) => notes.push(
            "it is another program or address than the one you answered questions about; they are asked again"
                .to_owned(),
        ),
        None => {}
    }
    grants.extend(loader.decided.allowed().iter().cloned());
    loader.answers.expect(profile.extension.clone(), key.to_owned(), Record::new(present));
    let gate = loader.dispatcher.gate();
    let (grants, unreadable) = loader.decided.readable(gate, &profile, grants);
    notes.extend(unreadable);
    if let Err(error) = gate.set_grants(&profile, &grants, Evidence::default()) {
        notes.push(error.to_string());
    }
    gate.set_never(&profile, &record.map(Record::never).unwrap_or_default());
    notes
}

/// Starts the servers of `mcp.json` here, asks what they have, and ends them.
///
/// # Errors
///
/// A file cannot be read, or the session for it cannot be put together.
pub async fn probe(environment: &Environment, permissions: Permissions, interface: Interface) -> Result<Vec<Status>> {
    let store = StoreConfig { choice: SessionChoice::InMemory, ..StoreConfig::default() };
    let config = SessionConfig { permissions, store, ..SessionConfig::default() };
    let loaded = SessionBuilder::new(environment).config(config).interface(interface).servers_only().load().await?;
    let mut statuses = Vec::new();
    if let Some(mcp) = &loaded.mcp {
        mcp.begin(&loaded.loader, true).await;
        statuses = mcp.statuses();
        mcp.end();
    }
    loaded.close_quietly();
    Ok(statuses)
}

/// Forgets what a server said of its tools: the next session takes what it says then. Answers whether anything was known.
///
/// # Errors
///
/// The file cannot be written.
pub fn accept_tools(environment: &Environment, config: &ServerConfig) -> Result<bool> {
    let key = key_of(config, &environment.dirs.cwd);
    let mut known = false;
    PinFile::new(environment).change(&mut |pins| known = pins.forget(&key))?;
    Ok(known)
}

/// Returns what went wrong with a server when it was last used.
pub fn problem_of(environment: &Environment, config: &ServerConfig) -> Option<String> {
    PinFile::new(environment).read().problem(&key_of(config, &environment.dirs.cwd)).map(str::to_owned)
}

/// Returns what answers about a server are bound to.
fn present_of(config: &ServerConfig) -> (CapabilityManifest, String) {
    let hex: String = Sha256::digest(config.identity()).iter().map(|byte| format!("{byte:02x}")).collect();
    let asked = CapabilityManifest { schema: CAPABILITY_SCHEMA.to_owned(), capabilities: Vec::new() };
    (asked, format!("sha256:{hex}"))
}

/// The record that answers about the server `mcp:NAME` go to: its key, and an empty one. `None` when no server has this name here.
///
/// # Errors
///
/// A file cannot be read.
pub fn record_of(environment: &Environment, which: &str) -> Result<Option<(String, Record)>> {
    let Some(name) = which.strip_prefix("mcp:") else { return Ok(None) };
    let (configs, _) = servers(environment)?;
    let Some(config) = configs.into_iter().find(|config| config.name == name) else { return Ok(None) };
    let (asked, code) = present_of(&config);
    let record = Record::new(Present { code: &code, asked: &asked, local: false });
    Ok(Some((key_of(&config, &environment.dirs.cwd), record)))
}

/// The parts of the session that servers need.
struct Port {
    roots: Vec<PathBuf>,
    notices: Notices,
    pins: PinFile,
    ledger: Ledger,
    control: AgentControl,
    has_ui: bool,
    timer: Arc<dyn Timer>,
}

impl SessionPort for Port {
    fn roots(&self) -> Vec<PathBuf> {
        self.roots.clone()
    }

    fn log(&self, server: &str, level: &str, logger: Option<&str>, text: &str) {
        let caller = Caller::new(Arc::new(Profile::new(extension_of(server).as_str())));
        let level = match level {
            "debug" => Level::Debug,
            "warning" => Level::Warn,
            "error" | "critical" | "alert" | "emergency" => Level::Error,
            _ => Level::Info,
        };
        let said = json!({"logger": logger, "message": text});
        let data = Map::from_iter([("extension".to_owned(), said)]);
        self.ledger.event(self.timer.now(), &caller, level, "mcp.log", "a line of an MCP server", data);
    }

    fn asks_users(&self) -> bool {
        self.has_ui
    }

    fn model(&self) -> Option<(String, String)> {
        self.control.model().map(|model| (model.provider, model.id))
    }

    fn learn(&self, secret: &str) {
        self.ledger.redactor().learn(secret);
    }

    fn notice(&self, line: String) {
        self.notices.warn(self.ledger.redactor().text(&line));
    }

    fn pins(&self) -> Pins {
        self.pins.read()
    }

    fn change_pins(&self, change: &mut dyn FnMut(&mut Pins)) {
        if let Err(failure) = self.pins.change(change) {
            self.notices.warn(format!("what MCP servers say of their tools is not kept: {failure}"));
        }
    }
}

/// `<agentDir>/pijs/mcp-tools.json`.
pub struct PinFile {
    folder: PathBuf,
}

impl PinFile {
    /// The file of this user.
    pub fn new(environment: &Environment) -> Self {
        Self { folder: environment.dirs.agent_dir.join("pijs") }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(pins::FILE_NAME)
    }

    /// Returns what stands in the file. One that cannot be read holds nothing that was agreed to.
    pub fn read(&self) -> Pins {
        let bytes = Disk::system().read(&self.path(), pins::MOST_FILE_BYTES).ok().flatten();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Changes it, under a lock.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn change(&self, change: &mut dyn FnMut(&mut Pins)) -> Result<()> {
        let failed = |error: std::io::Error| {
            Failure::failed(format!("{} cannot be written: {error}", self.path().display()))
                .help("make its folder writable")
        };
        let disk = Disk::system();
        disk.create_dirs(&self.folder).map_err(failed)?;
        let _lock = Lock::take(&disk, &self.folder.join("mcp-tools.lock"), PATIENCE, |_| {})
            .map_err(|error| Failure::failed(error.to_string()))?;
        let before = self.read();
        let mut pins = before.clone();
        change(&mut pins);
        if pins != before {
            let mut bytes = serde_json::to_vec_pretty(&pins).map_err(|error| failed(error.into()))?;
            bytes.push(b'\n');
            disk.replace(&self.path(), &bytes, Replace::STATE).map_err(failed)?;
        }
        Ok(())
    }
}

/// Tools and prompts of servers, for the agent.
struct McpTools {
    servers: Servers,
    system: OsToolSystemHandle,
    control: AgentControl,
    /// Tools that a search has found: the model is told of them from then on.
    found: RefCell<BTreeSet<String>>,
}

type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

impl McpTools {
    fn is_told(&self, tool: &ServerTool) -> bool {
        tool.exposure == Exposure::Direct || self.found.borrow().contains(&tool.name)
    }

    async fn call_server_tool(&self, tool: ServerTool, call: ToolRun<'_>) -> ToolFate {
        let ToolRun { tool_call_id, input, cancel, mut on_update, .. } = call;
        let params = json!({"op": "call", "target": tool.target(), "arguments": input});
        let progress =
            |report: &Value| on_update(json!({"content": [{"type": "text", "text": progress_line(report)}]}));
        let who = (tool.server.as_str(), Some(tool_call_id));
        let answered = self.servers.hostcall(who, params, &cancel, progress).await;
        let answer = answered.map_err(|error| error.message).and_then(|result| {
            results::of_tool(&tool.server, result).ok_or_else(|| "the server answered with something else".to_owned())
        });
        match answer {
            Ok(answer) => self.told(answer, &tool.server, tool_call_id).await,
            Err(message) => ToolFate::Threw(message),
        }
    }

    /// An answer as the model gets it: text that is too long goes to a file.
    async fn told(&self, mut answer: Answer, server: &str, id: &str) -> ToolFate {
        if let Some(whole) = answer.cut() {
            let plain: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(40).collect();
            match self.system.keep(format!("pi-mcp-{plain}"), whole.into_bytes()).await {
                Ok(path) => answer.name_file(&path.display().to_string()),
                Err(error) => answer.name_file(&format!("not kept, {error}")),
            }
        }
        if answer.is_error {
            let text = answer.text();
            return ToolFate::Threw(if text.is_empty() { "the tool failed and said nothing".to_owned() } else { text });
        }
        ToolFate::Returned(json!({"content": answer.blocks, "details": {"server": server}}))
    }

    fn search(&self, input: &Value) -> ToolFate {
        let query = input.get("query").and_then(Value::as_str).unwrap_or_default();
        let limit =
            input.get("limit").and_then(Value::as_u64).map_or(8, |limit| usize::try_from(limit).unwrap_or(MOST_FOUND));
        let tools = self.servers.tools();
        let found =
            ranked(query, tools.iter().filter(|tool| tool.exposure != Exposure::Direct), limit.clamp(1, MOST_FOUND));
        self.found.borrow_mut().extend(found.iter().map(|tool| tool.name.clone()));
        let lines: Vec<String> = found
            .iter()
            .map(|tool| format!("{}: {}", tool.name, tool.description.lines().next().unwrap_or_default()))
            .collect();
        let text = match lines.is_empty() {
            true => "no tool matches; try other words".to_owned(),
            false => format!("these can be called from now on:\n{}", lines.join("\n")),
        };
        ToolFate::Returned(
            json!({"content": [{"type": "text", "text": text}], "details": {"tools": found.iter().map(|tool| &tool.name).collect::<Vec<_>>()}}),
        )
    }

    async fn resources(&self, op: &str, call: ToolRun<'_>) -> ToolFate {
        let ToolRun { tool_call_id, input, cancel, .. } = call;
        let named = input.get("server").and_then(Value::as_str).map(str::to_owned);
        let all = self.servers.with_resources();
        if op == "read_resource" {
            let (Some(server), Some(uri)) = (named, input.get("uri").and_then(Value::as_str)) else {
                return ToolFate::Threw("`server` and `uri` are needed".to_owned());
            };
            let params = json!({"op": op, "target": format!("{server}/@resources"), "uri": uri});
            let answered = self.servers.hostcall((&server, Some(tool_call_id)), params, &cancel, |_| {}).await;
            let answer = answered.map_err(|error| error.message).and_then(|result| {
                results::of_resource(result).ok_or_else(|| "the server answered with something else".to_owned())
            });
            return match answer {
                Ok(answer) => self.told(answer, &server, tool_call_id).await,
                Err(message) => ToolFate::Threw(message),
            };
        }
        let mut listed = Vec::new();
        let cursor = input.get("cursor").cloned().unwrap_or_default();
        let member = if op == "list_resources" { "resources" } else { "resourceTemplates" };
        let mut next = Value::Null;
        for server in named.clone().map_or(all, |server| vec![server]) {
            let mut params = json!({"op": op, "target": format!("{server}/@resources")});
            if named.is_some() && cursor.is_string() {
                params["cursor"] = cursor.clone();
            }
            match self.servers.hostcall((&server, Some(tool_call_id)), params, &cancel, |_| {}).await {
                Ok(mut page) => {
                    for mut resource in
                        page.get_mut(member).and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default()
                    {
                        resource["server"] = json!(server);
                        listed.push(resource);
                    }
                    next = page.get("nextCursor").cloned().unwrap_or_default();
                }
                Err(error) => listed.push(json!({"server": server, "error": error.message})),
            }
        }
        let mut text = json!({ member: listed });
        if named.is_some() && next.is_string() {
            text["nextCursor"] = next;
        }
        let answer = Answer { blocks: vec![json!({"type": "text", "text": text.to_string()})], is_error: false };
        self.told(answer, &named.unwrap_or_default(), tool_call_id).await
    }

    async fn say_prompt(&self, prompt: ServerPrompt, args: &str) -> std::result::Result<(), String> {
        let arguments = arguments_of(&prompt, args)?;
        let params = json!({
            "op": "prompt", "target": format!("{}/@prompts", prompt.server), "name": prompt.prompt, "arguments": arguments,
        });
        let answered = self.servers.hostcall((&prompt.server, None), params, &CancelToken::new(), |_| {}).await;
        let text = results::of_prompt(&prompt.server, answered.map_err(|error| error.message)?);
        let text = text.filter(|text| !text.is_empty()).ok_or("the server answered with an empty prompt")?;
        // Text of a server is no command, whatever it begins with.
        self.control.send_user_message(Content::Text(text), None, false).map_err(|error| error.to_string())
    }
}

impl ToolSource for McpTools {
    fn tools(&self) -> Vec<ExtensionTool> {
        let all = self.servers.tools();
        let is_deferred = all.iter().any(|tool| tool.exposure == Exposure::Deferred);
        let mut tools: Vec<ExtensionTool> = all.into_iter().filter(|tool| self.is_told(tool)).map(of_server).collect();
        if is_deferred {
            tools.push(search_tool(&self.servers.statuses()));
        }
        if !self.servers.with_resources().is_empty() {
            tools.extend(RESOURCE_TOOLS.map(|(name, _)| resource_tool(name)));
        }
        tools
    }

    fn call_tool<'a>(&'a self, call: ToolRun<'a>) -> Local<'a, ToolFate> {
        Box::pin(async move {
            if call.name == SEARCH {
                return self.search(&call.input);
            }
            if let Some((_, op)) = RESOURCE_TOOLS.iter().find(|(name, _)| *name == call.name) {
                return self.resources(op, call).await;
            }
            match self.servers.tools().into_iter().find(|tool| tool.name == call.name) {
                Some(tool) => self.call_server_tool(tool, call).await,
                None => ToolFate::Threw(format!("Tool {} not found", call.name)),
            }
        })
    }

    fn commands(&self) -> Vec<(String, String)> {
        self.servers.prompts().into_iter().map(|prompt| (prompt.name, prompt.description)).collect()
    }

    fn run_command<'a>(&'a self, name: &'a str, args: &'a str) -> Local<'a, CommandFate> {
        Box::pin(async move {
            let Some(prompt) = self.servers.prompts().into_iter().find(|prompt| prompt.name == name) else {
                return CommandFate::Threw(format!("no command /{name}").into());
            };
            match self.say_prompt(prompt, args).await {
                Ok(()) => CommandFate::Done,
                Err(message) => CommandFate::Threw(message.into()),
            }
        })
    }
}

/// Arguments of a prompt: one word each, and the last one the rest.
fn arguments_of(prompt: &ServerPrompt, args: &str) -> std::result::Result<Map<String, Value>, String> {
    let mut rest = args.trim();
    let mut given = Map::new();
    for (at, (name, is_needed)) in prompt.arguments.iter().enumerate() {
        let is_last = at + 1 == prompt.arguments.len();
        let (word, left) = match is_last {
            true => (rest, ""),
            false => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        match (word.is_empty(), is_needed) {
            (false, _) => drop(given.insert(name.clone(), json!(word))),
            (true, true) => {
                let names: Vec<&str> = prompt.arguments.iter().map(|(name, _)| name.as_str()).collect();
                return Err(format!("{name} is missing; write /{} {}", prompt.name, names.join(" ").to_uppercase()));
            }
            (true, false) => {}
        }
        rest = left.trim_start();
    }
    Ok(given)
}

fn progress_line(report: &Value) -> String {
    let number = |key: &str| report.get(key).and_then(Value::as_f64);
    let count = match (number("progress"), number("total")) {
        (Some(progress), Some(total)) => format!("{progress} of {total}"),
        (Some(progress), None) => progress.to_string(),
        _ => String::new(),
    };
    match report.get("message").and_then(Value::as_str) {
        Some(message) => format!("{count} {message}").trim().to_owned(),
        None => count,
    }
}

fn of_server(tool: ServerTool) -> ExtensionTool {
    let path = format!("<mcp:{}>", tool.server);
    let mut source = source_info(&path);
    source["annotations"] = tool.annotations;
    ExtensionTool {
        description: tool.description,
        parameters: tool.parameters,
        source_info: source,
        path,
        ..plain_tool(&tool.name)
    }
}

fn source_info(path: &str) -> Value {
    json!({"path": path, "source": "mcp", "scope": "temporary", "origin": "top-level"})
}

fn plain_tool(name: &str) -> ExtensionTool {
    let path = format!("<builtin:{name}>");
    ExtensionTool {
        name: name.to_owned(),
        description: String::new(),
        parameters: Value::Null,
        converts: false,
        sequential: false,
        prepares_arguments: false,
        source_info: source_info(&path),
        path,
        prompt_snippet: None,
        prompt_guidelines: Vec::new(),
    }
}

fn search_tool(statuses: &[Status]) -> ExtensionTool {
    let servers: Vec<String> = statuses
        .iter()
        .filter(|status| status.enabled && !status.tools.is_empty())
        .map(|status| match &status.summary {
            Some(summary) => format!("{} ({})", status.name, pijs_mcp::names::visible(summary, 200)),
            None => status.name.clone(),
        })
        .collect();
    ExtensionTool {
        description: format!(
            "Finds tools of MCP servers by words of their names and descriptions; what it finds can be called afterwards. Servers: {}",
            servers.join(", ")
        ),
        parameters: json!({"type": "object", "properties": {
            "query": {"type": "string", "description": "What the tool should do"},
            "limit": {"type": "integer", "description": "Most tools to find", "minimum": 1, "maximum": MOST_FOUND},
        }, "required": ["query"]}),
        ..plain_tool(SEARCH)
    }
}

fn resource_tool(name: &str) -> ExtensionTool {
    let server = json!({"type": "string", "description": "The server; all servers without it"});
    let cursor = json!({"type": "string", "description": "nextCursor of the page before, with server"});
    let (description, parameters) = match name {
        "read_mcp_resource" => (
            "Reads a resource of an MCP server",
            json!({"type": "object", "properties": {
                "server": {"type": "string", "description": "The server"},
                "uri": {"type": "string", "description": "The resource's URI"},
            }, "required": ["server", "uri"]}),
        ),
        "list_mcp_resources" => (
            "Lists resources of MCP servers",
            json!({"type": "object", "properties": {"server": server, "cursor": cursor}}),
        ),
        _ => (
            "Lists URI templates of resources of MCP servers",
            json!({"type": "object", "properties": {"server": server, "cursor": cursor}}),
        ),
    };
    ExtensionTool { description: description.to_owned(), parameters, ..plain_tool(name) }
}

/// The tools that share most with a query: each word counts the more the fewer tools have it, and twice in a name.
fn ranked<'t>(query: &str, tools: impl Iterator<Item = &'t ServerTool>, limit: usize) -> Vec<ServerTool> {
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let indexed: Vec<(&ServerTool, BTreeSet<String>, BTreeSet<String>)> =
        tools.map(|tool| (tool, words(&tool.name), words(&tool.description))).collect();
    let mut known: BTreeMap<&str, u32> = BTreeMap::new();
    for (_, names, described) in &indexed {
        for word in names.union(described) {
            *known.entry(word.as_str()).or_default() += 1;
        }
    }
    let asked = words(query);
    let weight = |word: &str| known.get(word).map_or(0.0, |count| 1.0 / f64::from(*count));
    let score = |names: &BTreeSet<String>, described: &BTreeSet<String>| -> f64 {
        let of = |set: &BTreeSet<String>| asked.intersection(set).map(|word| weight(word)).sum::<f64>();
        2.0 * of(names) + of(described)
    };
    let mut scored: Vec<(f64, &ServerTool)> =
        indexed.iter().map(|(tool, names, said)| (score(names, said), *tool)).collect();
    scored.retain(|(score, _)| *score > 0.0);
    // Equal ones stay in the order of the servers.
    scored.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    scored.into_iter().take(limit).map(|(_, tool)| tool.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str) -> ServerTool {
        ServerTool {
            name: format!("mcp__s__{name}"),
            server: "s".to_owned(),
            tool: name.to_owned(),
            description: description.to_owned(),
            parameters: json!({}),
            annotations: Value::Null,
            exposure: Exposure::Deferred,
        }
    }

    #[test]
    fn a_search_finds_by_rare_words_and_by_names_first() {
        let tools = [
            tool("list_issues", "Lists all issues"),
            tool("create_issue", "Creates one"),
            tool("merge", "Merges all issues"),
        ];
        let found =
            |query: &str| -> Vec<String> { ranked(query, tools.iter(), 2).into_iter().map(|tool| tool.tool).collect() };
        assert_eq!(found("issues"), ["list_issues", "merge"]);
        assert_eq!(found("create an ISSUE"), ["create_issue"]);
        assert_eq!(found("weather"), Vec::<String>::new());
    }

    #[test]
    fn words_behind_a_prompt_are_its_arguments() {
        let arguments = vec![("file".to_owned(), true), ("how".to_owned(), false)];
        let prompt = ServerPrompt {
            name: "p".into(),
            server: "s".into(),
            prompt: "p".into(),
            description: String::new(),
            arguments,
        };
        let of = |args: &str| arguments_of(&prompt, args).map(Value::Object);
        assert_eq!(of(" a.rs  in two lines "), Ok(json!({"file": "a.rs", "how": "in two lines"})));
        assert_eq!(of("a.rs"), Ok(json!({"file": "a.rs"})));
        assert_eq!(of(""), Err("file is missing; write /p FILE HOW".to_owned()));
    }

    #[test]
    fn progress_is_told_in_a_line() {
        assert_eq!(progress_line(&json!({"progress": 1.0, "total": 4.0, "message": "reading"})), "1 of 4 reading");
        assert_eq!(progress_line(&json!({"progress": 2.5})), "2.5");
    }
}
