//! Handles user input: prompts, `!commands`, slash commands and shortcuts.

use super::events::{self, BashEnding};
use super::picker::ListKind;
use super::port::TuiPort;
use super::screen::Screen;
use super::selections::model_name;
use super::show_session;
use super::task::UiTask;
use super::transcript::Style;
use pijs_agent::{DeliverAs, Ending, InputSource, Outcome};
use pijs_host::CallbackOutcome;
use pijs_hostcall::CommandLimits;
use pijs_llm::message::{Content, Message, StopReason};
use pijs_llm::provider::one_line;
use pijs_protocol::{ExtensionId, guard};
use pijs_runtime::AgentSession;
use pijs_runtime::Environment;
use pijs_runtime::similar_names;
use pijs_terminal::counted;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tokio_util::sync::CancellationToken;

/// Built-in slash commands with their descriptions.
pub(super) const OWN: [(&str, &str); 24] = [
    ("model", "choose the model, or set it with /model PROVIDER/ID"),
    ("scoped-models", "choose the models that ctrl+p cycles through"),
    ("thinking", "choose the thinking level"),
    ("new", "start an empty session"),
    ("resume", "open another session of this folder"),
    ("tree", "go to another entry of this session"),
    ("fork", "start a session from an earlier prompt"),
    ("clone", "continue in a copy of this session"),
    ("compact", "summarise the conversation, with optional instructions"),
    ("name", "name the session"),
    ("session", "show the session's file and size"),
    ("import", "open a copy of a session's file: /import FILE.jsonl"),
    ("export", "write the session to a file: /export [FILE.html, FILE.md or FILE.jsonl]"),
    ("copy", "copy the last reply to the clipboard"),
    ("settings", "change settings for this session"),
    ("theme", "choose the theme of extensions"),
    ("tools", "list the tools of the model"),
    ("reload", "reload extensions, skills and prompts"),
    ("hotkeys", "list the keys"),
    ("help", "list the commands"),
    ("trust", "show how to trust this folder"),
    ("login", "log in with a provider, or store its key"),
    ("logout", "remove the login or key of a provider"),
    ("quit", "close the session and leave"),
];

/// Commands of [`OWN`] that access the user's files and credentials outside of the session.
const REACHING: [&str; 3] = ["export", "import", "logout"];

/// Commands of pi that do not exist here, each with an alternative.
const ELSEWHERE: [(&str, &str); 3] = [
    ("share", "PiJS does not upload sessions; export one with /export FILE.md and share the file"),
    ("bug", "PiJS does not send reports; export the session with /export FILE.jsonl and attach it to yours"),
    ("changelog", "see CHANGELOG.md of the release"),
];

/// Commands of [`OWN`] that pi does not have; an extension's command with the same name has precedence.
const BESIDE_PI: [&str; 3] = ["help", "theme", "tools"];

/// Keys with their descriptions.
const KEYS: [(&str, &str); 19] = [
    ("enter", "send the prompt, or steer the model during a run"),
    ("alt+enter", "send the prompt at the end of the run"),
    ("alt+up", "edit the queued messages"),
    ("ctrl+j, shift+enter, \\ enter", "new line"),
    ("ctrl+g", "edit the prompt in your editor"),
    ("ctrl+-, ctrl+y", "undo, insert the text cut last"),
    ("escape", "interrupt; twice: the tree of the session"),
    ("ctrl+c", "clear; twice: quit"),
    ("ctrl+d", "quit, when the editor is empty"),
    ("ctrl+z", "suspend"),
    ("tab", "complete"),
    ("up, down", "earlier prompts"),
    ("pageup, pagedown", "scroll"),
    ("ctrl+l", "choose the model"),
    ("ctrl+p, ctrl+shift+p", "next model, previous model"),
    ("shift+tab", "next thinking level"),
    ("ctrl+t", "show or hide thinking"),
    ("ctrl+o", "expand or fold results"),
    ("ctrl+x", "copy the last reply to the clipboard"),
];

/// Handler of user input for one session.
pub(super) struct UserCommands {
    pub(super) session: Rc<AgentSession>,
    pub(super) screen: Screen,
    pub(super) port: TuiPort,
    pub(super) environment: Environment,
    /// Problems with themes that were already reported.
    pub(super) theme_problems: RefCell<BTreeSet<String>>,
    /// Running shell commands by number.
    shells: RefCell<BTreeMap<u64, CancellationToken>>,
    shell: Cell<u64>,
    /// A message that resembles a command but is not one. Entering it again sends it to the model.
    held_back: RefCell<Option<String>>,
}

impl UserCommands {
    pub(super) fn new(session: Rc<AgentSession>, screen: Screen, port: TuiPort, environment: Environment) -> Self {
        Self {
            session,
            screen,
            port,
            environment,
            theme_problems: RefCell::default(),
            shells: RefCell::default(),
            shell: Cell::new(0),
            held_back: RefCell::default(),
        }
    }

    /// Starts a task that runs concurrently with later ones.
    pub(super) fn take(self: &Rc<Self>, work: UiTask) {
        let commands = Rc::clone(self);
        tokio::task::spawn_local(async move {
            match work {
                UiTask::Say { text, later, by } => {
                    commands.say(&text, later, by).await;
                    // Extensions may have been reloaded.
                    commands.publish();
                }
                UiTask::Abort => commands.abort(),
                UiTask::Shortcut(key) => commands.shortcut(&key).await,
                UiTask::Complete(request) => commands.complete(request).await,
                UiTask::Suggest { number, request, below } => commands.suggest(number, request, below).await,
                UiTask::Apply { provider, request, item, prefix } => {
                    commands.apply(provider, request, item, prefix).await;
                }
                UiTask::CycleThinking => commands.cycle_thinking(),
                UiTask::CycleModel { back } => commands.cycle_model(back).await,
                UiTask::Pick(choice) => commands.pick(choice),
                UiTask::Picked(choice, value) => commands.picked(choice, &value).await,
                UiTask::Copy => commands.copy(),
                UiTask::Entered { provider, key } => commands.store_key(&provider, &key).await,
                UiTask::EditOutside => commands.edit_outside().await,
                UiTask::Unqueue => commands.unqueue(),
                UiTask::Expanded(expanded) => commands.session.host.set_state("toolsExpanded", expanded),
                // All other work is handled before it arrives here.
                _ => {}
            }
        });
    }

    /// Runs the prompts of the command line, one after another.
    pub(super) fn begin(self: &Rc<Self>, prompts: Vec<Content>) {
        let commands = Rc::clone(self);
        tokio::task::spawn_local(async move {
            for prompt in prompts {
                match prompt {
                    Content::Text(text) => commands.say(&text, false, None).await,
                    prompt => commands.submit(prompt).await,
                }
                commands.publish();
            }
        });
    }

    /// Lists the loaded extensions and resources, for `--verbose`.
    pub(super) fn say_what_is_loaded(&self) {
        let registered = self.session.host.registrations();
        let mut lines: Vec<String> = registered.iter().map(|(owner, _)| format!("extension: {}", owner.path)).collect();
        lines.extend(self.session.agent.resource_files().iter().map(|(kind, path)| format!("{kind}: {path}")));
        self.inform(&if lines.is_empty() {
            "no extensions or resources are loaded".to_owned()
        } else {
            lines.join("\n")
        });
    }

    /// Publishes the current model to the status row, and updates the shortcuts of extensions.
    pub(super) fn publish(&self) {
        let control = self.session.agent.control();
        let (model, thinking) = (control.model(), control.thinking());
        let (shortcuts, warnings) = pijs_runtime::keys::shortcuts(&self.session.host);
        let compacts = self.session.agent.settings().compaction.enabled;
        let transforms = !pijs_runtime::renderers::Renderer::of_markdown(&self.session.host).is_empty();
        self.screen.change(|view| {
            // Problems with shortcuts are reported when the bindings change, not after each prompt.
            if view.keys.set_shortcuts(shortcuts, warnings.clone()) {
                warnings.iter().for_each(|warning| view.say(Style::Warning, warning));
            }
            view.session.has_begun = true;
            if let Some(model) = model {
                match model.is_unknown() {
                    true => view.session.model.name = "no model".to_owned(),
                    false => view.session.set_model(&model_name(&model.provider, &model.id)),
                }
            }
            view.session.model.thinking = thinking;
            view.session.footer.compacts = compacts;
            view.conversation.transcript.transforms = transforms;
            view.session.branch = super::surroundings::branch(&self.session.cwd);
        });
        self.port.publish_footer();
    }

    /// Aborts the run and running shell commands. Moves queued messages back into the editor.
    fn abort(&self) {
        for shell in self.shells.borrow().values() {
            shell.cancel();
        }
        self.session.agent.abort_retry();
        let waiting = self.take_waiting();
        self.session.agent.control().abort();
        // Commands and hooks outside of a run stop as well.
        self.session.host.limit_waits_after_abort();
        self.put_into_editor(&waiting);
        if !waiting.is_empty() {
            self.inform("the queued messages are back in the editor");
        }
    }

    fn unqueue(&self) {
        let waiting = self.take_waiting();
        self.put_into_editor(&waiting);
    }

    fn take_waiting(&self) -> String {
        let (steering, follow_up) = self.session.agent.control().clear_waiting();
        self.screen.change(|view| view.conversation.queued.clear());
        [steering, follow_up].concat().join("\n\n")
    }

    /// Inserts a message before the text in the editor.
    pub(super) fn put_into_editor(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        let work = self.screen.change(|view| view.put_back(text));
        work.into_iter().for_each(|work| self.screen.ask(work));
    }

    /// Returns the commands most similar to a name, formatted for a message. Includes built-in commands and those of extensions,
    /// skills and prompts.
    fn similar_commands(&self, name: &str) -> Option<String> {
        let offered = self.session.host.state().get("commands").unwrap_or_default();
        let offered = offered.as_array().into_iter().flatten().filter_map(|command| command["name"].as_str());
        let known: Vec<&str> = OWN.iter().map(|(own, _)| *own).chain(offered).collect();
        let is_one = known.contains(&name);
        similar_names(name, known, |known| format!("/{known}")).filter(|_| !is_one)
    }

    async fn say(&self, text: &str, later: bool, by: Option<ExtensionId>) {
        let trimmed = text.trim();
        if let Some(command) = trimmed.strip_prefix('!') {
            let mut limits = CommandLimits::default();
            if let Some(by) = by {
                let plain = command.strip_prefix('!').unwrap_or(command).trim();
                match self.session.host.lets_run(&by, plain).await {
                    Some(restricted) => limits = restricted,
                    None => return self.inform(&format!("not run: {by} wrote this command")),
                }
            }
            return self.bash(command, limits).await;
        }
        if let Some(line) = trimmed.strip_prefix('/') {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            let gives_way = BESIDE_PI.contains(&name) && self.is_command(trimmed);
            if OWN.iter().any(|(own, _)| *own == name) && !gives_way {
                if let Some(by) = by.filter(|_| REACHING.contains(&name) && !rest.trim().is_empty())
                    && guard!(TuiOwnCommand)
                    && !self.session.host.lets_command(&by, trimmed).await
                {
                    return self.inform(&format!("not done: {by} wrote this command"));
                }
                return self.run_builtin(name, rest.trim()).await;
            }
            if let Some((_, instead)) = ELSEWHERE.iter().find(|(elsewhere, _)| *elsewhere == name)
                && !self.is_command(trimmed)
            {
                return self.inform(instead);
            }
            if by.is_none()
                && !self.is_command(trimmed)
                && let Some(meant) = self.similar_commands(name)
                && self.held_back.replace(Some(trimmed.to_owned())).as_deref() != Some(trimmed)
            {
                // The editor stays empty for the correction. The history has the typed text.
                return self.inform(&format!(
                    "no command /{name}; did you mean {meant}? To send it as a message: Up, then Enter"
                ));
            }
        }
        self.held_back.take();
        let is_command = self.is_command(trimmed);
        let control = self.session.agent.control();
        if is_command || control.is_idle() {
            return self.submit(if is_command { trimmed } else { text }.into()).await;
        }
        let how = if later { DeliverAs::FollowUp } else { DeliverAs::Steer };
        self.screen.change(|view| view.conversation.queued.push(text.to_owned()));
        if let Err(error) = self.session.agent.queue_input(text.into(), InputSource::Interactive, how).await {
            self.screen.change(|view| view.conversation.unqueue(text));
            self.fail(&error.to_string());
        }
    }

    async fn submit(&self, content: Content) {
        let control = self.session.agent.control();
        let result = self.session.agent.submit(content, InputSource::Interactive).await;
        self.screen.change(|view| {
            if control.is_idle() {
                view.run.end();
            }
        });
        match result {
            Ok(outcome) => self.show_outcome(outcome),
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn show_outcome(&self, outcome: Outcome) {
        match outcome.ending {
            // A failed reply is already shown.
            Ending::Done | Ending::Handled => {}
            Ending::Failed(error) => {
                let is_said = outcome.message.is_some_and(|message| message.error_message.is_some());
                let told = self.screen.change(|view| view.conversation.take_told_cause());
                match error.help().map(one_line) {
                    Some(help) if is_said && told.as_ref() != Some(&help) => self.warn(&help),
                    _ if is_said => {}
                    _ => self.fail(&one_line(&error.to_string())),
                }
            }
            // An interrupted reply is already shown.
            Ending::Aborted if outcome.message.is_some_and(|message| message.stop_reason == StopReason::Aborted) => {}
            Ending::Aborted => self.inform("interrupted"),
            Ending::Stopped { extension } => {
                self.screen.change(|view| view.say(Style::Info, &format!("{extension}: stopped the reply")));
            }
            Ending::CommandFailed(error) => self.fail(&error.to_string()),
            Ending::TooManyTurns(turns) => {
                self.fail(&format!("the model was still calling tools after {turns} turns"));
            }
        }
    }

    pub(super) fn fail(&self, text: &str) {
        self.screen.change(|view| view.say(Style::Error, text));
    }

    pub(super) fn warn(&self, text: &str) {
        self.screen.change(|view| view.say(Style::Warning, text));
    }

    pub(super) fn inform(&self, text: &str) {
        self.screen.change(|view| view.say(Style::Info, text));
    }

    async fn run_builtin(&self, name: &str, rest: &str) {
        let agent = &self.session.agent;
        let control = agent.control();
        match name {
            "quit" => {
                self.screen.change(|view| view.leave());
                self.screen.ask(UiTask::Exit);
            }
            "help" => self.inform(&self.help()),
            "hotkeys" => self.inform(&self.hotkeys()),
            "model" if rest.is_empty() => self.pick(ListKind::Model),
            "model" => self.choose_model(rest).await,
            "thinking" if rest.is_empty() => self.pick(ListKind::Thinking),
            "thinking" => self.picked(ListKind::Thinking, rest).await,
            "resume" => self.pick(ListKind::Session),
            "tree" => self.pick(ListKind::Tree),
            "fork" => self.pick(ListKind::Fork),
            "settings" => self.pick(ListKind::Setting),
            "theme" => self.pick(ListKind::Theme),
            "scoped-models" => self.pick(ListKind::Scope),
            "login" => self.login(rest).await,
            "logout" if rest.is_empty() => self.pick(ListKind::Logout),
            "logout" => self.logout(rest).await,
            "import" => self.import(rest).await,
            "clone" => self.clone_session().await,
            "copy" => self.copy(),
            "export" => self.export(rest),
            "trust" => self.inform("leave with /quit, then: pi trust"),
            "new" => match agent.new_session(None, false).await {
                Ok(true) => self.inform("an extension cancelled it"),
                Ok(false) => show_session(&self.session, &self.screen),
                Err(error) => self.fail(&error.to_string()),
            },
            "reload" if !control.is_idle() => {
                self.fail("the model is working; wait, or interrupt it with Escape, then: /reload")
            }
            "reload" => match agent.reload().await {
                Ok(missing) => {
                    self.publish_themes();
                    match missing.as_slice() {
                        [] => self.inform("reloaded"),
                        missing => self.inform(&format!("reloaded, except {}", missing.join(", "))),
                    }
                }
                Err(error) => self.fail(&error.to_string()),
            },
            "compact" => match agent.compact(Some(rest).filter(|rest| !rest.is_empty())).await {
                Ok(_) => show_session(&self.session, &self.screen),
                Err(error) => self.fail(&one_line(&error)),
            },
            "name" if rest.is_empty() => {
                let name = control.with_session(|session| session.name().map(str::to_owned));
                match name {
                    Some(name) => self.inform(&format!("the session is called {name}")),
                    None => self.fail("type a name: /name NAME"),
                }
            }
            "name" => match control.set_session_name(rest) {
                Ok(()) => self.inform(&format!("the session is called {rest}")),
                Err(error) => self.fail(&error.to_string()),
            },
            "session" => self.inform(&self.about_session()),
            _ => self.inform(&control.tools().1.join(", ")),
        }
    }

    fn help(&self) -> String {
        let mut lines = vec![
            "!command: run it and tell the model; !!command: run it; @file: name a file; /hotkeys: keys".to_owned(),
        ];
        lines.extend(OWN.map(|(name, what)| format!("/{name}: {what}")));
        lines.extend(self.session.host.commands().into_iter().map(|command| {
            let what = command.spec.description.unwrap_or_else(|| "of an extension".to_owned());
            format!("/{}: {what}", command.invocation)
        }));
        lines.join("\n")
    }

    fn hotkeys(&self) -> String {
        let own = KEYS.map(|(key, what)| format!("{key}: {what}"));
        let theirs = pijs_runtime::keys::described(&self.session.host);
        own.into_iter()
            .chain(theirs.into_iter().map(|(key, what)| format!("{key}: {what}")))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn about_session(&self) -> String {
        let control = self.session.agent.control();
        let (id, name, entries) = control
            .with_session(|session| (session.header().id.clone(), session.name().map(str::to_owned), session.len()));
        let file = control.session_file().map(|file| file.display().to_string());
        let messages = self.session.agent.messages().unwrap_or_default();
        let of = |is: fn(&Message) -> bool| messages.iter().filter(|message| is(message)).count();
        let usage = self.session.host.state().get("contextUsage");
        let percent = usage.as_ref().and_then(|usage| usage["percent"].as_f64());
        let lines = [
            name.map(|name| format!("name: {name}")),
            Some(format!("file: {}", file.unwrap_or_else(|| "none, it is kept in memory".to_owned()))),
            Some(format!("id: {id}")),
            Some(format!(
                "{}, {}, {}",
                counted(of(|message| matches!(message, Message::User(_))), "prompt"),
                counted(of(|message| matches!(message, Message::Assistant(_))), "reply"),
                counted(entries, "entry")
            )),
            percent.map(|percent| format!("context: {percent:.1}% full")),
        ];
        lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// Copies the last reply to the clipboard.
    fn copy(&self) {
        match self.session.agent.last_reply() {
            Err(error) => self.fail(&error.to_string()),
            Ok(Some(text)) => {
                self.screen.copy(&text);
                self.inform("the last reply is on the clipboard, if the terminal supports it");
            }
            Ok(None) => self.fail("there is no reply to copy yet"),
        }
    }

    fn is_command(&self, text: &str) -> bool {
        let Some(line) = text.strip_prefix('/') else { return false };
        let name = line.split(' ').next().unwrap_or_default();
        self.session.host.commands().iter().any(|command| command.invocation == name)
    }

    /// Runs `!command`, or `!!command`, whose output is hidden from the model.
    async fn bash(&self, command: &str, limits: CommandLimits) {
        let (command, is_excluded) = match command.strip_prefix('!') {
            Some(command) => (command.trim(), true),
            None => (command.trim(), false),
        };
        if command.is_empty() {
            return;
        }
        let (cancel, number) = (CancellationToken::new(), self.shell.get() + 1);
        self.shell.set(number);
        self.shells.borrow_mut().insert(number, cancel.clone());
        self.screen.change(|view| {
            view.run.begin_shell();
            events::begin_bash(view, number, command);
        });
        let (agent, id) = (&self.session.agent, number.into());
        let result = agent.user_bash_as(Some(&id), command, Some(is_excluded), limits, cancel).await;
        self.shells.borrow_mut().remove(&number);
        self.screen.change(|view| {
            view.run.end_shell();
            match &result {
                Ok(result) => {
                    let path = result.full_output_path.as_deref();
                    let ending = BashEnding::new(result.cancelled, result.exit_code, path);
                    events::end_bash(view, number, &result.output, ending);
                }
                Err(error) => events::end_bash(view, number, "", BashEnding::failed(error)),
            }
        });
    }

    async fn shortcut(&self, key: &str) {
        let host = &self.session.host;
        let Some((owner, handle)) = pijs_runtime::keys::shortcut(host, key) else { return };
        if let CallbackOutcome::Threw(error) = host.call_back(&owner.extension, owner.entry, handle, Vec::new()).await {
            self.fail(&format!("Extension \"{}\" error: {}", owner.path, error.message));
        }
    }
}
