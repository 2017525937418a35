//! `mcp.json`: the servers of a user and of a project, in pi's form.
//!
//! The user's file lies in the agent folder, the project's in `.pi` and counts once the project is trusted. An entry of the project
//! replaces the user's of the same name, unless it names neither a program nor an address: then it changes only whether and how that one
//! is used. An entry that is wrong is reported and left out; the others are used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// Name of both files.
pub const FILE_NAME: &str = "mcp.json";
/// Longest file that is read.
pub const MAX_FILE_BYTES: u64 = 1 << 20;
/// Most servers of a session.
pub const MAX_SERVERS: usize = 64;
/// Longest name of a server.
const LONGEST_NAME: usize = 64;
/// The time that a request may take where the file does not say.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The time that it may take at most, whatever the file says.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// `mcp.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpFile {
    /// By name: letters, digits, `_` and `-`.
    #[serde(default)]
    pub mcp_servers: BTreeMap<String, ServerEntry>,
}

/// One server of `mcp.json`: a program (`command`), or an address (`url`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerEntry {
    /// `stdio`, `http` or `streamable-http`; what else the entry says tells it as well.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The program: a name or a path, no command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Its variables beside the plain ones. A value may hold `${NAME}`, or be `!command` in the user's own file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// The folder that it works in; relative to the session's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The address of a server that speaks Streamable HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of each request to it. A value may hold `${NAME}`, or be `!command` in the user's own file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// How to sign in, where the server does not say it well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OauthSettings>,
    /// The time that a request may take, in seconds; 60 without it. A report of progress begins it anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Set to `false` to keep the entry without using it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How its tools reach the model: `deferred` (found by `tool_search`; without a word), `direct`, `codemode` (as `deferred`) or `hidden`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposure: Option<Exposure>,
    /// The exposure of single tools: by name, or by a pattern with `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_exposure: Option<Map<String, Value>>,
    /// A sentence about what it offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// How to sign in to a server; all of it is found out without a word.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OauthSettings {
    /// A client that was registered by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Its secret; a value may hold `${NAME}`, or be `!command` in the user's own file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// The name under which a client is registered; `pi` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// Scopes to ask for, separated by blanks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The port that the browser comes back to; any free one without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_port: Option<u16>,
    /// The metadata of the authorization server, where the server names a wrong one or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_server_metadata_url: Option<String>,
}

/// How a tool reaches the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exposure {
    /// The model is told of it.
    Direct,
    /// The model finds it with `tool_search`.
    #[default]
    #[serde(alias = "codemode", alias = "codemode-deferred")]
    Deferred,
    /// Nobody can call it.
    Hidden,
}

/// The owner of the file that a server comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The user's: what it says is what the user wants.
    User,
    /// A trusted project's: what it starts and reaches is asked about.
    Project,
    /// An extension, by its name; asked about as well.
    Extension(String),
}

/// A server that can be used.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Its name.
    pub name: String,
    /// The owner of its file.
    pub source: Source,
    /// How it is reached.
    pub reach: Reach,
    /// The time that a request may take.
    pub timeout: Duration,
    /// Whether it is used.
    pub enabled: bool,
    /// How its tools reach the model.
    pub exposure: Exposure,
    /// The exposure of single tools, in the order of the file.
    pub tool_exposure: Vec<(String, Exposure)>,
    /// A description of what it offers.
    pub description: Option<String>,
    /// How to sign in.
    pub oauth: Option<OauthSettings>,
    /// The folder that its program starts in where the entry names none; without it, the session's folder. No part of what a user agrees to.
    pub start_folder: Option<String>,
}

/// How a server is reached. Values are as they stand in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// A program, by its standard input and output.
    Stdio {
        /// A name, or a path.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its variables.
        env: BTreeMap<String, String>,
        /// The folder that it works in.
        cwd: Option<String>,
    },
    /// An address.
    Http {
        /// `http:` or `https:`.
        url: String,
        /// Sent with each request.
        headers: BTreeMap<String, String>,
    },
}

impl ServerConfig {
    /// How one of its tools reaches the model: an exact name before patterns, the first pattern before later ones.
    pub fn exposure_of(&self, tool: &str) -> Exposure {
        let exact = self.tool_exposure.iter().find(|(name, _)| name == tool);
        let found = exact.or_else(|| self.tool_exposure.iter().find(|(pattern, _)| matches(pattern, tool)));
        found.map_or(self.exposure, |(_, exposure)| *exposure)
    }

    /// Whether some of its tools are found by `tool_search` only, as far as the entry says.
    pub fn has_deferred(&self) -> bool {
        self.exposure == Exposure::Deferred || self.tool_exposure.iter().any(|(_, one)| *one == Exposure::Deferred)
    }

    /// Puts the home folder in the place of a leading `~/` of program, arguments and folder.
    pub fn at_home(&mut self, home: &str) {
        let Reach::Stdio { command, args, cwd, .. } = &mut self.reach else { return };
        for text in std::iter::once(command).chain(args).chain(cwd) {
            if let Some(rest) = text.strip_prefix("~/") {
                *text = format!("{}/{rest}", home.trim_end_matches('/'));
            }
        }
    }

    /// Starts a program of the user's own file in `folder` unless its entry names one: interpreters and runners of packages (`python -m`,
    /// `npx`) run what lies in the folder that they start in, so they do not start in one that nobody trusts.
    pub fn start_in(&mut self, folder: &str) {
        if self.source == Source::User && matches!(self.reach, Reach::Stdio { cwd: None, .. }) {
            self.start_folder = Some(folder.to_owned());
        }
    }

    /// Starts a program of an extension in `folder` unless its entry names one: what lies in the session's folder is no part of what the user
    /// agreed to with the extension.
    pub fn start_in_empty(&mut self, folder: &str) {
        if matches!((&self.source, &self.reach), (Source::Extension(_), Reach::Stdio { cwd: None, .. })) {
            self.start_folder = Some(folder.to_owned());
        }
    }

    /// Puts a package's folder in the place of a leading `./` of program and arguments.
    pub fn at_package(&mut self, root: &str) {
        let Reach::Stdio { command, args, .. } = &mut self.reach else { return };
        for text in std::iter::once(command).chain(args) {
            if let Some(rest) = text.strip_prefix("./") {
                *text = format!("{}/{rest}", root.trim_end_matches('/'));
            }
        }
    }

    /// Returns what a user agrees to, as text that changes when it does: program, arguments, names of variables, folder, address.
    pub fn identity(&self) -> String {
        match &self.reach {
            Reach::Stdio { command, args, env, cwd } => {
                serde_json::json!(["stdio", command, args, env, cwd]).to_string()
            }
            Reach::Http { url, headers } => serde_json::json!(["http", url, headers]).to_string(),
        }
    }

    /// Returns the key that a sign-in to it is kept under: its name and its address, as pi has it. `None` where it has none: a program, an
    /// entry with a token of its own, and a server of an extension, which must not use what the user signed in to.
    pub fn sign_in_key(&self) -> Option<String> {
        let Reach::Http { url, headers } = &self.reach else { return None };
        let has_own = headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        if has_own || matches!(self.source, Source::Extension(_)) {
            return None;
        }
        Some(format!("mcp__{}|{}", self.name.replace('-', "_"), url::Url::parse(url).ok()?))
    }

    /// How it is reached, for people.
    pub fn reach_in_words(&self) -> String {
        match &self.reach {
            Reach::Stdio { command, args, .. } => {
                std::iter::once(command).chain(args).map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            Reach::Http { url, .. } => url.clone(),
        }
    }
}

/// Whether a pattern, in which `*` stands for any characters, covers a name.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut last = None;
    for piece in pieces {
        if let Some(earlier) = last.replace(piece) {
            let earlier: &str = earlier;
            match rest.find(earlier) {
                Some(at) => rest = &rest[at + earlier.len()..],
                None => return false,
            }
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

/// The contents of a file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    entries: Vec<(String, ServerEntry)>,
    /// The problems found in it, each in a sentence that names file and server.
    pub problems: Vec<String>,
}

impl Parsed {
    /// Reads a file; `place` names it in problems.
    pub fn parse(text: &str, place: &str) -> Self {
        let mut parsed = Self::default();
        let file: Map<String, Value> = match serde_json::from_str(text) {
            Ok(file) => file,
            Err(error) => {
                parsed.problems.push(format!("{place}: {error}; correct the file, no server of it is used"));
                return parsed;
            }
        };
        let servers = match file.get("mcpServers") {
            Some(Value::Object(servers)) => servers,
            None => return parsed,
            Some(_) => {
                parsed
                    .problems
                    .push(format!("{place}: `mcpServers` is not an object; write {{\"mcpServers\": {{...}}}}"));
                return parsed;
            }
        };
        for (name, entry) in servers {
            let read = check_name(name)
                .and_then(|()| serde_json::from_value(entry.clone()).map_err(|error| error.to_string()))
                .and_then(|entry| check(&entry).map(|()| entry));
            let twin = parsed.entries.iter().find(|(known, _)| same(known, name)).map(|(known, _)| known.clone());
            match (read, twin) {
                (Ok(_), Some(twin)) => {
                    parsed
                        .problems
                        .push(format!("{place}: {name}: differs from {twin} in `-` and `_` only; rename one"));
                }
                (Ok(entry), None) if parsed.entries.len() < MAX_SERVERS => parsed.entries.push((name.clone(), entry)),
                (Ok(_), None) => parsed.problems.push(format!("{place}: {name}: more than {MAX_SERVERS} servers")),
                (Err(problem), _) => parsed.problems.push(format!("{place}: {}: {problem}", name.escape_debug())),
            }
        }
        parsed
    }

    /// Adds a server of an extension.
    ///
    /// # Errors
    ///
    /// The entry makes no sense; the message says why.
    pub fn of_extension(extension: &str, name: &str, config: &Value) -> Result<ServerConfig, String> {
        check_name(name)?;
        let entry: ServerEntry = serde_json::from_value(config.clone()).map_err(|error| error.to_string())?;
        check(&entry)?;
        build(name, &entry, Source::Extension(extension.to_owned()))
            .ok_or_else(|| "neither `command` nor `url`".to_owned())
    }
}

/// The servers of a session: the user's, changed by the project's. What is wrong goes to `problems`.
pub fn merge(user: Parsed, project: Parsed, problems: &mut Vec<String>) -> Vec<ServerConfig> {
    problems.extend(user.problems);
    problems.extend(project.problems);
    let mut servers: Vec<ServerConfig> =
        user.entries.iter().filter_map(|(name, entry)| build(name, entry, Source::User)).collect();
    for (name, _) in user.entries.iter().filter(|(_, entry)| !is_server(entry)) {
        problems.push(format!("{FILE_NAME}: {name}: neither `command` nor `url`; write one of them"));
    }
    for (name, entry) in &project.entries {
        let at = servers.iter().position(|known| same(&known.name, name));
        match (build(name, entry, Source::Project), at) {
            (Some(server), Some(at)) => servers[at] = server,
            (Some(server), None) if servers.len() < MAX_SERVERS => servers.push(server),
            (Some(_), None) => problems.push(format!(".pi/{FILE_NAME}: {name}: more than {MAX_SERVERS} servers")),
            (None, Some(at)) => {
                let server = &mut servers[at];
                server.enabled = entry.enabled.unwrap_or(server.enabled);
                server.exposure = entry.exposure.unwrap_or(server.exposure);
                if entry.tool_exposure.is_some() {
                    server.tool_exposure = tool_exposure(entry);
                }
            }
            (None, None) => problems.push(format!(
                ".pi/{FILE_NAME}: {name}: neither `command` nor `url`, and {FILE_NAME} of the user has no server of this name"
            )),
        }
    }
    servers
}

/// Whether two names are one: those that differ in `-` and `_` only are, since their tools have one name.
pub fn same(one: &str, other: &str) -> bool {
    one.replace('-', "_") == other.replace('-', "_")
}

fn is_server(entry: &ServerEntry) -> bool {
    entry.command.is_some() || entry.url.is_some()
}

fn build(name: &str, entry: &ServerEntry, source: Source) -> Option<ServerConfig> {
    let reach = match (&entry.command, &entry.url) {
        (Some(command), _) => Reach::Stdio {
            command: command.clone(),
            args: entry.args.clone().unwrap_or_default(),
            env: entry.env.clone().unwrap_or_default(),
            cwd: entry.cwd.clone(),
        },
        (None, Some(url)) => Reach::Http { url: url.clone(), headers: entry.headers.clone().unwrap_or_default() },
        (None, None) => return None,
    };
    let timeout = entry.timeout.map_or(TIMEOUT, |seconds| {
        Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_TIMEOUT).min(LONGEST_TIMEOUT)
    });
    Some(ServerConfig {
        name: name.to_owned(),
        source,
        reach,
        timeout,
        enabled: entry.enabled.unwrap_or(true),
        exposure: entry.exposure.unwrap_or_default(),
        tool_exposure: tool_exposure(entry),
        description: entry.description.clone(),
        oauth: entry.oauth.clone(),
        start_folder: None,
    })
}

fn tool_exposure(entry: &ServerEntry) -> Vec<(String, Exposure)> {
    let read = |(name, value): (&String, &Value)| Some((name.clone(), serde_json::from_value(value.clone()).ok()?));
    entry.tool_exposure.iter().flatten().filter_map(read).collect()
}

/// Whether a server may have this name.
///
/// # Errors
///
/// It may not; the message says what a name is.
pub fn check_name(name: &str) -> Result<(), String> {
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match fits && !name.is_empty() && name.len() <= LONGEST_NAME {
        true => Ok(()),
        false => Err(format!("a server's name has 1 to {LONGEST_NAME} letters, digits, `_` and `-`")),
    }
}

/// Whether an entry makes sense.
///
/// # Errors
///
/// It does not; the message says what to write.
pub fn check(entry: &ServerEntry) -> Result<(), String> {
    if entry.command.is_some() && entry.url.is_some() {
        return Err("it has `command` and `url`; write one of them".to_owned());
    }
    match (entry.kind.as_deref(), &entry.command, &entry.url) {
        (None, ..) | (Some("stdio"), Some(_), _) | (Some("http" | "streamable-http"), _, Some(_)) => {}
        (Some("sse"), ..) => {
            return Err("`sse` is not supported; servers that have it often speak Streamable HTTP at /mcp".to_owned());
        }
        (Some(kind @ ("stdio" | "http" | "streamable-http")), ..) => {
            return Err(format!("`type` is {kind}, which the rest of the entry is not"));
        }
        (Some(kind), ..) => return Err(format!("`type` is {kind:?}; write stdio or http")),
    }
    if let Some(command) = &entry.command
        && (command.trim().is_empty() || command.contains('\0'))
    {
        return Err("`command` is empty".to_owned());
    }
    if let Some(url) = &entry.url {
        let parsed = url::Url::parse(url).map_err(|error| format!("`url`: {error}"))?;
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
            return Err("`url` is not an address of http or https".to_owned());
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("`url` holds a password; write it into `headers`".to_owned());
        }
    }
    if entry.timeout.is_some_and(|seconds| !seconds.is_finite() || seconds <= 0.0) {
        return Err("`timeout` is not a number of seconds above 0".to_owned());
    }
    for (tool, exposure) in entry.tool_exposure.iter().flatten() {
        serde_json::from_value::<Exposure>(exposure.clone()).map_err(|_| {
            format!("`toolExposure`: {tool:?} is {exposure}; write \"direct\", \"deferred\" or \"hidden\"")
        })?;
    }
    Ok(())
}

/// Puts a server into the text of a file, or takes it out; everything else stays as it is. Answers the text, and whether the file had one
/// of this name.
///
/// # Errors
///
/// The file cannot be read as JSON.
pub fn edit(text: Option<&str>, name: &str, entry: Option<&ServerEntry>) -> Result<(String, bool), String> {
    let mut file: Map<String, Value> = match text {
        Some(text) => serde_json::from_str(text).map_err(|error| error.to_string())?,
        None => Map::new(),
    };
    let servers = file.entry("mcpServers").or_insert_with(|| Value::Object(Map::new()));
    let servers = servers.as_object_mut().ok_or("`mcpServers` is not an object")?;
    let had = match entry {
        Some(entry) => {
            let value = serde_json::to_value(entry).map_err(|error| error.to_string())?;
            servers.insert(name.to_owned(), value).is_some()
        }
        None => servers.shift_remove(name).is_some(),
    };
    let mut text = serde_json::to_string_pretty(&file).map_err(|error| error.to_string())?;
    text.push('\n');
    Ok((text, had))
}

/// Whether a file says something of a server.
pub fn names(text: &str, name: &str) -> bool {
    let file: Value = serde_json::from_str(text).unwrap_or_default();
    file["mcpServers"].get(name).is_some()
}

/// Switches a server of a file on or off; everything else stays as it is.
///
/// # Errors
///
/// The file has no such server.
pub fn switch(text: &str, name: &str, enabled: bool) -> Result<String, String> {
    let mut file: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let entry = file.get_mut("mcpServers").and_then(|servers| servers.get_mut(name)).and_then(Value::as_object_mut);
    let entry = entry.ok_or_else(|| format!("it has no server {name:?}"))?;
    // An entry that only changes another one has to say so.
    let is_whole = entry.contains_key("command") || entry.contains_key("url");
    match enabled && is_whole {
        true => drop(entry.shift_remove("enabled")),
        false => drop(entry.insert("enabled".to_owned(), Value::Bool(enabled))),
    }
    let mut text = serde_json::to_string_pretty(&file).map_err(|error| error.to_string())?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(value: Value) -> Parsed {
        Parsed::parse(&value.to_string(), "mcp.json")
    }

    fn merged(user: Value, project: Value) -> (Vec<ServerConfig>, Vec<String>) {
        let mut problems = Vec::new();
        let servers = merge(parsed(user), parsed(project), &mut problems);
        (servers, problems)
    }

    #[test]
    fn entries_of_other_clients_are_read_as_they_are() {
        let (servers, problems) = merged(
            json!({"mcpServers": {
                "files": {"command": "npx", "args": ["-y", "x", "a b"], "env": {"A": "${B}"}, "disabledTools": []},
                "docs": {"type": "http", "url": "https://example.com/mcp", "headers": {"X": "y"}, "timeout": 2.5,
                         "exposure": "codemode", "toolExposure": {"get_*": "direct", "get_x": "hidden"}},
            }}),
            json!({}),
        );
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(servers[0].reach_in_words(), "npx -y x a b");
        assert_eq!((servers[0].timeout, servers[0].exposure), (TIMEOUT, Exposure::Deferred));
        assert_eq!((servers[1].timeout, servers[1].exposure), (Duration::from_millis(2500), Exposure::Deferred));
        let of = |tool| servers[1].exposure_of(tool);
        assert_eq!((of("get_y"), of("get_x"), of("set")), (Exposure::Direct, Exposure::Hidden, Exposure::Deferred));
    }

    #[test]
    fn a_wrong_entry_is_reported_and_the_others_are_used() {
        let (servers, problems) = merged(
            json!({"mcpServers": {
                "a b": {"command": "x"}, "both": {"command": "x", "url": "https://e.com"}, "sse": {"type": "sse", "url": "https://e.com"},
                "kind": {"type": "stdio", "url": "https://e.com"}, "url": {"url": "file:///etc"}, "pass": {"url": "https://u:p@e.com"},
                "time": {"command": "x", "timeout": -1}, "args": {"command": "x", "args": "y"}, "none": {}, "ok": {"command": "x"},
                "tools": {"command": "x", "toolExposure": {"a": "open"}}, "o_k": {"command": "y"}, "o-k": {"command": "y"},
            }}),
            json!({"mcpServers": {"other": {"enabled": false}}}),
        );
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["ok", "o_k"]);
        assert_eq!(problems.len(), 12, "{problems:#?}");
        assert!(parsed(json!({"mcpServers": []})).problems[0].contains("not an object"));
        assert!(Parsed::parse("{", "mcp.json").problems[0].starts_with("mcp.json: "));
    }

    #[test]
    fn a_project_replaces_a_server_or_changes_how_it_is_used() {
        let user = json!({"mcpServers": {"a": {"command": "x"}, "b": {"command": "y", "env": {"T": "1"}}}});
        let project = json!({"mcpServers": {"a": {"url": "https://e.com"}, "b": {"enabled": false, "exposure": "hidden", "env": {"T": "2"}}}});
        let (servers, problems) = merged(user, project);
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!((&servers[0].source, servers[0].reach_in_words()), (&Source::Project, "https://e.com".to_owned()));
        assert_eq!(
            (&servers[1].source, servers[1].enabled, servers[1].exposure),
            (&Source::User, false, Exposure::Hidden)
        );
        let Reach::Stdio { env, .. } = &servers[1].reach else { panic!("a program") };
        assert_eq!(env["T"], "1", "what it is given stays the user's");
    }

    #[test]
    fn a_pattern_covers_what_its_stars_stand_for() {
        for (pattern, name, covered) in [
            ("get_*", "get_x", true),
            ("get_*", "set_x", false),
            ("*_x", "get_x", true),
            ("g*t*x", "get_x", true),
            ("g*z*x", "get_x", false),
            ("*", "", true),
            ("a*a", "a", false),
            ("a", "a", true),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern, name), covered, "{pattern} {name}");
        }
    }

    #[test]
    fn a_server_is_switched_off_and_on_again() {
        let text = r#"{"z": 1, "mcpServers": {"b": {"url": "u"}, "o": {"exposure": "direct"}}}"#;
        let off = switch(text, "b", false).expect("is there");
        assert!(names(&off, "b") && off.contains("\"enabled\": false") && off.contains("\"z\": 1"));
        assert!(!switch(&off, "b", true).expect("is there").contains("enabled"));
        assert!(switch(text, "o", true).expect("is there").contains("\"enabled\": true"));
        assert!(switch(text, "c", true).is_err() && !names(text, "c"));
    }

    #[test]
    fn an_edit_leaves_everything_else_alone() {
        let entry = ServerEntry { command: Some("x".to_owned()), ..ServerEntry::default() };
        let (text, had) =
            edit(Some(r#"{"z": 1, "mcpServers": {"b": {"url": "u", "own": 2}}}"#), "a", Some(&entry)).expect("edits");
        let file: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(file, json!({"z": 1, "mcpServers": {"b": {"url": "u", "own": 2}, "a": {"command": "x"}}}));
        assert!(!had);
        let (text, had) = edit(Some(&text), "b", None).expect("edits");
        assert!(had && !text.contains("own"));
        assert!(edit(Some("["), "a", None).is_err());
    }
}
