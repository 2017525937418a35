//! Which of the tools are there, and which of them the model may call.

use crate::extensions::Extensions;
use crate::tool::Tool;
use pijs_tools::Builtin;
use pijs_tools::words::Words;
use std::sync::Arc;

/// What a person chose of the tools before the session: `--tools`, `--exclude-tools` and their like.
///
/// ```
/// use pijs_agent::ToolChoice;
///
/// let reading = ToolChoice { only: Some(vec!["read".into(), "grep".into()]), ..ToolChoice::default() };
/// assert!(reading.has("grep") && !reading.has("bash"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// There are no others; each of them is active, built-in or not. `None` sets no bounds.
    pub only: Option<Vec<String>>,
    /// There are none of these.
    pub without: Vec<String>,
    /// The built-in tools that are active at first; `None`: read, bash, edit and write.
    pub builtin: Option<Vec<String>>,
}

impl ToolChoice {
    /// Whether there may be a tool of this name.
    pub fn has(&self, name: &str) -> bool {
        let is = |names: &[String]| names.iter().any(|known| known == name);
        // As in pi: a list that names no tool of a server says nothing of servers.
        let is_server_s = |name: &str| name.starts_with("mcp__");
        let says_nothing =
            |names: &[String]| is_server_s(name) && !names.is_empty() && !names.iter().any(|name| is_server_s(name));
        self.only.as_deref().is_none_or(|names| is(names) || says_nothing(names)) && !is(&self.without)
    }

    /// What is active before anybody chooses in the session, but for the tools of extensions.
    fn first(&self) -> Vec<String> {
        match self.only.as_ref().or(self.builtin.as_ref()) {
            Some(names) => names.clone(),
            None => Builtin::DEFAULT.iter().map(|tool| tool.name().to_owned()).collect(),
        }
    }
}

/// Which tools the model may call.
///
/// Until somebody chooses, these are the first built-in ones and all of extensions, within the bounds of a
/// [`ToolChoice`]. After that they are the chosen ones in the order they were named, and tools that extensions register
/// later.
#[derive(Debug, Clone)]
pub struct ToolSet {
    choice: ToolChoice,
    chosen: Option<Chosen>,
    words: Arc<Words>,
}

#[derive(Debug, Clone)]
struct Chosen {
    active: Vec<String>,
    /// What there was to choose from.
    known: Vec<String>,
}

impl ToolSet {
    /// Nothing is ever there that `choice` leaves out.
    pub fn new(choice: ToolChoice) -> Self {
        Self { choice, chosen: None, words: Words::own() }
    }

    /// What is said of the built-in tools.
    pub(crate) fn words(&self) -> &Arc<Words> {
        &self.words
    }

    pub(crate) fn set_words(&mut self, words: Arc<Words>) {
        self.words = words;
    }

    /// `pi.setActiveTools`: from now on these, as far as they exist.
    pub fn activate(&mut self, names: Vec<String>, extensions: &dyn Extensions) {
        let known = self.all(extensions).iter().map(|tool| tool.name().to_owned()).collect();
        let mut active: Vec<String> = Vec::new();
        for name in names {
            if !active.contains(&name) {
                active.push(name);
            }
        }
        self.chosen = Some(Chosen { active, known });
    }

    /// After extensions were loaded again: what was active, and all tools of extensions.
    pub(crate) fn after_reload(&mut self, active: Vec<String>) {
        let known = Builtin::ALL.iter().map(|tool| tool.name().to_owned()).collect();
        self.chosen = Some(Chosen { active, known });
    }

    /// As at the start of a session.
    pub(crate) fn reset(&mut self) {
        self.chosen = None;
    }

    /// Keeps what is active now: a tool that comes to be later follows it, as in pi, wherever its extension stands. One whose
    /// extension is being started again keeps its place.
    pub(crate) fn settle(&mut self, extensions: &dyn Extensions) {
        let all: Vec<String> = self.all(extensions).iter().map(|tool| tool.name().to_owned()).collect();
        let known = self.chosen.as_ref().map(|chosen| chosen.known.as_slice()).unwrap_or_default();
        let new: Vec<String> = all.into_iter().filter(|name| !known.contains(name)).collect();
        if new.is_empty() && self.chosen.is_some() {
            return;
        }
        let active = self.active_names(extensions);
        let chosen = self.chosen.get_or_insert_with(|| Chosen { active: Vec::new(), known: Vec::new() });
        let more: Vec<String> = active.into_iter().filter(|name| !chosen.active.contains(name)).collect();
        chosen.active.extend(more);
        chosen.known.extend(new);
    }

    /// Every tool there is, active or not: built-in ones first, then those of extensions in load order. An
    /// extension's tool with a built-in name takes that one's place, also while that extension is away.
    pub fn all(&self, extensions: &dyn Extensions) -> Vec<Tool> {
        let mut theirs = extensions.tools();
        theirs.retain(|tool| self.choice.has(&tool.name));
        let missed = extensions.missed_tools();
        let is_there = |tool: &Builtin| self.choice.has(tool.name()) && !missed.iter().any(|name| name == tool.name());
        let mut tools = Vec::new();
        for tool in Builtin::ALL.into_iter().filter(is_there) {
            tools.push(match theirs.iter().position(|theirs| theirs.name == tool.name()) {
                Some(at) => Tool::Extension(Box::new(theirs.remove(at))),
                None => Tool::Builtin(tool, Arc::clone(&self.words)),
            });
        }
        for tool in theirs {
            if !tools.iter().any(|known| known.name() == tool.name) {
                tools.push(Tool::Extension(Box::new(tool)));
            }
        }
        tools
    }

    /// Active tools, in the order the model is told about them.
    pub fn active(&self, extensions: &dyn Extensions) -> Vec<Tool> {
        let mut all = self.all(extensions);
        let (mut names, known) = match &self.chosen {
            Some(chosen) => (chosen.active.clone(), Some(&chosen.known)),
            None => (self.choice.first(), None),
        };
        match known {
            // In the order they were registered in, also where one stands for a built-in tool.
            None => names.extend(extensions.tools().into_iter().map(|tool| tool.name)),
            Some(known) => {
                let is_new = |tool: &&Tool| !known.iter().any(|known| known == tool.name());
                // As in pi: what a person named becomes active again with each tool that comes to be.
                let all_again = self.choice.only.is_some() && all.iter().any(|tool| is_new(&tool));
                names.extend(all.iter().filter(|tool| all_again || is_new(tool)).map(|tool| tool.name().to_owned()));
            }
        }
        let mut active = Vec::new();
        for name in names {
            if let Some(at) = all.iter().position(|tool| tool.name() == name) {
                active.push(all.remove(at));
            }
        }
        active
    }

    /// Names of the active tools.
    pub fn active_names(&self, extensions: &dyn Extensions) -> Vec<String> {
        self.active(extensions).iter().map(|tool| tool.name().to_owned()).collect()
    }

    /// The tool of this name, active or not.
    pub(crate) fn find(&self, name: &str, extensions: &dyn Extensions) -> Option<Tool> {
        self.all(extensions).into_iter().find(|tool| tool.name() == name)
    }
}
