//! Declares the prompt and the tools to the model: messages with the changes since the last one.

use crate::agent::Agent;
use crate::tool::Tool;
use crate::transcript::{changed_sections, changed_tools, combined, system};
use pijs_llm::message::{Message, SystemMessage};
use pijs_session_store::context;
use pijs_session_store::{Session, refs};

impl Agent {
    /// Returns the state declared to the model so far.
    pub(crate) fn declared(&self) -> Option<SystemMessage> {
        let seen = self.control.with_session(Session::seen).ok()?;
        combined(&context::system_messages(&refs(&seen)))
    }

    /// Returns a message with the sections that are not declared yet.
    pub(crate) fn prompt_update(&self) -> Option<Message> {
        let has = self.declared().and_then(|told| told.sections).unwrap_or_default();
        let wanted = match &*self.prompt.of_run.borrow() {
            Some(options) => options.sections(&self.words()),
            None => self.prompt.of_session.borrow().sections(&self.words()),
        };
        let sections = changed_sections(&has, &wanted)?;
        Some(Message::System(SystemMessage {
            sections: Some(sections),
            timestamp: self.now(),
            ..SystemMessage::default()
        }))
    }

    /// Declares added and removed tools, in or before the next messages.
    pub(crate) fn declare_tools(&self, active: &[Tool], incoming: &mut Vec<Message>) {
        let has = self.declared().map(|told| told.tools_added).unwrap_or_default();
        let (come, gone) = changed_tools(&has, active.iter().map(Tool::declaration).collect());
        if come.is_empty() && gone.is_empty() {
            return;
        }
        if !incoming.iter().any(|message| system(message).is_some()) {
            incoming.insert(0, Message::System(SystemMessage { timestamp: self.now(), ..SystemMessage::default() }));
        }
        let last = incoming.iter_mut().rev().find_map(|message| match message {
            Message::System(system) => Some(system),
            _ => None,
        });
        let told = last.expect("at least one system message is queued");
        (told.tools_added, told.tools_removed) = (come, gone);
    }

    /// Returns the tools that the model may call.
    pub(crate) fn active_tools(&self) -> Vec<Tool> {
        self.tools.borrow().active(&*self.extensions)
    }

    /// Activates the tools declared in the session, if there are any.
    pub(crate) fn restore_tools(&self) {
        let Some(told) = self.declared() else { return };
        let names = told.tools_added.iter().filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect();
        self.tools.borrow_mut().activate(names, &*self.extensions);
    }
}
