//! Compares the files, tools and prompts of a server with what the user agreed to.
//!
//! They are pinned at the first use of the server, which is the first time that it answers. Until the user agrees, a changed
//! program is not started, and changed or new tools and prompts are withheld.

use super::{Known, Server, short_digest};
use crate::config::Source;
use crate::connection::Connection;
use crate::pins::{self, Changes, ToolDigests};
use crate::session_port::ProgramStart;
use pijs_hostcall::prompt::shown;
use pijs_protocol::guard;
use rmcp::model::{Prompt, Tool};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of files that are pinned for a program, if it uses fewer at its present start.
const MAX_PROGRAM_FILES: usize = 64;

impl Server {
    /// Returns the key of the pins for a part of the server. The key contains the server's identity, so another program with the
    /// same name has other pins.
    fn pin_key(&self, part: &str) -> String {
        let part = if part.is_empty() { String::new() } else { format!(" {part}") };
        format!("{} {}{part}", self.options.key, short_digest(&self.config.identity()))
    }

    /// Requests consent for a program whose files have changed since its last use. Returns the digests to pin with
    /// [`Server::pin_program`] once the server has answered: files of a program that never answered are not in use.
    pub(super) async fn check_program(
        &self,
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
        cwd: Option<&str>,
    ) -> Result<Option<ToolDigests>, String> {
        if !guard!(McpProgram) {
            return Ok(None);
        }
        let key = self.pin_key("program");
        let session = &self.options.session;
        let is_package = matches!(self.config.source, Source::Extension(_));
        let start = ProgramStart {
            command: command.to_owned(),
            args: args.to_vec(),
            env: env.clone(),
            cwd: cwd.map(str::to_owned),
            bound: self.calls.caller.profile.package_root.clone().filter(|_| is_package),
        };
        let known = session.pins().digests(&key).cloned();
        let now = {
            let (session, known) = (Arc::clone(session), known.clone().unwrap_or_default());
            let finding = tokio::task::spawn_blocking(move || session.program(&start, &known));
            finding.await.map_err(|error| error.to_string())??
        };
        let Some(known) = known else { return Ok(Some(now)) };
        let is_other = |(file, found): &(&String, &String)| !is_agreed(known.get(*file), found);
        let others: Vec<&str> = now.iter().filter(is_other).map(|(file, _)| file.as_str()).collect();
        if !others.is_empty() {
            let name = &self.config.name;
            let has_changed = others.iter().any(|file| known.contains_key(*file));
            let files = shown(&others.join(", "), 400);
            let what =
                if has_changed { "start a program that has changed" } else { "start a program with other files" };
            if !self.request_consent(what.to_owned(), &files).await {
                let why = if has_changed { "its program changed" } else { "its program runs other files than" };
                let since = if has_changed { "since" } else { "when" };
                return Err(format!(
                    "{why} {since} you last used it ({files}); it is started when you agree: start pi at a terminal, or \
                     pi mcp accept {name}"
                ));
            }
            // The user has agreed to these files, whether or not the program works.
            self.pin_program(&now);
        }
        Ok(Some(now))
    }

    /// Pins the files of the program. Files that are pinned and not used this time stay pinned: the server may start in another
    /// folder next time.
    pub(super) fn pin_program(&self, now: &ToolDigests) {
        let key = self.pin_key("program");
        let session = &self.options.session;
        let before = session.pins().digests(&key).cloned();
        let mut pinned = before.clone().unwrap_or_default();
        pinned.extend(now.clone());
        if pinned.len() > MAX_PROGRAM_FILES {
            pinned = now.clone();
        }
        if before.as_ref() != Some(&pinned) {
            session.change_pins(&mut |pins| pins.pin(&key, pinned.clone()));
        }
    }

    /// Fetches the tools and prompts of the server, and withholds those that require consent.
    pub(super) async fn fetch_lists(self: &Arc<Self>, connection: &Connection) -> Result<(), String> {
        let facts = connection.peer();
        let (tools, notes) = match facts.has_tools {
            true => connection.tools().await.map_err(|fault| format!("its tools cannot be listed: {fault}"))?,
            false => Default::default(),
        };
        let prompts = match facts.has_prompts {
            true => connection.prompts().await.ok(),
            false => Some(Vec::new()),
        };
        let withheld = self.withheld_tools(&tools).await;
        let prompts = match prompts {
            Some(prompts) => self.agreed_prompts(prompts).await,
            // A failed listing must not remove the pins of prompts.
            None => Vec::new(),
        };
        let news: Vec<String> = {
            let mut state = self.lock();
            let known = std::mem::take(&mut state.known.notes);
            let news = notes.iter().filter(|note| !known.contains(note)).cloned().collect();
            state.known = Known { facts, tools, prompts, withheld, notes };
            news
        };
        for note in news {
            self.options.session.notice(format!("MCP server {}: {note}", self.config.name));
        }
        Ok(())
    }

    /// Returns the names of tools that are withheld.
    async fn withheld_tools(&self, tools: &[Tool]) -> BTreeSet<String> {
        let digests = tools.iter().map(|tool| (tool.name.to_string(), pins::digest(tool))).collect();
        let described =
            tools.iter().map(|tool| (tool.name.as_ref(), tool.description.as_deref().unwrap_or_default())).collect();
        self.withheld("tools", "", (digests, described)).await
    }

    /// Returns the prompts that are not withheld.
    async fn agreed_prompts(&self, mut prompts: Vec<Prompt>) -> Vec<Prompt> {
        let digests = prompts.iter().map(|prompt| (prompt.name.clone(), pins::digest_of_prompt(prompt))).collect();
        let described = prompts
            .iter()
            .map(|prompt| (prompt.name.as_str(), prompt.description.as_deref().unwrap_or_default()))
            .collect();
        let withheld = self.withheld("prompts", "prompts", (digests, described)).await;
        prompts.retain(|prompt| !withheld.contains(&prompt.name) || !guard!(McpPins));
        prompts
    }

    /// Compares digests with the pinned ones, and requests consent for changed and new items. Returns the names of the items that
    /// are withheld.
    async fn withheld(
        &self,
        kind: &str,
        part: &str,
        (digests, described): (ToolDigests, Vec<(&str, &str)>),
    ) -> BTreeSet<String> {
        let key = self.pin_key(part);
        let session = &self.options.session;
        let Some(changes) = session.pins().compare(&key, &digests) else {
            session.change_pins(&mut |pins| pins.pin(&key, digests.clone()));
            return BTreeSet::new();
        };
        let name = &self.config.name;
        let words = changes.words(kind);
        if !changes.need_consent() {
            if !changes.removed.is_empty() {
                session.notice(format!("MCP server {name} {words}"));
                session.change_pins(&mut |pins| pins.pin(&key, digests.clone()));
            }
            return BTreeSet::new();
        }
        let Changes { added, changed, .. } = changes;
        let is_new = |known: &str| added.iter().chain(&changed).any(|name| name == known);
        let says: Vec<String> = described
            .iter()
            .filter(|(name, _)| is_new(name))
            .map(|(name, description)| format!("{name}: {description}"))
            .collect();
        let what = format!("change its {kind}: it {}", shown(&words, 400));
        if self.request_consent(what, &says.join(" | ")).await {
            session.change_pins(&mut |pins| pins.pin(&key, digests.clone()));
            return BTreeSet::new();
        }
        let problem = format!(
            "it {}; these are left out until you agree: start pi at a terminal, or pi mcp accept {name}",
            shown(&words, 400)
        );
        session.notice(format!("MCP server {name}: {problem}"));
        self.note(Some(&problem));
        added.into_iter().chain(changed).collect()
    }

    async fn request_consent(&self, what: String, subject: &str) -> bool {
        match self.calls.dispatcher() {
            Ok(dispatcher) => dispatcher.gate().consult_change(&self.calls.caller, "mcp", what, subject).await,
            Err(_) => false,
        }
    }
}

/// Returns whether a file has the pinned digest; its stamp may differ.
fn is_agreed(known: Option<&String>, found: &str) -> bool {
    let digest = |text: &str| text.split(' ').next().map(str::to_owned);
    known.is_some_and(|known| digest(known) == digest(found))
}
