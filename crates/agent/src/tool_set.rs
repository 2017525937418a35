//! The available tools of a session, and those that the model may call.

use crate::extensions::Extensions;
use crate::tool::Tool;
use pijs_tools::Builtin;
use pijs_tools::words::Words;
use std::sync::Arc;

/// The user's selection of tools before the session: `--tools`, `--exclude-tools` and related options.
///
/// ```
/// use pijs_agent::ToolChoice;
///
/// let reading = ToolChoice { only: Some(vec!["read".into(), "grep".into()]), ..ToolChoice::default() };
/// assert!(reading.has("grep") && !reading.has("bash"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// The only available tools, all of them active; `None` for no restriction.
    pub only: Option<Vec<String>>,
    /// Tools that are not available.
    pub without: Vec<String>,
    /// Built-in tools that are active at first; `None` for read, bash, edit and write.
    pub builtin: Option<Vec<String>>,
}

impl ToolChoice {
    /// Returns whether a tool with this name may be available.
    pub fn has(&self, name: &str) -> bool {
        let is = |names: &[String]| names.iter().any(|known| known == name);
        // As in pi, a list that names no MCP tool does not restrict MCP tools.
        let is_server_s = |name: &str| name.starts_with("mcp__");
        let says_nothing =
            |names: &[String]| is_server_s(name) && !names.is_empty() && !names.iter().any(|name| is_server_s(name));
        self.only.as_deref().is_none_or(|names| is(names) || says_nothing(names)) && !is(&self.without)
    }

    /// Returns the names of the built-in tools that are active before a selection.
    fn first(&self) -> Vec<String> {
        match self.only.as_ref().or(self.builtin.as_ref()) {
            Some(names) => names.clone(),
            None => Builtin::DEFAULT.iter().map(|tool| tool.name().to_owned()).collect(),
        }
    }
}

/// The available and active tools.
///
/// Before a selection, the default built-in tools and all tools of extensions are active, if [`ToolChoice`] permits them. After a
/// selection, the selected tools are active in order of selection, followed by tools that extensions register later.
#[derive(Debug, Clone)]
pub struct ToolSet {
    choice: ToolChoice,
    chosen: Option<ToolSelection>,
    words: Arc<Words>,
}

#[derive(Debug, Clone)]
struct ToolSelection {
    active: Vec<String>,
    /// Tools that existed at the time of the selection.
    known: Vec<String>,
}

impl ToolSet {
    /// Creates the set. Tools that `choice` excludes are never available.
    pub fn new(choice: ToolChoice) -> Self {
        Self { choice, chosen: None, words: Words::own() }
    }

    /// Returns the texts of the built-in tools.
    pub(crate) fn words(&self) -> &Arc<Words> {
        &self.words
    }

    pub(crate) fn set_words(&mut self, words: Arc<Words>) {
        self.words = words;
    }

    /// Selects the active tools (`pi.setActiveTools`). Names of tools that do not exist are ignored.
    pub fn activate(&mut self, names: Vec<String>, extensions: &dyn Extensions) {
        let known = self.all(extensions).iter().map(|tool| tool.name().to_owned()).collect();
        let mut active: Vec<String> = Vec::new();
        for name in names {
            if !active.contains(&name) {
                active.push(name);
            }
        }
        self.chosen = Some(ToolSelection { active, known });
    }

    /// Restores the active tools after extensions were reloaded, and adds all tools of extensions.
    pub(crate) fn after_reload(&mut self, active: Vec<String>) {
        let known = Builtin::ALL.iter().map(|tool| tool.name().to_owned()).collect();
        self.chosen = Some(ToolSelection { active, known });
    }

    /// Resets the selection at the start of a session.
    pub(crate) fn reset(&mut self) {
        self.chosen = None;
    }

    /// Fixes the order of the active tools, so that a tool registered later comes last, as in pi, regardless of the order of
    /// extensions. A tool whose extension is restarting keeps its position.
    pub(crate) fn settle(&mut self, extensions: &dyn Extensions) {
        let all: Vec<String> = self.all(extensions).iter().map(|tool| tool.name().to_owned()).collect();
        let known = self.chosen.as_ref().map(|chosen| chosen.known.as_slice()).unwrap_or_default();
        let new: Vec<String> = all.into_iter().filter(|name| !known.contains(name)).collect();
        if new.is_empty() && self.chosen.is_some() {
            return;
        }
        let active = self.active_names(extensions);
        let chosen = self.chosen.get_or_insert_with(|| ToolSelection { active: Vec::new(), known: Vec::new() });
        let more: Vec<String> = active.into_iter().filter(|name| !chosen.active.contains(name)).collect();
        chosen.active.extend(more);
        chosen.known.extend(new);
    }

    /// Returns all available tools, active or not: built-in ones first, then those of extensions in load order. A tool of an
    /// extension replaces a built-in one with the same name, even while the extension is stopped.
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

    /// Returns the active tools in the order in which they are declared to the model.
    pub fn active(&self, extensions: &dyn Extensions) -> Vec<Tool> {
        let mut all = self.all(extensions);
        let (mut names, known) = match &self.chosen {
            Some(chosen) => (chosen.active.clone(), Some(&chosen.known)),
            None => (self.choice.first(), None),
        };
        match known {
            // In order of registration, even for a tool that replaces a built-in one.
            None => names.extend(extensions.tools().into_iter().map(|tool| tool.name)),
            Some(known) => {
                let is_new = |tool: &&Tool| !known.iter().any(|known| known == tool.name());
                // As in pi, tools named by the user become active again whenever a tool is registered.
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

    /// Returns the names of the active tools.
    pub fn active_names(&self, extensions: &dyn Extensions) -> Vec<String> {
        self.active(extensions).iter().map(|tool| tool.name().to_owned()).collect()
    }

    /// Returns a tool by name, active or not.
    pub(crate) fn find(&self, name: &str, extensions: &dyn Extensions) -> Option<Tool> {
        self.all(extensions).into_iter().find(|tool| tool.name() == name)
    }
}
