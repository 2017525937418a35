//! Offers tools and prompts of servers to the agent.

use super::{McpSession, command};
use pijs_agent::{AgentControl, CommandFate, ExtensionTool, ToolFate, ToolRun, ToolSource};
use pijs_hostcall::CancelToken;
use pijs_mcp::Servers;
use pijs_mcp::config::Exposure;
use pijs_mcp::results::{self, McpContent};
use pijs_mcp::server::{ServerPrompt, ServerTool, Status, extension_of};
use pijs_protocol::ExtensionId;
use pijs_terminal::counted;
use pijs_tools::system::{OsToolSystem, ToolSystem};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

/// Tool that searches for tools outside of the prompt.
const SEARCH: &str = "tool_search";
/// Tools that read resources, each with its operation.
const RESOURCE_TOOLS: [(&str, &str); 3] = [
    ("list_mcp_resources", "list_resources"),
    ("list_mcp_resource_templates", "list_resource_templates"),
    ("read_mcp_resource", "read_resource"),
];
/// Maximum number of results of one search.
const MAX_FOUND: usize = 20;

/// Tools and prompts of servers, for the agent.
pub(super) struct McpTools {
    pub(super) session: Rc<McpSession>,
    pub(super) servers: Servers,
    pub(super) system: Arc<OsToolSystem>,
    pub(super) control: AgentControl,
    /// Tools that a search has found, which are listed to the model from then on.
    pub(super) found: RefCell<BTreeSet<String>>,
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
            results::of_tool(&tool.server, result).ok_or_else(|| "the server sent an invalid response".to_owned())
        });
        match answer {
            Ok(answer) => self.told(answer, &tool.server, tool_call_id).await,
            Err(message) => ToolFate::Threw(message),
        }
    }

    /// Converts an answer for the model: long text is spilled to a file.
    async fn told(&self, mut answer: McpContent, server: &str, id: &str) -> ToolFate {
        if let Some(whole) = answer.cut() {
            let plain: String = id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(40).collect();
            match self.system.keep(format!("pi-mcp-{plain}"), whole.into_bytes()).await {
                Ok(path) => answer.name_file(&path.display().to_string()),
                Err(error) => answer.name_file(&format!("not stored: {error}")),
            }
        }
        if answer.is_error {
            let text = answer.text();
            return ToolFate::Threw(if text.is_empty() {
                "the tool failed without a message".to_owned()
            } else {
                text
            });
        }
        ToolFate::Returned(json!({"content": answer.blocks, "details": {"server": server}}))
    }

    async fn search(&self, input: &Value) -> ToolFate {
        // A starting server may have a match.
        let _ = self.servers.settled().await;
        let query = input.get("query").and_then(Value::as_str).unwrap_or_default();
        let limit =
            input.get("limit").and_then(Value::as_u64).map_or(8, |limit| usize::try_from(limit).unwrap_or(MAX_FOUND));
        let tools = self.servers.tools();
        let found =
            ranked(query, tools.iter().filter(|tool| tool.exposure != Exposure::Direct), limit.clamp(1, MAX_FOUND));
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
                results::of_resource(result).ok_or_else(|| "the server sent an invalid response".to_owned())
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
        let answer = McpContent { blocks: vec![json!({"type": "text", "text": text.to_string()})], is_error: false };
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
        // Text of a server is never run as a command. Its author has no grants, not even those of the server.
        let author = ExtensionId::new(format!("{}/@prompts", extension_of(&prompt.server)));
        self.control.send_text_of(&author, text).map_err(|error| error.to_string())
    }
}

impl ToolSource for McpTools {
    fn tools(&self) -> Vec<ExtensionTool> {
        let all = self.servers.tools();
        let is_deferred = self.servers.has_deferred();
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
                return self.search(&call.input).await;
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

    fn hostcalls(&self, name: &str, input: &Value) -> Option<Vec<Value>> {
        if name == SEARCH {
            return Some(Vec::new());
        }
        if let Some((_, op)) = RESOURCE_TOOLS.iter().find(|(known, _)| *known == name) {
            let named = input.get("server").and_then(Value::as_str).map(str::to_owned);
            let servers = named.map_or_else(|| self.servers.with_resources(), |server| vec![server]);
            let call = |server: String| json!({"op": op, "target": format!("{server}/@resources"), "uri": input.get("uri").unwrap_or(&Value::Null)});
            return Some(servers.into_iter().map(call).collect());
        }
        let tool = self.servers.tools().into_iter().find(|tool| tool.name == name)?;
        Some(vec![json!({"op": "call", "target": tool.target(), "arguments": input})])
    }

    fn deferred(&self) -> Vec<String> {
        let tools = self.servers.tools().into_iter().filter(|tool| !self.is_told(tool));
        tools.map(|tool| tool.name).collect()
    }

    fn prompt_sections(&self) -> Map<String, Value> {
        let section = servers_section(self.servers.deferred());
        section.map(|text| ("mcp_servers".to_owned(), json!(text))).into_iter().collect()
    }

    fn commands(&self) -> Vec<(String, String)> {
        let prompts = self.servers.prompts().into_iter().map(|prompt| (prompt.name, prompt.description));
        prompts.chain(command::listed(&self.session)).collect()
    }

    fn run_command<'a>(&'a self, name: &'a str, args: &'a str) -> Local<'a, CommandFate> {
        Box::pin(async move {
            if name == command::NAME {
                command::run(&self.session, args).await;
                return CommandFate::Done;
            }
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

/// Maximum number of characters of the section.
const MAX_SECTION: usize = 4096;
/// Maximum number of characters of one server's description in the section.
const MAX_SUMMARY: usize = 250;

/// Writes the section `mcp_servers` of the system prompt, as in pi 1.5: the servers whose tools can be searched for. It contains
/// only descriptions from `mcp.json`, never text of a server.
fn servers_section(mut listed: Vec<(String, Option<String>)>) -> Option<String> {
    listed.sort();
    let mut text =
        "MCP servers whose tools are not declared to you. Load the tools of `tool_search` servers with `tool_search`."
            .to_owned();
    let count = listed.len();
    for (at, (name, description)) in listed.into_iter().enumerate() {
        let mut line = format!("\n- mcp__{} (tool_search)", name.replace('-', "_"));
        let summary =
            description.as_deref().and_then(|text| text.trim().lines().next().map(str::trim_end)).unwrap_or_default();
        if !summary.is_empty() {
            line.push_str(&format!(": {}", pijs_mcp::names::visible(summary, MAX_SUMMARY)));
        }
        if text.len() + line.len() > MAX_SECTION {
            let more = counted(count - at, "more server");
            text.push_str(&format!("\n- … {more}; find their tools with tool_search"));
            break;
        }
        text.push_str(&line);
    }
    (count > 0).then_some(text)
}

/// Parses the arguments of a prompt: one word for each, and the remaining text for the last.
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
            "limit": {"type": "integer", "description": "Maximum number of tools to find", "minimum": 1, "maximum": MAX_FOUND},
        }, "required": ["query"]}),
        ..plain_tool(SEARCH)
    }
}

fn resource_tool(name: &str) -> ExtensionTool {
    let server = json!({"type": "string", "description": "Name of the server; all servers if omitted"});
    let cursor = json!({"type": "string", "description": "nextCursor of the previous page; requires `server`"});
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

/// Ranks tools by their overlap with a query: a word weighs more the fewer tools contain it, and twice in a name.
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
    // Equal scores keep the order of the servers.
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
    fn prompt_lists_servers_with_searchable_tools() {
        let server = |name: &str, text: &str| (name.to_owned(), Some(text.to_owned()).filter(|text| !text.is_empty()));
        let text = servers_section(vec![server("z-z", ""), server("docs", " Search the docs \nand more")]);
        let expected = "MCP servers whose tools are not declared to you. Load the tools of `tool_search` servers with `tool_search`.\n- mcp__docs (tool_search): Search the docs\n- mcp__z_z (tool_search)";
        assert_eq!(text.as_deref(), Some(expected));
        assert_eq!(servers_section(Vec::new()), None);
        let many = servers_section((0..64).map(|at| server(&format!("s{at}"), &"x".repeat(400))).collect());
        assert!(many.is_some_and(|text| text.len() < MAX_SECTION + 100 && text.contains("more servers")));
    }

    #[test]
    fn words_after_a_prompt_are_its_arguments() {
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
    fn progress_is_formatted_as_one_line() {
        assert_eq!(progress_line(&json!({"progress": 1.0, "total": 4.0, "message": "reading"})), "1 of 4 reading");
        assert_eq!(progress_line(&json!({"progress": 2.5})), "2.5");
    }
}
