//! Parses `mcp.json`, in pi's format, and merges the user's file with the project's file.
//!
//! The user's file is in the agent folder. The project's file is in `.pi`, and is used only if the project is trusted. An entry
//! of the project replaces the user's entry with the same name. If it has neither `command` nor `url`, it only modifies that
//! entry: whether the server is enabled, and how its tools are exposed. An invalid entry is reported and skipped.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// Name of the user's and the project's file.
pub const FILE_NAME: &str = "mcp.json";
/// Maximum size of a file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum number of servers of a session.
pub const MAX_SERVERS: usize = 64;
/// Maximum length of a server name, in bytes.
const LONGEST_NAME: usize = 64;
/// Default timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum timeout that an entry can set.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// `mcp.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpFile {
    /// Servers by name. A name consists of letters, digits, `_` and `-`.
    #[serde(default)]
    pub mcp_servers: BTreeMap<String, ServerEntry>,
}

/// One server of `mcp.json`: a program (`command`) or a remote server (`url`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerEntry {
    /// Transport: `stdio`, `http` or `streamable-http`. Optional, because `command` or `url` determines it.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The program: a name or a path, not a command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Arguments of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Environment variables of the program in addition to the default ones. A value may contain `${NAME}`; in the user's own
    /// file it may also be `!command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Working folder of the program, relative to the session's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// URL of a remote server with the Streamable HTTP transport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of each HTTP request. A value may contain `${NAME}`; in the user's own file it may also be `!command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// OAuth settings that override the server's metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OauthSettings>,
    /// Timeout of a request in seconds; 60 by default. A progress report restarts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Set to `false` to disable the server without removing its entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How tools are exposed to the model: `deferred` (found by `tool_search`, the default), `direct`, `codemode` (treated as
    /// `deferred`) or `hidden`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exposure: Option<Exposure>,
    /// Exposure of single tools, by name or by a pattern with `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_exposure: Option<Map<String, Value>>,
    /// A sentence that describes the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// OAuth settings of a server. Missing settings are discovered from the server's metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OauthSettings {
    /// Id of a client that the user has registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Secret of that client. May contain `${NAME}`; in the user's own file it may also be `!command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Name for dynamic client registration; `pi` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// Scopes to request, separated by blanks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Port of the redirect URI; any free port by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_port: Option<u16>,
    /// URL of the authorization server's metadata, for a server whose own metadata names no authorization server or a wrong one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_server_metadata_url: Option<String>,
}

/// How a tool is exposed to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exposure {
    /// Listed in the model's requests.
    Direct,
    /// Found by the model with `tool_search`.
    #[default]
    #[serde(alias = "codemode", alias = "codemode-deferred")]
    Deferred,
    /// Not callable.
    Hidden,
}

/// The origin of a server's entry, which determines its trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The user's own file. The user consented to it by writing it.
    User,
    /// The file of a trusted project. Starting its program and contacting its URL require consent.
    Project,
    /// An extension, by name. Requires consent like a project.
    Extension(String),
}

/// The validated configuration of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    /// Name of the server.
    pub name: String,
    /// Origin of the entry.
    pub source: Source,
    /// Program or URL.
    pub reach: Reach,
    /// Timeout of a request.
    pub timeout: Duration,
    /// Whether the server is enabled.
    pub enabled: bool,
    /// Default exposure of the server's tools.
    pub exposure: Exposure,
    /// Exposure of single tools, in the order of the file.
    pub tool_exposure: Vec<(String, Exposure)>,
    /// Description of the server.
    pub description: Option<String>,
    /// OAuth settings.
    pub oauth: Option<OauthSettings>,
    /// Working folder of the program if the entry names none; if this is absent as well, the session's folder. The user's consent
    /// does not cover it.
    pub start_folder: Option<String>,
}

/// Program or URL of a server. Values are not expanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// A program with the stdio transport.
    Stdio {
        /// A name or a path.
        command: String,
        /// Arguments of the program.
        args: Vec<String>,
        /// Environment variables of the program.
        env: BTreeMap<String, String>,
        /// Working folder of the program.
        cwd: Option<String>,
    },
    /// A remote server with the Streamable HTTP transport.
    Http {
        /// An `http:` or `https:` URL.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, String>,
    },
}

impl ServerConfig {
    /// Returns the exposure of a tool. An exact name takes precedence over patterns, and the first matching pattern over later
    /// patterns.
    pub fn exposure_of(&self, tool: &str) -> Exposure {
        let exact = self.tool_exposure.iter().find(|(name, _)| name == tool);
        let found = exact.or_else(|| self.tool_exposure.iter().find(|(pattern, _)| matches(pattern, tool)));
        found.map_or(self.exposure, |(_, exposure)| *exposure)
    }

    /// Returns whether the entry defers some of its tools to `tool_search`.
    pub fn has_deferred(&self) -> bool {
        self.exposure == Exposure::Deferred || self.tool_exposure.iter().any(|(_, one)| *one == Exposure::Deferred)
    }

    /// Expands a leading `~/` in program, arguments and working folder.
    pub fn at_home(&mut self, home: &str) {
        let Reach::Stdio { command, args, cwd, .. } = &mut self.reach else { return };
        for text in std::iter::once(command).chain(args).chain(cwd) {
            if let Some(rest) = text.strip_prefix("~/") {
                *text = format!("{}/{rest}", home.trim_end_matches('/'));
            }
        }
    }

    /// Sets the default working folder of a program of the user's own file. Used if the session's folder is not trusted, because
    /// interpreters and package runners (`python -m`, `npx`) execute files of their working folder.
    pub fn start_in(&mut self, folder: &str) {
        if self.source == Source::User && matches!(self.reach, Reach::Stdio { cwd: None, .. }) {
            self.start_folder = Some(folder.to_owned());
        }
    }

    /// Sets the default working folder of an extension's program. Files of the session's folder, which such a program could
    /// execute, are not part of the extension that the user consented to.
    pub fn start_in_empty(&mut self, folder: &str) {
        if matches!((&self.source, &self.reach), (Source::Extension(_), Reach::Stdio { cwd: None, .. })) {
            self.start_folder = Some(folder.to_owned());
        }
    }

    /// Resolves a leading `./` of program and arguments against a package's folder.
    pub fn at_package(&mut self, root: &str) {
        let Reach::Stdio { command, args, .. } = &mut self.reach else { return };
        for text in std::iter::once(command).chain(args) {
            if let Some(rest) = text.strip_prefix("./") {
                *text = format!("{}/{rest}", root.trim_end_matches('/'));
            }
        }
    }

    /// Returns a text that identifies what the user consents to: the program, its arguments, its variables as written and its
    /// working folder; or the URL and the headers as written.
    pub fn identity(&self) -> String {
        match &self.reach {
            Reach::Stdio { command, args, env, cwd } => {
                serde_json::json!(["stdio", command, args, env, cwd]).to_string()
            }
            Reach::Http { url, headers } => serde_json::json!(["http", url, headers]).to_string(),
        }
    }

    /// Returns the key under which a sign-in is stored: name and URL in pi's format. Returns `None` for a program, for an entry
    /// with its own `Authorization` header, and for a server of an extension, which must not use the user's sign-in.
    pub fn sign_in_key(&self) -> Option<String> {
        let Reach::Http { url, headers } = &self.reach else { return None };
        let has_own = headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        if has_own || matches!(self.source, Source::Extension(_)) {
            return None;
        }
        Some(format!("mcp__{}|{}", self.name.replace('-', "_"), url::Url::parse(url).ok()?))
    }

    /// Returns the command line or the URL, for display.
    pub fn reach_in_words(&self) -> String {
        match &self.reach {
            Reach::Stdio { command, args, .. } => {
                std::iter::once(command).chain(args).map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            Reach::Http { url, .. } => url.clone(),
        }
    }
}

/// Returns whether a pattern matches a name; `*` matches any characters.
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

/// The valid entries of a file, and the problems of its invalid entries.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    entries: Vec<(String, ServerEntry)>,
    /// One sentence for each problem, with file and server.
    pub problems: Vec<String>,
}

impl Parsed {
    /// Parses a file; `place` is its path for problems.
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

    /// Validates the server that an extension registers.
    ///
    /// # Errors
    ///
    /// Fails when name or entry is invalid.
    pub fn of_extension(extension: &str, name: &str, config: &Value) -> Result<ServerConfig, String> {
        check_name(name)?;
        let entry: ServerEntry = serde_json::from_value(config.clone()).map_err(|error| error.to_string())?;
        check(&entry)?;
        build(name, &entry, Source::Extension(extension.to_owned()))
            .ok_or_else(|| "neither `command` nor `url`; write one of them".to_owned())
    }
}

/// Merges the project's entries into the user's, and returns the servers of the session. Adds invalid entries to `problems`.
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

/// Returns whether two server names are equivalent. Names that differ only in `-` and `_` would give their tools the same names.
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

/// Checks the name of a server.
///
/// # Errors
///
/// Fails for an invalid name; the message states the rule.
pub fn check_name(name: &str) -> Result<(), String> {
    let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    match fits && !name.is_empty() && name.len() <= LONGEST_NAME {
        true => Ok(()),
        false => Err(format!("a server's name has 1 to {LONGEST_NAME} letters, digits, `_` and `-`")),
    }
}

/// Checks an entry.
///
/// # Errors
///
/// Fails for an invalid entry; the message states the correction.
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
            return Err(format!("`type` is {kind}, which does not match `command` or `url`; remove `type`"));
        }
        (Some(kind), ..) => return Err(format!("`type` is {kind:?}; write stdio or http")),
    }
    if let Some(command) = &entry.command
        && (command.trim().is_empty() || command.contains('\0'))
    {
        return Err("`command` is empty; write the name or path of a program".to_owned());
    }
    if let Some(url) = &entry.url {
        let parsed = url::Url::parse(url).map_err(|error| format!("`url`: {error}"))?;
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
            return Err("`url` is not an http or https URL with a host".to_owned());
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("`url` contains credentials; write them into `headers`".to_owned());
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

/// Adds, replaces or removes (`None`) a server in the text of a file, and keeps everything else. Returns the new text, and
/// whether the file had a server with this name.
///
/// # Errors
///
/// Fails when the file is not valid JSON.
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

/// Returns whether a file has an entry for a server.
pub fn names(text: &str, name: &str) -> bool {
    let file: Value = serde_json::from_str(text).unwrap_or_default();
    file["mcpServers"].get(name).is_some()
}

/// Enables or disables a server in the text of a file, and keeps everything else.
///
/// # Errors
///
/// Fails when the file has no such server.
pub fn switch(text: &str, name: &str, enabled: bool) -> Result<String, String> {
    let mut file: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let entry = file.get_mut("mcpServers").and_then(|servers| servers.get_mut(name)).and_then(Value::as_object_mut);
    let entry = entry.ok_or_else(|| format!("it has no server {name:?}"))?;
    // An entry that only modifies the user's entry has to state `"enabled": true`.
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
    fn a_server_is_disabled_and_enabled() {
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
