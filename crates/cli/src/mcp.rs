//! `pi mcp ...`: manages the servers of `mcp.json`.

use crate::args::{McpAddArgs, McpCommand};
use crate::output::{clean, stderr, stdout};
use crate::packages::loadable;
use crate::terminal::Terminal;
use pijs_durable::{Disk, Replace};
use pijs_environment::SystemTimer;
use pijs_mcp::config::{self, Reach, ServerConfig, ServerEntry, Source};
use pijs_mcp::server::{Phase, Status};
use pijs_packages::PackageEntry;
use pijs_runtime::grant_file::GrantFile;
use pijs_runtime::trust::Trust;
use pijs_runtime::{
    Environment, Interface, Permissions, Result, UserError, mcp, mcp_commands, mcp_config, similar_names,
};
use pijs_terminal::counted;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs one `pi mcp` command.
pub(crate) async fn run(environment: &Environment, command: McpCommand) -> Result<()> {
    match command {
        McpCommand::Add(args) => add(environment, *args),
        McpCommand::Remove { name, local } => remove(environment, &name, local),
        McpCommand::List { probe: true, json } => probe(environment, json).await,
        McpCommand::List { probe: false, json } => list(environment, json),
        McpCommand::Accept { name } => accept(environment, &name),
        McpCommand::Login { name } => login(environment, &name).await,
        McpCommand::Logout { name } => logout(environment, &name),
    }
}

fn file(environment: &Environment, local: bool) -> PathBuf {
    if local { mcp_config::project_file(environment) } else { mcp_config::user_file(environment) }
}

fn add(environment: &Environment, args: McpAddArgs) -> Result<()> {
    let usage = |problem: String| UserError::usage(format!("{}: {problem}", clean(&args.name)));
    config::check_name(&args.name).map_err(usage)?;
    let (program, rest) = match args.command.split_first() {
        Some((program, rest)) => (Some(program.clone()), rest.to_vec()),
        None => (None, Vec::new()),
    };
    if program.is_none() && args.url.is_none() {
        return Err(usage("neither a program nor an address".to_owned())
            .help("write: pi mcp add NAME -- COMMAND ARGS..., or pi mcp add NAME --url URL"));
    }
    let pairs = |given: &[String]| -> Result<Option<BTreeMap<String, String>>> {
        let pair = |text: &String| match text.split_once('=').filter(|(name, _)| !name.is_empty()) {
            Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
            None => Err(UserError::usage(format!("{}: not NAME=VALUE", clean(text)))),
        };
        let pairs = given.iter().map(pair).collect::<Result<BTreeMap<_, _>>>()?;
        Ok((!pairs.is_empty()).then_some(pairs))
    };
    let mut headers = pairs(&args.header)?;
    if let Some(variable) = &args.bearer_token_env_var {
        headers.get_or_insert_default().insert("Authorization".to_owned(), format!("Bearer ${{{variable}}}"));
    }
    let entry = ServerEntry {
        command: program,
        args: (!rest.is_empty()).then_some(rest),
        env: pairs(&args.env)?,
        cwd: args.cwd,
        url: args.url,
        headers,
        timeout: args.timeout,
        exposure: args.exposure.map(|word| serde_json::from_value(json!(word)).expect("clap accepts only these words")),
        description: args.description,
        ..ServerEntry::default()
    };
    config::check(&entry).map_err(usage)?;
    let path = file(environment, args.local);
    let replaced = edit(&path, &args.name, Some(&entry))?;
    let verb = if replaced { "replaced" } else { "added" };
    stderr(&clean(&format!("{verb} {} in {}; try it: pi mcp list --probe", args.name, path.display())));
    if args.local && !Trust::read(environment)?.covers(&environment.dirs.cwd) {
        stderr("note: this folder is not trusted, so its servers are not used; trust it with: pi trust");
    }
    if !args.local
        && let Some(note) = relative_note(environment, &entry)?
    {
        stderr(&clean(&note));
    }
    warn_of_replacing(environment);
    Ok(())
}

/// Explains the start folder of a program of the user's file whose command line names files of this folder. Returns `None` if the
/// entry names none, or has a folder of its own.
fn relative_note(environment: &Environment, entry: &ServerEntry) -> Result<Option<String>> {
    let (Some(command), None) = (&entry.command, &entry.cwd) else { return Ok(None) };
    let cwd = &environment.dirs.cwd;
    let is_program = command.contains('/') && Path::new(command).is_relative();
    let arguments = entry.args.iter().flatten().filter(|word| !word.starts_with('-'));
    let is_here = |word: &&String| Path::new(word).is_relative() && cwd.join(word).exists();
    let words: Vec<&String> = arguments.filter(is_here).chain(Some(command).filter(|_| is_program)).collect();
    let Some(word) = words.first() else { return Ok(None) };
    let here = match Trust::read(environment)?.covers(cwd) {
        true => "a server starts in the folder of the session".to_owned(),
        false => format!(
            "a server starts in your home folder, {}, because this folder is not trusted (pi trust), and in the folder of the session once it is",
            environment.dirs.home.display()
        ),
    };
    Ok(Some(format!(
        "note: `{word}` is relative: {here}. To start the server here in every session, add it with --cwd {}",
        cwd.display()
    )))
}

/// Warns that a session does not use the servers of `mcp.json`, if an extension replaces the built-in support.
fn warn_of_replacing(environment: &Environment) {
    for id in replacing(environment) {
        stderr(&clean(&format!(
            "warning: the extension {id} registers /mcp and connects MCP servers itself, so sessions do not use {}. To use it, run: \
             pi remove {id}. Or move entries into .mcp.json of the project, with keys as ${{NAME}}",
            config::FILE_NAME
        )));
    }
}

/// Maximum size of an entry that is searched, in bytes.
const MAX_ENTRY: u64 = 4 << 20;

/// Returns the extensions of a session here that replace the built-in support, as far as the text of their entries shows it.
/// Building them would take longer than the command.
fn replacing(environment: &Environment) -> Vec<String> {
    let replaces = |package: &PackageEntry| {
        let texts = package.entries.iter().filter_map(|entry| Disk::system().read(entry, MAX_ENTRY).ok().flatten());
        texts.into_iter().any(|text| registers(&String::from_utf8_lossy(&text), mcp::COMMAND))
    };
    loadable(environment).iter().filter(|package| replaces(package)).map(|package| package.id.to_string()).collect()
}

/// Returns whether a text calls `registerCommand`, or a function of such a name (`registerMcpCommand`), with a command as its
/// first argument.
fn registers(text: &str, command: &str) -> bool {
    const QUOTES: [char; 3] = ['"', '\'', '`'];
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    text.match_indices("Command(").any(|(at, call)| {
        let function = text[..at].rsplit(|c| !is_name(c)).next().unwrap_or_default();
        let first = text[at + call.len()..].trim_start().strip_prefix(QUOTES);
        let rest = first.and_then(|first| first.strip_prefix(command));
        function.starts_with("register") && rest.is_some_and(|rest| rest.starts_with(QUOTES))
    })
}

fn remove(environment: &Environment, name: &str, local: bool) -> Result<()> {
    let path = file(environment, local);
    let grants = recorded(environment, name, local)?;
    let text = mcp_config::read(&path)?;
    let is_there = text.is_some() && edit(&path, name, None)?;
    if !is_there {
        let message = format!("{}: no server of this name in {}", clean(name), path.display());
        let other = if local { "without --local" } else { "with --local" };
        let meant = meant(environment, name).unwrap_or_default();
        let help = format!("{meant}pi mcp list shows what there is; try {other} for the other file");
        return Err(UserError::failed(message).help(help));
    }
    let kept = match grants {
        Some(key) => format!("; its grants are kept; to revoke them: pi ext grants revoke '{key}'"),
        None => String::new(),
    };
    stderr(&clean(&format!("removed {name} from {}{kept}", path.display())));
    Ok(())
}

/// Returns the key under which answers about a server of a file are recorded, if there are any.
fn recorded(environment: &Environment, name: &str, local: bool) -> Result<Option<String>> {
    let key = match local {
        true => format!("mcp:{}#{name}", environment.dirs.cwd.display()),
        false => format!("mcp:{name}"),
    };
    let book = GrantFile::new(environment, Arc::new(SystemTimer::new())).read()?;
    Ok(book.packages.get(&key).filter(|record| !record.answers.is_empty()).map(|_| key))
}

/// Adds, replaces or removes a server in a file; returns whether the file had a server with this name.
fn edit(path: &Path, name: &str, entry: Option<&ServerEntry>) -> Result<bool> {
    let text = mcp_config::read(path)?;
    let (text, had) = config::edit(text.as_deref(), name, entry).map_err(|problem| {
        UserError::failed(format!("{}: {problem}", path.display())).help("correct the file first")
    })?;
    let disk = Disk::system();
    let folder = path.parent().unwrap_or(path);
    disk.create_dirs(folder)
        .and_then(|()| disk.replace(path, text.as_bytes(), Replace::STATE))
        .map_err(|error| UserError::failed(format!("{} cannot be written: {error}", path.display())))?;
    Ok(had)
}

fn source(server: &Source) -> &str {
    match server {
        Source::User => "user",
        Source::Project => "project",
        Source::Extension(extension) => extension,
    }
}

/// Returns the servers in the form of `pi ext list --json` and `pi mcp list --json`, without starting any.
pub(crate) fn documents(environment: &Environment) -> Result<Vec<Value>> {
    let (servers, problems) = mcp_config::servers(environment)?;
    problems.iter().for_each(|problem| stderr(&clean(&format!("warning: {problem}"))));
    Ok(servers.iter().map(|server| document(environment, server)).collect())
}

/// Returns the servers of a package's manifest, in the form of [`documents`].
pub(crate) fn documents_of(environment: &Environment, package: &PackageEntry) -> Vec<Value> {
    let (servers, problems) = match package.loose_file() {
        Some(_) => Default::default(),
        None => mcp_config::servers_of_package(package.id.as_str(), (&package.root, &package.manifest)),
    };
    problems.iter().for_each(|problem| stderr(&clean(&format!("warning: {}: {problem}", package.id))));
    let shown = |server: &ServerConfig| {
        let mut shown = document(environment, server);
        shown["origin"] = json!(package.id);
        shown
    };
    servers.iter().map(shown).collect()
}

fn document(environment: &Environment, server: &ServerConfig) -> Value {
    let kind = match server.reach {
        Reach::Stdio { .. } => "stdio",
        Reach::Http { .. } => "http",
    };
    json!({
        "id": format!("mcp:{}", server.name), "name": server.name, "origin": format!("mcp.json ({})", source(&server.source)),
        "type": kind, "reach": mcp::redactor_of(server).text(&server.reach_in_words()), "enabled": server.enabled, "exposure": server.exposure,
        "problem": mcp::problem_of(environment, server),
    })
}

/// Returns one server in the form of `pi ext list` and `pi mcp list`.
pub(crate) fn line(server: &Value) -> String {
    let text = |key: &str| server.get(key).and_then(Value::as_str);
    let mut line = format!(
        "{}  {}, {}",
        text("id").unwrap_or_default(),
        text("type").unwrap_or_default(),
        text("origin").unwrap_or_default()
    );
    if server.get("enabled") == Some(&json!(false)) {
        line.push_str(", switched off");
    }
    line.push_str(&format!("\n  {}", text("reach").unwrap_or_default()));
    if let Some(state) = text("state") {
        let count = |key: &str| server.get(key).and_then(Value::as_array).map_or(0, Vec::len);
        line.push_str(&format!("\n  {state}, {}", counted(count("tools"), "tool")));
        if count("withheld") > 0 {
            line.push_str(&format!(", {} left out until you agree", count("withheld")));
        }
    }
    if let Some(problem) = text("problem") {
        line.push_str(&format!("\n  problem: {problem}"));
    }
    line
}

fn list(environment: &Environment, as_json: bool) -> Result<()> {
    let servers = documents(environment)?;
    show(&servers, as_json);
    if !servers.is_empty() {
        warn_of_replacing(environment);
    }
    Ok(())
}

fn show(servers: &[Value], as_json: bool) {
    if as_json {
        stdout(&Value::from(servers.to_vec()).to_string());
        return;
    }
    servers.iter().for_each(|server| stdout(&clean(&line(server))));
    if servers.is_empty() {
        stderr("no MCP servers; add one with: pi mcp add NAME -- COMMAND ARGS..., or pi mcp add NAME --url URL");
    }
}

/// `pi mcp list --probe`: starts each server, and fails if an enabled one does not respond.
async fn probe(environment: &Environment, as_json: bool) -> Result<()> {
    let can_ask = environment.stdin_is_terminal && environment.stderr_is_terminal;
    let prompter = can_ask.then(|| Arc::new(Terminal::default()) as _);
    let interface = Interface { prompter, ..Interface::default() };
    let statuses = mcp_commands::probe(environment, Permissions::default(), interface).await?;
    let (servers, problems) = mcp_config::servers(environment)?;
    let shown: Vec<Value> = servers
        .iter()
        .map(|server| {
            let mut document = document(environment, server);
            if let Some(status) = statuses.iter().find(|status| status.name == server.name) {
                add_status(&mut document, status);
            }
            document
        })
        .collect();
    show(&shown, as_json);
    if !shown.is_empty() {
        warn_of_replacing(environment);
    }
    let down = |status: &&Status| status.enabled && status.phase != Phase::Open;
    match statuses.iter().filter(down).count() + problems.len() {
        0 => Ok(()),
        1 => Err(UserError::failed("one server does not answer, or its entry is wrong")),
        count => Err(UserError::failed(format!("{count} servers do not answer, or their entries are wrong"))),
    }
}

fn add_status(document: &mut Value, status: &Status) {
    document["state"] = json!(status.phase.word());
    document["protocol"] = json!(status.protocol);
    document["tools"] = json!(status.tools);
    document["withheld"] = json!(status.withheld);
    document["notes"] = json!(status.notes);
    document["description"] = json!(status.summary);
    if status.problem.is_some() {
        document["problem"] = json!(status.problem);
    }
}

fn find(environment: &Environment, name: &str) -> Result<ServerConfig> {
    let (servers, _) = mcp_config::servers(environment)?;
    servers.into_iter().find(|server| server.name == name).ok_or_else(|| {
        let meant = meant(environment, name).unwrap_or_default();
        UserError::failed(format!("{}: no MCP server of this name", clean(name)))
            .help(format!("{meant}pi mcp list shows them"))
    })
}

/// Asks whether the user meant a server with a similar name.
fn meant(environment: &Environment, name: &str) -> Option<String> {
    let (servers, _) = mcp_config::servers(environment).ok()?;
    let near = similar_names(name, servers.iter().map(|server| server.name.as_str()), str::to_owned)?;
    Some(format!("did you mean {near}? "))
}

fn accept(environment: &Environment, name: &str) -> Result<()> {
    let server = find(environment, name)?;
    stderr(&clean(&match mcp::accept_tools(environment, &server)? {
        true => format!("{name}: the tools of its next start will be accepted"),
        false => format!("{name}: none of its tools were known; the tools of its next start will be accepted"),
    }));
    Ok(())
}

async fn login(environment: &Environment, name: &str) -> Result<()> {
    let server = find(environment, name)?;
    let can_ask = environment.stdin_is_terminal && environment.stderr_is_terminal;
    let prompter = can_ask.then(|| Arc::new(Terminal::default()) as _);
    let (sender, pasted) = tokio::sync::mpsc::unbounded_channel();
    let show = move |page: &str, issuer: &str| {
        stderr(&clean(&format!("sign in at {issuer}: open this page in your browser")));
        stderr(&clean(&format!("  {page}")));
        if can_ask {
            stderr("if the browser cannot connect to this machine, paste the address of its last page:");
            read_lines(sender.clone());
        }
    };
    let interface = Interface { prompter, ..Interface::default() };
    mcp_commands::login(environment, &server, mcp_commands::LoginInterface { show: Box::new(show), pasted, interface })
        .await?;
    stderr(&clean(&format!("signed in to {name}; in a running session, type: /mcp reconnect {name}")));
    Ok(())
}

/// Forwards the user's lines until the program exits, because a read of a terminal cannot be cancelled.
fn read_lines(to: tokio::sync::mpsc::UnboundedSender<String>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(std::result::Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
}

fn logout(environment: &Environment, name: &str) -> Result<()> {
    let server = find(environment, name)?;
    stderr(&clean(&match mcp_commands::logout(environment, &server)? {
        true => format!("signed out of {name}: its tokens are deleted here"),
        false => format!("{name}: not signed in"),
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_that_registers_the_command_is_found_by_its_text() {
        for text in ["pi.registerCommand('mcp', {})", "  registerMcpCommand(\n\"mcp\");", "a.registerCommand(`mcp`"] {
            assert!(registers(text, "mcp"), "{text}");
        }
        for text in ["pi.registerCommand('mcp-auth', {})", "pi.registerTool('mcp')", "runCommand('mcp')", "x('mcp')"] {
            assert!(!registers(text, "mcp"), "{text}");
        }
    }
}
