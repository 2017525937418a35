//! What the person says: prompts, `!commands`, slash commands, shortcuts.

use super::screen::Screen;
use super::transcript::Style;
use super::view::Work;
use super::{events, show_session};
use crate::session::Assembled;
use pijs_agent::{DeliverAs, Ending, InputSource, Outcome};
use pijs_host::CallbackOutcome;
use pijs_protocol::Handle;
use serde_json::Value;
use std::rc::Rc;
use tokio_util::sync::CancellationToken;

/// Slash commands of pi's own, and what they do.
const OWN: [(&str, &str); 8] = [
    ("help", "what can be typed here"),
    ("new", "begin an empty session"),
    ("reload", "load extensions, skills and prompts again"),
    ("compact", "summarise the conversation; more words instruct the summary"),
    ("name", "call the session something"),
    ("session", "where the session is kept"),
    ("tools", "the tools the model may call"),
    ("quit", "close the session and leave"),
];

/// Levels that Shift-Tab goes through; a model takes the nearest it has.
const THINKING: [&str; 6] = ["off", "minimal", "low", "medium", "high", "xhigh"];

/// The person's side of one session.
pub(super) struct Commands {
    session: Rc<Assembled>,
    screen: Screen,
}

impl Commands {
    pub(super) fn new(session: Rc<Assembled>, screen: Screen) -> Self {
        Self { session, screen }
    }

    /// Begins what was asked for; it goes on beside what is asked next.
    pub(super) fn take(self: &Rc<Self>, work: Work) {
        let commands = Rc::clone(self);
        tokio::task::spawn_local(async move {
            match work {
                Work::Say { text, later } => {
                    commands.say(&text, later).await;
                    // Extensions may have been loaded anew.
                    commands.publish();
                }
                Work::Abort => commands.abort(),
                Work::Shortcut(key) => commands.shortcut(&key).await,
                Work::Complete(text) => commands.complete(&text).await,
                Work::CycleThinking => commands.cycle_thinking(),
                // The others are served before they come here.
                _ => {}
            }
        });
    }

    /// The model that answers, for pi's row, and the keys of extensions.
    pub(super) fn publish(&self) {
        let control = self.session.agent.control();
        let (model, thinking) = (control.model(), control.thinking());
        let shortcuts = crate::keys::shortcuts(&self.session.host);
        self.screen.change(|view| {
            view.shortcuts = shortcuts;
            if let Some(model) = model {
                view.model.name = format!("{}/{}", model.provider, model.id);
            }
            view.model.thinking = thinking;
        });
    }

    /// Stops the run. What waited to be said comes back into the editor.
    fn abort(&self) {
        let control = self.session.agent.control();
        let (steering, follow_up) = control.clear_waiting();
        let waiting = [steering, follow_up].concat().join("\n\n");
        control.abort();
        // A command or a hook belongs to no run, and has to end as well.
        self.session.host.hurry();
        self.screen.change(|view| {
            view.queued.clear();
            if !waiting.is_empty() && view.editor.text().is_empty() {
                view.editor.set(&waiting);
            }
        });
    }

    async fn say(&self, text: &str, later: bool) {
        let trimmed = text.trim();
        if let Some(command) = trimmed.strip_prefix('!') {
            return self.bash(command).await;
        }
        if let Some(line) = trimmed.strip_prefix('/') {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            if OWN.iter().any(|(own, _)| *own == name) {
                return self.own(name, rest.trim()).await;
            }
        }
        let is_command = self.is_command(trimmed);
        let control = self.session.agent.control();
        if is_command || control.is_idle() {
            let text = if is_command { trimmed } else { text };
            let result = self.session.agent.submit(text.into(), InputSource::Interactive).await;
            self.screen.change(|view| view.running = if control.is_idle() { None } else { view.running });
            match result {
                Ok(outcome) => self.tell(outcome),
                Err(error) => self.fail(&error.to_string()),
            }
            return;
        }
        let how = if later { DeliverAs::FollowUp } else { DeliverAs::Steer };
        self.screen.change(|view| view.queued.push(text.to_owned()));
        if let Err(error) = self.session.agent.queue_input(text.into(), InputSource::Interactive, how).await {
            self.screen.change(|view| view.queued.retain(|queued| queued != text));
            self.fail(&error.to_string());
        }
    }

    fn tell(&self, outcome: Outcome) {
        match outcome.ending {
            // A failed reply says so itself.
            Ending::Done | Ending::Handled => {}
            Ending::Failed(error) => {
                let text = error.to_string();
                let is_said = outcome.message.is_some_and(|message| message.error_message.is_some());
                if !is_said {
                    self.fail(&text);
                }
            }
            Ending::Aborted => self.screen.change(|view| view.say(Style::Info, "interrupted")),
            Ending::Stopped { extension } => {
                self.screen.change(|view| view.say(Style::Info, &format!("{extension}: stopped the reply")));
            }
            // The host has reported it.
            Ending::CommandFailed(_) => {}
            Ending::TooManyTurns(turns) => {
                self.fail(&format!("the model was still calling tools after {turns} turns"));
            }
        }
    }

    fn fail(&self, text: &str) {
        self.screen.change(|view| view.say(Style::Error, text));
    }

    fn inform(&self, text: &str) {
        self.screen.change(|view| view.say(Style::Info, text));
    }

    async fn own(&self, name: &str, rest: &str) {
        let agent = &self.session.agent;
        let control = agent.control();
        match name {
            "quit" => {
                self.screen.change(|view| view.leave());
                self.screen.ask(Work::Exit);
            }
            "help" => self.inform(&self.help()),
            "new" => match agent.new_session(None, false).await {
                Ok(true) => self.inform("an extension cancelled it"),
                Ok(false) => show_session(&self.session, &self.screen),
                Err(error) => self.fail(&error.to_string()),
            },
            "reload" if !control.is_idle() => self.fail("wait until the model is done, then: /reload"),
            "reload" => match agent.reload().await {
                Ok(()) => self.inform("loaded again"),
                Err(error) => self.fail(&error.to_string()),
            },
            "compact" => match agent.compact(Some(rest).filter(|rest| !rest.is_empty())).await {
                Ok(_) => show_session(&self.session, &self.screen),
                Err(error) => self.fail(&error),
            },
            "name" if rest.is_empty() => self.fail("say how: /name NAME"),
            "name" => match control.set_session_name(rest) {
                Ok(()) => self.inform(&format!("the session is called {rest}")),
                Err(error) => self.fail(&error.to_string()),
            },
            "session" => {
                let file = control.session_file().map(|file| file.display().to_string());
                self.inform(&file.unwrap_or_else(|| "the session is kept in memory".to_owned()));
            }
            _ => self.inform(&control.tools().1.join(", ")),
        }
    }

    fn help(&self) -> String {
        let mut lines = vec![
            "enter: say it, or steer the model while it works; alt+enter: say it when the model is done".to_owned(),
            "escape: interrupt; ctrl+c: clear; ctrl+c twice or ctrl+d: quit; ctrl+j: new line".to_owned(),
            "tab: complete; up: what was said before; pageup, pagedown: scroll; ctrl+o: unfold; shift+tab: thinking"
                .to_owned(),
            "!command: run it and tell the model; !!command: run it".to_owned(),
        ];
        lines.extend(OWN.map(|(name, what)| format!("/{name}: {what}")));
        lines.extend(self.session.host.commands().into_iter().map(|command| {
            let what = command.spec.description.unwrap_or_else(|| "of an extension".to_owned());
            format!("/{}: {what}", command.invocation)
        }));
        lines.join("\n")
    }

    fn is_command(&self, text: &str) -> bool {
        let Some(line) = text.strip_prefix('/') else { return false };
        let name = line.split(' ').next().unwrap_or_default();
        self.session.host.commands().iter().any(|command| command.invocation == name)
    }

    /// `!command`; with a second mark the model does not see it.
    async fn bash(&self, command: &str) {
        let (command, is_excluded) = match command.strip_prefix('!') {
            Some(command) => (command.trim(), true),
            None => (command.trim(), false),
        };
        if command.is_empty() {
            return;
        }
        match self.session.agent.user_bash(command, is_excluded, CancellationToken::new()).await {
            Ok(result) => self.screen.change(|view| events::show_bash(view, command, &result.output)),
            Err(error) => self.fail(&error),
        }
    }

    async fn shortcut(&self, key: &str) {
        let host = &self.session.host;
        let Some((owner, handle)) = crate::keys::shortcut(host, key) else { return };
        if let CallbackOutcome::Threw(error) = host.call_back(&owner.extension, owner.entry, handle, Vec::new()).await {
            self.fail(&format!("Extension \"{}\" error: {}", owner.path, error.message));
        }
    }

    async fn complete(&self, text: &str) {
        let Some(line) = text.strip_prefix('/') else { return };
        let commands = self.session.host.commands();
        let found = match line.split_once(' ') {
            None => {
                let own = OWN.map(|(name, _)| name.to_owned());
                let theirs = commands.into_iter().map(|command| command.invocation);
                let names = own.into_iter().chain(theirs).filter(|name| name.starts_with(line));
                names.map(|name| format!("/{name}")).collect()
            }
            Some((name, prefix)) => {
                let command = commands.into_iter().find(|command| command.invocation == name);
                let Some((owner, handle)) = command.and_then(|found| Some((found.owner, found.spec.completions?)))
                else {
                    return;
                };
                self.arguments(name, prefix, &owner, handle).await
            }
        };
        self.screen.change(|view| view.take_completions(text, found));
    }

    async fn arguments(&self, name: &str, prefix: &str, owner: &pijs_host::Owner, handle: Handle) -> Vec<String> {
        let host = &self.session.host;
        match host.call_back(&owner.extension, owner.entry, handle, vec![prefix.into()]).await {
            CallbackOutcome::Returned(Some(Value::Array(items))) => {
                let values = items.iter().filter_map(|item| item["value"].as_str());
                values.map(|value| format!("/{name} {value}")).collect()
            }
            _ => Vec::new(),
        }
    }

    fn cycle_thinking(&self) {
        let control = self.session.agent.control();
        let before = control.thinking();
        let at = THINKING.iter().position(|level| *level == before).unwrap_or(0);
        for step in 1..=THINKING.len() {
            let wanted = THINKING[(at + step) % THINKING.len()];
            if let Err(error) = control.set_thinking(wanted) {
                return self.fail(&error.to_string());
            }
            if control.thinking() == wanted {
                return;
            }
        }
    }
}
